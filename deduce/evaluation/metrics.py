"""What is measured of a counterfactual, under one name each for the results table, the statistics and the figures."""

from dataclasses import dataclass

import numpy as np

# Two pixels differ in L0 by exact inequality, as in the paper. Beside it: by more than these amounts, because a
# generative model's output differs a little everywhere.
THRESHOLDS = (1e-6, 1e-4, 1e-2, 0.1)


@dataclass(frozen=True)
class Metric:
    """One measure: how it is written, and which way is better."""

    name: str  # column of the results table
    text: str
    latex: str
    lower_is_better: bool = True
    decimals: int = 2


def threshold_column(threshold: float) -> str:
    return f"l0_above_{threshold:g}"


PAPER = [
    Metric("agan", "AGAN", r"\emph{AGAN}"),
    Metric("l0", "L0", "$L_0$"),
    Metric("l1", "L1", "$L_1$"),
]
FAILURE = Metric("failure", "failure in %", r"\emph{failure in \%}")
BEYOND = [
    Metric("l2", "L2", "$L_2$"),
    Metric(threshold_column(1e-4), "L0 above 1e-4", "$L_0$ above $10^{-4}$"),
    Metric("im1", "IM1", "IM1", decimals=3),
    Metric("im2", "IM2", "IM2", decimals=3),
    Metric("log_density", "log density", "log density", lower_is_better=False),
]
SCORES = ("agan", "im1", "im2", "log_density")  # columns that come from realism files
METRICS = {metric.name: metric for metric in [*PAPER, FAILURE, *BEYOND]}


def distances(original: np.ndarray, counterfactual: np.ndarray) -> dict[str, np.ndarray]:
    """L0, L1, L2 and L0 at each threshold, of images (n, channels, height, width); each result is (n,)."""
    n = len(original)
    difference = (counterfactual.astype(np.float64) - original.astype(np.float64)).reshape(n, -1)
    size = np.abs(difference)
    columns = {
        "l0": (size > 0).sum(1),
        "l1": size.sum(1),
        "l2": np.sqrt((difference**2).sum(1)),
    }
    return columns | {threshold_column(threshold): (size > threshold).sum(1) for threshold in THRESHOLDS}
