"""The sentences of the paper that state a result, each with the test that this run puts it to.

A claim *holds*, *does not hold*, or is *not tested*, because the run did not measure what the claim is about or is too
small for a verdict. What "much" and "comparable" mean is our choice, which the test states. A check takes the run as
its last argument; a claim binds the arguments before it.
"""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from operator import gt, lt
from typing import Any

import pandas as pd

from deduce.evaluation import paper, sanity, summary
from deduce.evaluation.run import Run
from deduce.evaluation.statistics import SIGNIFICANT, row
from deduce.evaluation.tables import Table, frame_table, number, p_value

HOLDS, FAILS, UNTESTED = "holds", "does not hold", "not tested"
ENOUGH_PAIRS = 1000  # with fewer, a p-value that is not small says more about the run than about the claim
FEW_PAIRS = 30  # with fewer, means of the compared pairs decide nothing
AVERAGED = ("agan", "l0", "l1")  # what table 1 averages over the compared pairs
# Keys of methods, metrics and datasets, as the paper writes them.
WRITTEN = {"deduce": "DeDUCE", "jsma": "JSMA", "vlk": "VLK", "revise": "REVISE", "agan": "AGAN", "l0": "L0", "l1": "L1"}
WRITTEN |= {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "emnist_letters": "EMNIST letters"}

Verdict = tuple[bool | None, str]  # whether the claim holds (None: not tested), and the numbers that decide it


@dataclass(frozen=True)
class Claim:
    name: str
    sentence: str
    where: str
    test: str
    check: Callable[[Run], Verdict]
    needs: tuple[str, ...] = ()  # methods
    compares: bool = False  # whether it is about means over the pairs that every method found


def claims(run: Run) -> tuple[pd.DataFrame, Table]:
    """The table of the claims."""
    frame = check_all(run)
    headings = {"claim": "the paper says", "where": "where", "test": "test", "result": "result", "number": "this run"}
    return frame, frame_table(frame, "The paper's claims and this run.", headings)


def check_all(run: Run) -> pd.DataFrame:
    """One row per claim: id, claim, where, test, result, number."""
    rows = []
    compared = int(summary.common(run.results).sum()) // max(run.results["method"].nunique(), 1)
    for claim in CLAIMS:
        absent = [method for method in claim.needs if method not in run.table1["method"].values]
        holds, text = (None, f"this run has no {', '.join(absent)}") if absent else claim.check(run)
        if claim.compares and compared < FEW_PAIRS and holds is not None:
            holds, text = None, f"{text}; but only {compared} pairs were found by all methods"
        result = UNTESTED if holds is None else HOLDS if holds else FAILS
        text = re.sub(rf"\b({'|'.join(WRITTEN)})\b", lambda key: WRITTEN[key[0]], text)
        rows.append((claim.name, claim.sentence, claim.where, claim.test, result, text))
    return pd.DataFrame(rows, columns=["id", "claim", "where", "test", "result", "number"])


def _decided(values: pd.Series, holds: bool) -> bool | None:
    """The verdict, or None if one of the values behind it was not measured."""
    return None if values.isna().any() else bool(holds)


def _listed(values: pd.Series) -> str:
    return ", ".join(f"{name} {number(value)}" for name, value in values.items())


def _others(run: Run, method: str) -> list[str]:
    """The paper's other methods that this run has."""
    return [other for other in paper.TABLE1 if other != method and other in run.table1["method"].values]


def _at_most(metric: str, method: str, bound: Callable[[pd.Series], float], others_needed: int, run: Run) -> Verdict:
    """The method's mean in table 1 is at most a bound of the means of the paper's other methods."""
    others = _others(run, method)
    values = run.table1.set_index("method").loc[[method, *others], metric]
    holds = _decided(values, values[method] <= bound(values[others])) if len(others) >= others_needed else None
    return holds, _listed(values)


def _against_originals(subject: str, test: Callable[[float, float], bool], run: Run) -> Verdict:
    """The mean AGAN of a method or of the reconstructions, beside that of the original images."""
    references = summary.reference_scores(run.references).set_index("kind")["agan"].add_suffix("s", axis=0)
    values = pd.concat([run.table1.set_index("method")["agan"], references]).reindex([subject, "originals"])
    return _decided(values, test(*values)), _listed(values)


