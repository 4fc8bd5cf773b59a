"""The sentences of the paper that state a result, each with the test that this run puts it to (docs/results.md).

What "much" and "comparable" mean is our choice, which the test states. A check takes the run as its last argument and
returns a `Finding` (`verdicts.py`); a claim binds the arguments before it.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import gt, lt
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from deduce.evaluation import intervals, paper, sanity, summary
from deduce.evaluation.intervals import COVERAGE, Estimate
from deduce.evaluation.metrics import PAPER
from deduce.evaluation.run import Run
from deduce.evaluation.statistics import row
from deduce.evaluation.tables import Table, frame_table, p_value
from deduce.evaluation.verdicts import (
    FAILS,
    HOLDS,
    UNDECIDED,
    UNTESTED,
    Finding,
    Part,
    Side,
    decide,
    one_training,
    only_these,
    part,
    untested,
    written,
)

ENOUGH_PAIRS = 1000  # with fewer, a p-value that is not small says more about the run than about the claim
FEW_PAIRS = 30  # with fewer, means of the compared pairs decide nothing
SIGNIFICANT = 1e-7  # the paper's bound on its p-values
ALIKE = 0.05  # means that differ by less than this share are the same to a reader
# Keys of methods, metrics and datasets, as the paper writes them.
WRITTEN = {"deduce": "DeDUCE", "jsma": "JSMA", "vlk": "VLK", "revise": "REVISE", "agan": "AGAN", "l0": "L0", "l1": "L1"}
WRITTEN |= {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "emnist_letters": "EMNIST letters"}


@dataclass(frozen=True)
class Claim:
    name: str
    sentence: str
    where: str
    test: str
    check: Callable[[Run], Finding]
    needs: tuple[str, ...] = ()  # methods
    compares: bool = False  # whether it is about means over the pairs that every method found


def claims(run: Run) -> tuple[pd.DataFrame, Table]:
    """The table of the claims."""
    frame = check_all(run)
    headings = {"claim": "the paper says", "where": "where", "test": "test", "result": "result", "number": "this run"}
    headings |= {"estimate": "estimate", "low": "95 % from", "high": "to", "threshold": "threshold"}
    return frame, frame_table(frame, "The paper's claims and this run.", headings)


def by_training(run: Run) -> tuple[pd.DataFrame, Table]:
    """The results of the claims if each training had been the only one, beside those of all trainings together."""
    together = check_all(run)
    frame = together[["id", "claim", "result"]]
    columns = {f"training_seed_{seed}": check_all(run.of_training(seed))["result"] for seed in run.training_seeds}
    frame = frame.assign(**columns)
    opposite = frame[list(columns)].apply(lambda results: {HOLDS, FAILS} <= set(results), axis=1)
    frame = frame.assign(opposite=opposite)
    headings = {"claim": "the paper says", "result": "all trainings"}
    headings |= {column: f"only training {seed}" for column, seed in zip(columns, run.training_seeds, strict=True)}
    disagreeing = ", ".join(frame.loc[opposite, "id"])
    note = (
        f"One training says “{HOLDS}” and another “{FAILS}”: {disagreeing}."
        if disagreeing
        else f"On no claim does one training say “{HOLDS}” and another “{FAILS}”."
    )
    caption = "The results of the claims if each training of the networks had been the only one."
    return frame, frame_table(frame, caption, headings, notes=[note])


def check_all(run: Run) -> pd.DataFrame:
    """One row per claim: id, claim, where, test, result, number, estimate, low, high, threshold."""
    rows = []
    compared = int(summary.common(run.results).sum()) // max(run.results["method"].nunique(), 1)
    for claim in CLAIMS:
        absent = [method for method in claim.needs if method not in run.table1["method"].values]
        finding = untested(f"this run has no {', '.join(absent)}") if absent else claim.check(run)
        if claim.compares and compared < FEW_PAIRS and finding.result != UNTESTED:
            finding = untested(f"{finding.number}; but only {compared} pairs were found by all methods")
        text = re.sub(rf"\b({'|'.join(WRITTEN)})\b", lambda key: WRITTEN[key[0]], finding.number)
        rows.append((claim.name, claim.sentence, claim.where, claim.test, *finding._replace(number=text)))
    return pd.DataFrame(rows, columns=["id", "claim", "where", "test", *Finding._fields])


# --- estimates -------------------------------------------------------------------------------------------------------


def _table1(run: Run, method: str, metric: str) -> Estimate:
    """A number of table 1, with what each training and image contributed; failures as a share."""
    rows = run.results if metric == "failure" else run.common
    rows = rows[rows["method"] == method]
    sets = rows.groupby(["training_seed", "seed"])
    values = ~rows["found"] if metric == "failure" else rows[metric]
    return intervals.mean(values, rows, 1 / (sets.ngroups * sets["found"].transform("size")))


def _paired(run: Run, a: str, b: str, metric: str) -> tuple[Estimate, Estimate]:
    """The means of two methods over the pairs that both found; failures over all pairs, as shares."""
    rows = run.results[run.results["method"].isin([a, b])]
    if metric == "failure":
        values = (~rows["found"]).astype(float)
    else:
        rows = rows[summary.common(rows)]
        values = rows[metric].astype(float)
    of = {method: rows["method"] == method for method in (a, b)}
    first, second = (intervals.mean(values[chosen], rows[chosen]) for chosen in of.values())
    return first, second


def _difference(run: Run, name: str, a: str, b: str, first: Estimate, second: Estimate, failures: bool = False) -> Part:
    """The difference of two methods; of failures, in percentage points."""
    difference = first - second
    if not failures:
        return part(name, difference, a, b)

    def in_percent(coverage: float) -> tuple[float, float]:
        low, high = difference.rate_difference_interval(coverage)
        return 100 * low, 100 * high

    return part(name, 100 * difference, a, b, interval=in_percent)


def _others(run: Run, method: str) -> list[str]:
    """The paper's other methods that this run has."""
    return [other for other in paper.TABLE1 if other != method and other in run.table1["method"].values]


