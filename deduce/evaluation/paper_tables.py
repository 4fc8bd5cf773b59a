"""Every table of a run by its file's name, as (frame for the CSV, table for the Markdown and the LaTeX)."""

import pandas as pd

from deduce.evaluation import paper, summary
from deduce.evaluation.metrics import FAILURE, METRICS, PAPER, Metric
from deduce.evaluation.results import display_names
from deduce.evaluation.tables import (
    Cell,
    Table,
    beside_paper,
    beside_paper_table,
    choose_pairs,
    metric_table,
    number,
    table1,
    table2,
    table3,
    table3_beside_paper,
    table3_text,
)

Made = dict[str, tuple[pd.DataFrame, Table]]
SECONDS = Metric("seconds", "time in sec", r"\emph{time in sec}")
LABEL = {"method": "algorithm"}


def all_tables(results: pd.DataFrame, references: pd.DataFrame, timing: pd.DataFrame | None) -> Made:
    """`references` and `timing` may be empty or None: what they give is then left out."""
    made = _table1(results, references) | _variants(results) | _table3(results)
    return made | (_table2(timing, display_names(results)) if timing is not None else {})


def _table1(results: pd.DataFrame, references: pd.DataFrame) -> Made:
    names = display_names(results)
    frame = summary.table1(results)
    pairs = summary.per_seed(results, []).loc[next(iter(names)), "pairs"]
    compared = beside_paper(frame, paper.TABLE1)
    scores = summary.reference_scores(references)
    return {
        "table1": (frame, table1(frame, names, pairs, scores)),
        "table1_paper": (compared, beside_paper_table(compared, names, "Table 1 of this run beside the paper's.")),
    }


def _variants(results: pd.DataFrame) -> Made:
    """Table 1 otherwise: failures counted, each method on its own pairs, all metrics, other thresholds, by target."""
    names = display_names(results)
    worst = summary.failures_as_worst(results)
    own = summary.table1(results, results["found"])
    full = summary.all_metrics(results)
    metrics = [metric for name, metric in METRICS.items() if name in full]
    levels = summary.thresholded(results)
    targets = summary.by_target(results)
    worst_caption = "Table 1 over all pairs: a failure gets the worst value that any algorithm got on a found pair."
    return {
        "table1_failures_worst": (worst, metric_table(worst, LABEL, [*PAPER, FAILURE], worst_caption, names)),
        "table1_own_pairs": (
            own,
            metric_table(own, LABEL, [*PAPER, FAILURE], "Table 1, each algorithm over the pairs that it found.", names),
        ),
        "table1_all_metrics": (
            full,
            metric_table(full, LABEL, metrics, "Every metric of this run, on the pairs that all found.", names),
        ),
        "l0_thresholds": (levels, _thresholds(levels, names)),
        "by_target": (targets, _by_target(targets, names)),
    }


def _thresholds(frame: pd.DataFrame, names: dict[str, str]) -> Table:
    wide = frame.pivot(index="method", columns="threshold", values="l0").reindex(list(names))
    header = [Cell("algorithm")] + [Cell(f"> {threshold:g}") for threshold in wide.columns]
    rows = [[Cell(names[str(method)]), *(Cell(number(value)) for value in row)] for method, row in wide.iterrows()]
    return Table("Mean L0 if a pixel must differ by more than a threshold to count; the paper's is 0.", header, rows)


def _by_target(frame: pd.DataFrame, names: dict[str, str]) -> Table:
    header = [Cell(text) for text in ("algorithm", "target", "L0", "L1", "AGAN", "iterations", "failure in %")]
    rows = [
        [Cell(names[row.method]), Cell(str(row.target))]
        + [Cell(number(getattr(row, name))) for name in ("l0", "l1", "agan", "iterations", "failure")]
        for row in frame.itertuples()
    ]
    return Table("By target class, each algorithm over the pairs that it found.", header, rows, labels=2)


def _table2(timing: pd.DataFrame, names: dict[str, str]) -> Made:
    frame = table2(timing, list(names))
    caption = "Mean time to make one counterfactual on its own, with the standard deviation in brackets."
    printed = {method: {"seconds": figures} for method, figures in paper.TABLE2.items()}
    compared = beside_paper(frame, printed)
    beside = "Run times of this run and the paper's, which ran on a Tesla T4 GPU."
    return {
        "table2": (frame, metric_table(frame, LABEL, [SECONDS], caption, names)),
        "table2_paper": (compared, beside_paper_table(compared, names, beside)),
    }


def _table3(results: pd.DataFrame) -> Made:
    names = display_names(results)
    frame = table3(results, choose_pairs(results, paper.draws(paper.TABLE3_PAIRS), len(paper.TABLE3_PAIRS)))
    compared = table3_beside_paper(frame)
    rows = [
        [Cell(names[row.method]), Cell(f"image {row.image}, target {row.target}"), Cell(METRICS[row.metric].text)]
        + [Cell(number(value)) for value in (row.run, row.paper, row.difference)]
        for row in compared.itertuples()
    ]
    header = [Cell(text) for text in ("algorithm", "pair", "metric", "this run", "paper", "difference")]
    beside = Table("Table 3 of this run beside the paper's, for the pairs that both show.", header, rows, labels=3)
    return {"table3": (frame, table3_text(frame, names)), "table3_paper": (compared, beside)}
