"""The one registry of metrics: what is measured of a counterfactual, how it is written, which function scores it."""

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
    lower_is_better: bool = True
    decimals: int = 2
    scorer: str = ""  # "module:function"
    models: tuple[str, ...] = ()  # roles of the models that the scorer is given; without all of them, nothing is scored
    parts: tuple[str, ...] = ()  # further columns of the results table that the scorer makes
    share: bool = False  # of votes, between 0 and 1: methods are also compared by the pairs with a majority


def threshold_column(threshold: float) -> str:
    return f"l0_above_{threshold:g}"


OPINIONS, JUDGEMENTS = "deduce.realism.opinions", "deduce.realism.oracles"
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
           scorer=f"{OPINIONS}:log_density", models=("density", "classifier")),
    Metric("oracle", "oracles", "oracles", lower_is_better=False, scorer=f"{JUDGEMENTS}:votes", models=("oracles",),
           parts=ORACLE_COLUMNS, share=True),
]  # fmt: skip
METRICS = {metric.name: metric for metric in [*PAPER, FAILURE, *BEYOND]}
SCORED = [metric for metric in METRICS.values() if metric.scorer]
SCORES = tuple(name for metric in SCORED for name in (metric.name, *metric.parts))  # columns of the realism files
JUDGES = tuple(dict.fromkeys(role for metric in METRICS.values() for role in metric.models))  # models that score images
SCORER_MODULES = sorted({metric.scorer.partition(":")[0] for metric in SCORED})


def distances(original: np.ndarray, counterfactual: np.ndarray) -> dict[str, np.ndarray]:
    """L0, L1, L2 and L0 at each threshold, of images (n, channels, height, width); each result is (n,)."""
    difference = (counterfactual.astype(np.float64) - original.astype(np.float64)).reshape(len(original), -1)
    size = np.abs(difference)
    columns = {"l0": (size > 0).sum(1), "l1": size.sum(1), "l2": np.sqrt((difference**2).sum(1))}
    return columns | {threshold_column(threshold): (size > threshold).sum(1) for threshold in THRESHOLDS}
