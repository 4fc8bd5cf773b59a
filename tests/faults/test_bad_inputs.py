"""Bad configs, files, command lines and calls: each is one sentence, soon, and nothing else happens."""

import re
import subprocess
import time
from pathlib import Path

import artefacts
import pytest
import yaml
from bad_inputs import (
    CALLS,
    COMMAND_LINES,
    CONFIG_FILES,
    CONFIGS,
    CSV_FILES,
    MANIFESTS,
    PAIR_FILES,
    SCORE_FILES,
    SHARDS,
    write,
)
from conftest import BIN, ROOT
from small_world import world
from tally import count

from deduce.artifacts import save_sums, sha256
from deduce.config_files import LOADER, check_file
from deduce.errors import InputError
from deduce.evaluation.run import Run
from deduce.experiment import Experiment
from deduce.shards import ContractError, Pairs, Scores, Shard

SOON = 5  # seconds of work


def refused(function, *arguments, sentence: str, kind: type[InputError] = InputError, what: str) -> None:
    """The function refuses its arguments by one sentence of the right kind, soon."""
    started = time.process_time()
    with pytest.raises(InputError) as caught:
        function(*arguments)
    assert isinstance(caught.value, kind), caught.value
    assert sentence in str(caught.value) and "\n" not in str(caught.value)
    assert time.process_time() - started < SOON
    count("bad inputs", what, "one sentence")


@pytest.mark.parametrize("number", range(len(CONFIGS)))
def test_a_bad_config(number):
    config, sentence = CONFIGS[number]
    refused(Experiment.load, config, ROOT, sentence=sentence, what="configs")


@pytest.mark.parametrize("name", CONFIG_FILES)
def test_a_bad_config_file(name, tmp_path):
    content, sentence = CONFIG_FILES[name]
    refused(check_file, write(content, tmp_path / "bad.yaml"), sentence=sentence, what="config files")


def test_a_folder_and_an_unreadable_file_are_no_config(tmp_path):
    refused(check_file, tmp_path, sentence="is a directory", what="config files")


@pytest.mark.parametrize("name", SHARDS)
def test_a_bad_shard(name, tmp_path):
    content, sentence = SHARDS[name]
    path = write(content, tmp_path / "bad.npz")
    refused(Shard.load, path, sentence=sentence, kind=ContractError, what="shards, pairs and scores")


@pytest.mark.parametrize("name", PAIR_FILES)
def test_bad_pairs(name, tmp_path):
    content, sentence = PAIR_FILES[name]
    path = write(content, tmp_path / "bad.npz")
    refused(Pairs.load, path, sentence=sentence, kind=ContractError, what="shards, pairs and scores")


@pytest.mark.parametrize("name", SCORE_FILES)
def test_bad_scores(name, tmp_path):
    content, sentence = SCORE_FILES[name]
    path = write(content, tmp_path / "bad.npz")
    refused(Scores.load, path, sentence=sentence, kind=ContractError, what="shards, pairs and scores")


@pytest.mark.parametrize("name", CSV_FILES)
def test_a_bad_csv_file(name, tmp_path):
    content, sentence = CSV_FILES[name]
    path = write(content, tmp_path / "card.csv")
    run = Run({}, {"card": path})
    refused(lambda: run.card, sentence=f"{path}: {sentence}", what="tables of artefacts")


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> Path:
    return artefacts.make_folder(tmp_path_factory.mktemp("stored") / "stored", methods=("deduce",), seeds=(1,))


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_bad_manifest(name, stored, monkeypatch, tmp_path):
    text, sentence = MANIFESTS[name]
    monkeypatch.chdir(tmp_path)
    (stored / "manifest.json").write_text(text)
    names = [name for name in artefacts.files(stored) if not name.startswith(".")]
    save_sums(stored / "SHA256SUMS", {name: sha256(stored / name) for name in [*names, "manifest.json"]})
    refused(Experiment.load, {"artifacts": str(stored)}, ROOT, sentence=sentence, what="manifests")


@pytest.mark.parametrize("name", CALLS)
def test_a_bad_call(name):
    world()  # trained before the clock starts
    function, sentence = CALLS[name]
    refused(function, sentence=sentence, what="calls of the library")


@pytest.mark.workflow
@pytest.mark.parametrize(
    "number",
    [pytest.param(number, marks=[pytest.mark.faults] if number > 5 else []) for number in range(len(COMMAND_LINES))],
)
def test_a_bad_command_line(number, clean_checkout, tmp_path):
    arguments, sentence = COMMAND_LINES[number]
    files = {"binary": "binary", "bomb": "a bomb of maps", "recursive": "a recursive anchor"}
    for file, name in (files | {"yte": "code in an expression"}).items():
        write(CONFIG_FILES[name][0], tmp_path / f"{file}.yaml")
    arguments = [str(tmp_path / word) if word.endswith(".yaml") else word for word in arguments]
    command = [str(BIN / "snakemake"), "--cores", "1", "--dry-run", "data", *arguments]
    run = subprocess.run(command, cwd=clean_checkout.root, capture_output=True, text=True, timeout=120)
    output = run.stdout + run.stderr
    assert run.returncode != 0 and sentence in output, output[-3000:]
    assert "Traceback" not in output and "Error in" not in output, output[-3000:]
    assert not (clean_checkout.root / "results/small").exists()
    count("bad inputs", "command lines", "one sentence")


def test_the_table_is_long_enough():
    tables = (CONFIGS, CONFIG_FILES, SHARDS, PAIR_FILES, SCORE_FILES, CSV_FILES, MANIFESTS, CALLS, COMMAND_LINES)
    assert sum(map(len, tables)) >= 150


RUNS_CODE = re.compile(
    r"pickle\.load|(?<![\w.])(eval|exec)\(|allow_pickle=True|yaml\.load\((?!.*, LOADER\))|joblib|shell=True"
)


def test_nothing_that_is_loaded_can_execute_code():
    """The library reads no pickles and evaluates no text, but for checkpoints, which torch reads as weights only."""
    assert LOADER in (yaml.SafeLoader, getattr(yaml, "CSafeLoader", None))
    for path in (ROOT / "deduce").rglob("*.py"):
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            code = line.split("#")[0]
            found = RUNS_CODE.search(code)
            assert not found, f"{path}:{number}: {found[0]}"
            assert "torch.load(" not in code or "weights_only=True" in code, f"{path}:{number}"
