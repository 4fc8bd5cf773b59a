"""The sentences of the paper that state a result, each with the test that this run puts it to.

A claim *holds*, *does not hold*, or is *not tested*: because this run lacks what it speaks of, or because it is too
small for a verdict. What "much" and "comparable" mean is ours, and is said in the test.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from deduce.evaluation import paper
from deduce.evaluation.statistics import row
from deduce.evaluation.summary import common
from deduce.evaluation.tables import Cell, Table, number, p_value

HOLDS, FAILS, UNTESTED = "holds", "does not hold", "not tested"
ENOUGH_PAIRS = 1000  # below it, a p-value that is not small says more of the run than of the claim
FEW_PAIRS = 30  # below it, means of the compared pairs decide nothing
METRICS = ("agan", "l0", "l1")
# The sweeps that claims are about, and the columns of their tables that their settings are known by here.
SWEEPS = {"appendix_a": "setting", "appendix_b": ["distance_weight", "step_size"], "appendix_a_more": "setting"}
SWEEPS |= {"jsma_pixels": "pixels_per_step"}
# What tables call by a key, as the paper writes it.
WRITTEN = {"deduce": "DeDUCE", "jsma": "JSMA", "vlk": "VLK", "revise": "REVISE", "agan": "AGAN", "l0": "L0", "l1": "L1"}
WRITTEN |= {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "emnist_letters": "EMNIST letters"}


@dataclass
class Evidence:
    """What the claims are tested on; the optional frames are empty where the run has none."""

    table1: pd.DataFrame  # indexed by method
    tests: pd.DataFrame
    results: pd.DataFrame
    by_target: pd.DataFrame
    references: pd.DataFrame  # indexed by kind: agan, std
    timing: pd.DataFrame  # indexed by method: seconds, seconds_std
    appendix_a: pd.DataFrame = field(default_factory=pd.DataFrame)  # indexed by setting: l0, l1, failure
    appendix_b: pd.DataFrame = field(default_factory=pd.DataFrame)  # indexed by (lambda, step): l0, l1, failure
    appendix_a_more: pd.DataFrame = field(default_factory=pd.DataFrame)  # indexed by setting: changed
    jsma_pixels: pd.DataFrame = field(default_factory=pd.DataFrame)  # indexed by pixels per step: l0, l1, failure
    auroc: dict[str, float] = field(default_factory=dict)  # by the other dataset's name


Verdict = tuple[bool | None, str]  # holds, or None: not tested; and the number


@dataclass(frozen=True)
class Claim:
    name: str
    sentence: str
    where: str
    test: str
    check: Callable[[Evidence], Verdict]
    needs: tuple[str, ...] = ()  # methods
    compares: bool = False  # it speaks of means over the pairs that every method found


def check_all(evidence: Evidence) -> pd.DataFrame:
    """One row per claim: claim, where, test, result, number."""
    rows = []
    compared = int(common(evidence.results).sum()) // max(evidence.results["method"].nunique(), 1)
    for claim in CLAIMS:
        absent = [method for method in claim.needs if method not in evidence.table1.index]
        if absent:
            holds, figure = None, f"this run has no {', '.join(absent)}"
        else:
            holds, figure = claim.check(evidence)
        if claim.compares and compared < FEW_PAIRS and holds is not None:
            holds, figure = None, f"{figure}; but only {compared} pairs were found by all methods"
        result = UNTESTED if holds is None else HOLDS if holds else FAILS
        line = {"id": claim.name, "claim": claim.sentence, "where": claim.where, "test": claim.test}
        figure = re.sub(rf"\b({'|'.join(WRITTEN)})\b", lambda key: WRITTEN[key[0]], figure)
        rows.append(line | {"result": result, "number": figure})
    return pd.DataFrame(rows)


def _means(evidence: Evidence, metric: str, methods: tuple[str, ...]) -> tuple[list[float], str]:
    values = [float(evidence.table1.loc[method, metric]) for method in methods]
    return values, ", ".join(f"{method} {number(value)}" for method, value in zip(methods, values, strict=True))


def _lowest(metric: str, best: str) -> Callable[[Evidence], Verdict]:
    """Among the paper's methods that this run has."""

    def check(evidence: Evidence) -> Verdict:
        others = _others(evidence, best)
        values, text = _means(evidence, metric, (best, *others))
        return (None if np.isnan(values).any() or not others else values[0] <= min(values[1:])), text

    return check


