"""The page of a run: one HTML file that needs nothing else, made from the data of its tables, figures and shards."""

import base64
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from deduce.evaluation import paper
from deduce.evaluation.catalogue import SECTIONS
from deduce.evaluation.metrics import METRICS, PAPER
from deduce.evaluation.run import Run
from deduce.evaluation.summary import QUESTION
from deduce.evaluation.tables import choose_pairs, frame_table
from deduce.evaluation.verdicts import RESULTS
from deduce.provenance import versions
from deduce.report import answer, gallery

FOLDER = Path(__file__).parent
PACKAGES = ("pandas", "scipy", "matplotlib", "jinja2", "snakemake")  # the page names their versions
DURATIONS = ["rule", "jobs", "seconds", "longest_job_in_s", "memory_in_MB"]
SHOWN = (*(metric.name for metric in PAPER), "oracle")  # scores that the gallery shows without a click
COPIED = ("csv", "md", "tex")  # the formats in which a reader can copy a table
# By result of a claim: its rank when the table is sorted, its class and its sign.
MARKS = dict(zip(RESULTS, ((0, "yes", "✓"), (1, "no", "✕"), (2, "open", "◐"), (3, "untested", "○")), strict=True))
Files = Mapping[str, bytes]  # the files of one table or figure by suffix; "json" describes it


@dataclass
class PageData:
    """Everything that a page is made from. If a run lacks something, its section is left out or says why."""

    run: Run
    tables: dict[str, Files]  # by name, in the order of the page: "json", "csv", "md", "tex"
    figures: dict[str, Files] = field(default_factory=dict)  # by name, in the order of the page: "json", "png", "pdf"
    manifest: dict[str, Any] = field(default_factory=dict)
    sums: str = ""  # SHA256SUMS
    benchmarks: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=DURATIONS))  # one row per rule

    def frame(self, table: str) -> pd.DataFrame:
        """A table's CSV; empty if the run does not have the table."""
        return pd.read_csv(io.BytesIO(self.tables[table]["csv"])) if table in self.tables else pd.DataFrame()

    @property
    def machine(self) -> str:
        """The machine that run times were measured on; empty if they were not measured."""
        return ", ".join(sorted(set(self.run.timing["machine"].dropna())))


def by_name(paths: Iterable[str | Path]) -> dict[str, Files]:
    """The contents of the files of tables or figures, by name and suffix."""
    contents: dict[str, Any] = {}
    for path in map(Path, paths):
        contents.setdefault(path.stem, {})[path.suffix[1:]] = path.read_bytes()
    return contents


def render(data: PageData) -> str:
    environment = Environment(loader=FileSystemLoader(FOLDER / "templates"), autoescape=True, undefined=StrictUndefined)
    environment.trim_blocks = environment.lstrip_blocks = True
    environment.policies["json.dumps_kwargs"] = {"sort_keys": False}  # methods stay in the order of the config
    environment.globals["inline"] = lambda name: Markup((FOLDER / "templates" / name).read_text())
    return environment.get_template("report.html").render(context(data))


def context(data: PageData) -> dict[str, Any]:
    """The variables of the templates."""
    run, results, names = data.run, data.run.results, data.run.names
    claims = data.frame("claims") if run.dataset.paper else pd.DataFrame()
    packets = gallery.packets(gallery.test_sets(run))
    tables = data.tables | ({"durations": _durations_table(data.benchmarks)} if len(data.benchmarks) else {})
    return {
        "run": run,
        "sections": _sections(data, tables),
        "sentences": answer.sentences(run, claims, data.frame("tests")),
        "scale_note": answer.scale_note(results, run.experiment) if run.dataset.paper else "",
        "realism_note": answer.realism_note(data.frame("sanity")),
        "facts": {
            "methods": len(names),
            "trainings of each classifier": results["training_seed"].nunique(),
            "test sets": results["seed"].nunique(),
            "images": len(results.groupby(["seed", "image"])),
            "image–target pairs": f"{len(results.groupby(QUESTION)):,}",
            "counterfactuals found": f"{results['found'].sum():,} of {len(results):,}",
        },
        "texts": {name: {kind: files[kind].decode() for kind in COPIED} for name, files in tables.items()},
        "claims": [_claim(row) for row in claims.to_dict("records")],
        "packets": packets,
        "omitted": _omitted(results, packets),
        "gallery": _gallery_facts(run),
        "differences": differences(run.experiment, data.tables) if run.dataset.paper else [],
        "made": _made(data),
    }