# --- checks ----------------------------------------------------------------------------------------------------------


def _below(metric: str, method: str, others_needed: int, some: bool, run: Run) -> Finding:
    """The method's mean in table 1 is below those of all of the paper's other methods, or of some."""
    if len(others := _others(run, method)) < others_needed:
        return untested("this run has too few of the paper's methods")
    means = {name: _table1(run, name, metric) for name in (method, *others)}
    parts = [
        _difference(run, f"{method} − {other}", method, other, means[method], means[other], metric == "failure")
        for other in others
    ]
    return decide(run, parts, lt, 0, some, unit=" percentage points" if metric == "failure" else "")


def _against_originals(subject: str, side: Side, run: Run) -> Finding:
    """The mean AGAN of a method or of the reconstructions, beside that of the original images."""
    means = {kind: _of_reference(run, kind) for kind in run.references["kind"].unique()}
    if "original" not in means or not (subject in run.names or subject in means):
        return untested("AGAN of originals or reconstructions was not measured")
    mean = means[subject] if subject in means else _table1(run, subject, "agan")
    return decide(run, [part(f"{subject} − original", mean - means["original"])], side, 0)


def _of_reference(run: Run, kind: str) -> Estimate:
    """The mean of the test sets' means; the same images stand beside the pairs of every training."""
    rows = run.references[run.references["kind"] == kind]
    sets = rows.groupby("seed")
    weights = 1 / (sets.ngroups * sets["agan"].transform("size"))
    trainings = run.results["training_seed"].unique()
    repeated = pd.concat([rows.assign(training_seed=training, weight=weights) for training in trainings])
    return intervals.mean(repeated["agan"], repeated, repeated["weight"] / len(trainings))


def _closest(run: Run) -> Finding:
    """DeDUCE against each baseline that this run has, on both distances, over the pairs that both found."""
    parts = []
    for other in _others(run, "deduce"):
        for metric in ("l0", "l1"):
            test = row(run.tests, "deduce", other, metric, "both")
            if test is None or test["n"] < FEW_PAIRS:
                return untested(f"too few pairs that both DeDUCE and {other} found")
            name = f"{metric} against {other}"
            parts.append(_difference(run, name, "deduce", other, *_paired(run, "deduce", other, metric)))
    return decide(run, parts, lt, 0) if parts else untested("this run has no baseline of the paper")


