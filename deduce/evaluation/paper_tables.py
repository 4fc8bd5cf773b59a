"""The builders of a run's tables; deduce/evaluation/catalogue.py lists them.

Each returns the frame of its CSV, the table of its Markdown and LaTeX, and the page's table where it is another one.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

import pandas as pd

from deduce.evaluation import paper, summary, tables
from deduce.evaluation.metrics import FAILURE, METRICS, PAPER, Metric
from deduce.evaluation.run import Run
from deduce.evaluation.tables import MISSING, Cell, Column, Table, frame_table, metric_table, number_cell, with_spread
from deduce.published import audit as published

Built = tuple[pd.DataFrame, Table]
BuiltForPage = tuple[pd.DataFrame, Table, Table]
TABLE1 = [*PAPER, FAILURE]
SECONDS = Metric("seconds", "time in sec", r"\emph{time in sec}")
P_VALUES = ("p_clustered_holm", "p_holm", "wilcoxon_p_holm", "mcnemar_p")
TEST_HEADINGS = {
    "a": "a", "b": "b", "metric": "metric", "mask": "pairs", "scope": "scope", "n": "n", "trainings": "trainings",
    "mean_difference": "mean difference", "low": "95 % from", "high": "to", "p_clustered_holm": "p",
    "cohen_dz": "Cohen's dz", "p_holm": "p (t)", "wilcoxon_p_holm": "p (Wilcoxon)", "mcnemar_p": "p (McNemar)",
    "wins": "wins", "losses": "losses",
}  # fmt: skip


def table1(run: Run) -> BuiltForPage:
    """Table 1, as the paper has it; on the page with the paper's figures beside this run's."""
    table = _table1(run, run.results, run.table1)
    if not run.dataset.paper:
        return run.table1, table, table
    columns, rows = [Column("method", numeric=False)], [row[:1] for row in table.rows]
    for position, metric in enumerate(TABLE1, start=1):
        if run.table1[metric.name].notna().any():
            headings = "stored" if run.published else "this run", "paper"
            columns += [Column(heading, group=metric.text) for heading in headings]
            for cells, row, method in zip(rows, table.rows, run.table1["method"], strict=True):
                printed = paper.TABLE1.get(method, {}).get(metric.name)
                cells += [row[position], with_spread(*printed, mark="paper") if printed else Cell(MISSING)]
    return run.table1, table, Table(table.caption, columns, rows)


def _table1(run: Run, results: pd.DataFrame, frame: pd.DataFrame) -> Table:
    pairs = summary.per_seed(results, []).loc[next(iter(run.names)), "pairs"]
    trainings = pairs.groupby("training_seed").sum()
    unit, counts, means = "test set", pairs, "test sets' means, their standard deviation in brackets"
    if len(trainings) > 1:
        unit, counts = "training", trainings
        means = (
            "means of each training and test set, and in brackets the standard deviation over the test sets of a "
            "training (the paper's) and over the trainings"
        )
    caption = (
        f"Means over the {int(pairs.sum())} image-target pairs for which every algorithm found a counterfactual "
        f"({', '.join(str(int(n)) for n in counts)} per {unit}): the mean of the {means}. "
        "Failures are of all pairs. Lower is better everywhere."
    )
    for row in summary.reference_scores(run.references).itertuples():
        caption += f" {row.kind.capitalize()} images score {row.agan:.2f} (AGAN)."
    return metric_table(frame, TABLE1, caption, run.names)


def table1_paper(run: Run) -> Built:
    """Table 1, number by number: this run, the paper, and their difference."""
    frame = tables.beside_paper(run.table1, paper.TABLE1)
    return frame, _beside_paper(run, frame, "Table 1 of this run beside the paper's.")


def _beside_paper(run: Run, frame: pd.DataFrame, caption: str) -> Table:
    """A row per figure of the paper; a figure of table 3 is about one pair and has no standard deviation."""
    of_pairs = "image" in frame
    texts = {metric.name: metric.text for metric in [*TABLE1, SECONDS]}
    rows = []
    for row in frame.to_dict("records"):
        cells = [Cell(run.names.get(row["method"], row["method"]))]
        cells += [Cell(f"image {row['image']}, target {row['target']}")] if of_pairs else []
        cells += [Cell(texts[row["metric"]])]
        cells += [with_spread(row[column], row.get(f"{column}_std")) for column in ("run", "paper")]
        difference = number_cell(row["difference"])
        if not of_pairs and difference.text != MISSING:
            difference = replace(difference, text=f"{round(row['difference'], 2) + 0.0:+.2f}")  # no -0.00
        rows.append([*cells, difference])
    labels = ["algorithm", "pair", "metric"] if of_pairs else ["algorithm", "metric"]
    return Table(caption, _columns(labels, ["this run", "paper", "difference"]), rows)


def _columns(labels: Iterable[str], numbers: Iterable[str]) -> list[Column]:
    """Columns of text and, right of them, columns of numbers, by their headings."""
    return [Column(text, numeric=False) for text in labels] + [Column(text) for text in numbers]


def table1_failures_worst(run: Run) -> Built:
    """Table 1 over all pairs, where a failure gets the worst value of any method on a found pair."""
    frame = summary.failures_as_worst(run.results)
    caption = "Table 1 over all pairs: a failure gets the worst value that any algorithm got on a found pair."
    return frame, metric_table(frame, TABLE1, caption, run.names)


def table1_own_pairs(run: Run) -> Built:
    """Table 1, each method over the pairs that it found."""
    frame = summary.table1(run.results, run.results["found"])
    caption = "Table 1, each algorithm over the pairs that it found."
    return frame, metric_table(frame, TABLE1, caption, run.names)


def table1_all_metrics(run: Run) -> Built:
    """Table 1 with every metric that the run measured."""
    metrics = [metric for name, metric in METRICS.items() if name in run.results and run.results[name].notna().any()]
    frame = summary.over_seeds(summary.per_seed(run.results, [metric.name for metric in metrics]))
    caption = "Every metric of this run, on the pairs that all found."
    return frame, metric_table(frame, [METRICS[name] for name in METRICS if name in frame], caption, run.names)


def l0_thresholds(run: Run) -> Built:
    """Mean L0 by how much a pixel must differ to count as changed."""
    frame = summary.thresholded(run.results)
    wide = frame.pivot(index="method", columns="threshold", values="l0").reindex(list(run.names))
    rows = [[Cell(run.names[str(method)]), *map(number_cell, row)] for method, row in wide.iterrows()]
    caption = "Mean L0 if a pixel must differ by more than a threshold to count; the paper's is 0."
    return frame, Table(caption, _columns(["algorithm"], (f"> {threshold:g}" for threshold in wide)), rows)


def by_target(run: Run) -> Built:
    """Distances, realism and failures by target class."""
    headings = {"l0": "L0", "l1": "L1", "agan": "AGAN", "iterations": "iterations", "failure": "failure in %"}
    rows = [
        [Cell(run.names[row["method"]]), Cell(str(row["target"]), value=row["target"])]
        + [number_cell(row[name]) for name in headings]
        for row in run.by_target.to_dict("records")
    ]
    columns = _columns(["algorithm", "target"], headings.values())
    return run.by_target, Table("By target class, each algorithm over the pairs that it found.", columns, rows)


def table2(run: Run) -> BuiltForPage:
    """Table 2, as the paper has it; on the page with the other measurements of the timed pairs."""
    caption = "Mean time to make one counterfactual on its own, with the standard deviation in brackets."
    table = metric_table(run.table2, [SECONDS], caption, run.names)
    headings = {"median": "median in sec", "iterations": "mean iterations", "found": "found", "pairs": "pairs"}
    more = frame_table(run.table2.astype({"found": "Int64", "pairs": "Int64"}), "", headings)
    rows = [left + right for left, right in zip(table.rows, more.rows, strict=True)]
    return run.table2, table, replace(table, columns=table.columns + more.columns, rows=rows)


def table2_paper(run: Run) -> Built:
    """Run times of this run beside the paper's."""
    frame = tables.beside_paper(run.table2, {method: {"seconds": times} for method, times in paper.TABLE2.items()})
    return frame, _beside_paper(run, frame, "Run times of this run and the paper's, which ran on a Tesla T4 GPU.")