def _claim(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the claims with its mark, and where its interval and threshold stand in a strip of 0 to 100."""
    claim = row | {"mark": MARKS[row["result"]], "strip": None}
    if not pd.isna([row["low"], row["high"], row["threshold"]]).any():
        ends = row["low"], row["high"], row["threshold"]
        least, width = min(ends), (max(ends) - min(ends)) or 1.0
        places = {name: 5 + 90 * (row[name] - least) / width for name in ("low", "high", "estimate", "threshold")}
        claim["strip"] = {name: round(place, 1) for name, place in places.items()}
    return claim


def _sections(data: PageData, tables: Mapping[str, Files]) -> list[dict[str, Any]]:
    """The sections that have content or a note, each with its open tables and figures and those of each fold.

    A table is followed by the figure of the same name; other figures come after all tables.
    """
    blocks = {"answer", "gallery", "made"}  # sections whose template shows more than tables and figures
    if data.run.dataset.paper:
        blocks |= {"differences"} | ({"claims"} & tables.keys())
    items = [_table(files) for name, files in tables.items() if name != "claims"]
    place = {(table["name"], table["fold"]): position for position, table in enumerate(items)}
    items += [_figure(files) for files in data.figures.values()]
    items.sort(key=lambda item: place.get((item["name"], item["fold"]), len(place)))
    sections = []
    for section in SECTIONS:
        folds: dict[str, list[dict[str, Any]]] = {"": []}
        for item in (item for item in items if item["section"] == section.id):
            folds.setdefault(item["fold"], []).append(item)
        has_content = any(folds.values()) or section.id in blocks
        if (note := _note(data, section.id, has_content)) or has_content:
            lead = section.lead_of(data.run.dataset) if has_content else ""
            sections.append({"about": section, "lead": lead, "note": note, "items": folds.pop(""), "folds": folds})
    return sections


def _note(data: PageData, section: str, has_content: bool) -> str:
    """A sentence about this run below a section's lead: what was not measured, or where times were measured."""
    if section == "times":
        if not has_content:
            return f"Run times were not {'stored' if data.run.published else 'measured'}."
        return f"Measured on {data.machine}." if data.machine else ""
    absent = [metric.text for metric in PAPER if not data.run.results[metric.name].notna().any()]
    return f"This run did not measure {' and '.join(absent)}." if section == "metrics" and absent else ""


def _table(files: Files) -> dict[str, Any]:
    """A table's description for the template, with its groups of columns: the heading and the width of each."""
    table = json.loads(files["json"])
    spans = [(group, len(list(columns))) for group, columns in groupby(column["group"] for column in table["columns"])]
    return {"title": "", "lead": ""} | table | {"groups": spans if any(group for group, _ in spans) else []}


def _figure(files: Files) -> dict[str, Any]:
    # The header of a PNG has its size at a fixed place; the browser reserves the space for it.
    width, height = (int.from_bytes(files["png"][start : start + 4], "big") for start in (16, 20))
    pictures = {suffix: base64.b64encode(files[suffix]).decode() for suffix in ("png", "pdf")}
    return json.loads(files["json"]) | pictures | {"width": width, "height": height}


def _omitted(results: pd.DataFrame, packets: list[gallery.Packet]) -> str:
    """A sentence that says which images the gallery leaves out; empty if it holds all of them."""
    images = results.groupby("seed")["image"].nunique()
    kept = sum(packet.images for packet in packets)
    if kept == images.sum():
        return ""
    sets = ", ".join(f"{packet.images} of {images[packet.seed]} of test set {packet.seed}" for packet in packets)
    return f"To keep this page small, the gallery holds {kept} of the {images.sum()} images ({sets})."


def _gallery_facts(run: Run) -> dict[str, Any]:
    """What the gallery's script needs besides the packets."""
    metrics = gallery.measured(run.results)
    whole = [name for name in metrics if pd.api.types.is_integer_dtype(run.results[name])]
    return {
        "methods": run.names,
        "metrics": {name: METRICS[name].text for name in metrics},
        "folded": [name for name in metrics if name not in SHOWN],
        "decimals": {name: 0 if name in whole else METRICS[name].decimals for name in metrics},
        "example": _example(run.first_training, next(iter(run.names))),
        "classes": list(run.dataset.classes),
    }


def _example(results: pd.DataFrame, method: str) -> list[int]:
    """Test set, image and target that the page opens with: the first pair of the grid figure that the method found."""
    seed, pairs = results["seed"].min(), choose_pairs(results, paper.TABLE3_PAIRS)
    found = results[(results["seed"] == seed) & (results["method"] == method) & results["found"]]
    solved = set(found[["image", "target"]].itertuples(index=False, name=None))
    image, target = next((pair for pair in pairs if pair in solved), pairs[0])
    return [int(seed), int(image), int(target)]


def differences(experiment: Mapping[str, Any], tables: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Where the paper and its code differ. A `switch` is the config key that chooses between the two readings.

    `here` is this run's choice (None if the config lacks the key); `sweeps` are the sweeps in `tables` that vary it.
    """
    entries = yaml.safe_load((FOLDER / "differences.yaml").read_text())
    sweeps = {name: sweep for name, sweep in (experiment.get("sweeps") or {}).items() if name in tables}
    for switch in (entry["switch"] for entry in entries if "switch" in entry):
        value: Any = experiment
        for key in switch["key"].split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        switch["here"] = value
        switch["sweeps"] = [name for name, sweep in sweeps.items() if switch["key"] in _varied_keys(sweep)]
    return entries


def _varied_keys(sweep: Mapping[str, Any]) -> Iterator[str]:
    """The config keys that a sweep varies, each with the name of its section."""
    for name, values in sweep.get("vary", {}).items():
        # Values are a list, or settings by their label; an overlay removes a label by setting it to null.
        points = values.values() if isinstance(values, Mapping) else [[name]]
        keys = [key for settings in points for key in settings or ()]
        yield from (key if "." in key else f"{sweep['method']}.{key}" for key in keys)


def _made(data: PageData) -> dict[str, Any]:
    host, benchmarks = data.manifest.get("host", {}), data.benchmarks
    return {
        "config": yaml.safe_dump(dict(data.run.experiment), sort_keys=False, allow_unicode=True),
        "versions": data.manifest.get("versions", {}),
        "page_versions": versions(*PACKAGES),
        "machine": data.machine or f"{host.get('system', '')} {host.get('machine', '')}".strip(),
        "command": data.manifest.get("command", ""),
        "merged": [_of_source(about) for about in data.manifest.get("merged", [])],
        "sums": data.sums,
        "seconds": float(benchmarks["seconds"].sum()),
        "jobs": int(benchmarks["jobs"].sum()),
        "records": {model: record.to_csv(index=False) for model, record in data.run.records.items()},
    }


def _of_source(about: Mapping[str, Any]) -> str:
    """Where some of the trainings of merged artefacts were made."""
    seeds, host = ", ".join(map(str, about["training_seeds"])), about.get("host") or {}
    judged = "" if about.get("same_judges", True) else "; realism judged by other models than the first seed's"
    return f"training seed {seeds}: {host.get('system', '')} {host.get('machine', '')}{judged}"


def _durations_table(benchmarks: pd.DataFrame) -> Files:
    name, table = "durations", frame_table(benchmarks, "Time and memory of each rule's jobs.", decimals=1)
    texts = {"csv": benchmarks.to_csv(index=False), "md": table.markdown(), "tex": table.tex(name)}
    texts["json"] = json.dumps(table.data(name, "made", "Durations per rule"))
    return {kind: text.encode() for kind, text in texts.items()}


def durations(folder: Path) -> pd.DataFrame:
    """Snakemake's benchmark files, summed over the jobs of each rule, and of all variants of a method.

    A rule's files are `RULE.tsv` or `RULE/….tsv`; those of a method's variants are `METHOD@SETTINGS/….tsv`.
    """
    rows = []
    for path in sorted(folder.rglob("*.tsv")):
        rule, _, variant = path.relative_to(folder).parts[0].removesuffix(".tsv").partition("@")
        job = pd.read_csv(path, sep="\t", na_values=["-", "NA"]).iloc[0]
        rows.append((f"{rule} (variants)" if variant else rule, job["s"], job["s"], job["s"], job["max_rss"]))
    functions = dict(zip(DURATIONS[1:], ("size", "sum", "max", "max"), strict=True))
    frame = pd.DataFrame(rows, columns=DURATIONS).groupby("rule").agg(functions)
    return frame.sort_values("seconds", ascending=False).reset_index()
