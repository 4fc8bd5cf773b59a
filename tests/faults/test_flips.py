"""Flipped bytes are named: in a run's own results, in artefacts from elsewhere, and in what commands read."""

import os
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from run import SEED, Victim
from tally import count

from deduce import artifacts, models
from deduce.datasets import DATASETS
from deduce.errors import InputError
from deduce.evaluation import bundle
from deduce.evaluation.bundle import Bundle
from deduce.shards import Pairs, Scores, Shard

# A file of every kind that a rule reads, and how many of its bytes are flipped one after the other.
OWN = {
    "weights": "models/*.safetensors", "architectures": "models/*.json", "training records": "models/*.csv",
    "pairs": "pairs/*.npz", "shards": "shards/*/*/*.npz", "counterfactuals": "counterfactuals/*/*.npz",
    "scores": "realism/*/*.npz", "sanity scores": "sanity/*.npz", "pictures": "*.npz", "results": "results.csv",
    "tables": "tables/*", "figures": "figures/*", "checksums": "SHA256SUMS", "manifest": "manifest.json",
}  # fmt: skip
CHOOSE = random.Random(SEED)


def flipped(content: bytes) -> bytes:
    position = CHOOSE.randrange(len(content))
    return content[:position] + bytes([content[position] ^ CHOOSE.randrange(1, 256)]) + content[position + 1 :]


