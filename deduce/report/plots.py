"""What table 1 averages, a figure per metric: every point, each test set's mean, and the mean with its interval."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from deduce.evaluation import figures, statistics, summary
from deduce.evaluation.metrics import Metric


def points(table: pd.DataFrame, names: dict[str, str], metric: Metric) -> Figure:
    """One line per method; the interval of the mean is a 95 % bootstrap that draws whole images."""
    chosen = table[summary.common(table) & table[metric.name].notna()]
    which = "found by every method"
    if chosen.empty:
        chosen, which = table[table["found"] & table[metric.name].notna()], "found by the method (none by all)"
    figure, axis = plt.subplots(figsize=(8.2, 0.72 * len(names) + 1.1))
    palette, shapes = figures.colours(list(names)), figures.markers(list(names))
    random = np.random.default_rng(0)  # only the places across the line, never the values
    for position, method in enumerate(names):
        own = chosen[chosen["method"] == method]
        if own.empty:
            continue
        values = own[metric.name].to_numpy(float)
        across = position + random.uniform(-0.3, 0.3, len(values))
        size, alpha = (3, 0.2) if len(values) > 500 else (5, 0.45)
        axis.plot(values, across, ".", color=palette[method], alpha=alpha, markersize=size, rasterized=True)
        means = own.groupby("seed")[metric.name].mean()
        axis.plot(means, np.full(len(means), position), "|", color="black", markersize=13, markeredgewidth=1.2)
        mean = values.mean()
        low, high = statistics.bootstrap(values, own["image"].to_numpy()) if len(values) > 1 else (mean, mean)
        spread = [[max(mean - low, 0)], [max(high - mean, 0)]]
        axis.errorbar(mean, position, xerr=spread, fmt=shapes[method], color=palette[method], capsize=5, zorder=5,
                      markersize=8, markeredgecolor="black", ecolor="black")  # fmt: skip
    low, middle, high = chosen[metric.name].quantile([0.05, 0.5, 1]).to_numpy(float)
    if high > 10 * middle or middle > 5 * max(low, 0.1):
        # Logarithmic from 1 on, and linear down to 0: a counterfactual may have changed nothing.
        axis.set_xscale("symlog", linthresh=1, linscale=0.3)
        ticks = [0] + [factor * 10**power for power in range(4) for factor in (1, 2, 5)]
        axis.set_xticks([tick for tick in ticks if tick <= 1.3 * chosen[metric.name].max()])
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.set_xlim(left=0 if chosen[metric.name].min() < 1 else 0.8 * chosen[metric.name].min())
    axis.set_yticks(range(len(names)), list(names.values()))
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.grid(axis="y", visible=False)
    count = len(chosen[summary.PAIR].drop_duplicates())
    axis.set_xlabel(f"{metric.text} of the {count} pairs {which}")
    return figure
