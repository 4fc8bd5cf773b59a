"""Paired comparisons of methods: the paper's t-test, and beside it what a reader needs to judge it.

Every row compares method *a* with method *b* on one metric, over one set of pairs (`mask`) of one `scope`:
mask `both` is the pairs that both found, as in the paper's t-test; `common` the pairs that all methods found, as in its
table 1; `all` (failure only) every pair. Scope `all` pools the test sets, a number is one test set, and `means`
compares the test sets' means. Differences are a - b, so for a metric of which less is better a negative one favours a.
"""

from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from deduce.evaluation.metrics import BEYOND, FAILURE, METRICS, PAPER
from deduce.evaluation.summary import PAIR, common

RESAMPLES = 2000
COVERAGE = 0.95
BOOTSTRAP_SEED = 0


def holm(p: np.ndarray) -> np.ndarray:
    """Holm's step-down adjustment of a family of p-values; entries that are NaN are no members of it."""
    adjusted = np.full(len(p), np.nan)
    members = np.flatnonzero(np.isfinite(p))
    ascending = members[np.argsort(p[members], kind="stable")]
    scaled = p[ascending] * np.arange(len(ascending), 0, -1)
    adjusted[ascending] = np.minimum(np.maximum.accumulate(scaled), 1)
    return adjusted


def mcnemar(a_only: int, b_only: int) -> float:
    """Exact McNemar test: are the pairs that only one of two methods found split evenly?"""
    return 1.0 if a_only + b_only == 0 else float(stats.binomtest(a_only, a_only + b_only).pvalue)


def bootstrap(difference: np.ndarray, cluster: np.ndarray | None = None) -> tuple[float, float]:
    """Percentile interval of the mean paired difference; pairs are drawn, or whole clusters (images) of them.

    The nine pairs of an image are not independent, so that the interval over images is the honest one.
    """
    if len(difference) < 2:
        return np.nan, np.nan
    if cluster is None:
        means = _resamples(len(difference)) @ difference.astype(np.float32) / len(difference)
    else:
        _, member = np.unique(cluster, return_inverse=True)
        total, size = np.bincount(member, difference), np.bincount(member)
        weights = _resamples(len(total))
        means = (weights @ total.astype(np.float32)) / (weights @ size.astype(np.float32))
    tail = 100 * (1 - COVERAGE) / 2
    low, high = np.percentile(means, [tail, 100 - tail])
    return float(low), float(high)


@lru_cache(maxsize=16)
def _resamples(n: int) -> np.ndarray:
    """How often each of n items is drawn, in each resample: (RESAMPLES, n). Metrics of the same pairs share it."""
    draws = np.random.default_rng(BOOTSTRAP_SEED).integers(n, size=(RESAMPLES, n))
    draws += n * np.arange(RESAMPLES)[:, None]
    return np.bincount(draws.ravel(), minlength=RESAMPLES * n).reshape(RESAMPLES, n).astype(np.float32)


def compare(a: np.ndarray, b: np.ndarray, image: np.ndarray | None = None, lower_is_better: bool = True) -> dict:
    """All that is said of the paired values a and b, (n,) each, of the images given (for the clustered interval)."""
    difference = a - b
    n = len(difference)
    mean = difference.mean() if n else np.nan
    spread = difference.std(ddof=1) if n > 1 else np.nan
    # Identical differences have no spread: the t statistic is then undefined, not infinite.
    test = stats.ttest_rel(a, b) if n > 1 and spread > 0 else None
    low, high = bootstrap(difference)
    low_image, high_image = (np.nan, np.nan) if image is None else bootstrap(difference, image)
    better = difference < 0 if lower_is_better else difference > 0
    ties = int((difference == 0).sum())
    return {
        "n": n,
        "mean_a": a.mean() if n else np.nan,
        "mean_b": b.mean() if n else np.nan,
        "mean_difference": mean,
        "ci_low": low,
        "ci_high": high,
        "ci_low_images": low_image,
        "ci_high_images": high_image,
        "cohen_dz": mean / spread if n > 1 and spread > 0 else np.nan,
        "t": test.statistic if test else np.nan,
        "p": test.pvalue if test else np.nan,
        "wilcoxon_p": stats.wilcoxon(difference).pvalue if n > 1 and ties < n else np.nan,
        "wins": int(better.sum()),
        "ties": ties,
        "losses": n - ties - int(better.sum()),
    }


