"""What the paper prints: its tables and its random draws, keyed by the methods' names in this project.

Only this module, `claims.py` and `deduce/published/` know methods by name.
"""

# Table 1: mean and, in brackets, standard deviation over the five test sets.
TABLE1: dict[str, dict[str, tuple[float, float]]] = {
    "deduce": {"agan": (22.51, 0.72), "l0": (21.16, 0.46), "l1": (10.72, 0.10), "failure": (0.00, 0.00)},
    "jsma": {"agan": (23.90, 0.41), "l0": (25.65, 0.65), "l1": (12.63, 0.27), "failure": (3.09, 0.28)},
    "vlk": {"agan": (22.95, 0.93), "l0": (155.43, 4.15), "l1": (38.95, 1.19), "failure": (0.09, 0.20)},
    "revise": {"agan": (20.09, 0.88), "l0": (752.46, 4.98), "l1": (53.86, 0.58), "failure": (26.80, 1.03)},
}
# Section 4.3: AGAN of the originals and of their reconstructions by REVISE's VAE.
REFERENCES = {"original": (15.44, 2.04), "reconstruction": (14.64, 0.23)}

# Table 2: seconds per counterfactual, made one by one, with the standard deviation.
TABLE2 = {"deduce": (2.99, 1.69), "jsma": (1.01, 0.52), "vlk": (109.86, 1.54), "revise": (46.66, 84.33)}

# Figure 3 and table 3: the draws from test set 1 as (image, target), and per method AGAN, L0, L1.
TABLE3_PAIRS = [(4, 9), (3, 9), (7, 3), (1, 6), (6, 9), (8, 6)]
TABLE3: dict[str, list[tuple[float, int, float] | None]] = {
    "deduce": [(14.01, 5, 3.20), (21.52, 18, 7.96), (25.55, 12, 6.75), (22.82, 20, 9.19), (12.23, 3, 2.59),
               (17.71, 10, 2.96)],
    "jsma": [(23.31, 29, 11.19), (22.32, 15, 10.39), (19.86, 19, 8.85), (25.77, 35, 15.69), (16.66, 10, 4.73),
             (23.01, 6, 2.68)],
    "vlk": [(11.77, 60, 10.35), (56.81, 276, 81.19), (18.64, 141, 27.28), (23.06, 177, 48.84), (18.41, 93, 17.37),
            (22.70, 160, 36.72)],
    "revise": [(15.13, 784, 31.90), (21.47, 784, 66.08), (27.41, 692, 57.63), None, (5.49, 784, 17.60),
               (25.80, 784, 62.13)],
}  # fmt: skip

# Appendix C: more draws from test set 1, three rows of six.
ADDITIONAL_PAIRS = [
    (19, 9), (93, 1), (70, 4), (53, 4), (79, 1), (17, 9),
    (83, 9), (47, 9), (73, 0), (81, 1), (66, 2), (16, 3),
    (49, 0), (38, 5), (66, 5), (46, 2), (28, 9), (24, 1),
]  # fmt: skip

# Appendix A: objective functions on the validation batch; setting: L0, L1, failure in %.
APPENDIX_A = {
    "lambda=0": (27.36, 13.47, 0.1), "lambda=1": (27.29, 13.45, 0.1), "lambda=10": (27.16, 13.40, 0.1),
    "lambda=100": (25.88, 12.92, 0.0), "lambda=1000": (24.58, 12.38, 0.0), "lambda=10000": (25.10, 12.53, 0.0),
    "lambda=100000": (25.38, 12.65, 0.0),
    "mu=0.2": (25.45, 12.75, 0.0), "mu=1": (24.47, 12.32, 0.0), "mu=5": (24.92, 12.46, 0.1),
}  # fmt: skip
# Appendix B: REVISE; lambda and step size: L0, L1, failure in %.
APPENDIX_B = {
    "lambda=0.1,delta=1e-3": (754.34, 88.79, 16.1),
    "lambda=0.1,delta=1e-4": (758.12, 91.43, 12.0),
    "lambda=0.1,delta=1e-5": (764.93, 84.92, 11.8),
    "lambda=1,delta=1e-3": (767.75, 58.66, 23.0),
    "lambda=1,delta=1e-4": (771.78, 54.72, 26.3),
    "lambda=1,delta=1e-5": (771.89, 54.11, 22.2),
}
# Both by the sweep's name in the config; the label of a point is written as by evaluation/sweeps.key.
SWEEPS = {"appendix_a": APPENDIX_A, "appendix_b": APPENDIX_B}
# Section 4.1: AUROC of AGAN for telling one dataset from another.
AUROC = {("mnist", "emnist_letters"): 0.913, ("mnist", "fashion_mnist"): 0.998}
