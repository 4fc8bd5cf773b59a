"""Writes the tables between the comments `<!-- NAME -->` and `<!-- end -->` of docs/methods.md from a finished run.

snakemake --cores 2 all uncertainty pertinent_positives --configfile config/related.yaml
python docs/related_tables.py results/related
"""

import sys
from pathlib import Path

import pandas as pd

from deduce.evaluation import intervals
from deduce.evaluation.metrics import FAILURE, METRICS
from deduce.evaluation.statistics import SHARES

PAGE = Path(__file__).resolve().parent / "methods.md"
COLUMNS = ["failure", "l0", "l0_above_0.0001", "l1", "agan", "im1", "im2", "log_density", "oracle"]
MEASURES = ["confidence", "entropy", "mutual_information"]
READINGS = ["schut_confidence", "wachter_readings", "cem_targeted", "piece_features"]


def table(headings: list[str], rows: list[list[str]]) -> str:
    lines = [headings, ["---", *["--:"] * (len(headings) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def heading(name: str) -> str:
    return "failures, %" if name == FAILURE.name else METRICS[name].text + (", %" if name in SHARES else "")


def shown(name: str, value: float, sign: str = "") -> str:
    """Shares are stored as such, and shown in %."""
    digits = METRICS[name].decimals if name in ("im1", "im2") else 1
    return f"{round(value * (100 if name in SHARES else 1), digits) + 0.0:{sign}.{digits}f}".replace("-", "−")


def bounded(name: str, value: float, low: float, high: float, sign: str = "") -> str:
    return f"{shown(name, value, sign)} [{shown(name, low, sign)}, {shown(name, high, sign)}]"


def methods(run: Path) -> str:
    """Each method over the pairs that it found, with intervals over images; failures are of all pairs."""
    results = pd.read_csv(run / "results.csv").assign(failure=lambda frame: ~frame["found"])
    seconds = pd.read_csv(run / "tables/table2.csv").set_index("method")["seconds"]
    rows = []
    for method, frame in results.groupby("method", sort=False):
        cells = []
        for name in COLUMNS:
            chosen = frame[frame[name].notna() & (frame["found"] | (name == FAILURE.name))]
            estimate = intervals.mean(chosen[name], chosen)
            interval = estimate.rate_interval() if name in SHARES else estimate.interval()
            cells.append(bounded(name, estimate.value, *interval))
        rows.append([frame["display_name"].iloc[0], *cells, f"{seconds[method]:.1f}"])
    return table(["method", *map(heading, COLUMNS), "seconds"], rows)


def densities(run: Path) -> str:
    """The means of the paper's densities, and what each of the others changes, pair by pair."""
    tests = pd.read_csv(run / "tables/densities_tests.csv")
    names = list(tests["metric"].unique())
    first = tests.drop_duplicates("metric").set_index("metric")
    rows = [[first["a"].iloc[0], *(shown(name, first.loc[name, "mean_a"]) for name in names)]]
    for label, by_metric in tests.groupby("b", sort=False):
        of_metric = by_metric.set_index("metric").loc[names]
        cells = [bounded(name, -row.mean_difference, -row.high, -row.low, "+") for name, row in of_metric.iterrows()]
        rows.append([label, *cells])
    return table(["densities", *map(heading, names)], rows)


def readings(run: Path) -> str:
    rows = []
    for sweep in READINGS:
        for row in pd.read_csv(run / f"tables/{sweep}.csv").itertuples():
            rows.append([f"`{sweep}`", row.label, *(f"{value:.1f}" for value in (row.failure, row.l0, row.l1))])
    return table(["sweep", "setting", "failure in %", "L0", "L1"], rows)


def uncertainty(run: Path) -> str:
    names = pd.read_csv(run / "results.csv").groupby("method")["display_name"].first()
    columns = [f"{name}_{when}" for name in MEASURES for when in ("before", "after")]
    rows = []
    for row in pd.read_csv(run / "tables/uncertainty.csv").to_dict("records"):
        rows.append([names[row["method"]], str(row["found"]), *(f"{row[name]:.3f}" for name in columns)])
    return table(["method", "found", *(name.replace("_", " ") for name in columns)], rows)


def main(run: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    for make in (methods, densities, readings, uncertainty):
        beginning, rest = text.split(f"<!-- {make.__name__} -->\n")
        text = f"{beginning}<!-- {make.__name__} -->\n{make(run)}\n<!-- end -->" + rest.split("<!-- end -->", 1)[1]
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
