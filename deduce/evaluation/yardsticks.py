"""Tables that hold counterfactuals against real images, and against what should not matter (docs/metrics.md)."""

import numpy as np
import pandas as pd

from deduce.evaluation import summary
from deduce.evaluation.attributes import ATTRIBUTES
from deduce.evaluation.intervals import Estimate, mean
from deduce.evaluation.metrics import METRICS
from deduce.evaluation.run import Run
from deduce.evaluation.tables import Cell, Column, Table, number, number_cell

Built = tuple[pd.DataFrame, Table]
KEPT = ("kept_rounding", "kept_noise", "kept_shift", "kept_retrained")
DENSITIES = ("log_density", "log_mixture", "oracle_log_density", "oracle_log_mixture")
UNCHANGED, REAL = "original", "real"  # rows of the distances besides the methods
UNITS = {"ink": "pixels", "thickness": "pixels", "slant": "degrees"}


def _table(run: Run, frame: pd.DataFrame, columns: list[Column], cells: list[list[Cell]], caption: str, lead: str = ""):
    names = {**run.names, UNCHANGED: "nothing changed", REAL: "real images of the target class"}
    rows = [[Cell(names[method]), *row] for method, row in zip(frame["method"], cells, strict=True)]
    return Table(caption, [Column("method", numeric=False), *columns], rows, lead=lead)


def _range(low: float, high: float, decimals: int) -> Cell:
    return Cell(f"{number(low, decimals)}–{number(high, decimals)}", value=None if pd.isna(low) else float(low))


def frechet(run: Run) -> Built:
    """Distance to real images of the target class: of the set in the oracles' features, and of each to its nearest."""
    compared = run.results[summary.common(run.results)]
    nearest = compared.groupby("method")["nearest_training"].mean()
    if "nearest_training" in run.references:  # real test images, among the training images of their own class
        natural = run.references[run.references["kind"] == UNCHANGED]
        nearest[REAL] = natural["nearest_training"].mean()
    frame = run.frechet.assign(nearest_training=run.frechet["method"].map(nearest))
    columns = [Column("Fréchet distance"), Column("95 %"), Column(METRICS["nearest_training"].text)]
    cells = [
        [number_cell(row.distance, 1), _range(row.low, row.high, 1), number_cell(row.nearest_training)]
        for row in frame.itertuples()
    ]
    pairs, components = frame[["pairs", "components"]].iloc[0] if len(frame) else (0, 0)
    caption = (
        f"The {pairs} pairs that every method found, as a set, against real test images that are nobody’s original: "
        f"squared Fréchet distance of the oracles’ features from the centre of the target class, in {components} "
        "components. The last row is what as many real images score."
    )
    return frame, _table(run, frame, columns, cells, caption)


def certainty(run: Run) -> Built:
    """Log-densities of the target class and of any class, before and after, by the run's densities and the oracles'."""
    measured = [name for name in DENSITIES if name in run.results and run.results[name].notna().any()]
    compared = run.results[summary.common(run.results)]
    columns = [column for name in measured for column in (f"{name}_before", name)]
    frame = compared.groupby("method", sort=False)[columns].median().reindex(list(run.names)).reset_index()
    natural = run.references[run.references["kind"] == UNCHANGED]
    if len(natural) and set(measured) <= set(natural):
        frame = pd.concat([frame, natural[measured].median().to_frame().T.assign(method=REAL)], ignore_index=True)
    headings = [Column(text, group=METRICS[name].text) for name in measured for text in ("before", "after")]
    cells = [[number_cell(row[column], 1) for column in columns] for row in frame.to_dict("records")]
    own = "the run, which a method may ascend, and of " if "log_density" in measured else ""
    densities = f"{own}the oracles, which no method explains"
    caption = (
        "Medians over the pairs that every method found, before and after the change: the log-density of the target "
        f"class and of the mixture of all classes, under the densities of {densities}. The last row is real images of "
        "their own class."
    )
    return frame, _table(run, frame, headings, cells, caption)


