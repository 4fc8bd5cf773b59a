"""What is found in the authors' stored results when they are looked at row by row."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from deduce.evaluation import paper, summary, tables
from deduce.evaluation.metrics import METRICS, PAPER, threshold_column
from deduce.evaluation.statistics import row
from deduce.shards import Shard

ROUNDING = 0.011  # one unit of the last printed digit: the paper rounds some figures down
OUTSIDE, EMPTY = "values outside [0, 1]: uninitialised memory", "an image of zeros"


def defects(method: str, seed: int, shard: Shard) -> pd.DataFrame:
    """The rows of a shard that are counted as found but hold no image that a method could have made."""
    flat = shard.counterfactual.reshape(len(shard), -1)
    outside = np.any((flat < 0) | (flat > 1), axis=1)
    empty = np.all(flat == 0, axis=1)
    rows = np.flatnonzero(shard.found & (outside | empty))
    return pd.DataFrame(
        {
            "method": method,
            "seed": seed,
            "image": shard.image[rows],
            "position": shard.image[rows] % paper.IMAGES_PER_SEED,  # in its test set
            "target": shard.target[rows],
            "defect": np.where(outside[rows], OUTSIDE, EMPTY),
        }
    )


def cleaned(table: pd.DataFrame, defective: pd.DataFrame) -> pd.DataFrame:
    """The results table with the defective rows counted as the failures that they are."""
    keys = ["method", "seed", "image", "target"]
    bad = pd.MultiIndex.from_frame(table[keys]).isin(pd.MultiIndex.from_frame(defective[keys]))
    return table.assign(found=table["found"] & ~bad)


def findings(
    table: pd.DataFrame, tests: pd.DataFrame, references: pd.DataFrame, defective: pd.DataFrame, own: pd.DataFrame
) -> pd.DataFrame:
    """The audit: one row per finding, with what the paper prints and what the stored data gives.

    `own` is the authors' summary of each test set: seed, method, agan, l0, l1, failure.
    """
    rows = [
        *_defects(table, defective),
        *_table1(table),
        _summaries(table, own),
        *_table3(table),
        *_references(references),
        *_tests(tests),
        _inequality(table),
        *_absent(),
    ]
    return pd.DataFrame(rows, columns=["finding", "where", "paper", "stored"])


def _defects(table: pd.DataFrame, defective: pd.DataFrame) -> Iterable[dict]:
    shared = table[summary.common(table)]
    keys = ["method", "seed", "image", "target"]
    in_mask = pd.MultiIndex.from_frame(defective[keys]).isin(pd.MultiIndex.from_frame(shared[keys]))
    for (method, seed, defect), part in defective.groupby(["method", "seed", "defect"], sort=False):
        pairs = ", ".join(f"({line.position},{line.target})" for line in part.itertuples())
        compared = int(in_mask[part.index].sum())
        yield {
            "finding": f"{defect}, counted as found",
            "where": f"{method}, test set {seed}",
            "paper": "",
            "stored": f"{len(part)} pairs (position,target): {pairs}; {compared} of them among the compared pairs",
        }


def _table1(table: pd.DataFrame) -> Iterable[dict]:
    frame = summary.table1(table).set_index("method")
    equal = 0
    for method, printed in paper.TABLE1.items():
        for metric, (value, spread) in printed.items():
            for figure, stored, what in (
                (value, frame.loc[method, metric], METRICS[metric].text),
                (spread, frame.loc[method, f"{metric}_std"], f"{METRICS[metric].text}, standard deviation"),
            ):
                if f"{figure:.2f}" == f"{stored:.2f}":
                    equal += 1
                else:
                    where = f"table 1, {method}, {what}"
                    yield {
                        "finding": "printed figure differs",
                        "where": where,
                        "paper": figure,
                        "stored": f"{stored:.3f}",
                    }
    total = 2 * sum(len(printed) for printed in paper.TABLE1.values())
    yield {"finding": "printed figures that agree", "where": "table 1", "paper": total, "stored": equal}


def _summaries(table: pd.DataFrame, own: pd.DataFrame) -> dict:
    metrics = [metric.name for metric in PAPER]
    ours = summary.per_seed(table, metrics)[[*metrics, "failure"]]
    theirs = own.set_index(["method", "seed"])[[*metrics, "failure"]].reindex(ours.index)
    largest = float(((ours - theirs).abs() / theirs.abs().clip(lower=1)).to_numpy().max())
    where = "RESULTS.pt of each test set"
    return {"finding": "largest relative difference", "where": where, "paper": "", "stored": f"{largest:.1e}"}


def _table3(table: pd.DataFrame) -> Iterable[dict]:
    frame = tables.table3_beside_paper(tables.table3(table, paper.draws(paper.TABLE3_PAIRS)))
    difference = (frame["run"].round(2) - frame["paper"]).abs()
    for line in frame[difference > ROUNDING].itertuples():
        where = f"table 3, {line.method}, image {line.image}, target {line.target}, {METRICS[line.metric].text}"
        yield {"finding": "printed figure differs", "where": where, "paper": line.paper, "stored": f"{line.run:.2f}"}
    agree = int((difference <= ROUNDING).sum()) + int((frame["run"].isna() & frame["paper"].isna()).sum())
    where = f"table 3 ({len(frame)} figures, to one unit of the last digit)"
    yield {"finding": "printed figures that agree", "where": where, "paper": len(frame), "stored": agree}


def _references(references: pd.DataFrame) -> Iterable[dict]:
    for line in summary.reference_scores(references).itertuples():
        value, spread = paper.REFERENCES[line.kind]
        agrees = abs(value - line.agan) <= ROUNDING and abs(spread - line.std0) <= ROUNDING
        yield {
            "finding": "printed figure agrees" if agrees else "printed figure differs",
            "where": f"section 4.3, AGAN of {line.kind} images (± with ddof = 0)",
            "paper": f"{value:.2f} ± {spread:.2f}",
            "stored": f"{line.agan:.2f} ± {line.std0:.2f}",
        }


def _tests(tests: pd.DataFrame) -> Iterable[dict]:
    for scope, name in (("all", "all test sets pooled"), ("1", "test set 1"), ("means", "the five means")):
        values = []
        for metric in ("agan", "l0", "l1", "failure"):
            mask = "all" if metric == "failure" else "common" if scope == "means" else "both"
            found = row(tests, "deduce", "jsma", metric, mask, scope)
            values.append(f"{METRICS[metric].text} {tables.p_value(float('nan') if found is None else found['p'])}")
        where = f"section 4.3, DeDUCE against JSMA, {name}"
        yield {"finding": "paired t-tests", "where": where, "paper": "all p < 1e-7", "stored": ", ".join(values)}


def _inequality(table: pd.DataFrame) -> dict:
    shared = table[summary.common(table) & (table["method"] == "revise")]
    share = 1 - shared[threshold_column(1e-4)].sum() / shared["l0"].sum()
    where = "table 1, revise, L0"
    return {
        "finding": "changed pixels that differ by less than 1e-4",
        "where": where,
        "paper": "",
        "stored": f"{100 * share:.0f} %",
    }


def _absent() -> Iterable[dict]:
    for what, where in (
        ("run times", "table 2"),
        ("confidences, and the iterations of VLK", "sections 4.2, 4.3"),
        ("results on the validation batch, but for some", "appendices A and B"),
    ):
        yield {"finding": "not in these folders", "where": where, "paper": "", "stored": what}


def as_table(frame: pd.DataFrame) -> tables.Table:
    rows = [[tables.Cell(str(value)) for value in line] for line in frame.itertuples(index=False)]
    header = [tables.Cell(name) for name in frame.columns]
    return tables.Table("Audit of the authors' stored results.", header, rows, labels=len(header))
