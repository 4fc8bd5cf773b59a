"""The page of a run: one HTML file that needs nothing else, made from the run's tables, figures and shards."""

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from deduce.evaluation import paper, vlk_parity
from deduce.evaluation.metrics import METRICS
from deduce.evaluation.results import display_names
from deduce.evaluation.tables import choose_pairs
from deduce.report import answer, gallery, views

FOLDER = Path(__file__).parent
DATASETS = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST"}


@dataclass
class Run:
    """All that a page is made from. What a run does not have is empty, and its section says so or is left out."""

    experiment: dict[str, Any]  # the config
    results: pd.DataFrame
    sets: Iterable[gallery.TestSet]
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)  # by the name of their file
    texts: dict[str, dict[str, str]] = field(default_factory=dict)  # of the same: "csv", "md", "tex"
    figures: dict[str, dict[str, bytes]] = field(default_factory=dict)  # by name: "png", "pdf"
    records: dict[str, pd.DataFrame] = field(default_factory=dict)  # training records by model
    timing: pd.DataFrame = field(default_factory=pd.DataFrame)
    manifest: dict[str, Any] = field(default_factory=dict)
    sums: str = ""  # SHA256SUMS
    benchmarks: pd.DataFrame = field(default_factory=pd.DataFrame)  # one row per rule: see `durations`
    published: bool = False  # the authors' stored results


def render(run: Run) -> str:
    """The page as HTML."""
    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.policies["json.dumps_kwargs"] = {"sort_keys": False}  # methods stay in the order of the config
    environment.globals["inline"] = lambda name: Markup((FOLDER / "templates" / name).read_text())
    return environment.get_template("report.html").render(context(run))


def context(run: Run) -> dict[str, Any]:
    """What the template shows."""
    names = display_names(run.results)
    packed = gallery.packets(run.sets)
    tables = _views(run, names)
    return {
        "name": run.experiment.get("name", ""),
        "dataset": DATASETS.get(run.experiment.get("dataset", ""), run.experiment.get("dataset", "")),
        "published": run.published,
        "names": names,
        "sentences": answer.sentences(run.results, run.tables["claims"], _references(run), names),
        "scale_note": answer.scale_note(run.results, run.experiment),
        "realism_note": answer.realism_note(run.tables.get("sanity", pd.DataFrame())),
        "facts": _facts(run, names),
        "tables": tables,
        "sweeps": _sweeps(run),
        "parity": vlk_parity.sentence(run.tables["vlk_parity"]) if "vlk_parity" in run.tables else "",
        "texts": {name: view.texts for name, view in tables.items()} | {"claims": run.texts["claims"]},
        "figures": {name: _figure(name, files) for name, files in run.figures.items()},
        "claims": run.tables["claims"].fillna("").to_dict("records"),
        "packets": packed,
        "omitted": _omitted(run.results, packed),
        "gallery": _gallery_facts(run, names),
        "differences": differences(run.experiment, _sweeps(run)),
        "metric_figures": [name for name in METRICS if f"points_{name}" in run.figures],
        "made": _made(run),
    }


def _references(run: Run) -> pd.DataFrame:
    return run.tables.get("references", pd.DataFrame())


def _facts(run: Run, names: Mapping[str, str]) -> list[tuple[str, str]]:
    results = run.results
    return [
        ("methods", str(len(names))),
        ("test sets", str(results["seed"].nunique())),
        ("images", str(len(results[["seed", "image"]].drop_duplicates()))),
        ("image–target pairs", f"{len(results[['seed', 'image', 'target']].drop_duplicates()):,}"),
        ("counterfactuals found", f"{int(results['found'].sum()):,} of {len(results):,}"),
    ]


def _views(run: Run, names: Mapping[str, str]) -> dict[str, views.View]:
    """The tables of the page by name; those that the run does not have are absent."""
    caption = run.texts.get("table1", {}).get("md", "").partition("\n")[0]
    made = {"table1": views.table1(run.tables["table1"], names, caption, "stored" if run.published else "this run")}
    for name, (title, headings, options) in TABLES.items():
        if name not in run.tables or run.tables[name].empty:
            continue
        frame = run.tables[name]
        if name == "tests":  # all of them are too many to read: pooled over test sets
            frame = frame[frame["scope"].astype(str) == "all"].reset_index(drop=True)
            frame["metric"] = frame["metric"].map(lambda metric: METRICS[metric].text if metric in METRICS else metric)
        if name == "vlk_parity":
            frame = vlk_parity.readable(frame)
        texts = run.texts.get(name, {}) if name != "tests" else {}
        wanted = headings or _headings(frame)
        made[name] = views.of_frame(name, frame, title, wanted, texts, names, **options)
    measures = {"l0": "L0", "l1": "L1", "failure": "failure in %"}
    for name in _sweeps(run):
        frame = run.tables[name]
        headings = {"label": "setting"} | measures | {"pairs": "pairs", "iterations": "iterations"}
        headings |= {f"paper_{key}": f"paper: {text}" for key, text in measures.items() if frame[f"paper_{key}"].any()}
        caption = run.texts[name].get("md", name).partition("\n")[0]
        made[name] = views.of_frame(name, frame, caption, headings, run.texts[name])
    if len(run.benchmarks):
        made["durations"] = views.of_frame("durations", run.benchmarks, "Time and memory of each rule's jobs.",
                                           _headings(run.benchmarks), decimals=1)  # fmt: skip
    return made