def _others(evidence: Evidence, method: str) -> tuple[str, ...]:
    return tuple(other for other in paper.TABLE1 if other != method and other in evidence.table1.index)


def _closest(evidence: Evidence) -> Verdict:
    """DeDUCE against each baseline that this run has, on both distances, over the pairs that both found."""
    texts, verdict = [], True
    for other in _others(evidence, "deduce"):
        for metric in ("l0", "l1"):
            found = row(evidence.tests, "deduce", other, metric, "both")
            if found is None or found["n"] < FEW_PAIRS:
                return None, f"too few pairs that both DeDUCE and {other} found"
            verdict &= bool(found["mean_difference"] < 0)
            texts.append(f"{metric} against {other} {found['mean_difference']:+.2f}")
    return (verdict, "; ".join(texts)) if texts else (None, "this run has no baseline of the paper")


def _better_than_jsma(evidence: Evidence) -> Verdict:
    rows = [row(evidence.tests, "deduce", "jsma", metric, "both") for metric in METRICS]
    rows.append(row(evidence.tests, "deduce", "jsma", "failure", "all"))
    labels = [*METRICS, "failure"]
    if any(one is None or one["n"] < 2 for one in rows):
        return None, "a metric was not measured"
    found = [one for one in rows if one is not None]
    text = ", ".join(
        f"{label} {one['mean_difference']:+.3g} (p {p_value(one['p'])})"
        for label, one in zip(labels, found, strict=True)
    )
    if any(one["mean_difference"] > 0 for one in found):
        return False, text
    if all(one["p"] < 1e-7 for one in found):
        return True, text
    return (False if found[0]["n"] >= ENOUGH_PAIRS else None), text + (
        "" if found[0]["n"] >= ENOUGH_PAIRS else f"; {found[0]['n']} pairs are too few for such a p"
    )


def _no_difference(evidence: Evidence) -> Verdict:
    found = row(evidence.tests, "deduce", "vlk", "agan", "both")
    shared = row(evidence.tests, "deduce", "vlk", "agan", "common")
    if found is None or shared is None or found["n"] < 2:
        return None, "AGAN was not measured"
    text = (
        f"difference {found['mean_difference']:+.2f}, p {p_value(found['p'])} on {found['n']} pairs that both found; "
    )
    text += f"{shared['mean_difference']:+.2f}, p {p_value(shared['p'])} on the {shared['n']} that all found"
    if found["p"] < 0.05:
        return False, text
    return (True if found["n"] >= ENOUGH_PAIRS else None), text


def _comparable(evidence: Evidence) -> Verdict:
    others = _others(evidence, "deduce")
    values, text = _means(evidence, "agan", ("deduce", *others))
    return (None if np.isnan(values).any() or len(others) < 2 else values[0] <= max(values[1:])), text


def _reference(evidence: Evidence, kind: str) -> float:
    return float(evidence.references.loc[kind, "agan"]) if kind in evidence.references.index else np.nan


def _worse_than_originals(evidence: Evidence) -> Verdict:
    ours, original = float(evidence.table1.loc["revise", "agan"]), _reference(evidence, "original")
    text = f"REVISE {number(ours)}, originals {number(original)}"
    return (None if np.isnan([ours, original]).any() else ours > original), text


def _reconstructions(evidence: Evidence) -> Verdict:
    made, original = _reference(evidence, "reconstruction"), _reference(evidence, "original")
    text = f"reconstructions {number(made)}, originals {number(original)}"
    return (None if np.isnan([made, original]).any() else made < original), text


def _much_farther(evidence: Evidence) -> Verdict:
    far, near = ("vlk", "revise"), ("deduce", "jsma")
    ratios = {
        metric: min(evidence.table1.loc[list(far), metric]) / max(evidence.table1.loc[list(near), metric])
        for metric in ("l0", "l1")
    }
    text = ", ".join(f"{metric} at least {number(ratio)} times" for metric, ratio in ratios.items())
    return (None if np.isnan(list(ratios.values())).any() else min(ratios.values()) >= 2), text