def _closest(run: Run) -> Verdict:
    """DeDUCE against each baseline that this run has, on both distances, over the pairs that both found."""
    texts, verdict = [], True
    for other in _others(run, "deduce"):
        for metric in ("l0", "l1"):
            test = row(run.tests, "deduce", other, metric, "both")
            if test is None or test["n"] < FEW_PAIRS:
                return None, f"too few pairs that both DeDUCE and {other} found"
            verdict &= bool(test["mean_difference"] < 0)
            texts.append(f"{metric} against {other} {test['mean_difference']:+.2f}")
    return (verdict, "; ".join(texts)) if texts else (None, "this run has no baseline of the paper")


def _better_than_jsma(run: Run) -> Verdict:
    masks = {**dict.fromkeys(AVERAGED, "both"), "failure": "all"}
    rows = {metric: row(run.tests, "deduce", "jsma", metric, mask) for metric, mask in masks.items()}
    tests = pd.DataFrame({metric: test for metric, test in rows.items() if test is not None and test["n"] >= 2}).T
    if len(tests) < len(rows):
        return None, "a metric was not measured"
    text = ", ".join(f"{test.Index} {test.mean_difference:+.3g} (p {p_value(test.p)})" for test in tests.itertuples())
    if (tests["mean_difference"] > 0).any():
        return False, text
    if (tests["p"] < 1e-7).all():
        return True, text
    pairs = tests["n"].iloc[0]
    return (False, text) if pairs >= ENOUGH_PAIRS else (None, f"{text}; {pairs} pairs are too few for such a p")


def _no_difference(run: Run) -> Verdict:
    both, common = (row(run.tests, "deduce", "vlk", "agan", mask) for mask in ("both", "common"))
    if both is None or common is None or both["n"] < 2:
        return None, "AGAN was not measured"
    text = f"difference {both['mean_difference']:+.2f}, p {p_value(both['p'])} on {both['n']} pairs that both found; "
    text += f"{common['mean_difference']:+.2f}, p {p_value(common['p'])} on the {common['n']} that all found"
    return (False if both["p"] < SIGNIFICANT else True if both["n"] >= ENOUGH_PAIRS else None), text


def _much_farther(run: Run) -> Verdict:
    means = run.table1.set_index("method")[["l0", "l1"]]
    ratios = means.loc[["vlk", "revise"]].min() / means.loc[["deduce", "jsma"]].max()
    text = ", ".join(f"{metric} at least {number(ratio)} times" for metric, ratio in ratios.items())
    return _decided(ratios, ratios.min() >= 2), text


def _low_spread(run: Run) -> Verdict:
    part = run.table1[run.table1["method"].isin(paper.TABLE1)]
    shares = {
        f"{line['method']} {metric}": line[f"{metric}_std"] / line[metric]
        for line in part.to_dict("records")
        for metric in AVERAGED
        if line[metric] > 0
    }
    if run.results["seed"].nunique() < 3 or not shares or any(map(math.isnan, shares.values())):
        return None, "fewer than three test sets with pairs to compare"
    worst = max(shares, key=lambda key: shares[key])
    return shares[worst] < 0.1, f"largest: {worst}, {100 * shares[worst]:.1f} % of the mean"


def _failed_column(run: Run) -> Verdict:
    image, target = paper.TABLE3_PAIRS[3]
    pair = run.results[(run.results[["method", "image", "target"]] == ["revise", image, target]).all(axis=1)]
    if pair.empty:
        return None, "the pair is not in this run"
    found = bool(pair["found"].iloc[0])
    return not found, f"image {image}, target {target}: {'' if found else 'not '}found"


def _hard_targets(run: Run) -> Verdict:
    part = run.by_target[run.by_target["method"] == "deduce"].set_index("target")["l1"].dropna()
    if not {0, 1} <= set(part.index) or len(part) < 5:
        return None, "too few target classes"
    hardest = part.sort_values(ascending=False)
    text = "mean L1 by target: " + ", ".join(f"{target} {value:.1f}" for target, value in hardest.head(4).items())
    return set(hardest.index[:2]) == {0, 1}, text


def _late_finishers(run: Run) -> Verdict:
    part = run.results[run.results["method"] == "revise"]
    if part["found"].all():
        return None, "no search reached its limit, so that the limit cannot be told"
    limit = part.loc[~part["found"], "iterations"].max()
    late = float((part["found"] & (part["iterations"] > 0.4 * limit)).mean())
    return late < 0.05, f"{100 * late:.1f} % of the searches ended after iteration {0.4 * limit:.0f} of {limit:.0f}"