@pytest.fixture(scope="module")
def copy(finished, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("flips") / "test"
    shutil.copytree(finished.root / "results/test", folder)
    return folder


def flip_own_results(copy: Path, times: int) -> None:
    for kind, pattern in OWN.items():
        paths = [path for path in sorted(copy.glob(pattern)) if path.is_file() and path.stat().st_size]
        for _ in range(times):
            path = CHOOSE.choice(paths)
            whole = path.read_bytes()
            artifacts.verify(path)
            path.write_bytes(flipped(whole))
            artifacts._digest.cache_clear()  # as another process reads it: within a tick of the clock it looks the same
            with pytest.raises(InputError) as caught:
                artifacts.verify(path)
            assert str(caught.value).startswith(f"{path}: is damaged") and f"rm '{path}'" in str(caught.value)
            path.write_bytes(whole)
            count("flipped bytes", f"a run's own {kind}", "named")


def same(one: object, other: object) -> bool:
    """Whether two loaded files hold the same values: a flip in the padding of a file changes nothing."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    return one == other


def flip_without_records(copy: Path, times: int) -> None:
    """The readers, with damaged files that came without their records: an error, or the same values."""
    readers = (("pairs/*.npz", Pairs), ("counterfactuals/*/*.npz", Shard), ("realism/*/*.npz", Scores))
    for pattern, kind in readers:
        paths = sorted(copy.glob(pattern))
        for _ in range(times):
            path, bad = CHOOSE.choice(paths), copy / "flipped.npz"
            bad.write_bytes(flipped(path.read_bytes()))
            try:
                read = kind.load(bad)
            except InputError as error:
                assert str(bad) in str(error)
                outcome = "named by the reader"
            else:
                assert same(vars(read), vars(kind.load(path)))
                outcome = "in padding: the same values"
            count("flipped bytes", f"a file of {kind.__name__.lower()} without its record", outcome)
            bad.unlink()


def flip_artefacts(copy: Path, folder: Path, times: int) -> None:
    """Artefacts from elsewhere, in a folder or packed, are verified against their own checksums before use."""
    packed = folder / "whole.tar.gz"
    bundle.pack(copy, packed)
    whole, bad = packed.read_bytes(), folder / "bad.tar.gz"
    for number in range(times):
        bad.write_bytes(flipped(whole))
        try:
            Bundle(bad).extract(folder / f"{number}")
        except InputError as error:
            assert str(bad) in str(error)
            outcome = "named"
        else:
            names = Bundle(packed).sums
            assert all(artifacts.sha256(folder / f"{number}" / name) == digest for name, digest in names.items())
            outcome = "in padding: the same files"
        count("flipped bytes", "a packed archive", outcome)
        shutil.rmtree(folder / f"{number}", ignore_errors=True)
    names = sorted(Bundle(copy).sums)
    for _ in range(times):
        path = copy / CHOOSE.choice(names)
        content = path.read_bytes()
        path.write_bytes(flipped(content))
        for action in (lambda: Bundle(copy).extract(folder / "out"), lambda: bundle.pack(copy, folder / "out.tar.gz")):
            with pytest.raises(InputError) as caught:
                action()
            assert str(path) in str(caught.value)
        assert not (folder / "out.tar.gz").exists()
        path.write_bytes(content)
        count("flipped bytes", "a folder of artefacts", "named")
        shutil.rmtree(folder / "out", ignore_errors=True)


def flip_weights_and_data(copy: Path, root: Path, times: int) -> None:
    for _ in range(times):
        path = CHOOSE.choice(sorted(copy.glob("models/*.safetensors")))
        for file in (path, path.with_suffix(".json")):
            whole = file.read_bytes()
            file.write_bytes(flipped(whole))
            with pytest.raises(InputError, match="is damaged"):
                models.load(path)
            file.write_bytes(whole)
            count("flipped bytes", "weights that the library loads", "named")
    dataset, name = DATASETS["mnist"], "t10k-labels-idx1-ubyte"
    shutil.copytree(root / dataset.folder, copy / "data" / dataset.folder, dirs_exist_ok=True)
    file = dataset.raw(copy / "data") / name
    whole = file.read_bytes()
    for _ in range(times):
        file.write_bytes(flipped(whole))
        with pytest.raises(InputError, match="is damaged"):
            dataset.read(copy / "data", "test")
        count("flipped bytes", "raw data", "named")
    file.write_bytes(whole)


@pytest.mark.workflow
@pytest.mark.parametrize("times", [2, pytest.param(30, marks=pytest.mark.faults)])
def test_flipped_bytes_are_named(copy, finished, tmp_path, times):
    flip_own_results(copy, times)
    flip_without_records(copy, 5 * times)
    flip_artefacts(copy, tmp_path, times // 2)
    flip_weights_and_data(copy, finished.root / "results/data", times // 2)


# What a user makes, and an input of it that is damaged.
READ = {
    "realism/jsma/1.npz": ("models/wgan.safetensors", "models/wgan.json", "counterfactuals/jsma/1.npz"),
    "counterfactuals/jsma/1.npz": ("shards/jsma/1/000.npz", "pairs/1.npz"),
    "models/density.safetensors": ("models/ddu.safetensors", "models/ddu.json"),
    "tables/table1.csv": ("results.csv", "tables/references.csv"),
    "report.html": ("tables/table1.json", "figures/points_l1.png", "pairs/1.npz"),
    "archive/test.tar.gz": ("counterfactuals/jsma/1.npz", "SHA256SUMS"),
}


@pytest.mark.workflow
@pytest.mark.faults
def test_a_command_names_the_damaged_file_that_it_reads(finished, tmp_path):
    victim = Victim(finished, tmp_path / "repository")
    for target, inputs in READ.items():
        for name in inputs:
            damaged, made = victim.results / name, victim.results / target
            whole, status = damaged.read_bytes(), damaged.stat()
            made.unlink(missing_ok=True)
            damaged.write_bytes(flipped(whole))
            os.utime(damaged, ns=(status.st_atime_ns, status.st_mtime_ns))  # as a disk damages it: without a trace
            exit_status, output = victim.finish(f"results/test/{target}")
            assert exit_status != 0 and "Traceback" not in output, output[-2000:]
            assert f"results/test/{name}: " in output and "SHA-256" in output, (target, name, output[-2000:])
            count("flipped bytes", f"what a command reads for {target}", "named by the command")
            victim.restore()
