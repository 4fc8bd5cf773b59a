"""Does the AnoGAN score tell images of the dataset from others? AUROC, its uncertainty, and the curve (section 4.1)."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from deduce.auroc import auroc
from deduce.datasets import DATASETS
from deduce.evaluation import paper
from deduce.evaluation.figures import GREY, PALETTE
from deduce.evaluation.run import Run
from deduce.evaluation.tables import Column, Table, frame_table

BOOTSTRAP_SAMPLES = 1000  # where the config of stored artefacts does not say
ABSENT = "not measured: the files are not here (realism.emnist_folder)"
COLUMNS = ["against", "images", "outliers", "auroc", "auroc_low", "auroc_high", "paper", "note"]


def bootstrap(inside: np.ndarray, outside: np.ndarray, samples: int, seed: int) -> tuple[float, float]:
    """The 95 % percentile interval of the AUROC; both sets of images are resampled."""
    random = np.random.default_rng(seed)
    draws = ((random.choice(inside, len(inside)), random.choice(outside, len(outside))) for _ in range(max(samples, 1)))
    low, high = np.quantile([auroc(*draw) for draw in draws], [0.025, 0.975])
    return float(low), float(high)


def table(dataset: str, scores: dict[str, np.ndarray], samples: int) -> pd.DataFrame:
    """One row per other dataset, with the columns `COLUMNS`.

    `scores` holds the scores of `dataset` and of other datasets; NaN is left out. A dataset of the paper's check that
    has no scores gets a row that says so.
    """
    finite = {name: values[np.isfinite(values)] for name, values in scores.items()}
    absent = [other for name, other in paper.AUROC if name == dataset and other not in scores]
    rows = []
    for name in [*(other for other in scores if other != dataset), *absent]:
        inside, outside = finite[dataset], finite.get(name, np.empty(0))
        measured, note = (np.nan,) * 3, ABSENT if name in absent else "no scores"
        if len(inside) and len(outside):
            measured, note = (auroc(inside, outside), *bootstrap(inside, outside, samples, seed=0)), ""
        rows.append((name, len(inside), len(outside), *measured, paper.AUROC.get((dataset, name)), note))
    return pd.DataFrame(rows, columns=COLUMNS)


def measured(run: Run) -> pd.DataFrame:
    samples = run.experiment.get("realism", {}).get("bootstrap_samples", BOOTSTRAP_SAMPLES)
    return table(run.experiment["dataset"], run.sanity, samples)


def sanity(run: Run) -> tuple[pd.DataFrame, Table, Table]:
    """The table of the check; on the page with the datasets' titles, and the paper's figures beside its own dataset."""
    frame = measured(run)
    texts = frame.round(3).astype(object).where(frame.notna(), "").map(str)
    text = replace(frame_table(texts, ""), columns=[Column(name, numeric=None) for name in frame])
    readable = frame if run.dataset.paper else frame.drop(columns="paper")
    titles = {name: dataset.title for name, dataset in DATASETS.items()}
    caption = "How well the AnoGAN score tells the dataset from others."
    return frame, text, frame_table(readable, caption, names=titles, decimals=3)


def roc_figure(run: Run) -> Figure:
    """The ROC curves, and the distributions that they come from."""
    figure, (curve, histogram) = plt.subplots(1, 2, figsize=(9, 3.6))
    scores = {name: values[np.isfinite(values)] for name, values in run.sanity.items()}
    dataset, inside = run.dataset.name, scores[run.dataset.name]
    bins = np.linspace(0, max(np.quantile(values, 0.99) for values in scores.values() if len(values)), 40)
    histogram.hist(inside, bins, density=True, alpha=0.6, color="black", label=dataset)
    for colour, row in zip(PALETTE, measured(run).dropna(subset="auroc").itertuples(), strict=False):
        outside = scores[row.against]
        thresholds = np.concatenate([[np.inf], np.sort(np.concatenate([inside, outside]))[::-1]])
        rates = [1 - np.searchsorted(np.sort(values), thresholds) / len(values) for values in (inside, outside)]
        label = f"{row.against}: {row.auroc:.3f} ({row.auroc_low:.3f}–{row.auroc_high:.3f})"
        curve.plot(*rates, color=colour, label=label)
        histogram.hist(outside, bins, density=True, alpha=0.5, color=colour, label=row.against)
    curve.plot([0, 1], [0, 1], ":", color=GREY)
    curve.set(xlabel=f"share of {dataset} taken for outliers", ylabel="share of outliers detected", title="AUROC")
    curve.legend(loc="lower right", fontsize="small")
    histogram.set(xlabel="AnoGAN score", ylabel="density", yticks=[])
    histogram.legend(fontsize="small")
    return figure