def _confidences(run: Run) -> Verdict:
    part = run.results.loc[run.results["method"] == "vlk", "confidence"].dropna()
    if part.empty:
        return None, "confidences were not recorded"
    return part.mean() < 0.5, f"mean {part.mean():.2f}, standard deviation {part.std():.2f}"


def _auroc(run: Run) -> Verdict:
    if not run.sanity or (table := sanity.measured(run).dropna(subset="auroc")).empty:
        return None, "AGAN of other datasets was not measured"
    measured = table.set_index("against")["auroc"]
    others = [other for _, other in paper.AUROC]
    text = ", ".join(f"{name} {value:.3f}" for name, value in measured.items())
    text = f"AUROC {text} (the paper: 0.913 EMNIST, 0.998 Fashion-MNIST)"
    if missing := [other for other in others if other not in measured]:
        return None, f"{text}; {' and '.join(missing)} was not measured"
    return measured[others].min() >= 0.9, text


def _timing(test: Callable[[pd.DataFrame], bool], methods: Iterable[str], run: Run) -> Verdict:
    """A test of table 2, indexed by method."""
    part = run.table2.set_index("method").reindex(list(methods))
    if part["seconds"].isna().any():
        return None, "run times were not measured"
    text = ", ".join(f"{line.Index} {line.seconds:.3g} s ({line.seconds_std:.2g})" for line in part.itertuples())
    return bool(test(part)), text


def _faster(method: str, other: str, run: Run) -> Verdict:
    return _timing(lambda times: times.loc[method, "seconds"] < times.loc[other, "seconds"], [method, other], run)


def _sweep(name: str, index: str | list[str], test: Callable[[pd.DataFrame], Verdict], run: Run) -> Verdict:
    """A test of a sweep's table, indexed by the columns that tell its settings apart."""
    if name not in run.sweep_tables:
        return None, f"needs the sweep {name}: run with `--config 'extras=[appendices]'`"
    # A setting that fails too often to be compared has no distances.
    compared = run.sweep_tables[name].set_index(index).dropna(subset=["l0", "l1"])
    try:
        holds, text = test(compared)
    except (KeyError, ValueError):
        return None, "a setting that it speaks of fails too often to be compared"
    few = "pairs" in compared and compared["pairs"].max() < FEW_PAIRS
    return (None, f"{text}; too few pairs to decide it") if few else (bool(holds), text)


def _distances(setting: Any, other: Any, test: Callable[[float, float], bool], frame: pd.DataFrame) -> Verdict:
    """Two settings of a sweep must pass the test in L0 and in L1."""
    pairs = {metric: frame.loc[[setting, other], metric] for metric in ("l0", "l1")}
    text = ", ".join(f"{metric} {a:.2f} against {b:.2f}" for metric, (a, b) in pairs.items())
    return all(test(*pair) for pair in pairs.values()), text


def _best_setting(frame: pd.DataFrame) -> Verdict:
    best = [frame[metric].idxmin() for metric in ("l0", "l1")]
    return set(best) == {"mu=1"}, f"lowest L0 at {best[0]}, lowest L1 at {best[1]}"


def _far_with_small_lambda(frame: pd.DataFrame) -> Verdict:
    low, high = frame.loc[0.1]["l1"].min(), frame.loc[1.0]["l1"].max()
    return low > high, f"lowest L1 at lambda 0.1: {low:.2f}; highest at lambda 1: {high:.2f}"


def _best_step(frame: pd.DataFrame) -> Verdict:
    best = [frame.loc[1.0][metric].idxmin() for metric in ("l1", "failure")]
    return set(best) == {1e-5}, f"lowest L1 at step {best[0]:g}, lowest failure rate at step {best[1]:g}"


def _momentum(frame: pd.DataFrame) -> Verdict:
    share = 100 * frame.loc["momentum 0.6", "changed"]
    return share < 5, f"{share:.1f} % of the pairs end in another image than without momentum"