def _low_spread(evidence: Evidence) -> Verdict:
    methods = [method for method in paper.TABLE1 if method in evidence.table1.index]
    part = evidence.table1.loc[methods]
    shares = {
        f"{method} {metric}": part.loc[method, f"{metric}_std"] / part.loc[method, metric]
        for method in methods
        for metric in METRICS
        if part.loc[method, metric] > 0
    }
    if evidence.results["seed"].nunique() < 3 or not shares:
        return None, "fewer than three test sets"
    worst = max(shares, key=lambda key: shares[key])
    return shares[worst] < 0.1, f"largest: {worst}, {100 * shares[worst]:.1f} % of the mean"


def _failed_column(evidence: Evidence) -> Verdict:
    image, target = paper.draws(paper.TABLE3_PAIRS)[3]
    results = evidence.results
    cell = results[(results["method"] == "revise") & (results["image"] == image) & (results["target"] == target)]
    if cell.empty:
        return None, "the pair is not in this run"
    return not bool(
        cell["found"].iloc[0]
    ), f"image {image}, target {target}: {'' if cell['found'].iloc[0] else 'not '}found"


def _hard_targets(evidence: Evidence) -> Verdict:
    part = evidence.by_target[evidence.by_target["method"] == "deduce"].set_index("target")["l1"].dropna()
    if not {0, 1} <= set(part.index) or len(part) < 5:
        return None, "too few target classes"
    hardest = part.sort_values(ascending=False)
    text = "mean L1 by target: " + ", ".join(f"{target} {value:.1f}" for target, value in hardest.head(4).items())
    return set(hardest.index[:2]) == {0, 1}, text


def _late_finishers(evidence: Evidence) -> Verdict:
    part = evidence.results[evidence.results["method"] == "revise"]
    if part["found"].all():
        return None, "no search reached its limit, so that the limit cannot be told"
    limit = part.loc[~part["found"], "iterations"].max()
    late = float((part["found"] & (part["iterations"] > 0.4 * limit)).mean())
    return late < 0.05, f"{100 * late:.1f} % of the searches ended after iteration {0.4 * limit:.0f} of {limit:.0f}"


def _confidences(evidence: Evidence) -> Verdict:
    part = evidence.results[evidence.results["method"] == "vlk"]["confidence"].dropna()
    if part.empty:
        return None, "confidences were not recorded"
    return part.mean() < 0.5, f"mean {part.mean():.2f}, standard deviation {part.std():.2f}"


def _timing(test: Callable[[pd.DataFrame], bool], *methods: str) -> Callable[[Evidence], Verdict]:
    def check(evidence: Evidence) -> Verdict:
        if any(method not in evidence.timing.index for method in methods):
            return None, "run times were not measured"
        part = evidence.timing.loc[list(methods)]
        text = ", ".join(f"{m} {part.loc[m, 'seconds']:.3g} s ({part.loc[m, 'seconds_std']:.2g})" for m in methods)
        return bool(test(part)), text

    return check


def _appendix(name: str, test: Callable[[pd.DataFrame], tuple[bool, str]]) -> Callable[[Evidence], Verdict]:
    def check(evidence: Evidence) -> Verdict:
        frame = getattr(evidence, name)
        if frame.empty:
            return None, f"needs the sweep {name}: `snakemake appendices`, then the report again"
        compared = frame.dropna(subset=["l0", "l1"])  # without the settings that fail too often to be compared
        try:
            holds, text = test(compared)
        except (KeyError, ValueError):
            return None, "a setting that it speaks of fails too often to be compared"
        few = "pairs" in compared and compared["pairs"].max() < FEW_PAIRS
        return (None, f"{text}; too few pairs to decide it") if few else (holds, text)

    return check


def _best_setting(frame: pd.DataFrame) -> tuple[bool, str]:
    best = {metric: str(frame[metric].idxmin()) for metric in ("l0", "l1")}
    return set(best.values()) == {"mu=1"}, f"lowest L0 at {best['l0']}, lowest L1 at {best['l1']}"