def kept(run: Run) -> pd.DataFrame:
    """How many of the found counterfactuals the explained classifier still sees as the target, by method and change."""
    rows = []
    for name in KEPT:
        measured = run.results[run.results[name].notna()] if name in run.results else run.results[:0]
        for method, part in measured.groupby("method", sort=False):
            estimate: Estimate = mean(part[name], part)
            rows.append((method, name, len(part), estimate.value, *estimate.rate_interval()))
    return pd.DataFrame(rows, columns=["method", "change", "pairs", "kept", "low", "high"])


def robustness(run: Run) -> Built:
    """How many counterfactuals keep the target after changes that should not matter."""
    frame = kept(run)
    changes = [name for name in KEPT if name in set(frame["change"])]
    columns = [Column("pairs")] + [Column(text, group=METRICS[name].text) for name in changes for text in ("%", "95 %")]
    by_method = {method: part.set_index("change") for method, part in frame.groupby("method", sort=False)}
    cells = []
    for part in by_method.values():
        row = [Cell(str(part["pairs"].iloc[0]), value=int(part["pairs"].iloc[0]))]
        for name in changes:
            rate = part.loc[name] if name in part.index else pd.Series(np.nan, ["kept", "low", "high"])
            row += [number_cell(100 * rate["kept"], 1), _range(100 * rate["low"], 100 * rate["high"], 1)]
        cells.append(row)
    settings = run.experiment.get("realism", {}).get("robustness", {})
    noise = f"Gaussian noise of {settings['noise']:g}" if settings else "Gaussian noise"
    caption = (
        "Of the counterfactuals that each method found, the share that the explained network itself still sees as the "
        f"target: rounded to 8 bits per channel, as a PNG stores it; under {noise}, in the mean; moved by one pixel, "
        "in the mean of four directions; and seen by the same network after another training, where the run has one."
    )
    rows = pd.DataFrame({"method": list(by_method)})
    return frame, _table(run, rows, columns, cells, caption, _rounding_sentence(frame, run.names))


def _rounding_sentence(frame: pd.DataFrame, names: dict[str, str]) -> str:
    """Which methods' counterfactuals do not survive being saved as a picture."""
    rounded = frame[frame["change"] == "kept_rounding"]
    counts = [(round(row.pairs * (1 - row.kept)), row.pairs, names[row.method]) for row in rounded.itertuples()]
    lost = [f"{count} of {pairs} by {name}" for count, pairs, name in counts if count]
    if lost:
        return f"Saved as a picture with 8 bits per channel, these are no longer counterfactuals: {', '.join(lost)}."
    return "Every counterfactual survives being saved as a picture with 8 bits per channel." if len(rounded) else ""


def attributes(run: Run) -> Built:
    """Change of ink, thickness and slant beside the natural difference of two classes, and where the change is."""
    natural = run.natural_changes.pivot(index=["label", "target"], columns="attribute", values="size")
    compared = run.results[summary.common(run.results)]
    expected = natural.reindex(pd.MultiIndex.from_frame(compared[["label", "target"]])).set_axis(compared.index)
    values = pd.DataFrame({"method": compared["method"]})
    for name in ATTRIBUTES:
        values[f"{name}_change"] = compared[f"{name}_change"]
        values[f"{name}_size"], values[f"{name}_natural"] = compared[f"{name}_change"].abs(), expected[name]
    values = values.assign(regions=compared["regions"], largest_region=compared["largest_region"])
    frame = values.groupby("method", sort=False).mean().reindex(list(run.names)).reset_index()
    parts = {"change": "change", "size": "size", "natural": "natural"}
    columns = [Column(text, group=f"{name} ({UNITS[name]})") for name in ATTRIBUTES for text in parts]
    columns += [Column(METRICS[name].text, group="where") for name in ("regions", "largest_region")]
    names = [f"{name}_{part}" for name in ATTRIBUTES for part in parts] + ["regions", "largest_region"]
    cells = [[number_cell(row[name]) for name in names] for row in frame.to_dict("records")]
    caption = (
        "Means over the pairs that every method found. “change” is after minus before, “size” is without its sign, "
        "“natural” is the size of the difference between a test image of the original’s class and one of the target’s. "
        "Regions are 8-connected groups of visibly changed pixels (by more than 0.1), with the share of the largest."
    )
    return frame, _table(run, frame, columns, cells, caption)