def table3(run: Run) -> Built:
    """Table 3, laid out as in the paper: a column per pair, three lines per method."""
    results = run.first_training
    frame = tables.table3(results, tables.choose_pairs(results, paper.TABLE3_PAIRS))
    pairs = frame[["image", "label", "target"]].drop_duplicates().itertuples()
    rows = []
    for method, part in frame.groupby("method", sort=False):
        for metric in PAPER:
            cells = [number_cell(value, 0 if metric.name == "l0" else 2) for value in part[metric.name]]
            rows.append([Cell(run.names[str(method)]), Cell(metric.text, metric.latex), *cells])
    caption = "Scores of the counterfactuals of the grid figure, by (original class, target); N/A where none was found."
    columns = _columns(["algorithm", "metric"], (f"({pair.label},{pair.target})" for pair in pairs))
    return frame, Table(caption, columns, rows)


def table3_paper(run: Run) -> Built:
    """Table 3 beside the paper's, for the pairs that both have."""
    frame = tables.table3_beside_paper(table3(run)[0])
    return frame, _beside_paper(run, frame, "Table 3 of this run beside the paper's, for the pairs that both show.")


def tests(run: Run) -> BuiltForPage:
    """Paired tests of every two methods; the page shows those over all test sets, because there are many."""
    readable = run.tests.assign(metric=run.tests["metric"].map(lambda name: METRICS[name].text))
    caption = "Paired tests of every two methods{}. Differences are a − b; p is adjusted by Holm."
    notes = [
        "“both”: pairs that both methods found, as in the paper’s t-test; “common”: pairs that all found; “all”: every "
        "pair, for failures.",
        "The interval and its p hold for other images and, with several trainings, for another training; the other "
        "tests take all pairs for independent, the t-test as in the paper.",
    ]
    pooled = readable[readable["scope"] == "all"].drop(columns="scope")
    everything, page = (
        frame_table(frame, caption.format(scope), TEST_HEADINGS, run.names, P_VALUES, notes=notes)
        for frame, scope in ((readable, ""), (pooled, ", all test sets pooled"))
    )
    return run.tests, everything, page