def _headings(frame: pd.DataFrame) -> dict[str, str]:
    """Every column by its own name; a metric by the metric's, and deviations as such."""
    known = {name: metric.text for name, metric in METRICS.items()}
    known |= {f"{name}_std": f"{text}, sd" for name, text in known.items()}
    return {column: known.get(column, column.replace("_", " ")) for column in frame}


# Name of the file: caption, columns with their headings (empty: all of them), and how to write them.
TABLES: dict[str, tuple[str, dict[str, str], dict[str, Any]]] = {
    "success": ("How often each method found a counterfactual, with 95 % Wilson intervals.", {}, {"decimals": 3}),
    "table1_failures_worst": ("Table 1 over all pairs: a failure gets the worst value that any method got.", {}, {}),
    "table1_own_pairs": ("Table 1, each method over the pairs that it found itself.", {}, {}),
    "table1_all_metrics": ("Every metric of this run, on the pairs that all methods found.", {}, {"decimals": 3}),
    "table1_cleaned": ("Table 1 without the stored rows that hold no image.", {}, {}),
    "l0_thresholds": ("Mean L0 if a pixel must differ by more than a threshold to count; the paper's is 0.", {}, {}),
    "by_target": ("How hard each target class is: means over each method's found pairs.", {}, {}),
    "table2": ("Table 2: seconds for one counterfactual made alone, on this machine.", {}, {"decimals": 3}),
    "table2_paper": ("Table 2 beside the paper's (a Tesla T4).", {}, {"decimals": 3}),
    "table3": ("Table 3: the scores of the counterfactuals in the grid.", {}, {}),
    "table3_paper": ("Table 3 beside the paper's, where the pairs are the same.", {}, {}),
    "tests": (
        "Paired tests of every two methods, all test sets pooled. Differences are a − b; p is adjusted by Holm.",
        {"a": "a", "b": "b", "metric": "metric", "mask": "pairs", "n": "n", "mean_difference": "mean difference",
         "ci_low_images": "95 % from", "ci_high_images": "to", "cohen_dz": "Cohen's dz", "p_holm": "p (t)",
         "wilcoxon_p_holm": "p (Wilcoxon)", "mcnemar_p": "p (McNemar)", "wins": "wins", "losses": "losses"},
        {"p": ("p_holm", "wilcoxon_p_holm", "mcnemar_p")},
    ),
    "sanity": ("How well the AnoGAN score tells the dataset from others.", {}, {"decimals": 3}),
    "model_card": ("The models, measured, beside what is known of the authors'.", {}, {"decimals": 4}),
    "audit": ("Audit of the authors' stored results.", {}, {}),
    "switches": ("The readings that can be switched, measured side by side.", {}, {"decimals": 3}),
    **vlk_parity.TABLES,
}  # fmt: skip


def _sweeps(run: Run) -> dict[str, list[str]]:
    """The sweeps that were made, each with what its table says of the settings that the paper compares."""
    made = [name for name in run.experiment.get("sweeps") or {} if name in run.tables]
    return {name: re.findall(r"^- (.*)", run.texts[name].get("md", ""), flags=re.MULTILINE) for name in made}


def _omitted(results: pd.DataFrame, packed: list[gallery.Packet]) -> str:
    """What of the run is not in the gallery, as a sentence; empty if all of it is."""
    images = results.groupby("seed")["image"].nunique()
    shown = sum(packet.images for packet in packed)
    if shown == images.sum():
        return ""
    sets = ", ".join(f"{packet.images} of {images[packet.seed]} of test set {packet.seed}" for packet in packed)
    return f"To keep this page small, the gallery holds {shown} of the {images.sum()} images ({sets})."