def _better_than_jsma(run: Run) -> Finding:
    metrics = [*(metric.name for metric in PAPER), "failure"]
    parts = [
        _difference(run, name, "deduce", "jsma", *_paired(run, "deduce", "jsma", name), failures=name == "failure")
        for name in metrics
    ]
    return decide(run, parts, lt, 0)


def _significant(run: Run) -> Finding:
    """The paper's t-test of pairs, in each training, beside the p-value that includes trainings and images."""
    masks = {metric.name: "both" for metric in PAPER} | {"failure": "all"}
    ours = {metric: row(run.tests, "deduce", "jsma", metric, mask) for metric, mask in masks.items()}
    states, largest = [], dict.fromkeys(masks, 0.0)
    for _, rows in run.results[run.results["method"].isin(["deduce", "jsma"])].groupby("training_seed"):
        outcomes = []
        for metric in masks:
            difference, p, n = _t_test(rows, metric)
            largest[metric] = float(np.maximum(largest[metric], p))  # NaN if not measured
            small = n < ENOUGH_PAIRS
            outcomes.append(HOLDS if difference < 0 and p < SIGNIFICANT else UNTESTED if small else FAILS)
        states.append(next(state for state in (FAILS, UNTESTED, HOLDS) if state in outcomes))
    worst = max(largest.values())
    if any(math.isnan(p) for p in largest.values()) or any(test is None for test in ours.values()):
        return untested("a metric was not measured")
    trainings = f", the largest of {len(states)} trainings" if len(states) > 1 else ""
    text = f"the paper's test{trainings}: " + ", ".join(f"{metric} {p_value(p)}" for metric, p in largest.items())
    text += "; with trainings and images: " if len(states) > 1 else "; with images: "
    text += ", ".join(f"{metric} {p_value(test['p_clustered'])}" for metric, test in ours.items() if test is not None)
    result = states[0] if len(set(states)) == 1 else UNTESTED if UNTESTED in states else UNDECIDED
    if result == UNTESTED:
        text += "; too few pairs for such a p"
    elif one_training(run, ("deduce", "jsma"), len(states)):
        text += only_these(result)
        result = UNDECIDED
    return Finding(result, text, worst, threshold=SIGNIFICANT)


def _t_test(rows: pd.DataFrame, metric: str) -> tuple[float, float, int]:
    """Mean paired difference of DeDUCE and JSMA, the p-value of the t-test, and the number of pairs."""
    chosen = rows.assign(failure=~rows["found"])
    chosen = chosen if metric == "failure" else chosen[summary.common(chosen)]
    wide = chosen.pivot(index=summary.PAIR, columns="method", values=metric).astype(float)
    a, b = wide["deduce"], wide["jsma"]
    difference = (a - b).mean()
    p = 1.0 if (a == b).all() and len(a) else float(stats.ttest_rel(a, b).pvalue) if len(a) > 1 else math.nan
    return difference, p, len(a)


def _no_difference(run: Run) -> Finding:
    """Holds if the ratio of the means is near 1, not merely if a difference was not shown."""
    both, common = (row(run.tests, "deduce", "vlk", "agan", mask) for mask in ("both", "common"))
    if both is None or common is None or both["n"] < FEW_PAIRS:
        return untested("AGAN was not measured, or on too few pairs")
    first, second = _paired(run, "deduce", "vlk", "agan")
    ratio = part("deduce / vlk", first / second, "deduce", "vlk")
    low, high = ratio.interval(COVERAGE)
    alike = low > 1 - ALIKE and high < 1 + ALIKE
    state = FAILS if low > 1 or high < 1 else HOLDS if alike else UNDECIDED
    text = f"{written(ratio, low, high, '.3f')}; the paper's t-test: p {p_value(both['p'])} on {both['n']} pairs that "
    text += f"both found, {p_value(common['p'])} on the {common['n']} that all found; "
    text += f"ours: p {p_value(both['p_clustered'])}"
    if one_training(run, ratio.methods, ratio.trainings):
        text += only_these(state)
        state = UNDECIDED
    return Finding(state, text, ratio.value, low, high, 1)