def success(run: Run) -> Built:
    """How often each method found a counterfactual, in each test set and in all."""
    frame = summary.success(run.results)
    caption = "How often each method found a counterfactual, with 95 % Wilson intervals."
    return frame, frame_table(frame, caption, names=run.names, decimals=3)


def model_card(run: Run) -> Built:
    """How good the models are, beside what is known of the authors' models."""
    return run.card, frame_table(run.card, "The models, measured, beside what is known of the authors'.", decimals=4)


@lru_cache(maxsize=1)
def _defects(run: Run) -> pd.DataFrame:
    keys = [(method, seed) for method in run.methods for seed in run.experiment["seeds"]]
    return pd.concat([published.defects(*key, run.shard(key[0], str(key[1]))) for key in keys], ignore_index=True)


def audit(run: Run) -> Built:
    """What the authors' stored results say about the paper's numbers."""
    frame = published.findings(run.results, run.tests, run.references, _defects(run), run.summaries)
    return frame, frame_table(frame.map(str), "Audit of the authors' stored results.")


def table1_cleaned(run: Run) -> BuiltForPage:
    """Table 1 with the stored rows that hold no image counted as failures."""
    results = published.cleaned(run.results, _defects(run))
    frame = summary.table1(results)
    table = _table1(run, results, frame)
    return frame, table, replace(table, caption="Table 1 without the stored rows that hold no image.")


def defects(run: Run) -> Built:
    """The stored rows that hold no image."""
    caption = "The stored rows that hold no image that a method could have made."
    return _defects(run), frame_table(_defects(run), caption, names=run.names)
