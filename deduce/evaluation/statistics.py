"""Paired comparisons of methods: the paper's t-test, and other tests and intervals that help a reader to judge it.

Every row compares method *a* with method *b* on one metric, over one set of pairs (`mask`) of one `scope`:
mask `both` is the pairs that both found, as in the paper's t-test; `common` the pairs that all methods found, as in its
table 1; `all` (failure only) every pair. Scope `all` pools the test sets, a number is one test set, and `means`
compares the test sets' means. Differences are a - b: where less is better, a negative difference favours a.

`low`, `high` and `p_clustered` hold for another training and other images (`intervals.py`); they decide. `p` is the
paper's t-test, which takes all pairs for independent.
"""

from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from deduce.evaluation import intervals
from deduce.evaluation.metrics import BEYOND, FAILURE, PAPER, Metric
from deduce.evaluation.summary import PAIR

RESAMPLES, BOOTSTRAP_SEED = 2000, 0
SIGNIFICANT = 0.05
ENUMERATED = 13  # so many differences, or fewer, have their signs enumerated, as in scipy
SHARES = [FAILURE.name, *(metric.name for metric in BEYOND if metric.share)]
COLUMNS = [
    "family", "a", "b", "metric", "mask", "scope", "n", "trainings", "images", "mean_a", "mean_b", "mean_difference",
    "low", "high", "p_clustered", "p_clustered_holm", "ci_low", "ci_high", "ci_low_images", "ci_high_images",
    "cohen_dz", "t", "p", "p_holm", "wilcoxon_p", "wilcoxon_p_holm", "mcnemar_p", "wins", "ties", "losses",
]  # fmt: skip


def holm(p: np.ndarray) -> np.ndarray:
    """Holm's step-down adjustment of a family of p-values; NaN is not a member of the family."""
    adjusted = np.full(len(p), np.nan)
    members = np.flatnonzero(np.isfinite(p))
    ascending = members[np.argsort(p[members], kind="stable")]
    scaled = p[ascending] * np.arange(len(ascending), 0, -1)
    adjusted[ascending] = np.minimum(np.maximum.accumulate(scaled), 1)
    return adjusted


def mcnemar(a_only: int, b_only: int) -> float:
    """Exact McNemar test: are the pairs that only one of two methods found split evenly?"""
    return 1.0 if a_only + b_only == 0 else float(stats.binomtest(int(a_only), int(a_only + b_only)).pvalue)


def signed_rank(difference: np.ndarray) -> float:
    """The p-value of Wilcoxon's signed-rank test, as by `scipy.stats.wilcoxon`.

    For a few differences with ties or zeros, scipy calls a function for each of all signs that they could have; here,
    one product gives all rank sums.
    """
    if len(difference) > ENUMERATED:
        return float(stats.wilcoxon(difference).pvalue)
    changed = difference[difference != 0]
    ranks = stats.rankdata(np.abs(changed))
    signs = np.arange(2 ** len(ranks))[:, None] >> np.arange(len(ranks)) & 1
    sums, observed = signs @ ranks, ranks[changed > 0].sum()
    return float(min(2 * min((sums <= observed).mean(), (sums >= observed).mean()), 1))


def bootstrap(difference: np.ndarray, cluster: np.ndarray | None = None) -> tuple[float, float]:
    """Percentile interval of the mean paired difference; single pairs are resampled, or whole clusters of them.

    The pairs of one image are not independent, so the interval over whole images is the honest one: see `images`.
    """
    if len(difference) < 2:
        return np.nan, np.nan
    _, member = np.unique(np.arange(len(difference)) if cluster is None else cluster, return_inverse=True)
    total, size = np.bincount(member, difference), np.bincount(member)
    weights = _resamples(len(total))
    means = (weights @ total.astype(np.float32)) / (weights @ size.astype(np.float32))
    tail = 100 * (1 - intervals.COVERAGE) / 2
    low, high = np.percentile(means, [tail, 100 - tail])
    return float(low), float(high)