def _much_farther(run: Run) -> Finding:
    parts = []
    for metric in ("l0", "l1"):
        means = {method: _table1(run, method, metric) for method in ("deduce", "jsma", "vlk", "revise")}
        for far in ("vlk", "revise"):
            for near in ("deduce", "jsma"):
                parts.append(part(f"{metric} of {far} / {near}", means[far] / means[near], far, near))
    return decide(run, parts, gt, 2, style=".2f")


def _low_spread(run: Run) -> Finding:
    """The spread over a few test sets is itself known roughly only: its interval is that of a variance (chi-square)."""
    table = run.table1[run.table1["method"].isin(paper.TABLE1)]
    shares = {
        f"{line['method']} {metric.name}": line[f"{metric.name}_std"] / line[metric.name]
        for line in table.to_dict("records")
        for metric in PAPER
        if line[metric.name] > 0
    }
    degrees = run.results["seed"].nunique() - 1
    if degrees < 2 or not shares or any(map(math.isnan, shares.values())):
        return untested("fewer than three test sets with pairs to compare")

    def interval(share: float, coverage: float) -> tuple[float, float]:
        tail = (1 - coverage) / 2
        low, high = (100 * share * math.sqrt(degrees / stats.chi2.isf(level, degrees)) for level in (tail, 1 - tail))
        return low, high

    parts = [Part(name, 100 * share, partial(interval, share)) for name, share in shares.items()]
    return decide(run, parts, lt, 10, style=".1f", unit=" % of the mean")


def _failed_column(run: Run) -> Finding:
    """One pair, so that the trainings are the sample: with three of them, even a pair never found is undecided."""
    image, target = paper.TABLE3_PAIRS[3]
    found = run.results.loc[
        (run.results[["method", "image", "target"]] == ["revise", image, target]).all(axis=1), "found"
    ]
    if found.empty:
        return untested("the pair is not in this run")
    count, trainings = int(found.sum()), len(found)

    def wilson(coverage: float) -> tuple[float, float]:
        interval = stats.binomtest(count, trainings).proportion_ci(coverage, method="wilson")
        return interval.low, interval.high

    name = f"image {image}, target {target}: found by {count} of {trainings} trainings, a share of"
    return decide(run, [Part(name, count / trainings, wilson)], lt, 0.5, style=".2f")


def _hard_targets(run: Run) -> Finding:
    rows = run.results[(run.results["method"] == "deduce") & run.results["found"]]
    means = {int(target): intervals.mean(group["l1"], group) for target, group in rows.groupby("target")}
    if not {0, 1} <= means.keys() or len(means) < 5:
        return untested("too few target classes")
    parts = [
        part(f"L1 of target {hard} − {target}", means[hard] - means[target])
        for hard in (0, 1)
        for target in means
        if target not in (0, 1)
    ]
    return decide(run, parts, gt, 0)


def _late_finishers(run: Run) -> Finding:
    rows = run.results[run.results["method"] == "revise"]
    if rows["found"].all():
        return untested("no search reached its limit, so that the limit cannot be told")
    limit = rows.loc[~rows["found"], "iterations"].max()
    late = intervals.mean(rows["found"] & (rows["iterations"] > 0.4 * limit), rows)
    name = f"share of searches that ended after iteration {0.4 * limit:.0f} of {limit:.0f}:"
    return decide(run, [part(name, late, interval=late.rate_interval)], lt, 0.05, style=".3f")


def _confidences(run: Run) -> Finding:
    rows = run.results[(run.results["method"] == "vlk") & run.results["confidence"].notna()]
    if rows.empty:
        return untested("confidences were not recorded")
    return decide(run, [part("mean", intervals.mean(rows["confidence"], rows))], lt, 0.5, style=".2f")


def _auroc(run: Run) -> Finding:
    if not run.sanity or (table := sanity.measured(run).dropna(subset="auroc")).empty:
        return untested("AGAN of other datasets was not measured")
    table = table.set_index("against")
    others = [other for _, other in paper.AUROC]
    ends = {name: (table.loc[name, "auroc_low"], table.loc[name, "auroc_high"]) for name in table.index}
    parts = [Part(name, table.loc[name, "auroc"], partial(_fixed, ends[name])) for name in table.index]
    if missing := [other for other in others if other not in table.index]:
        texts = "; ".join(written(one, *ends[one.name], ".3f") for one in parts)
        return untested(f"AUROC {texts}; {' and '.join(missing)} was not measured")
    finding = decide(run, [one for one in parts if one.name in others], gt, 0.9, style=".3f")
    return finding._replace(number=f"AUROC {finding.number} (the paper: 0.913 EMNIST, 0.998 Fashion-MNIST)")


