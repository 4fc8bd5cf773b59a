"""Where the variance of a metric comes from, in a run with several trainings: its sources, and all means."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from deduce.evaluation import intervals, summary
from deduce.evaluation.figures import GREY, method_rows, plain_ticks, styled
from deduce.evaluation.metrics import FAILURE, METRICS, PAPER
from deduce.evaluation.run import Run
from deduce.evaluation.tables import Cell, Column, Table, number_cell

SOURCES = {
    "test_set_sd": "test set", "image_sd": "image", "target_sd": "target", "training_sd": "training",
    "training_image_sd": "training × image", "rest_sd": "rest",
}  # fmt: skip


def measured(run: Run) -> list[str]:
    """The metrics of table 1 of which the run has numbers."""
    return [name for name in [*(metric.name for metric in PAPER), FAILURE.name] if run.table1[name].notna().any()]


def compared(run: Run, metric: str) -> pd.DataFrame:
    """The rows behind a column of table 1, with the metric's value; failures are 100 or 0."""
    rows = run.results if metric == FAILURE.name else run.common
    return rows.assign(value=100.0 * ~rows["found"] if metric == FAILURE.name else rows[metric].astype(float))


def variance(run: Run) -> tuple[pd.DataFrame, Table]:
    """Where the variance of single values comes from: test set, image, target, training."""
    lines = []
    for metric in measured(run):
        for method, rows in compared(run, metric).groupby("method", sort=False):
            estimate = intervals.mean(rows["value"], rows)
            low, high = estimate.interval_of(METRICS[metric])
            line = {"method": method, "metric": metric, "mean": estimate.value, "low": low, "high": high}
            lines.append(line | components(rows))
    frame = pd.DataFrame(lines)
    columns = [Column("algorithm", numeric=False), Column("metric", numeric=False), Column("mean")]
    columns += [Column("95 % from"), Column("to"), *(Column(text, group="sd by") for text in SOURCES.values())]
    rows = [
        [Cell(run.names[line["method"]]), Cell(METRICS[line["metric"]].text)]
        + [number_cell(line[name]) for name in ("mean", "low", "high", *SOURCES)]
        for line in lines
    ]
    caption = (
        "Means over all pairs behind table 1, with intervals for another training and other images; and the standard "
        "deviation of single values by source, over the pairs that every training has."
    )
    return frame, Table(caption, columns, rows)


def components(rows: pd.DataFrame) -> dict[str, float]:
    """The standard deviation by source, from the mean squares of a nested and crossed analysis of variance.

    Targets lie within images and images within test sets; every training answers all of them. Pairs that a training
    lacks are left out. A variance that is estimated below zero is zero.
    """
    wide = rows.pivot(index=summary.QUESTION, columns="training_seed", values="value").dropna()
    images = wide.groupby(["seed", "image"])
    k, n, pairs, sets = wide.shape[1], images.ngroups, len(wide), wide.groupby("seed").ngroups
    if min(k, n - sets, pairs - n) < 1 or k < 2:
        return dict.fromkeys(SOURCES, np.nan)
    cells, of_pair, repeated = images.mean(), wide.mean(axis=1), images.transform("mean")
    of_image, of_training = cells.mean(axis=1), cells.mean()
    targets = 1 / (1 / images.size()).mean()  # of an image: the harmonic mean
    per_set = 1 / (1 / of_image.groupby("seed").size()).mean()
    both = cells.sub(of_image, axis=0).sub(of_training).add(of_image.mean())
    rest = wide.sub(of_pair, axis=0) - repeated.sub(repeated.mean(axis=1), axis=0)
    square = {
        "rest": (rest**2).to_numpy().sum() / ((k - 1) * (pairs - n)),
        "training_image": (both**2).to_numpy().sum() / ((k - 1) * (n - 1)),
        "training": of_training.var(ddof=1),
        "target": ((of_pair - repeated.mean(axis=1)) ** 2).sum() / (pairs - n),
        "image": ((of_image - of_image.groupby("seed").transform("mean")) ** 2).sum() / (n - sets),
        "test_set": of_image.groupby("seed").mean().var(ddof=1),
    }
    variances: dict[str, Any] = {"rest": square["rest"]}
    variances["training_image"] = square["training_image"] - square["rest"] / targets
    variances["training"] = square["training"] - square["training_image"] / n
    variances["target"] = square["target"] - square["rest"] / k
    variances["image"] = square["image"] - square["target"] / targets - max(variances["training_image"], 0) / k
    variances["test_set"] = square["test_set"] - square["image"] / per_set
    return {name: float(np.sqrt(max(variances[name.removesuffix("_sd")], 0))) for name in SOURCES}


def picture(run: Run) -> Figure:
    """Each metric as method × training × test set: a row per training, its mean, and ticks for its test sets."""
    metrics, names = measured(run), run.names
    seeds = sorted(run.results["training_seed"].unique())
    size = (2.5 * len(metrics) + 0.8, (0.35 + 0.17 * len(seeds)) * len(names) + 1.1)
    figure, axes = plt.subplots(1, len(metrics), figsize=size, sharey=True, squeeze=False)
    offsets = np.linspace(-0.28, 0.28, len(seeds))
    for axis, metric in zip(axes[0], metrics, strict=True):
        rows = compared(run, metric)
        means = rows.groupby(["method", "training_seed", "seed"])["value"].mean()
        for position, method, colour, marker in styled(names):
            for seed, offset in zip(seeds, offsets, strict=True):
                if (method, seed) in means.index.droplevel("seed"):
                    of_sets = means[method, seed]
                    axis.plot(of_sets, np.full(len(of_sets), position + offset), "|", color=GREY, markersize=7)
                    axis.plot(of_sets.mean(), position + offset, marker, color=colour, markersize=5)
            part = rows[rows["method"] == method]
            low, high = intervals.mean(part["value"], part).interval_of(METRICS[metric])
            axis.fill_betweenx([position - 0.4, position + 0.4], low, high, color=colour, alpha=0.18, linewidth=0)
        axis.set_title(METRICS[metric].text)
        if metric in ("l0", "l1") and means.max() > 5 * max(means.min(), 0.1):
            axis.set_xscale("log")
            plain_ticks(axis.xaxis)
        axis.grid(axis="y", visible=False)
    method_rows(axes[0, 0], list(names.values()))
    title = "marker: a training’s mean; ticks: its test sets; band: 95 % interval for another training and other images"
    figure.suptitle(title, fontsize=9, color=GREY)
    return figure