def images(pairs: pd.DataFrame) -> np.ndarray:
    """The number of each pair's image, by the columns or index levels `seed` and `image`, for `bootstrap`."""
    return pairs.groupby(["image", "seed"]).ngroup().to_numpy()


@lru_cache(maxsize=16)
def _resamples(n: int) -> np.ndarray:
    """How often each resample draws each of n items: (RESAMPLES, n). Metrics of the same pairs share it."""
    draws = np.random.default_rng(BOOTSTRAP_SEED).integers(n, size=(RESAMPLES, n))
    draws += n * np.arange(RESAMPLES)[:, None]
    return np.bincount(draws.ravel(), minlength=RESAMPLES * n).reshape(RESAMPLES, n).astype(np.float32)


def compare(
    a: np.ndarray,
    b: np.ndarray,
    image: np.ndarray | None = None,
    lower_is_better: bool | None = True,
    training: np.ndarray | None = None,
) -> dict:
    """The comparison of paired values a and b, (n,) each; `image` and `training` number the images and the trainings.

    The variances of trainings and of images are for `clustered`, which makes the intervals of many comparisons at once.
    """
    difference = a - b
    n, ties = len(difference), int((difference == 0).sum())
    mean_a, mean_b, mean = (values.mean() if n else np.nan for values in (a, b, difference))
    spread = difference.std(ddof=1) if n > 1 else np.nan
    # Identical differences have no spread: the t statistic is then undefined, not infinite.
    t, p = stats.ttest_rel(a, b) if spread > 0 else (np.nan, np.nan)
    low, high = bootstrap(difference)
    low_images, high_images = (np.nan, np.nan) if image is None else bootstrap(difference, image)
    influence = np.empty((0, 0))
    if n and image is not None:
        training = np.zeros(n, int) if training is None else training
        influence = intervals.cells((difference - mean) / n, training, image)
    training_variance, image_variance = intervals.variances(influence)
    wins = int((difference < 0 if lower_is_better else difference > 0).sum())
    return {
        "n": n, "trainings": influence.shape[0], "images": influence.shape[1],
        "mean_a": mean_a, "mean_b": mean_b, "mean_difference": mean,
        "training_variance": float(training_variance), "image_variance": float(image_variance),
        "ci_low": low, "ci_high": high, "ci_low_images": low_images, "ci_high_images": high_images,
        "cohen_dz": mean / spread if spread > 0 else np.nan, "t": t, "p": p,
        "wilcoxon_p": signed_rank(difference) if n > 1 and ties < n else np.nan,
        "wins": wins, "ties": ties, "losses": n - ties - wins,
    }  # fmt: skip


def ratio(a: np.ndarray, b: np.ndarray, image: np.ndarray) -> dict[str, float]:
    """The ratio of the means of paired values, with its interval for other images."""
    pairs = pd.DataFrame({"training_seed": 1, "seed": 1, "image": image})
    estimate = intervals.mean(pd.Series(a), pairs) / intervals.mean(pd.Series(b), pairs)
    low, high = estimate.interval()
    return {"ratio": estimate.value, "ratio_low": low, "ratio_high": high}