def _seconds(run: Run, methods: Sequence[str]) -> dict[str, pd.DataFrame]:
    """The timed pairs of these methods; empty unless all were timed."""
    rows = {method: run.timing[run.timing["method"] == method] for method in methods}
    rows = {method: timed.assign(training_seed=1) for method, timed in rows.items() if len(timed) > 1}
    return rows if len(rows) == len(methods) else {}


def _slower(method: str, others: Sequence[str], side: Side, run: Run) -> Finding:
    """The method's mean time divided by those of the others."""
    if not (rows := _seconds(run, [method, *others])):
        return untested("run times were not measured")
    means = {name: intervals.mean(timed["seconds"], timed) for name, timed in rows.items()}
    parts = [part(f"{method} / {other}", means[method] / means[other], method, other) for other in others]
    finding = decide(run, parts, side, 1, style=".3g")
    seconds = ", ".join(f"{name} {mean.value:.3g} s" for name, mean in means.items())
    return finding._replace(number=f"{seconds}; {finding.number}")


def _varying_time(run: Run) -> Finding:
    """The coefficient of variation, with its linear approximation in the influence of each pair."""
    if not (rows := _seconds(run, ["revise"])):
        return untested("run times were not measured")
    rows = rows["revise"]
    seconds = rows["seconds"].to_numpy(float)
    mean, spread = seconds.mean(), seconds.std(ddof=1)
    share = spread / mean
    moved = ((seconds - mean) ** 2 - seconds.var()) / (2 * spread * mean) - share * (seconds - mean) / mean
    estimate = intervals.mean(pd.Series(moved), rows.reset_index(drop=True))
    name = f"{mean:.3g} s, standard deviation / mean"
    return decide(run, [part(name, Estimate(share, estimate.influence))], gt, 1, style=".2f")


def _sweep(
    name: str, choose: Callable[..., list[Part]], side: Side, threshold: float, run: Run, style: str = "+.2f"
) -> Finding:
    """A test of a sweep, from its points (by setting) and from the tests of its reference against the others."""
    if name not in run.sweep_tables:
        return untested(f"needs the sweep {name}: run with `--config 'extras=[appendices]'`")
    points, tests = run.sweep_tables[name].set_index("setting"), run.sweep_tests[f"{name}_tests"]
    try:
        parts = choose(points, tests[tests["mean_difference"].notna()])
    except KeyError:
        parts = []
    if not parts:
        return untested("a setting that it speaks of fails too often to be compared, or is not in the sweep")
    finding = decide(run, parts, side, threshold, style=style)
    few = "pairs" in points and points["pairs"].max() < FEW_PAIRS
    return untested(f"{finding.number}; too few pairs to decide it") if few else finding


def _row_part(test: Any, name: str, column: str = "mean_difference", low: str = "low", high: str = "high") -> Part:
    """A row of a sweep's tests, which are of one training; its interval for another coverage is wider or narrower."""
    value, half = test[column], (test[high] - test[low]) / 2

    def interval(coverage: float) -> tuple[float, float]:
        quantile, usual = stats.t.isf([(1 - coverage) / 2, (1 - COVERAGE) / 2], test["images"] - 1)
        return value - half * quantile / usual, value + half * quantile / usual

    return Part(name, value, interval)


def _against(setting: Callable[[pd.DataFrame], pd.Series], reference: Callable[[pd.DataFrame], pd.Series],
             metrics: Sequence[str], points: pd.DataFrame, tests: pd.DataFrame) -> list[Part]:  # fmt: skip
    """The reference minus each of the settings, in these metrics; none if the sweep's reference is another one."""
    of_reference, of_setting = points.index[reference(points)], points.index[setting(points)]
    rows = tests[tests["a"].isin(of_reference) & tests["b"].isin(of_setting) & tests["metric"].isin(metrics)]
    parts = [_row_part(line, f"{line['metric']}: {line['a']} − {line['b']}") for line in rows.to_dict("records")]
    return parts if set(rows["b"]) == set(of_setting) - set(of_reference) else []


