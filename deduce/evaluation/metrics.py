"""The one registry of metrics: what is measured of a counterfactual, how it is written, which function scores it."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from deduce.models import ORACLES

# Two pixels differ in L0 by exact inequality, as in the paper. L0 is also counted above these thresholds, because the
# output of a generative model differs a little from the original everywhere.
THRESHOLDS = (1e-6, 1e-4, 1e-2, 0.1)


@dataclass(frozen=True)
class Metric:
    """One metric. A metric that needs models names its scorer; deduce/realism/score.py says what a scorer is."""

    name: str  # column of the results table
    text: str
    latex: str
    lower_is_better: bool | None = True  # None: neither is better
    decimals: int = 2
    scorer: str = ""  # "module:function"
    models: tuple[str, ...] = ()  # roles of the models that the scorer is given; without all of them, nothing is scored
    parts: tuple[str, ...] = ()  # further columns of the results table that the scorer makes
    share: bool = False  # of votes, between 0 and 1: methods are also compared by the pairs with a majority


def threshold_column(threshold: float) -> str:
    return f"l0_above_{threshold:g}"


OPINIONS, JUDGEMENTS, ROBUSTNESS = "deduce.realism.opinions", "deduce.realism.oracles", "deduce.realism.robustness"
# Roles that name no model of the config: the classifier that a method explains, that classifier after another training,
# and the training images with their labels.
EXPLAINED, RETRAINED, TRAINING = OF_METHOD = "explained", "retrained", "training"
AUTOENCODERS = ("class_autoencoders",)
ORACLE_COLUMNS = tuple(f"oracle_{name}" for name in ORACLES)  # whether each oracle sees the target: 0 or 1
PAPER = [
    Metric("agan", "AGAN", r"\emph{AGAN}", scorer="deduce.realism.anogan:score", models=("wgan",)),
    Metric("l0", "L0", "$L_0$"),
    Metric("l1", "L1", "$L_1$"),
]
FAILURE = Metric("failure", "failure in %", r"\emph{failure in \%}")
BEYOND = [
    Metric("l2", "L2", "$L_2$"),
    Metric(threshold_column(1e-4), "L0 above 1e-4", "$L_0$ above $10^{-4}$"),
    Metric("im1", "IM1", "IM1", decimals=3, scorer=f"{OPINIONS}:im1", models=AUTOENCODERS),
    Metric("im2", "IM2", "IM2", decimals=3, scorer=f"{OPINIONS}:im2", models=AUTOENCODERS),
    Metric("log_density", "log density", "log density", lower_is_better=False,
           scorer=f"{OPINIONS}:log_density", models=("density", "classifier"), parts=("log_density_before",)),
    Metric("log_mixture", "log density, any class", "log density, any class", lower_is_better=False,
           scorer=f"{OPINIONS}:log_mixture", models=("density", "classifier"), parts=("log_mixture_before",)),
    Metric("oracle", "oracles convinced", "oracles convinced", lower_is_better=False, scorer=f"{JUDGEMENTS}:votes",
           models=("oracles",), parts=ORACLE_COLUMNS, share=True),
    Metric("oracle_log_density", "oracles’ log density", "oracles' log density", lower_is_better=False,
           scorer=f"{JUDGEMENTS}:log_density", models=("oracles",), parts=("oracle_log_density_before",)),
    Metric("oracle_log_mixture", "oracles’ log density, any class", "oracles' log density, any class",
           lower_is_better=False, scorer=f"{JUDGEMENTS}:log_mixture", models=("oracles",),
           parts=("oracle_log_mixture_before",)),
    Metric("kept_retrained", "kept by another training", "kept by another training", lower_is_better=False,
           scorer=f"{ROBUSTNESS}:retraining", models=(RETRAINED,), share=True),
    Metric("kept_noise", "kept under noise", "kept under noise", lower_is_better=False,
           scorer=f"{ROBUSTNESS}:noise_resistance", models=(EXPLAINED,), share=True),
    Metric("kept_shift", "kept when shifted", "kept when shifted", lower_is_better=False,
           scorer=f"{ROBUSTNESS}:shift", models=(EXPLAINED,), share=True),
    Metric("kept_rounding", "kept as 8 bits", "kept as 8 bits", lower_is_better=False,
           scorer=f"{ROBUSTNESS}:rounding", models=(EXPLAINED,), share=True),
    Metric("nearest_training", "L2 to training data", "$L_2$ to training data",
           scorer=f"{OPINIONS}:nearest_training", models=(TRAINING,)),
    Metric("regions", "changed regions", "changed regions", decimals=1),
    Metric("largest_region", "share of largest region", "share of largest region", lower_is_better=False),
    Metric("ink_change", "change of ink", "change of ink", lower_is_better=None, decimals=1),
    Metric("thickness_change", "change of thickness", "change of thickness", lower_is_better=None),
    Metric("slant_change", "change of slant", "change of slant", lower_is_better=None, decimals=1),
]  # fmt: skip
METRICS = {metric.name: metric for metric in [*PAPER, FAILURE, *BEYOND]}
SCORED = [metric for metric in METRICS.values() if metric.scorer]
SCORES = tuple(name for metric in SCORED for name in (metric.name, *metric.parts))  # columns of the realism files
ROLES = tuple(dict.fromkeys(role for metric in METRICS.values() for role in metric.models))
JUDGES = tuple(role for role in ROLES if role not in OF_METHOD)  # models that score images
SCORER_MODULES = sorted({metric.scorer.partition(":")[0] for metric in SCORED})


def judges(scores: Iterable[str]) -> list[str]:
    """The roles of what these scores need."""
    return [role for role in ROLES if any(role in METRICS[name].models for name in scores)]


def distances(original: np.ndarray, counterfactual: np.ndarray) -> dict[str, np.ndarray]:
    """L0, L1, L2 and L0 at each threshold, of images (n, channels, height, width); each result is (n,)."""
    difference = (counterfactual.astype(np.float64) - original.astype(np.float64)).reshape(len(original), -1)
    size = np.abs(difference)
    columns = {"l0": (size > 0).sum(1), "l1": size.sum(1), "l2": np.sqrt((difference**2).sum(1))}
    return columns | {threshold_column(threshold): (size > threshold).sum(1) for threshold in THRESHOLDS}
