"""The paper's summaries: which pairs are compared, and means of the test sets' means."""

import pandas as pd
from scipy import stats

from deduce.evaluation import intervals
from deduce.evaluation.metrics import PAPER, THRESHOLDS, threshold_column

QUESTION = ["seed", "image", "target"]  # a test set, one of its images, and the class that it should have
PAIR = ["training_seed", *QUESTION]  # a question about the models of one training


def common(table: pd.DataFrame, methods: list[str] | None = None) -> pd.Series:
    """Row mask of the pairs that all methods found (section 4.3), or all of `methods`."""
    chosen = table if methods is None else table[table["method"].isin(methods)]
    found = chosen.groupby(PAIR)["found"].all()
    index = pd.MultiIndex.from_frame(table[PAIR])
    return pd.Series(found.reindex(index, fill_value=False).to_numpy(bool), index=table.index)


def per_seed(table: pd.DataFrame, metrics: list[str], mask: pd.Series | None = None) -> pd.DataFrame:
    """Mean of each metric per method, training and test set over the masked pairs, and the failures in % of all pairs.

    Rows are indexed by (method, training_seed, seed); with `mask` None, over the pairs that all methods found.
    """
    mask = common(table) if mask is None else mask
    keys = ["method", "training_seed", "seed"]
    found = table.groupby(keys, sort=False)["found"].mean()
    compared = table[mask].groupby(keys, sort=False)
    means = compared[metrics].mean().reindex(found.index)  # a test set without masked pairs keeps its row
    means["failure"] = 100 * (1 - found)
    means["pairs"] = compared.size().reindex(found.index, fill_value=0)
    return means


def over_seeds(means: pd.DataFrame) -> pd.DataFrame:
    """Mean of the means of all trainings and test sets, and standard deviations (ddof = 1): one row per method.

    `_std` is over the test sets of one training; with several trainings, the mean of theirs. `_training_std` is over
    the trainings' means; a single training has no such columns.
    """
    by_method = {"level": "method", "sort": False}
    of_training = means.drop(columns="pairs").groupby(["method", "training_seed"], sort=False)
    centre, spread = (
        part.groupby(**by_method).mean() for part in (means.drop(columns="pairs"), of_training.std(ddof=1))
    )
    parts = [centre, spread.add_suffix("_std")]
    if means.index.get_level_values("training_seed").nunique() > 1:
        parts.append(of_training.mean().groupby(**by_method).std(ddof=1).add_suffix("_training_std"))
    frame = pd.concat(parts, axis=1)
    suffixes = ["", "_std", "_training_std"][: len(parts)]
    return frame[[f"{name}{suffix}" for name in centre for suffix in suffixes]].reset_index()


def table1(table: pd.DataFrame, mask: pd.Series | None = None) -> pd.DataFrame:
    """Table 1: method, agan, agan_std, l0, l0_std, l1, l1_std, failure, failure_std (failure in %).

    With several trainings, each metric also has its standard deviation over them, such as agan_training_std.
    """
    return over_seeds(per_seed(table, [metric.name for metric in PAPER], mask))


def failures_as_worst(table: pd.DataFrame) -> pd.DataFrame:
    """Table 1 over all pairs: where a method failed, it gets the worst value that any method got on a found pair."""
    filled = table.copy()
    for metric in PAPER:
        worst = table.loc[table["found"], metric.name].max()
        filled[metric.name] = filled[metric.name].astype(float).where(table["found"], worst)
    return table1(filled, pd.Series(True, index=table.index))


def thresholded(table: pd.DataFrame) -> pd.DataFrame:
    """Mean L0 on the common pairs when a pixel must differ by more than a threshold to count."""
    columns = {0.0: "l0"} | {threshold: threshold_column(threshold) for threshold in THRESHOLDS}
    means = over_seeds(per_seed(table, list(columns.values())))
    parts = [
        means[["method"]].assign(threshold=threshold, l0=means[name], l0_std=means[f"{name}_std"])
        for threshold, name in columns.items()
    ]
    return pd.concat(parts).sort_index(kind="stable", ignore_index=True)  # method by method


def success(table: pd.DataFrame) -> pd.DataFrame:
    """Found pairs per method, in each test set and in all, with two 95 % intervals of the rate.

    Wilson's, as if all pairs were independent; and `low` to `high`, for another training and other images.
    """
    rows = []
    for method, part in table.groupby("method", sort=False):
        for seed, group in [*part.groupby("seed"), ("all", part)]:
            found, n = int(group["found"].sum()), len(group)
            wilson = stats.binomtest(found, n).proportion_ci(0.95, method="wilson")
            interval = intervals.mean(group["found"], group).rate_interval()
            rows.append((method, seed, n, found, found / n, wilson.low, wilson.high, *interval))
    columns = ["method", "seed", "pairs", "found", "success", "wilson_low", "wilson_high", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def by_target(table: pd.DataFrame) -> pd.DataFrame:
    """How hard each target class is for each method: means over the pairs that the method found, and failures in %."""
    groups = table.groupby(["method", "target"], sort=False)
    found = table[table["found"]].groupby(["method", "target"], sort=False)
    means = found[["l0", "l1", "agan", "iterations"]].mean().reindex(groups.size().index)
    means["failure"] = 100 * (1 - groups["found"].mean())
    return means.reset_index().sort_values(["method", "target"], kind="stable", ignore_index=True)


def table2(timing: pd.DataFrame, methods: list[str]) -> pd.DataFrame:
    """Table 2 from one row per timed pair: seconds for one counterfactual made alone, mean and deviation (ddof = 1)."""
    columns = {"seconds": ("seconds", "mean"), "seconds_std": ("seconds", "std"), "median": ("seconds", "median")}
    columns |= {"iterations": ("iterations", "mean"), "found": ("found", "sum"), "pairs": ("found", "size")}
    frame = timing.groupby("method").agg(**columns)
    return frame.reindex(methods).rename_axis("method").reset_index()  # a method that was not timed has no numbers


def reference_scores(references: pd.DataFrame) -> pd.DataFrame:
    """AGAN of originals and reconstructions: mean of the test sets' means; `std` with ddof = 1, `std0` with ddof = 0.

    The paper's ± of these two figures has ddof = 0, unlike the brackets of its table 1.
    """
    means = references.groupby(["kind", "seed"], sort=False)["agan"].mean().groupby("kind", sort=False)
    return pd.DataFrame({"agan": means.mean(), "std": means.std(ddof=1), "std0": means.std(ddof=0)}).reset_index()