def _gallery_facts(run: Run, names: Mapping[str, str]) -> dict[str, Any]:
    """What the gallery's script needs to know besides the packets."""
    return {
        "methods": dict(names),
        "metrics": {name: METRICS[name].text for name in gallery.measured(run.results)},
        "decimals": {name: METRICS[name].decimals for name in gallery.measured(run.results)},
        "example": _example(run.results, next(iter(names))),
    }


def _example(results: pd.DataFrame, method: str) -> list[int]:
    """Test set, image and target that the page opens with: the first of the grid's pairs that the method found."""
    first = results[results["seed"] == results["seed"].min()]
    shown = choose_pairs(results, paper.draws(paper.TABLE3_PAIRS), len(paper.TABLE3_PAIRS))
    found = first[(first["method"] == method) & first["found"]]
    solved = set(found[["image", "target"]].itertuples(index=False, name=None))
    image, target = next((pair for pair in shown if pair in solved), shown[0])
    return [int(first["seed"].iloc[0]), int(image), int(target)]


def differences(experiment: Mapping[str, Any], made: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Paper against code, and what is known here of a config key that chooses between their readings.

    Its `here` is this run's choice (None if it has no such key), and `sweeps` those of the `made` ones that vary it.
    """
    listed = yaml.safe_load((FOLDER / "differences.yaml").read_text())
    for item in listed:
        switch = item.get("switch")
        if switch:
            value: Any = experiment
            for key in switch["key"].split("."):
                value = value.get(key) if isinstance(value, Mapping) else None
            switch["here"] = value
            switch["sweeps"] = [name for name in made if _varies(experiment["sweeps"][name], switch["key"])]
    return listed


def _varies(sweep: Mapping[str, Any], key: str) -> bool:
    """Whether a sweep sets this key; keys of its own method stand there without the method's name."""
    return f"'{key.removeprefix(sweep.get('method', '') + '.')}'" in str(sweep.get("vary", ""))


def _figure(name: str, files: Mapping[str, bytes]) -> dict[str, Any]:
    # A PNG's header has its size at a fixed place: the browser keeps the room for it.
    width, height = (int.from_bytes(files["png"][at : at + 4], "big") for at in (16, 20))
    links = {kind: base64.b64encode(content).decode() for kind, content in files.items()}
    return {"name": name, "width": width, "height": height, **links}


def _made(run: Run) -> dict[str, Any]:
    """How this run was made."""
    manifest = run.manifest
    machine = sorted(set(run.timing["machine"])) if "machine" in run.timing else []
    host = manifest.get("host", {})
    here = {name: metadata.version(name) for name in ("pandas", "scipy", "matplotlib", "jinja2", "snakemake")
            if _installed(name)}  # fmt: skip
    return {
        "config": yaml.safe_dump(run.experiment, sort_keys=False, allow_unicode=True),
        "versions": manifest.get("versions", {}),
        "page_versions": here,
        "machine": ", ".join(machine) or f"{host.get('system', '')} {host.get('machine', '')}".strip(),
        "command": manifest.get("command", ""),
        "sums": [line.split(maxsplit=1) for line in run.sums.splitlines()],
        "sums_text": run.sums,
        "seconds": float(run.benchmarks["seconds"].sum()) if len(run.benchmarks) else 0.0,
        "jobs": int(run.benchmarks["jobs"].sum()) if len(run.benchmarks) else 0,
        "records": {model: record.to_csv(index=False) for model, record in run.records.items()},
    }


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def durations(folder: Path) -> pd.DataFrame:
    """Snakemake's benchmark files, summed over the jobs of each rule: rule, jobs, seconds, longest, memory in MB."""
    rows = []
    for path in sorted(folder.rglob("*.tsv")):
        relative = path.relative_to(folder).with_suffix("")
        # Names end with the test set and the part of each job.
        rule = re.sub(r"[-/]?(\d+|validation)(-\d+)*$", "", str(relative)) or str(relative)
        rule = re.sub(r"@[^/]*", " (sweeps)", rule)
        measured = pd.read_csv(path, sep="\t", na_values=["-", "NA"])
        rows.append({"rule": rule, "seconds": measured["s"].iloc[0], "memory": measured["max_rss"].iloc[0]})
    if not rows:
        return pd.DataFrame()
    groups = pd.DataFrame(rows).groupby("rule")
    frame = pd.DataFrame({"jobs": groups.size(), "seconds": groups["seconds"].sum()})
    frame["longest_job_in_s"] = groups["seconds"].max()
    frame["memory_in_MB"] = groups["memory"].max()
    return frame.sort_values("seconds", ascending=False).reset_index()
