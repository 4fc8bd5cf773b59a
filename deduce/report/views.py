"""Tables as the page shows them: cells that can be sorted, and their CSV, Markdown and LaTeX to be copied."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from deduce.evaluation import paper
from deduce.evaluation.metrics import METRICS
from deduce.evaluation.tables import Cell as TextCell
from deduce.evaluation.tables import Table, number, p_value

Texts = Mapping[str, str]  # of one table: its "csv", "md" and "tex"
MISSING = "–"


@dataclass(frozen=True)
class Cell:
    text: str
    value: Any = ""  # what it is sorted by; empty sorts last
    mark: str = ""  # a CSS class


@dataclass(frozen=True)
class Column:
    heading: str
    numeric: bool = False
    group: str = ""  # heading of several columns side by side


@dataclass
class View:
    name: str
    caption: str
    columns: list[Column]
    rows: list[list[Cell]]
    texts: dict[str, str] = field(default_factory=dict)  # "csv", "md", "tex"

    @property
    def groups(self) -> list[tuple[str, int]]:
        """Headings over the headings, each with the number of columns that it spans."""
        spans: list[tuple[str, int]] = []
        for column in self.columns:
            if spans and column.group and spans[-1][0] == column.group:
                spans[-1] = (column.group, spans[-1][1] + 1)
            else:
                spans.append((column.group, 1))
        return spans if any(name for name, _ in spans) else []


def cell(value: Any, decimals: int = 2, p: bool = False) -> Cell:
    """A value as people read it."""
    if isinstance(value, (bool, pd.BooleanDtype)) or str(value) in ("True", "False"):
        return Cell("yes" if str(value) == "True" else "no", int(str(value) == "True"))
    if value is None or (isinstance(value, float) and math.isnan(value)) or value is pd.NA:
        return Cell(MISSING)
    if isinstance(value, (int, float)) or hasattr(value, "dtype"):
        if p:
            return Cell(p_value(float(value)), float(value))
        whole = float(value).is_integer() and abs(float(value)) < 1e15
        text = f"{int(value)}" if whole and not isinstance(value, float) else _decimal(float(value), decimals)
        return Cell(text, float(value))
    return Cell(str(value), str(value))


def _decimal(value: float, decimals: int) -> str:
    """Fixed decimals, or significant ones where those would show nothing."""
    if value.is_integer() and abs(value) >= 1000:
        return f"{value:.0f}"
    return f"{value:.2g}" if 0 < abs(value) < 0.5 * 10**-decimals else f"{value:.{decimals}f}"


def of_frame(
    name: str,
    frame: pd.DataFrame,
    caption: str,
    headings: Mapping[str, str],
    texts: Texts | None = None,
    names: Mapping[str, str] | None = None,
    p: tuple[str, ...] = (),
    decimals: int = 2,
) -> View:
    """The columns of `headings`, in that order. What has no Markdown and LaTeX of its own gets them from here."""
    shown = {column: heading for column, heading in headings.items() if column in frame}
    numeric = {column: pd.api.types.is_numeric_dtype(frame[column]) for column in shown}
    rows = []
    for record in frame.to_dict("records"):
        line = []
        for column in shown:
            value = (names or {}).get(record[column], record[column]) if not numeric[column] else record[column]
            line.append(cell(value, decimals, column in p))
        rows.append(line)
    columns = [Column(heading, numeric[column]) for column, heading in shown.items()]
    view = View(name, caption, columns, rows)
    view.texts = {"csv": frame.to_csv(index=False)} | _as_text(view) | dict(texts or {})
    return view


def _as_text(view: View) -> dict[str, str]:
    header = [TextCell(f"{column.group} {column.heading}".strip()) for column in view.columns]
    rows = [[TextCell(one.text) for one in row] for row in view.rows]
    labels = sum(not column.numeric for column in view.columns)
    table = Table(view.caption, header, rows, labels=labels)
    return {"md": table.markdown(), "tex": table.tex(view.name)}


def table1(frame: pd.DataFrame, names: Mapping[str, str], caption: str, ours: str = "this run") -> View:
    """Table 1 with the paper's figures beside this run's; the best of each column is marked."""
    metrics = [name for name in ("agan", "l0", "l1", "failure") if frame[name].notna().any()]
    columns, rows = [Column("method")], [[cell(names[method])] for method in frame["method"]]
    for name in metrics:
        columns += [Column(ours, True, METRICS[name].text), Column("paper", True, METRICS[name].text)]
        best = frame[name].min()
        for row, record in zip(rows, frame.to_dict("records"), strict=True):
            row.append(_with_spread(record[name], record[f"{name}_std"], "best" if record[name] == best else ""))
            row.append(_with_spread(*paper.TABLE1.get(record["method"], {}).get(name, (math.nan, math.nan)), "paper"))
    view = View("table1", caption, columns, rows)
    printed = [
        {"method": method} | {f"{name}_paper": paper.TABLE1.get(method, {}).get(name, (None,))[0] for name in metrics}
        for method in frame["method"]
    ]
    view.texts = {"csv": frame.merge(pd.DataFrame(printed), on="method").to_csv(index=False)} | _as_text(view)
    return view


def _with_spread(value: float, spread: float, mark: str) -> Cell:
    if math.isnan(value):
        return Cell(MISSING)
    return Cell(number(value) + ("" if math.isnan(spread) else f" ({spread:.2f})"), value, mark)