def _compared(points: pd.DataFrame) -> Any:
    """The settings that do not fail too often."""
    return points["l0"].notna()


def _named(name: str) -> Callable[[pd.DataFrame], Any]:
    return lambda points: points.index == name


def _is(**values: Any) -> Callable[[pd.DataFrame], Any]:
    return lambda points: np.logical_and.reduce([points[name] == value for name, value in values.items()])


def _ratio(setting: str, reference: str, points: pd.DataFrame, tests: pd.DataFrame) -> list[Part]:
    """The setting's L0 and L1 divided by the reference's."""
    rows = tests[(tests["a"] == reference) & (tests["b"] == setting) & tests["metric"].isin(["l0", "l1"])]
    columns = "ratio", "ratio_low", "ratio_high"
    return [_row_part(line, f"{line['metric']}, ratio", *columns) for line in rows.to_dict("records")]


def _momentum(points: pd.DataFrame, tests: pd.DataFrame) -> list[Part]:
    share, low, high = points.loc["momentum 0.6", ["changed", "changed_low", "changed_high"]]
    return [Part("share of pairs that end in another image:", share, partial(_fixed, (low, high)))]


def _fixed(ends: tuple[float, float], coverage: float) -> tuple[float, float]:
    """An interval that was made for one coverage."""
    return ends


