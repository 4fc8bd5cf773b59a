"""The answer in three sentences, from the data alone: how often, how close, how realistic and how true to the paper.

The first method of the experiment is the subject of the sentences.
"""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from deduce.datasets import DATASETS
from deduce.evaluation import oracles, summary
from deduce.evaluation.run import Run
from deduce.evaluation.statistics import row
from deduce.evaluation.verdicts import RESULTS, one_training
from deduce.published import PUBLISHED

# By config key: the value of the paper's classifiers, and how to say that this run has another one.
PAPER_CLASSIFIERS = {"width": (64, "width {} instead of {}"), "epochs": (50, "{} instead of {} epochs")}
TELLS_APART = 0.9  # AUROC; the claim about the score has the same threshold
Names = Mapping[str, str]  # the display names of the methods; the first method is the subject


def sentences(run: Run, claims: pd.DataFrame, tests: pd.DataFrame) -> list[str]:
    """Three sentences about what was measured, and a fourth if oracles were asked.

    `claims` is empty if the paper's claims do not apply.
    """
    three = [_success(run.results, run.names), _distance(run, tests), _realism(run, claims, tests)]
    return [*three, *filter(None, [oracles.sentence(run.results, run.names)])]


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


def _distance(run: Run, tests: pd.DataFrame) -> str:
    names, subject = run.names, next(iter(run.names))
    if run.common.empty:
        return "No pair was solved by every method, so their distances cannot be compared on the same pairs."
    values = run.table1.set_index("method").loc[subject]
    fewer, less = (_standing(run, tests, *what) for what in (("l0", "fewer", "more"), ("l1", "less", "more")))
    text = (
        f"On the {len(run.common) // len(names):,} pairs that every method solved, {names[subject]} changed "
        f"{values['l0']:.1f} pixels on average ({fewer}), and by {values['l1']:.1f} in total brightness ({less})."
    )
    if any(one_training(run, (subject, other), run.trainings(other)) for other in names):
        text += " One training of each network stands behind this; another may decide otherwise."
    return text


def _standing(run: Run, tests: pd.DataFrame, metric: str, below: str, above: str) -> str:
    """The subject against the best other method, with the interval that decides between them; lower is better."""
    subject = next(iter(run.names))
    others = run.table1.set_index("method")[metric].drop(subject).dropna().sort_values()
    if others.empty:
        return "no other method to compare with"
    best = str(others.index[0])
    text = f"{run.names[best]}, the best other: {others.iloc[0]:.1f}"
    test = row(tests, subject, best, metric, "common")
    if test is None or math.isnan(test["low"]):
        return f"{text}; too few images to compare them"
    outcome = below if test["high"] < 0 else above if test["low"] > 0 else "undecided"
    if one_training(run, (subject, best), test["trainings"]):
        outcome = "undecided"
    low, high = (f"{end:+.1f}".replace("-", "−") for end in (test["low"], test["high"]))
    return f"{text}; {outcome}, 95\u00a0% interval of the difference {low} to {high}"


def _realism(run: Run, claims: pd.DataFrame, tests: pd.DataFrame) -> str:
    value = run.table1.set_index("method")["agan"].iloc[0]
    if pd.isna(value):
        return f"Realism was not measured, or on no common pair{_verdict(claims, '; ')}."
    scores = summary.reference_scores(run.references).set_index("kind")["agan"] if len(run.references) else {}
    standing = _standing(run, tests, "agan", "better", "worse")
    originals = f"; untouched images: {scores['original']:.1f}" if "original" in scores else ""
    text = f"Its counterfactuals score {value:.1f} in realism (AGAN, lower is better; {standing}{originals})"
    return f"{text}{_verdict(claims, '; ')}."


def _verdict(claims: pd.DataFrame, joint: str) -> str:
    """The end of a sentence, after `joint`; empty without claims."""
    if claims.empty:
        return ""
    words = ("holds", "hold"), ("does not", "do not"), ("is undecided", "are undecided"), ("was", "were")
    counts = [int((claims["result"] == result).sum()) for result in RESULTS]
    *texts, last = (f"{count} {one if count == 1 else many}" for count, (one, many) in zip(counts, words, strict=True))
    return f"{joint}of the paper's {len(claims)} claims, {', '.join(texts)} and {last} not tested"


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