def _needs_classification_loss(frame: pd.DataFrame) -> tuple[bool, str]:
    without, full = frame.loc["lambda=0"], frame.loc["mu=1"]
    text = f"L0 {without['l0']:.2f} against {full['l0']:.2f}, L1 {without['l1']:.2f} against {full['l1']:.2f}"
    return bool(without["l0"] > 1.05 * full["l0"] and without["l1"] > 1.05 * full["l1"]), text


def _far_with_small_lambda(frame: pd.DataFrame) -> tuple[bool, str]:
    low, high = frame.loc[0.1]["l1"].min(), frame.loc[1.0]["l1"].max()
    return bool(low > high), f"lowest L1 at lambda 0.1: {low:.2f}; highest at lambda 1: {high:.2f}"


def _best_step(frame: pd.DataFrame) -> tuple[bool, str]:
    part = frame.loc[1.0]
    best = [part[metric].idxmin() for metric in ("l1", "failure")]
    return all(step == 1e-5 for step in best), f"lowest L1 at step {best[0]:g}, lowest failure rate at step {best[1]:g}"


def _momentum(frame: pd.DataFrame) -> tuple[bool, str]:
    share = 100 * frame.loc["momentum 0.6", "changed"]
    return bool(share < 5), f"{share:.1f} % of the pairs end in another image than without momentum"


def _one_pixel(frame: pd.DataFrame) -> tuple[bool, str]:
    one, two = frame.loc[1], frame.loc[2]
    text = ", ".join(f"{name.upper()} {one[name]:.2f} against {two[name]:.2f}" for name in ("l0", "l1"))
    return bool(one["l0"] < two["l0"] and one["l1"] < two["l1"]), text


def _auroc(evidence: Evidence) -> Verdict:
    if not evidence.auroc:
        return None, "AGAN of other datasets was not measured"
    text = ", ".join(f"{name} {value:.3f}" for name, value in evidence.auroc.items())
    return min(evidence.auroc.values()) >= 0.9, f"AUROC {text} (the paper: 0.913 EMNIST, 0.998 Fashion-MNIST)"


def _never(reason: str) -> Callable[[Evidence], Verdict]:
    return lambda _: (None, reason)