def clustered(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with `low`, `high` and `p_clustered` in place of the variances: for other trainings and other images."""
    spread = rows["training_variance"], rows["image_variance"], rows["trainings"], rows["images"]
    half = intervals.half_width(*spread)
    # Two methods that fail on the same pairs, such as none, may still differ on others.
    same = (half == 0) & rows["metric"].isin(SHARES)
    half = np.where(same, intervals.nothing(rows["images"]), half)
    ends = {"low": rows["mean_difference"] - half, "high": rows["mean_difference"] + half}
    p = intervals.p_values(rows["mean_difference"], *spread)
    return rows.assign(**ends, p_clustered=p).drop(columns=["training_variance", "image_variance"])


def tests(table: pd.DataFrame) -> pd.DataFrame:
    """One row per comparison, metric, mask and scope, with Holm's adjustment within each named family."""
    methods = list(table["method"].drop_duplicates())
    wide = table.set_index([*PAIR, "method"]).unstack("method")
    judged = [metric for metric in [*PAPER, *BEYOND] if metric.lower_is_better is not None]
    metrics = [metric for metric in judged if metric.name in table and table[metric.name].notna().any()]
    found_by_all = table.groupby(PAIR)["found"].all().reindex(wide.index)
    rows: list[dict[str, Any]] = []
    for a, b in combinations(methods, 2):
        group = f"{methods[0]} against the others" if a == methods[0] else "among the others"
        found = wide["found"][[a, b]].astype(bool)
        for metric in metrics:
            family = group if metric in PAPER else f"{group}, beyond the paper's metrics"
            for mask, chosen in (("both", found.all(axis=1)), ("common", found_by_all)):
                pair = wide.loc[chosen.to_numpy(), metric.name][[a, b]].astype(float).dropna()
                keys = {"family": family, "a": a, "b": b, "metric": metric.name, "mask": mask}
                rows += [keys | row for row in _scopes(pair, metric)]
        keys = {"family": group, "a": a, "b": b, "metric": "failure", "mask": "all"}
        rows += [keys | row for row in _scopes((~found).astype(float), FAILURE)]
    return _adjusted(clustered(pd.DataFrame(rows))).reindex(columns=COLUMNS) if rows else pd.DataFrame(columns=COLUMNS)


def _scopes(pair: pd.DataFrame, metric: Metric) -> list[dict[str, Any]]:
    """The comparison of two columns, indexed by `PAIR`: pooled, per test set, and of the means.

    Failures, and shares of votes above one half, are also compared by McNemar's test.
    """
    a, b = pair.to_numpy().T
    only_a, only_b = (a > 0.5) & (b <= 0.5), (b > 0.5) & (a <= 0.5)
    counted = metric.share or metric is FAILURE
    training, seeds = (pair.index.get_level_values(name).to_numpy() for name in ("training_seed", "seed"))
    image = images(pair)
    sets = {str(seed): seeds == seed for seed in np.unique(seeds)}
    rows = [
        {"scope": scope}
        | compare(a[chosen], b[chosen], image[chosen], metric.lower_is_better, training[chosen])
        | ({"mcnemar_p": mcnemar(only_a[chosen].sum(), only_b[chosen].sum())} if counted else {})
        for scope, chosen in {"all": np.full(len(pair), True), **sets}.items()
    ]
    if len(sets) > 1:
        mean_a, mean_b = (np.array([values[chosen].mean() for chosen in sets.values()]) for values in (a, b))
        rows.append({"scope": "means"} | compare(mean_a, mean_b, None, metric.lower_is_better))
    return rows


def _adjusted(rows: pd.DataFrame) -> pd.DataFrame:
    """Holm over each family: its comparisons and metrics on one mask and scope; failures get the stricter value."""
    scope_of = rows["scope"].where(rows["scope"].isin(["all", "means"]), "test set " + rows["scope"])
    rows["family"] = rows["family"] + ", " + scope_of
    for column in ("p", "p_clustered", "wilcoxon_p"):
        adjusted = pd.Series(np.nan, rows.index)
        for _, family in rows.groupby("family", sort=False):
            for mask in ("both", "common"):
                members = family.index[family["mask"].isin([mask, "all"])]
                adjusted[members] = np.fmax(adjusted[members], holm(rows.loc[members, column].to_numpy()))
        rows[f"{column}_holm"] = adjusted
    return rows


def row(tests: pd.DataFrame, a: str, b: str, metric: str, mask: str, scope: str = "all") -> pd.Series | None:
    """The comparison of two methods in either order, with the difference a - b; None if there is none."""
    columns = ["a", "b", "metric", "mask", "scope"]
    for first, second, sign in ((a, b, 1), (b, a, -1)):
        match = tests[(tests[columns] == [first, second, metric, mask, scope]).all(axis=1)]
        if len(match):
            found = match.iloc[0].copy()
            found["low"], found["high"] = sorted(sign * found[["low", "high"]].to_numpy(float))
            found["mean_difference"] *= sign
            return found
    return None
