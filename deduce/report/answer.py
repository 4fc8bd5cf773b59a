"""The answer in three sentences, from the data alone: how often, how close, how realistic and how true to the paper.

The first method of the experiment is the subject of the sentences.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from deduce.datasets import DATASETS
from deduce.evaluation import summary
from deduce.evaluation.verdicts import FAILS, HOLDS
from deduce.published import PUBLISHED

# By config key: the value of the paper's classifiers, and how to say that this run has another one.
PAPER_CLASSIFIERS = {"width": (64, "width {} instead of {}"), "epochs": (50, "{} instead of {} epochs")}
TELLS_APART = 0.9  # AUROC; the claim about the score has the same threshold
Names = Mapping[str, str]  # the display names of the methods; the first method is the subject


def sentences(results: pd.DataFrame, claims: pd.DataFrame, references: pd.DataFrame, names: Names) -> list[str]:
    """Three sentences about what was measured. `claims` is empty if the paper's claims do not apply."""
    table1 = summary.table1(results).set_index("method")
    return [_success(results, names), _distance(results, table1, names), _realism(table1, claims, references, names)]


def _success(results: pd.DataFrame, names: Names) -> str:
    pairs = results[summary.QUESTION].drop_duplicates()
    images, sets = len(pairs[["seed", "image"]].drop_duplicates()), pairs["seed"].nunique()
    trainings = results["training_seed"].nunique()
    replicated = f", and {trainings} trainings of the classifiers" if trainings > 1 else ""
    rate = 100 * results.groupby("method", sort=False)["found"].mean()
    subject, *others = names
    rates = [f"{names[other]} {_percent(rate[other])}" for other in others]
    comparison = "; " * bool(others) + " and ".join(filter(None, [", ".join(rates[:-1]), *rates[-1:]]))
    return (
        f"Asked for {trainings * len(pairs):,} counterfactuals ({images} images in {sets} test set{'s' * (sets > 1)}, "
        f"each with {len(pairs) / images:.3g} targets{replicated}), {names[subject]} found {_percent(rate[subject])}"
        f"{comparison}."
    )


def _distance(results: pd.DataFrame, table1: pd.DataFrame, names: Names) -> str:
    common, subject = int(summary.common(results).sum()) // len(names), next(iter(names))
    if not common:
        return "No pair was solved by every method, so their distances cannot be compared on the same pairs."
    l0, l1 = table1.loc[subject, "l0"], table1.loc[subject, "l1"]
    return (
        f"On the {common:,} pairs that every method solved, {names[subject]} changed {l0:.1f} pixels on average "
        f"({_standing(table1['l0'], subject, names, 'the fewest')}), "
        f"and by {l1:.1f} in total brightness ({_standing(table1['l1'], subject, names, 'the least')})."
    )


def _standing(values: pd.Series, subject: str, names: Names, best: str) -> str:
    """Where the subject stands among the methods; lower is better."""
    others = values.drop(subject).dropna().sort_values()
    if others.empty:
        return "no other method to compare with"
    nearest = f"{names[str(others.index[0])]}, {others.iloc[0]:.1f}"
    return f"{best} of all; next: {nearest}" if values[subject] <= others.iloc[0] else f"{best}: {nearest}"


def _realism(table1: pd.DataFrame, claims: pd.DataFrame, references: pd.DataFrame, names: Names) -> str:
    subject = next(iter(names))
    value = table1.loc[subject, "agan"]
    if pd.isna(value):
        return f"Realism was not measured, or on no common pair{_verdict(claims, '; ')}."
    scores = summary.reference_scores(references).set_index("kind")["agan"] if len(references) else {}
    standing = _standing(table1["agan"], subject, names, "the best")
    originals = f"; untouched images: {scores['original']:.1f}" if "original" in scores else ""
    text = f"Its counterfactuals score {value:.1f} in realism (AGAN, lower is better; {standing}{originals})"
    return f"{text}{_verdict(claims, ', and ')}."


def _verdict(claims: pd.DataFrame, joint: str) -> str:
    """The end of a sentence, after `joint`; empty without claims."""
    if claims.empty:
        return ""
    holds, fails = (int((claims["result"] == result).sum()) for result in (HOLDS, FAILS))
    tested = f"of the paper's {len(claims)} claims, {holds + fails} can be tested on this run"
    return f"{joint}{tested}: {holds} hold and {fails} do not"


def _percent(rate: float) -> str:
    """With one decimal, or with two if one would round to 0 % or 100 %."""
    text = f"{rate:.1f}".removesuffix(".0")
    return (f"{rate:.2f}" if text in ("100", "0") and rate not in (0, 100) else text) + "\u00a0%"


def realism_note(sanity: pd.DataFrame) -> str:
    """A warning if this run's realism score fails its sanity check; empty if it passes, or was not checked."""
    failed = sanity[sanity["auroc"] < TELLS_APART] if "auroc" in sanity else sanity[:0]
    if failed.empty:
        return ""
    worst = failed.sort_values("auroc").iloc[0]
    return (
        f"Take the realism scores with care: they tell this dataset from {DATASETS[worst['against']].title} "
        f"with an AUROC of only {worst['auroc']:.2f} in this run."
    )


def scale_note(results: pd.DataFrame, experiment: Mapping[str, Any]) -> str:
    """How the size of a run on the paper's dataset compares with the paper's; empty if it is not smaller."""
    pairs = len(results[summary.QUESTION].drop_duplicates())
    classes = len(DATASETS[PUBLISHED["dataset"]].classes)
    full = len(PUBLISHED["seeds"]) * PUBLISHED["images_per_seed"] * (classes - 1)
    if pairs >= full:
        return ""
    explained = {experiment.get(method, {}).get("classifier") for method in experiment["methods"]}
    sections = [experiment[name] for name in explained if name in experiment]
    smaller = [
        text.format(" and ".join(map(str, values)), paper_value)
        for key, (paper_value, text) in PAPER_CLASSIFIERS.items()
        if (values := sorted({section[key] for section in sections if key in section})) and values[0] < paper_value
    ]
    return (
        f"This run has {pairs:,} of the paper's {full:,} pairs"
        f"{', and classifiers with ' + ' and '.join(smaller) if smaller else ''}; its searches may be shorter too. "
        "Read its numbers for orientation, not as the paper's experiment."
    )