BOTH_FOUND = "paired, on the pairs that both methods found"
CLAIMS = [
    Claim("closest", "DeDUCE's counterfactuals are closer to the originals than those of every baseline.",
          "abstract; sections 4.3, 5", f"mean L0 and L1 differences below 0, {BOTH_FOUND}", _closest, ("deduce",)),
    Claim("comparable_realism", "DeDUCE's counterfactuals are about as realistic as the baselines'.",
          "abstract", "DeDUCE's mean AGAN is not the worst of table 1", _comparable, ("deduce",), True),
    Claim("revise_most_realistic", "REVISE has the best AGAN score.",
          "section 4.3", "lowest mean AGAN in table 1", _lowest("agan", "revise"), ("revise",), True),
    Claim("revise_below_originals", "REVISE's AGAN is not as good as that of the original images.",
          "section 4.3", "REVISE's mean AGAN is above the originals'", _worse_than_originals, ("revise",), True),
    Claim("vlk_like_deduce", "VLK and DeDUCE do not differ significantly in AGAN.",
          "section 4.3", f"t-test p at least 0.05, {BOTH_FOUND}", _no_difference, ("deduce", "vlk")),
    Claim("reconstructions_realistic", "Reconstructions by REVISE's VAE are judged more realistic than the originals.",
          "section 4.3", "mean AGAN of reconstructions below the originals'", _reconstructions),
    Claim("better_than_jsma", "DeDUCE is better than JSMA on all four metrics, with p below 1e-7 each.",
          "section 4.3", f"t-test p below 1e-7 and in DeDUCE's favour, {BOTH_FOUND}; failures on all pairs",
          _better_than_jsma, ("deduce", "jsma")),
    Claim("fewest_failures", "DeDUCE fails least often.",
          "table 1", "none of the paper's methods has a lower failure rate", _lowest("failure", "deduce"), ("deduce",)),
    Claim("pixelwise_much_closer", "VLK and REVISE are much worse than DeDUCE and JSMA in sparsity and similarity.",
          "section 4.3", "both have at least twice the L0 and L1 of either", _much_farther,
          ("deduce", "jsma", "vlk", "revise"), True),
    Claim("low_spread", "Standard deviations over the test sets are low.",
          "section 4.3", "below 10 % of the mean for AGAN, L0 and L1", _low_spread, (), True),
    Claim("vlk_slowest", "VLK is the slowest, also when counterfactuals are made one by one.",
          "section 4.3, table 2", "largest mean time",
          _timing(lambda t: t["seconds"].idxmax() == "vlk", "deduce", "jsma", "vlk", "revise"), ("vlk",)),
    Claim("jsma_faster", "JSMA is faster than DeDUCE.", "section 4.3, table 2", "smaller mean time",
          _timing(lambda t: t.loc["jsma", "seconds"] < t.loc["deduce", "seconds"], "jsma", "deduce")),
    Claim("faster_than_revise", "DeDUCE is faster than REVISE.", "section 4.3, table 2", "smaller mean time",
          _timing(lambda t: t.loc["deduce", "seconds"] < t.loc["revise", "seconds"], "deduce", "revise")),
    Claim("revise_time_varies", "REVISE's times vary much, as some searches take long.", "section 4.3, table 2",
          "standard deviation above the mean",
          _timing(lambda t: t.loc["revise", "seconds_std"] > t.loc["revise", "seconds"], "revise")),
    Claim("revise_column_four", "REVISE finds no counterfactual for the fourth random example.",
          "section 4.3, figure 3", "the pair is not found", _failed_column, ("revise",)),
    Claim("zeros_and_ones", "For DeDUCE, 0 and 1 are the hardest targets.", "appendix C, caption",
          "they are the two targets with the largest mean L1, over DeDUCE's found pairs", _hard_targets, ("deduce",)),
    Claim("vlk_confidence", "VLK's targets get a mean confidence of only 0.42.", "section 4.2",
          "mean confidence below 0.5", _confidences, ("vlk",)),
    Claim("metric_sanity", "AGAN tells MNIST from EMNIST letters and from Fashion-MNIST.", "section 4.1",
          "AUROC at least 0.9", _auroc),
    Claim("late_finishers", "Fewer than 5 % of REVISE's searches end in the last 60 % of the iterations allowed.",
          "appendix B, footnote", "share of all pairs, on the test sets", _late_finishers, ("revise",)),
    Claim("mu_one_best", "The normalised gradient with mu = 1 is better than every weighted loss.",
          "section 3, appendix A", "lowest L0 and L1 of all settings", _appendix("appendix_a", _best_setting)),
    Claim("both_terms_needed", "Leaving out the classification loss (lambda = 0) is much worse.", "appendix A",
          "L0 and L1 more than 5 % above those of mu = 1", _appendix("appendix_a", _needs_classification_loss)),
    Claim("small_lambda_far", "REVISE with lambda = 0.1 strays far from the original.", "appendix B",
          "every L1 at lambda 0.1 above every L1 at lambda 1", _appendix("appendix_b", _far_with_small_lambda)),
    Claim("small_step_best", "With lambda = 1, REVISE's step size 1e-5 is the best overall.", "appendix B",
          "lowest L1 and failure rate", _appendix("appendix_b", _best_step)),
    Claim("momentum_rarely_matters", "Momentum 0.6 changes about 1.3 % of the counterfactuals.", "section 3",
          "below 5 % of the pairs, on the validation batch", _appendix("appendix_a_more", _momentum)),
    Claim("one_pixel_better", "JSMA is better with one pixel per step than with two.", "section 4.2",
          "lower L0 and L1, on the validation batch", _appendix("jsma_pixels", _one_pixel)),
    Claim("look_best", "DeDUCE's and VLK's counterfactuals look best to the eye.", "section 4.3",
          "needs people who judge", _never("no numbers decide it: see the grid of counterfactuals")),
]  # fmt: skip


def as_table(checked: pd.DataFrame) -> Table:
    columns = {"claim": "the paper says", "where": "where", "test": "test", "result": "result", "number": "this run"}
    rows = [[Cell(str(line[name])) for name in columns] for _, line in checked.iterrows()]
    return Table(
        "The paper's claims and this run.", [Cell(text) for text in columns.values()], rows, labels=len(columns)
    )