BOTH_FOUND = "paired, on the pairs that both methods found"
CLAIMS = [
    Claim("closest", "DeDUCE's counterfactuals are closer to the originals than those of every baseline.",
          "abstract; sections 4.3, 5", f"mean L0 and L1 differences below 0, {BOTH_FOUND}", _closest, ("deduce",)),
    Claim("comparable_realism", "DeDUCE's counterfactuals are about as realistic as the baselines'.",
          "abstract", "DeDUCE's mean AGAN in table 1 is below that of some baseline",
          partial(_below, "agan", "deduce", 2, True), ("deduce",), True),
    Claim("revise_most_realistic", "REVISE has the best AGAN score.",
          "section 4.3", "mean AGAN in table 1 below that of every other method",
          partial(_below, "agan", "revise", 1, False), ("revise",), True),
    Claim("revise_below_originals", "REVISE's AGAN is not as good as that of the original images.", "section 4.3",
          "REVISE's mean AGAN is above the originals'", partial(_against_originals, "revise", gt), ("revise",), True),
    Claim("vlk_like_deduce", "VLK and DeDUCE do not differ significantly in AGAN.",
          "section 4.3", f"the ratio of mean AGAN is within 5 % of 1, {BOTH_FOUND}; not if its interval excludes 1",
          _no_difference, ("deduce", "vlk")),
    Claim("reconstructions_realistic", "Reconstructions by REVISE's VAE are judged more realistic than the originals.",
          "section 4.3", "mean AGAN of reconstructions below the originals'",
          partial(_against_originals, "reconstruction", lt)),
    Claim("better_than_jsma", "DeDUCE is better than JSMA on all four metrics.",
          "section 4.3", f"mean differences below 0, {BOTH_FOUND}; failures, in percentage points, on all pairs",
          _better_than_jsma, ("deduce", "jsma")),
    Claim("significance", "DeDUCE's differences to JSMA have p below 1e-7 on all four metrics.",
          "section 4.3", "the paper's t-test, which takes pairs for independent, in DeDUCE's favour in every training, "
          f"{BOTH_FOUND}; failures on all pairs", _significant, ("deduce", "jsma")),
    Claim("fewest_failures", "DeDUCE fails least often.",
          "table 1", "failure rate below that of every other method of the paper",
          partial(_below, "failure", "deduce", 1, False), ("deduce",)),
    Claim("pixelwise_much_closer", "VLK and REVISE are much worse than DeDUCE and JSMA in sparsity and similarity.",
          "section 4.3", "both have at least twice the L0 and L1 of either", _much_farther,
          ("deduce", "jsma", "vlk", "revise"), True),
    Claim("low_spread", "Standard deviations over the test sets are low.",
          "section 4.3", "below 10 % of the mean for AGAN, L0 and L1", _low_spread, (), True),
    Claim("vlk_slowest", "VLK is the slowest, also when counterfactuals are made one by one.",
          "section 4.3, table 2", "mean time above that of every other method",
          partial(_slower, "vlk", ("deduce", "jsma", "revise"), gt), ("vlk",)),
    Claim("jsma_faster", "JSMA is faster than DeDUCE.", "section 4.3, table 2", "smaller mean time",
          partial(_slower, "jsma", ("deduce",), lt)),
    Claim("faster_than_revise", "DeDUCE is faster than REVISE.", "section 4.3, table 2", "smaller mean time",
          partial(_slower, "deduce", ("revise",), lt)),
    Claim("revise_time_varies", "REVISE's times vary much, as some searches take long.", "section 4.3, table 2",
          "standard deviation above the mean", _varying_time),
    Claim("revise_column_four", "REVISE finds no counterfactual for the fourth random example.",
          "section 4.3, figure 3", "most trainings do not find the pair", _failed_column, ("revise",)),
    Claim("zeros_and_ones", "For DeDUCE, 0 and 1 are the hardest targets.", "appendix C, caption",
          "both have a larger mean L1 than each other target, over DeDUCE's found pairs", _hard_targets, ("deduce",)),
    Claim("vlk_confidence", "VLK's targets get a mean confidence of only 0.42.", "section 4.2",
          "mean confidence below 0.5", _confidences, ("vlk",)),
    Claim("metric_sanity", "AGAN tells MNIST from EMNIST letters and from Fashion-MNIST.", "section 4.1",
          "AUROC at least 0.9", _auroc),
    Claim("late_finishers", "Fewer than 5 % of REVISE's searches end in the last 60 % of the iterations allowed.",
          "appendix B, footnote", "share of all pairs, on the test sets", _late_finishers, ("revise",)),
    Claim("mu_one_best", "The normalised gradient with mu = 1 is better than every weighted loss.",
          "section 3, appendix A", "lowest L0 and L1 of all settings",
          partial(_sweep, "appendix_a", partial(_against, _compared, _named("mu=1"), ("l0", "l1")), lt, 0)),
    Claim("both_terms_needed", "Leaving out the classification loss (lambda = 0) is much worse.", "appendix A",
          "L0 and L1 more than 5 % above those of mu = 1",
          partial(_sweep, "appendix_a", partial(_ratio, "lambda=0", "mu=1"), gt, 1.05, style=".3f")),
    Claim("small_lambda_far", "REVISE with lambda = 0.1 strays far from the original.", "appendix B",
          "every L1 at lambda 0.1 above that at lambda 1 with step size 1e-5",
          partial(_sweep, "appendix_b",
                  partial(_against, _is(distance_weight=0.1), _is(distance_weight=1, step_size=1e-5), ("l1",)), lt, 0)),
    Claim("small_step_best", "With lambda = 1, REVISE's step size 1e-5 is the best overall.", "appendix B",
          "L1 and failure rate below those of the other step sizes",
          partial(_sweep, "appendix_b", partial(_against, _is(distance_weight=1),
                  _is(distance_weight=1, step_size=1e-5), ("l1", "failure")), lt, 0)),
    Claim("momentum_rarely_matters", "Momentum 0.6 changes about 1.3 % of the counterfactuals.", "section 3",
          "below 5 % of the pairs, on the validation batch",
          partial(_sweep, "appendix_a_more", _momentum, lt, 0.05, style=".3f")),
    Claim("one_pixel_better", "JSMA is better with one pixel per step than with two.", "section 4.2",
          "lower L0 and L1, on the validation batch",
          partial(_sweep, "jsma_pixels",
                  partial(_against, _is(pixels_per_step=2), _is(pixels_per_step=1), ("l0", "l1")), lt, 0)),
    Claim("look_best", "DeDUCE's and VLK's counterfactuals look best to the eye.", "section 4.3",
          "needs people who judge", lambda run: untested("no numbers decide it: see the grid of counterfactuals")),
]  # fmt: skip