def tests(table: pd.DataFrame) -> pd.DataFrame:
    """One row per comparison, metric, mask and scope, with Holm's adjustment within each named family."""
    methods = list(table["method"].drop_duplicates())
    wide = table.set_index([*PAIR, "method"]).unstack("method")
    metrics = [m for m in [*PAPER, *BEYOND] if m.name in table and table[m.name].notna().any()]
    everywhere = common(table)
    in_common = everywhere[table["method"] == methods[0]].to_numpy()
    in_common = pd.Series(in_common, pd.MultiIndex.from_frame(table.loc[table["method"] == methods[0], PAIR]))
    in_common = in_common.reindex(wide.index, fill_value=False)
    rows: list[dict[str, Any]] = []
    for a, b in combinations(methods, 2):
        group = f"{methods[0]} against the others" if a == methods[0] else "among the others"
        found = wide["found"][[a, b]].astype(bool)
        masks = {"both": found.all(axis=1), "common": in_common}
        for metric in metrics:
            kind = group if metric in PAPER else f"{group}, beyond the paper's metrics"
            for mask, chosen in masks.items():
                pair = wide.loc[chosen.to_numpy(), metric.name][[a, b]].astype(float).dropna()
                for row in _scopes(pair, metric.lower_is_better):
                    rows.append({"family": kind, "a": a, "b": b, "metric": metric.name, "mask": mask} | row)
        for row in _scopes((~found).astype(float), FAILURE.lower_is_better):
            rows.append({"family": group, "a": a, "b": b, "metric": "failure", "mask": "all"} | row)
        _add_mcnemar(rows, found)
    return _adjusted(pd.DataFrame(rows))


def _scopes(pair: pd.DataFrame, lower_is_better: bool) -> list[dict[str, Any]]:
    """The comparison of two columns, indexed by (seed, image, target): pooled, per test set, and of the means."""
    a, b = (pair.iloc[:, column].to_numpy() for column in (0, 1))
    seed, image = pair.index.get_level_values("seed").to_numpy(), pair.index.get_level_values("image").to_numpy()
    rows = [{"scope": "all"} | compare(a, b, image, lower_is_better)]
    seeds = np.unique(seed)
    for one in seeds:
        at = seed == one
        rows.append({"scope": str(one)} | compare(a[at], b[at], image[at], lower_is_better))
    if len(seeds) > 1:
        first, second = (np.array([values[seed == one].mean() for one in seeds]) for values in (a, b))
        rows.append({"scope": "means"} | compare(first, second, None, lower_is_better))
    return rows


def _add_mcnemar(rows: list[dict[str, Any]], found: pd.DataFrame) -> None:
    """McNemar's test into the failure rows of the comparison just made, which have one per scope."""
    a, b = found.columns
    seed = found.index.get_level_values("seed").astype(str)
    for row in rows:
        if row["metric"] == "failure" and (row["a"], row["b"]) == (a, b) and row["scope"] != "means":
            part = found if row["scope"] == "all" else found[seed == row["scope"]]
            row["mcnemar_p"] = mcnemar(int((part[a] & ~part[b]).sum()), int((~part[a] & part[b]).sum()))


def _adjusted(rows: pd.DataFrame) -> pd.DataFrame:
    """Holm over each family: its comparisons and metrics on one mask and scope (failures count with both masks)."""
    scope_of = rows["scope"].where(rows["scope"].isin(["all", "means"]), "test set " + rows["scope"])
    rows["family"] = rows["family"] + ", " + scope_of
    for column in ("p", "wilcoxon_p"):
        rows[f"{column}_holm"] = np.nan
        for _, family in rows.groupby("family", sort=False):
            failures = family["metric"] == "failure"
            for mask in ("both", "common"):
                members = family[(family["mask"] == mask) | failures]
                adjusted = pd.Series(holm(members[column].to_numpy()), members.index)
                own = members.index[members["mask"] == mask].union(members.index[failures[members.index]])
                # A failure row belongs to both masks' families; it carries the stricter of the two adjustments.
                rows.loc[own, f"{column}_holm"] = np.fmax(rows.loc[own, f"{column}_holm"], adjusted[own])
    order = ["family", "a", "b", "metric", "mask", "scope", "n", "mean_a", "mean_b", "mean_difference"]
    order += ["ci_low", "ci_high", "ci_low_images", "ci_high_images", "cohen_dz", "t", "p", "p_holm"]
    order += ["wilcoxon_p", "wilcoxon_p_holm", "mcnemar_p", "wins", "ties", "losses"]
    return rows.reindex(columns=order)


def row(tests: pd.DataFrame, a: str, b: str, metric: str, mask: str, scope: str = "all") -> pd.Series | None:
    """One comparison, whichever way round it was made; None if it was not."""
    for first, second, sign in ((a, b, 1), (b, a, -1)):
        match = tests[
            (tests["a"] == first)
            & (tests["b"] == second)
            & (tests["metric"] == metric)
            & (tests["mask"] == mask)
            & (tests["scope"] == scope)
        ]
        if len(match):
            found = match.iloc[0].copy()
            found["mean_difference"] *= sign
            return found
    return None


def better(metric: str, difference: float) -> bool:
    """Whether a difference a - b on this metric favours a."""
    return difference < 0 if METRICS[metric].lower_is_better else difference > 0