BOTH_FOUND = "paired, on the pairs that both methods found"
CLAIMS = [
    Claim("closest", "DeDUCE's counterfactuals are closer to the originals than those of every baseline.",
          "abstract; sections 4.3, 5", f"mean L0 and L1 differences below 0, {BOTH_FOUND}", _closest, ("deduce",)),
    Claim("comparable_realism", "DeDUCE's counterfactuals are about as realistic as the baselines'.",
          "abstract", "DeDUCE's mean AGAN is not the worst of table 1",
          partial(_at_most, "agan", "deduce", max, 2), ("deduce",), True),
    Claim("revise_most_realistic", "REVISE has the best AGAN score.",
          "section 4.3", "lowest mean AGAN in table 1", partial(_at_most, "agan", "revise", min, 1), ("revise",), True),
    Claim("revise_below_originals", "REVISE's AGAN is not as good as that of the original images.", "section 4.3",
          "REVISE's mean AGAN is above the originals'", partial(_against_originals, "revise", gt), ("revise",), True),
    Claim("vlk_like_deduce", "VLK and DeDUCE do not differ significantly in AGAN.",
          "section 4.3", f"t-test p at least 0.05, {BOTH_FOUND}", _no_difference, ("deduce", "vlk")),
    Claim("reconstructions_realistic", "Reconstructions by REVISE's VAE are judged more realistic than the originals.",
          "section 4.3", "mean AGAN of reconstructions below the originals'",
          partial(_against_originals, "reconstructions", lt)),
    Claim("better_than_jsma", "DeDUCE is better than JSMA on all four metrics, with p below 1e-7 each.",
          "section 4.3", f"t-test p below 1e-7 and in DeDUCE's favour, {BOTH_FOUND}; failures on all pairs",
          _better_than_jsma, ("deduce", "jsma")),
    Claim("fewest_failures", "DeDUCE fails least often.",
          "table 1", "none of the paper's methods has a lower failure rate",
          partial(_at_most, "failure", "deduce", min, 1), ("deduce",)),
    Claim("pixelwise_much_closer", "VLK and REVISE are much worse than DeDUCE and JSMA in sparsity and similarity.",
          "section 4.3", "both have at least twice the L0 and L1 of either", _much_farther,
          ("deduce", "jsma", "vlk", "revise"), True),
    Claim("low_spread", "Standard deviations over the test sets are low.",
          "section 4.3", "below 10 % of the mean for AGAN, L0 and L1", _low_spread, (), True),
    Claim("vlk_slowest", "VLK is the slowest, also when counterfactuals are made one by one.",
          "section 4.3, table 2", "largest mean time",
          partial(_timing, lambda times: times["seconds"].idxmax() == "vlk", paper.TABLE2), ("vlk",)),
    Claim("jsma_faster", "JSMA is faster than DeDUCE.", "section 4.3, table 2", "smaller mean time",
          partial(_faster, "jsma", "deduce")),
    Claim("faster_than_revise", "DeDUCE is faster than REVISE.", "section 4.3, table 2", "smaller mean time",
          partial(_faster, "deduce", "revise")),
    Claim("revise_time_varies", "REVISE's times vary much, as some searches take long.", "section 4.3, table 2",
          "standard deviation above the mean",
          partial(_timing, lambda times: (times["seconds_std"] > times["seconds"]).all(), ["revise"])),
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
          "section 3, appendix A", "lowest L0 and L1 of all settings",
          partial(_sweep, "appendix_a", "setting", _best_setting)),
    Claim("both_terms_needed", "Leaving out the classification loss (lambda = 0) is much worse.", "appendix A",
          "L0 and L1 more than 5 % above those of mu = 1",
          partial(_sweep, "appendix_a", "setting", partial(_distances, "lambda=0", "mu=1", lambda a, b: a > 1.05 * b))),
    Claim("small_lambda_far", "REVISE with lambda = 0.1 strays far from the original.", "appendix B",
          "every L1 at lambda 0.1 above every L1 at lambda 1",
          partial(_sweep, "appendix_b", ["distance_weight", "step_size"], _far_with_small_lambda)),
    Claim("small_step_best", "With lambda = 1, REVISE's step size 1e-5 is the best overall.", "appendix B",
          "lowest L1 and failure rate", partial(_sweep, "appendix_b", ["distance_weight", "step_size"], _best_step)),
    Claim("momentum_rarely_matters", "Momentum 0.6 changes about 1.3 % of the counterfactuals.", "section 3",
          "below 5 % of the pairs, on the validation batch", partial(_sweep, "appendix_a_more", "setting", _momentum)),
    Claim("one_pixel_better", "JSMA is better with one pixel per step than with two.", "section 4.2",
          "lower L0 and L1, on the validation batch",
          partial(_sweep, "jsma_pixels", "pixels_per_step", partial(_distances, 1, 2, lt))),
    Claim("look_best", "DeDUCE's and VLK's counterfactuals look best to the eye.", "section 4.3",
          "needs people who judge", lambda run: (None, "no numbers decide it: see the grid of counterfactuals")),
]  # fmt: skip
