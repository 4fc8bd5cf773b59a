"""Tables as people read them: one description, written as CSV (full precision), Markdown and LaTeX (booktabs)."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from deduce.artifacts import atomic
from deduce.evaluation import paper
from deduce.evaluation.metrics import FAILURE, PAPER, Metric

MISSING = "N/A"
LATEX_SPECIAL = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {
        "<": "$<$",
        ">": "$>$",
        "λ": r"$\lambda$",
        "μ": r"$\mu$",
        "δ": r"$\delta$",
        "±": r"$\pm$",
        "−": "$-$",
        "×": r"$\times$",
    }
)


@dataclass(frozen=True)
class Cell:
    text: str
    latex: str | None = None  # where it differs from the escaped text
    bold: bool = False
    suffix: str = ""  # never bold: the spread in brackets

    def markdown(self) -> str:
        text = self.text.replace("|", "\\|").replace("\n", " ")
        return (f"**{text}**" if self.bold else text) + self.suffix

    def tex(self) -> str:
        text = self.text.translate(LATEX_SPECIAL) if self.latex is None else self.latex
        return (f"\\textbf{{{text}}}" if self.bold else text) + self.suffix


@dataclass
class Table:
    """A caption, a header and rows of cells; the first `labels` columns are text, the others are numbers."""

    caption: str
    header: list[Cell]
    rows: list[list[Cell]]
    labels: int = 1
    notes: list[str] = field(default_factory=list)  # below the table in Markdown only

    def markdown(self) -> str:
        align = [":--" if column < self.labels else "--:" for column in range(len(self.header))]
        lines = [
            [cell.markdown() for cell in self.header],
            align,
            *[[cell.markdown() for cell in row] for row in self.rows],
        ]
        body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        return "\n\n".join([self.caption, body, *self.notes]) + "\n"

    def tex(self, label: str) -> str:
        align = "l" * self.labels + "r" * (len(self.header) - self.labels)
        rows = [" & ".join(cell.tex() for cell in row) + r" \\" for row in self.rows]
        header = " & ".join(cell.tex() for cell in self.header) + r" \\"
        lines = [
            r"% needs \usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{self.caption.translate(LATEX_SPECIAL)}}}",
        ]
        lines += [rf"\label{{tab:{label}}}", rf"\begin{{tabular}}{{{align}}}", r"\toprule", header, r"\midrule"]
        return "\n".join([*lines, *rows, r"\bottomrule", r"\end{tabular}", r"\end{table}"]) + "\n"


def write(stem: str | Path, frame: pd.DataFrame, table: Table) -> None:
    """`stem`.csv, `stem`.md and `stem`.tex."""
    stem = Path(stem)
    write_csv(stem.with_suffix(".csv"), frame)
    for suffix, text in ((".md", table.markdown()), (".tex", table.tex(stem.name))):
        with atomic(stem.with_suffix(suffix)) as temporary:
            temporary.write_text(text)


def write_csv(path: str | Path, frame: pd.DataFrame) -> None:
    with atomic(path) as temporary:
        frame.to_csv(temporary, index=False)


def number(value: Any, decimals: int = 2) -> str:
    return MISSING if pd.isna(value) else f"{value:.{decimals}f}"


def p_value(value: float) -> str:
    """As `3.1e-44`, or `0.064` where that is easier to read."""
    if pd.isna(value):
        return MISSING
    return f"{value:.2g}" if value >= 0.001 else f"{value:.1e}"


def with_spread(value: float, spread: float | None, decimals: int = 2, bold: bool = False) -> Cell:
    """`22.51 (0.72)`; without brackets where there is no spread, as from a single test set."""
    missing = spread is None or pd.isna(spread) or pd.isna(value)
    return Cell(number(value, decimals), bold=bold, suffix="" if missing else f" ({spread:.{decimals}f})")


def metric_table(
    frame: pd.DataFrame,
    labels: dict[str, str],
    metrics: list[Metric],
    caption: str,
    names: dict[str, str] | None = None,
) -> Table:
    """One row per row of `frame`: its label columns (column to heading), then each metric as `mean (std)`.

    The best of each column is bold, as in the paper. `names` translates methods to what people call them.
    """
    best = {}
    for metric in metrics:
        values = frame[metric.name].dropna()
        best[metric.name] = (values.min() if metric.lower_is_better else values.max()) if len(values) else math.nan
    rows = []
    for _, row in frame.iterrows():
        cells = [Cell((names or {}).get(row[label], str(row[label]))) for label in labels]
        for metric in metrics:
            spread = row.get(f"{metric.name}_std")
            value = row[metric.name]
            cells.append(with_spread(value, spread, metric.decimals, bold=bool(value == best[metric.name])))
        rows.append(cells)
    header = [Cell(heading) for heading in labels.values()] + [Cell(metric.text, metric.latex) for metric in metrics]
    return Table(caption, header, rows, labels=len(labels))


def beside_paper(frame: pd.DataFrame, printed: dict[str, dict[str, tuple[float, float]]]) -> pd.DataFrame:
    """This run and the paper, a row per method and figure: method, metric, run, run_std, paper, paper_std, difference.

    Methods that the paper does not have are left out.
    """
    rows = []
    for _, row in frame.iterrows():
        for metric, (value, spread) in printed.get(row["method"], {}).items():
            ours = {"run": row[metric], "run_std": row[f"{metric}_std"]}
            theirs = {"paper": value, "paper_std": spread, "difference": row[metric] - value}
            rows.append({"method": row["method"], "metric": metric} | ours | theirs)
    columns = ["method", "metric", "run", "run_std", "paper", "paper_std", "difference"]
    return pd.DataFrame(rows, columns=columns)


def beside_paper_table(frame: pd.DataFrame, names: dict[str, str], caption: str) -> Table:
    headings = {"agan": "AGAN", "l0": "L0", "l1": "L1", "failure": "failure in %", "seconds": "time in sec"}
    rows = [
        [
            Cell(names.get(row.method, row.method)),
            Cell(headings[row.metric]),
            with_spread(row.run, row.run_std),
            with_spread(row.paper, row.paper_std),
            Cell(MISSING if pd.isna(row.difference) else f"{round(row.difference, 2) + 0.0:+.2f}"),  # no -0.00
        ]
        for row in frame.itertuples()
    ]
    header = [Cell(text) for text in ("algorithm", "metric", "this run", "paper", "difference")]
    return Table(caption, header, rows, labels=2)


def table1(frame: pd.DataFrame, names: dict[str, str], pairs: pd.Series, references: pd.DataFrame) -> Table:
    """Table 1, as the paper has it; `pairs` is the number of compared pairs per test set."""
    caption = (
        f"Means over the {int(pairs.sum())} image-target pairs for which every algorithm found a counterfactual "
        f"({', '.join(str(int(n)) for n in pairs)} per test set): the mean of the test sets' means, their standard "
        "deviation in brackets. Failures are of all pairs. Lower is better everywhere."
    )
    for row in references.itertuples():
        caption += f" {row.kind.capitalize()} images score {row.agan:.2f} (AGAN)."
    return metric_table(frame, {"method": "algorithm"}, [*PAPER, FAILURE], caption, names)


def table2(timing: pd.DataFrame, methods: list[str]) -> pd.DataFrame:
    """Table 2 from one row per timed pair: seconds for one counterfactual on its own, mean and deviation (ddof = 1)."""
    groups = timing.groupby("method")
    frame = pd.DataFrame({"seconds": groups["seconds"].mean(), "seconds_std": groups["seconds"].std(ddof=1)})
    frame["median"] = groups["seconds"].median()
    frame["iterations"] = groups["iterations"].mean()
    frame["found"] = groups["found"].sum()
    frame["pairs"] = groups.size()
    return frame.reindex(methods).rename_axis("method").reset_index()  # a method that was not timed has no numbers


def choose_pairs(table: pd.DataFrame, wanted: list[tuple[int, int]], count: int) -> list[tuple[int, int]]:
    """The paper's draws (image, target) that this run has, filled up to `count` evenly from its first test set."""
    first = table[table["seed"] == table["seed"].min()]
    have = list(first[["image", "target"]].drop_duplicates().itertuples(index=False, name=None))
    chosen = [pair for pair in wanted if pair in set(have)][:count]
    rest = [pair for pair in have if pair not in chosen]
    missing = min(count - len(chosen), len(rest))
    return chosen + [rest[position * len(rest) // missing] for position in range(missing)]


def table3(table: pd.DataFrame, pairs: list[tuple[int, int]]) -> pd.DataFrame:
    """Table 3: one row per method and shown pair, with its scores; empty where the method failed."""
    first = table[table["seed"] == table["seed"].min()]
    keyed = first.set_index(["image", "target"])
    rows = []
    for method in first["method"].drop_duplicates():
        own = keyed[keyed["method"] == method]
        for pair in pairs:
            row = own.loc[pair]
            line = {"method": method, "image": pair[0], "label": row["label"], "target": pair[1], "found": row["found"]}
            rows.append(line | {metric.name: row[metric.name] if row["found"] else None for metric in PAPER})
    frame = pd.DataFrame(rows)
    frame["l0"] = frame["l0"].astype("Int64")
    return frame


def table3_text(frame: pd.DataFrame, names: dict[str, str]) -> Table:
    """Laid out as in the paper: a column per pair, three lines per method."""
    pairs = frame[["image", "label", "target"]].drop_duplicates()
    header = [Cell("algorithm"), Cell("metric")] + [Cell(f"({row.label},{row.target})") for row in pairs.itertuples()]
    rows = []
    for method, part in frame.groupby("method", sort=False):
        for metric in PAPER:
            decimals = 0 if metric.name == "l0" else 2
            cells = [Cell(number(value, decimals)) for value in part[metric.name]]
            rows.append([Cell(names.get(str(method), str(method))), Cell(metric.text, metric.latex), *cells])
    caption = "Scores of the counterfactuals of the grid figure, by (original class, target); N/A where none was found."
    return Table(caption, header, rows, labels=2)


def table3_beside_paper(frame: pd.DataFrame) -> pd.DataFrame:
    """The paper's figures beside this run's, for the pairs that are the paper's."""
    drawn = paper.draws(paper.TABLE3_PAIRS)
    rows = []
    for row in frame.itertuples():
        if row.method in paper.TABLE3 and (row.image, row.target) in drawn:
            printed = paper.TABLE3[row.method][drawn.index((row.image, row.target))]
            for position, metric in enumerate(PAPER):
                value = None if printed is None else printed[position]
                keys = {"method": row.method, "image": row.image, "target": row.target, "metric": metric.name}
                rows.append(keys | {"run": getattr(row, metric.name), "paper": value})
    result = pd.DataFrame(rows, columns=["method", "image", "target", "metric", "run", "paper"])
    for column in ("run", "paper"):
        result[column] = pd.to_numeric(result[column].mask(result[column].isna(), math.nan))
    result["difference"] = result["run"] - result["paper"]
    return result
