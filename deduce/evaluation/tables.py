"""Tables as people read them: one description, written as CSV (full precision), Markdown, LaTeX (booktabs) and JSON."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from deduce.artifacts import save_csv, save_text
from deduce.evaluation import paper
from deduce.evaluation.metrics import METRICS, PAPER, Metric

MISSING = "N/A"
LATEX_SPECIAL = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"<": "$<$", ">": "$>$", "λ": r"$\lambda$", "μ": r"$\mu$", "δ": r"$\delta$"}
    | {"±": r"$\pm$", "−": "$-$", "×": r"$\times$"}
)


@dataclass(frozen=True)
class Cell:
    text: str
    latex: str | None = None  # where it differs from the escaped text
    bold: bool = False  # the best value of its column
    suffix: str = ""  # never bold: the spread in brackets
    value: Any = None  # the page sorts by it; None: by the text
    mark: str = ""  # a CSS class of the page

    def markdown(self) -> str:
        text = self.text.replace("|", "\\|").replace("\n", " ")
        return (f"**{text}**" if self.bold else text) + self.suffix

    def tex(self) -> str:
        text = self.text.translate(LATEX_SPECIAL) if self.latex is None else self.latex
        return (f"\\textbf{{{text}}}" if self.bold else text) + self.suffix

    def data(self) -> dict[str, Any]:
        """The cell as the page reads it. Missing values sort last."""
        missing = self.text == MISSING
        value = "" if missing else self.text if self.value is None else self.value
        mark = self.mark or ("best" if self.bold else "")
        return {"text": "–" if missing else self.text + self.suffix, "value": value, "mark": mark}


@dataclass(frozen=True)
class Column:
    heading: str
    latex: str | None = None  # where it differs from the escaped heading
    numeric: bool | None = True  # numbers are aligned right, text left; None leaves the alignment to the viewer
    group: str = ""  # heading above several columns side by side


@dataclass(frozen=True)
class Table:
    caption: str
    columns: list[Column]
    rows: list[list[Cell]]
    notes: list[str] = field(default_factory=list)  # a list below the table in Markdown and on the page
    title: str = ""  # the page's heading above the table
    lead: str = ""  # the sentence below that heading

    @property
    def _cells(self) -> list[list[Cell]]:
        return [[Cell(f"{column.group} {column.heading}".strip(), column.latex) for column in self.columns], *self.rows]

    def markdown(self) -> str:
        align = [{True: "--:", False: ":--", None: "---"}[column.numeric] for column in self.columns]
        header, *rows = ([cell.markdown() for cell in row] for row in self._cells)
        body = "\n".join("| " + " | ".join(line) + " |" for line in [header, align, *rows])
        notes = "\n".join(f"- {note}" for note in self.notes)
        return "\n\n".join(filter(None, [self.caption, body, notes])) + "\n"

    def tex(self, label: str) -> str:
        align = "".join("r" if column.numeric else "l" for column in self.columns)
        header, *rows = (" & ".join(cell.tex() for cell in row) + r" \\" for row in self._cells)
        caption = [rf"\caption{{{self.caption.translate(LATEX_SPECIAL)}}}"] if self.caption else []
        lines = [r"% needs \usepackage{booktabs}", r"\begin{table}", r"\centering", *caption]
        lines += [rf"\label{{tab:{label}}}", rf"\begin{{tabular}}{{{align}}}", r"\toprule", header, r"\midrule"]
        return "\n".join([*lines, *rows, r"\bottomrule", r"\end{tabular}", r"\end{table}"]) + "\n"

    def data(self, name: str, section: str, fold: str = "") -> dict[str, Any]:
        """The table as the page reads it."""
        data = {"name": name, "section": section, "fold": fold, "caption": self.caption, "notes": self.notes}
        data |= {key: text for key, text in (("title", self.title), ("lead", self.lead)) if text}
        columns = [{"heading": c.heading, "group": c.group, "numeric": bool(c.numeric)} for c in self.columns]
        return data | {"columns": columns, "rows": [[cell.data() for cell in row] for row in self.rows]}


def write(
    stem: str | Path, frame: pd.DataFrame, table: Table, page: Table | None = None, section: str = "", fold: str = ""
) -> None:
    """`stem`.csv, .md, .tex and .json; `page` is the table as the page shows it, where that differs."""
    name = Path(stem).name
    save_csv(f"{stem}.csv", frame)
    write_json(f"{stem}.json", (page or table).data(name, section, fold))
    save_text(f"{stem}.md", table.markdown())
    save_text(f"{stem}.tex", table.tex(name))


def write_json(path: str | Path, data: Mapping[str, Any]) -> None:
    """What the page shows of a table or a figure."""
    save_text(path, json.dumps(data, ensure_ascii=False, allow_nan=False) + "\n")


def number(value: Any, decimals: int = 2) -> str:
    return MISSING if pd.isna(value) else f"{value:.{decimals}f}"


def p_value(value: float) -> str:
    """As `3.1e-44`, or `0.064` where that is easier to read."""
    return MISSING if pd.isna(value) else f"{value:.2g}" if value >= 0.001 else f"{value:.1e}"


def number_cell(value: Any, decimals: int = 2) -> Cell:
    return Cell(number(value, decimals), value=None if pd.isna(value) else float(value))


def with_spread(
    value: float, spread: float | None, decimals: int = 2, bold: bool = False, mark: str = "", of_training: Any = None
) -> Cell:
    """`22.51 (0.72)`; without brackets where there is no spread, as from a single test set.

    `of_training`, the spread over trainings, stands behind it: `22.51 (0.72; 1.30)`.
    """
    spreads = [spread] if of_training is None else [spread, of_training]
    single = all(map(pd.isna, spreads)) or pd.isna(value)
    texts = ("–" if pd.isna(size) else f"{size:.{decimals}f}" for size in spreads)
    return replace(
        number_cell(value, decimals), bold=bold, suffix="" if single else f" ({'; '.join(texts)})", mark=mark
    )


def frame_table(
    frame: pd.DataFrame, caption: str, headings: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None, p: Iterable[str] = (), decimals: int = 2, notes: Iterable[str] = (),
) -> Table:  # fmt: skip
    """A frame's columns under their headings (None: all columns), each value as people read it.

    `names` translates texts, such as methods, to what people call them; `p` are the columns of p-values.
    """
    if headings is None:  # a metric by its text, and its standard deviation as such; other columns by their names
        known = {name: metric.text for name, metric in METRICS.items()}
        spreads = {"std": "sd", "training_std": "sd over trainings"}
        known |= {f"{name}_{key}": f"{text}, {of}" for name, text in known.items() for key, of in spreads.items()}
        headings = {column: known.get(column, column.replace("_", " ")) for column in frame}
    headings = {name: text for name, text in headings.items() if name in frame}
    columns = [Column(text, numeric=pd.api.types.is_numeric_dtype(frame[name])) for name, text in headings.items()]
    texts = frame.replace(names) if names else frame
    rows = [[_cell(row[name], decimals, name in p) for name in headings] for row in texts.to_dict("records")]
    return Table(caption, columns, rows, list(notes))


def _cell(value: Any, decimals: int, p: bool) -> Cell:
    if str(value) in ("True", "False"):  # a bool, or its text from a CSV column of mixed values
        return Cell("yes" if str(value) == "True" else "no", value=int(str(value) == "True"))
    if pd.isna(value) or isinstance(value, str):
        return Cell(MISSING if pd.isna(value) else value)
    size = abs(float(value))
    if p:
        text = p_value(value)
    elif not isinstance(value, float) or (value.is_integer() and size >= 1000):
        text = f"{value:.0f}"
    else:  # significant digits where fixed decimals would show only zeros
        text = f"{value:.2g}" if 0 < size < 0.5 * 10**-decimals else f"{value:.{decimals}f}"
    return Cell(text, value=float(value))


def metric_table(frame: pd.DataFrame, metrics: list[Metric], caption: str, names: Mapping[str, str]) -> Table:
    """One row per method, with each metric as `mean (std)`; the best of a column is bold, as in the paper.

    With several trainings, `mean (std over test sets; std over trainings)`.
    """
    columns = [Column("algorithm", numeric=False), *(Column(metric.text, metric.latex) for metric in metrics)]
    rows = [[Cell(names[method])] for method in frame["method"]]
    for metric in metrics:
        values = frame[metric.name]
        best = {True: values.min(), False: values.max(), None: None}[metric.lower_is_better]
        spreads = [frame[f"{metric.name}_std"], frame.get(f"{metric.name}_training_std", [None] * len(frame))]
        for row, value, spread, of_training in zip(rows, values, *spreads, strict=True):
            best_value = bool(value == best)
            row.append(with_spread(value, spread, metric.decimals, bold=best_value, of_training=of_training))
    return Table(caption, columns, rows)


def beside_paper(frame: pd.DataFrame, printed: dict[str, dict[str, tuple[float, float]]]) -> pd.DataFrame:
    """This run's figures beside the paper's, one row per metric and method of the paper."""
    rows = [
        (row["method"], metric, row[metric], row[f"{metric}_std"], value, spread, row[metric] - value)
        for _, row in frame.iterrows()
        for metric, (value, spread) in printed.get(row["method"], {}).items()
    ]
    return pd.DataFrame(rows, columns=["method", "metric", "run", "run_std", "paper", "paper_std", "difference"])


def choose_pairs(table: pd.DataFrame, preferred: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The preferred pairs (image, target) that the first test set has; pairs spread evenly over it replace the rest."""
    first = table[table["seed"] == table["seed"].min()]
    available = list(first[["image", "target"]].drop_duplicates().itertuples(index=False, name=None))
    chosen = [pair for pair in preferred if pair in set(available)]
    rest = [pair for pair in available if pair not in chosen]
    missing = min(len(preferred) - len(chosen), len(rest))
    return chosen + [rest[position * len(rest) // missing] for position in range(missing)]


def table3(table: pd.DataFrame, pairs: list[tuple[int, int]]) -> pd.DataFrame:
    """Table 3: one row per method and pair of the grid figure, with its scores; empty where the method failed."""
    first = table[table["seed"] == table["seed"].min()].set_index(["image", "target"])
    parts = [part.loc[pairs].reset_index() for _, part in first.groupby("method", sort=False)]
    frame = pd.concat(parts, ignore_index=True)[["method", "image", "label", "target", "found", "agan", "l0", "l1"]]
    frame["l0"] = frame["l0"].astype("Int64")
    frame.loc[~frame["found"], ["agan", "l0", "l1"]] = pd.NA
    return frame


def table3_beside_paper(frame: pd.DataFrame) -> pd.DataFrame:
    """This run's figures beside the paper's, for the pairs that the paper shows."""
    rows = []
    for row in frame[frame["method"].isin(paper.TABLE3)].astype({"l0": float}).to_dict("records"):
        pair = row["image"], row["target"]
        if pair in paper.TABLE3_PAIRS:
            printed = paper.TABLE3[row["method"]][paper.TABLE3_PAIRS.index(pair)] or (math.nan,) * len(PAPER)
            for metric, value in zip(PAPER, printed, strict=True):
                rows.append((row["method"], *pair, metric.name, row[metric.name], value, row[metric.name] - value))
    return pd.DataFrame(rows, columns=["method", "image", "target", "metric", "run", "paper", "difference"])
