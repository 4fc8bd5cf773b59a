"""Tables and figures from stored artefacts alone, as a sceptic makes them: no torch, no training, no trust."""

import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tables_environment
from artefacts import make_folder, make_pairs, make_shard, reseal

from deduce.evaluation import bundle
from deduce.evaluation.bundle import Bundle

METHODS = ("deduce", "jsma", "a_new_method")
SHARD = "counterfactuals/jsma/2.npz"
pytestmark = pytest.mark.workflow


@pytest.fixture(scope="module")
def sceptic(clean_checkout, tmp_path_factory):
    """A fresh checkout on a machine that has only what `make tables` installs, beside a folder of artefacts."""
    checkout = clean_checkout.copy(tmp_path_factory.mktemp("sceptic") / "repository")
    tables_environment.make(checkout.root / ".venv-tables")
    make_folder(checkout.root / "artefacts", METHODS, images=3)
    return checkout


def run(checkout, *arguments: str):
    """Snakemake with the default configuration, as in a fresh clone."""
    return command(checkout, ".venv-tables/bin/snakemake", "--cores", "1", *arguments)


def command(checkout, *command: str):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, cwd=checkout.root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def test_the_environment_has_no_torch(sceptic):
    for module in ("torch", "sklearn", "safetensors", "pyarrow"):
        assert "ModuleNotFoundError" in command(sceptic, ".venv-tables/bin/python", "-c", f"import {module}").stdout


def test_everything_is_made_from_the_folder_alone(sceptic):
    done = run(sceptic, "tables", "figures", "archive", "--config", "artifacts=artefacts")
    assert done.returncode == 0, done.stdout[-5000:]
    ran = set(re.findall(r"^(?:local)?rule (\w+):", done.stdout, re.M))
    evaluation = {"results_table", "write_tables", "draw_plots", "draw_pictures", "tables", "figures"}
    assert ran == {"verified_artifacts", "pack", "archive"} | evaluation
    results = sceptic.root / "results/stored"  # the name is the artefacts' own
    assert len(pd.read_csv(results / "results.csv")) == 3 * 2 * 3 * 9
    for table in ("table1", "table2", "table3", "table1_failures_worst", "l0_thresholds", "by_target"):
        for suffix in (".csv", ".md", ".tex", ".json"):
            text = (results / "tables" / table).with_suffix(suffix).read_text()
            assert re.search(r"a\\?_new\\?_method", text), f"{table}{suffix} lacks the new method"
    assert "a_new_method" in set(pd.read_csv(results / "tables/tests.csv").b)
    assert (results / "figures/examples_a_new_method.pdf").stat().st_size > 1000
    assert Bundle(results / "archive/stored.tar.gz").sums == Bundle(sceptic.root / "artefacts").sums


def test_make_tables_makes_everything_from_one_file(sceptic):
    done = command(sceptic, "make", "tables", "CORES=1")
    assert done.returncode != 0 and "results/reference.zip: no such file or folder. Name stored" in done.stdout
    bundle.pack(sceptic.root / "artefacts", sceptic.root / "results/reference.zip")
    done = command(sceptic, "make", "tables", "CORES=1")
    assert done.returncode == 0, done.stdout[-5000:]
    assert "Done. Look at: results/reference/report.html\n" in done.stdout
    results = sceptic.root / "results/reference"
    assert "a_new_method" in (results / "report.html").read_text()
    assert (results / "figures/examples_a_new_method.pdf").stat().st_size > 1000


def test_the_page_and_snakemakes_own_report_too(sceptic):
    done = run(sceptic, "report", "--config", "artifacts=artefacts")
    assert done.returncode == 0, done.stdout[-5000:]
    page = sceptic.root / "results/stored/report.html"
    text = page.read_text()
    assert page.stat().st_size < 15e6 and 'data-seed="2"' in text and "a_new_method" in text
    assert 'id="figure-training"' in text and 'id="figure-run_times"' in text  # from stored records, without torch
    done = run(sceptic, "report", "--report", "own.zip", "--config", "artifacts=artefacts")
    assert done.returncode == 0, done.stdout[-5000:]
    with zipfile.ZipFile(sceptic.root / "own.zip") as archive:
        names = {Path(name).name for name in archive.namelist()}
        assert {"report.html", "table1.csv", "claims.csv", "points_l1.png", "training.png"} <= names
        page = archive.read("own/report.html").decode()
    assert "Each sentence of the paper that states a result" in page  # a caption


def test_no_rule_of_this_mode_can_train_or_generate(sceptic):
    listed = run(sceptic, "--list-rules", "--config", "artifacts=artefacts").stdout
    rules = {line.split()[0] for line in listed.splitlines() if line}
    assert "verified_artifacts" in rules
    assert not {"train", "deduce", "jsma", "vlk", "pairs", "part", "validated", "fetch", "realism_scores"} & rules


def flipped(folder: Path) -> None:
    content = bytearray((folder / SHARD).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / SHARD).write_bytes(content)


def unlisted(folder: Path) -> None:
    (folder / SHARD).unlink()
    reseal(folder)


def truncated_and_resealed(folder: Path) -> None:
    (folder / SHARD).write_bytes((folder / SHARD).read_bytes()[:-100])
    reseal(folder)


def of_another_config(folder: Path) -> None:
    make_shard("jsma", 2, make_pairs(2, 3), step=0.9).save(folder / SHARD)
    reseal(folder)


def pickled(folder: Path) -> None:
    arrays = dict(np.load(folder / SHARD))
    arrays["found"] = np.array([object()] * len(arrays["found"]), dtype=object)
    np.savez(folder / SHARD, **arrays)
    reseal(folder)


@pytest.mark.parametrize("damage, message", [
    (flipped, "its SHA-256 is not the one in SHA256SUMS"),
    (lambda folder: (folder / SHARD).unlink(), "is listed in SHA256SUMS, but is missing"),
    (unlisted, "is missing: the artefacts do not list it"),
    (truncated_and_resealed, "not a readable .npz without pickles"),
    (of_another_config, "was made with step = 0.9, but this experiment has 0.2"),
    (pickled, "not a readable .npz without pickles"),
])  # fmt: skip
def test_damage_stops_with_the_file_and_what_is_wrong(sceptic, tmp_path, damage, message):
    folder = tmp_path / "artefacts"
    shutil.copytree(sceptic.root / "artefacts", folder)
    damage(folder)
    done = run(sceptic, "tables", "--config", f"artifacts={folder}", f"name={tmp_path.name.strip('_')}")
    assert done.returncode != 0
    assert any(SHARD in line and message in line for line in done.stdout.splitlines()), done.stdout[-3000:]
    assert "Traceback" not in done.stdout
    assert not (sceptic.root / "results" / tmp_path.name.strip("_") / "tables/table1.csv").exists()
