"""The audit of the authors' stored results: rows without an image, and printed figures that differ from the data."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from deduce.datasets import TEST_SET_SIZE
from deduce.evaluation import paper, summary, tables
from deduce.evaluation.metrics import METRICS, PAPER, threshold_column
from deduce.evaluation.statistics import row
from deduce.shards import Shard

ROUNDING = 0.011  # one unit of the last printed digit: the paper rounds some figures down
OUTSIDE, EMPTY = "values outside [0, 1]: uninitialised memory", "an image of zeros"
AGREES, DIFFERS = "printed figures that agree", "printed figure differs"
ABSENT = {
    "table 2": "run times",
    "sections 4.2, 4.3": "confidences, and the iterations of VLK",
    "appendices A and B": "results on the validation batch, but for some",
}

Finding = tuple[str, str, float | str, float | str]  # the finding, its place, the paper's value, the data's value


def defects(method: str, seed: int, shard: Shard) -> pd.DataFrame:
    """The rows of a shard that count as found, but whose image no method could have made."""
    pixels = shard.counterfactual.reshape(len(shard), -1)
    outside, empty = np.any((pixels < 0) | (pixels > 1), axis=1), np.all(pixels == 0, axis=1)
    rows = np.flatnonzero(shard.found & (outside | empty))
    keys = {"method": method, "seed": seed, "image": shard.image[rows]}
    keys |= {"position": shard.image[rows] % TEST_SET_SIZE, "target": shard.target[rows]}  # position: in its test set
    return pd.DataFrame(keys | {"defect": np.where(outside[rows], OUTSIDE, EMPTY)})


def cleaned(table: pd.DataFrame, defective: pd.DataFrame) -> pd.DataFrame:
    """The results table with the defective rows counted as failures."""
    return table.assign(found=table["found"] & ~_among(table, defective))


def findings(
    table: pd.DataFrame, tests: pd.DataFrame, references: pd.DataFrame, defective: pd.DataFrame, summaries: pd.DataFrame
) -> pd.DataFrame:
    """One row per finding, with the value in the paper and the value from the stored data.

    `summaries` is the authors' summary of each test set: seed, method, agan, l0, l1, failure.
    """
    rows = [
        *_defects(table, defective),
        *_table1(table),
        _summaries(table, summaries),
        *_table3(table),
        *_references(references),
        *_tests(tests),
        _small_changes(table),
        *(("not in these folders", where, "", content) for where, content in ABSENT.items()),
    ]
    return pd.DataFrame(rows, columns=["finding", "where", "paper", "stored"])


def _among(table: pd.DataFrame, others: pd.DataFrame) -> np.ndarray:
    """Row mask: whether `others` has a row of the same method and pair."""
    rows, other_rows = (pd.MultiIndex.from_frame(frame[["method", *summary.QUESTION]]) for frame in (table, others))
    return rows.isin(other_rows)


def _defects(table: pd.DataFrame, defective: pd.DataFrame) -> Iterator[Finding]:
    compared = _among(defective, table[summary.common(table)])
    for (method, seed, defect), part in defective.groupby(["method", "seed", "defect"], sort=False):
        pairs = ", ".join(f"({line.position},{line.target})" for line in part.itertuples())
        count = int(compared[part.index].sum())
        stored = f"{len(part)} pairs (position,target): {pairs}; {count} of them among the compared pairs"
        yield f"{defect}, counted as found", f"{method}, test set {seed}", "", stored


def _table1(table: pd.DataFrame) -> Iterator[Finding]:
    agree = []
    for line in tables.beside_paper(summary.table1(table), paper.TABLE1).itertuples():
        name = f"table 1, {line.method}, {METRICS[line.metric].text}"
        spread = f"{name}, standard deviation", line.paper_std, line.run_std
        for where, printed, stored in ((name, line.paper, line.run), spread):
            agree.append(f"{printed:.2f}" == f"{stored:.2f}")
            if not agree[-1]:
                yield DIFFERS, where, printed, f"{stored:.3f}"
    yield AGREES, "table 1", len(agree), sum(agree)


def _summaries(table: pd.DataFrame, summaries: pd.DataFrame) -> Finding:
    columns = [*(metric.name for metric in PAPER), "failure"]
    recomputed = summary.per_seed(table, columns[:-1])[columns].droplevel("training_seed")
    authors = summaries.set_index(["method", "seed"])[columns].reindex(recomputed.index)
    largest = float(((recomputed - authors).abs() / authors.abs().clip(lower=1)).to_numpy().max())
    return "largest relative difference", "RESULTS.pt of each test set", "", f"{largest:.1e}"


def _table3(table: pd.DataFrame) -> Iterator[Finding]:
    frame = tables.table3_beside_paper(tables.table3(table, paper.TABLE3_PAIRS))
    difference = (frame["run"].round(2) - frame["paper"]).abs()
    for line in frame[difference > ROUNDING].itertuples():
        where = f"table 3, {line.method}, image {line.image}, target {line.target}, {METRICS[line.metric].text}"
        yield DIFFERS, where, line.paper, f"{line.run:.2f}"
    agree = int((difference <= ROUNDING).sum()) + int((frame["run"].isna() & frame["paper"].isna()).sum())
    yield AGREES, f"table 3 ({len(frame)} figures, to one unit of the last digit)", len(frame), agree


def _references(references: pd.DataFrame) -> Iterator[Finding]:
    for line in summary.reference_scores(references).itertuples():
        value, spread = paper.REFERENCES[line.kind]
        agrees = abs(value - line.agan) <= ROUNDING and abs(spread - line.std0) <= ROUNDING
        where = f"section 4.3, AGAN of {line.kind} images (± with ddof = 0)"
        printed, stored = f"{value:.2f} ± {spread:.2f}", f"{line.agan:.2f} ± {line.std0:.2f}"
        yield "printed figure agrees" if agrees else DIFFERS, where, printed, stored


def _tests(tests: pd.DataFrame) -> Iterator[Finding]:
    for scope, name in (("all", "all test sets pooled"), ("1", "test set 1"), ("means", "the five means")):
        mask = "common" if scope == "means" else "both"
        masks = {metric.name: mask for metric in PAPER} | {"failure": "all"}
        found = {metric: row(tests, "deduce", "jsma", metric, mask, scope) for metric, mask in masks.items()}
        values = {metric: float("nan") if test is None else test["p"] for metric, test in found.items()}
        stored = ", ".join(f"{METRICS[metric].text} {tables.p_value(value)}" for metric, value in values.items())
        yield "paired t-tests", f"section 4.3, DeDUCE against JSMA, {name}", "all p < 1e-7", stored


def _small_changes(table: pd.DataFrame) -> Finding:
    """REVISE's L0 counts every pixel that the generative model changed at all."""
    compared = table[summary.common(table) & (table["method"] == "revise")]
    share = 1 - compared[threshold_column(1e-4)].sum() / compared["l0"].sum()
    return "changed pixels that differ by less than 1e-4", "table 1, revise, L0", "", f"{100 * share:.0f} %"
