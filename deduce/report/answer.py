"""The answer in three sentences, from the tables alone: how often, how close, how realistic and how true.

The first method of the experiment is the one that the page is about.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from deduce.evaluation import paper, summary
from deduce.evaluation.claims import FAILS, HOLDS

TELLS_APART = 0.9  # AUROC; what the claim about the score asks for too


def sentences(
    results: pd.DataFrame, claims: pd.DataFrame, references: pd.DataFrame, names: Mapping[str, str]
) -> list[str]:
    """Three sentences; what was not measured is left out of them."""
    table1 = summary.table1(results).set_index("method")
    return [_success(results, names), _distance(results, table1, names), _realism(table1, claims, references, names)]


def _success(results: pd.DataFrame, names: Mapping[str, str]) -> str:
    pairs = results[summary.PAIR].drop_duplicates()
    images, sets = len(pairs[["seed", "image"]].drop_duplicates()), pairs["seed"].nunique()
    rate = 100 * results.groupby("method", sort=False)["found"].mean()
    subject, *others = names
    text = (
        f"Asked for {len(pairs):,} counterfactuals ({images} images in {sets} test set{'s' * (sets > 1)}, each with "
        f"{len(pairs) / images:.3g} targets), {names[subject]} found {_percent(rate[subject])}"
    )
    if others:
        text += "; " + _listed([f"{names[other]} {_percent(rate[other])}" for other in others])
    return text + "."


def _distance(results: pd.DataFrame, table1: pd.DataFrame, names: Mapping[str, str]) -> str:
    common = int(summary.common(results).sum()) // len(names)
    subject = next(iter(names))
    if not common:
        return "No pair was solved by every method, so that their distances cannot be compared on the same pairs."
    start = f"On the {common:,} pairs that every method solved, {names[subject]} changed"
    l0, l1 = table1.loc[subject, "l0"], table1.loc[subject, "l1"]
    return (
        f"{start} {l0:.1f} pixels on average ({_standing(table1['l0'], subject, names, 'the fewest')}), "
        f"and by {l1:.1f} in total brightness ({_standing(table1['l1'], subject, names, 'the least')})."
    )


def _standing(values: pd.Series, subject: str, names: Mapping[str, str], best: str) -> str:
    """Where the subject stands among the methods; lower is better."""
    others = values.drop(subject).dropna().sort_values()
    if others.empty:
        return "no other method to compare with"
    nearest = str(others.index[0])
    if values[subject] <= others.iloc[0]:
        return f"{best} of all; next: {names[nearest]}, {others.iloc[0]:.1f}"
    return f"{best}: {names[nearest]}, {others.iloc[0]:.1f}"


def _realism(table1: pd.DataFrame, claims: pd.DataFrame, references: pd.DataFrame, names: Mapping[str, str]) -> str:
    subject, counts = next(iter(names)), claims["result"].value_counts()
    tested = int(counts.get(HOLDS, 0) + counts.get(FAILS, 0))
    verdict = (
        f"of the paper's {len(claims)} claims, {tested} can be tested on this run: {counts.get(HOLDS, 0)} hold and "
        f"{counts.get(FAILS, 0)} do not"
    )
    value = table1.loc[subject, "agan"]
    if pd.isna(value):
        return f"Realism was not measured, or on no common pair; {verdict}."
    scores = summary.reference_scores(references).set_index("kind")["agan"] if len(references) else {}
    text = f"Its counterfactuals score {value:.1f} in realism (AGAN, lower is better; "
    text += _standing(table1["agan"], subject, names, "the best")
    if "original" in scores:
        text += f"; untouched images: {scores['original']:.1f}"
    return f"{text}), and {verdict}."


def _percent(rate: float) -> str:
    """Never rounded to all or nothing unless it is."""
    text = f"{rate:.1f}".removesuffix(".0")
    return (f"{rate:.2f}" if text in ("100", "0") and rate not in (0, 100) else text) + "\u00a0%"


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def realism_note(sanity: pd.DataFrame) -> str:
    """A warning if this run's realism score fails its own check; empty if it passes, or was not checked."""
    failed = sanity[sanity["auroc"] < TELLS_APART] if "auroc" in sanity else sanity[:0]
    if failed.empty:
        return ""
    worst = failed.sort_values("auroc").iloc[0]
    return (
        f"Take the realism scores with care: they tell this dataset from {worst['against']} with an AUROC of only "
        f"{worst['auroc']:.2f} in this run."
    )


def scale_note(results: pd.DataFrame, experiment: Mapping[str, Any]) -> str:
    """How this run's size compares with the paper's; empty if it is not smaller."""
    pairs = len(results[summary.PAIR].drop_duplicates())
    full = len(paper.EXPERIMENT["seeds"]) * paper.IMAGES_PER_SEED * 9  # type: ignore[arg-type]
    if pairs >= full:
        return ""
    smaller = [
        text.format(" and ".join(map(str, dict.fromkeys(ours))), theirs)
        for key, theirs, text in (("width", 64, "width {} instead of {}"), ("epochs", 50, "{} instead of {} epochs"))
        if (ours := [experiment[name][key] for name in ("ddu", "plain") if key in experiment.get(name, {})])
        and min(ours) < theirs
    ]
    return (
        f"This run has {pairs:,} of the paper's {full:,} pairs"
        f"{', and classifiers with ' + ' and '.join(smaller) if smaller else ''}; its searches may be shorter too. "
        "Read its numbers for orientation, not as the paper's experiment."
    )
