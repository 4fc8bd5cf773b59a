"""A full disk and a read-only one: every writer says so and where, leaves the old file whole, and nothing else."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from run import Victim, differences
from small_world import world
from tally import count

from deduce import artifacts, models
from deduce.artifacts import RECORDS
from deduce.beginning import check_writable
from deduce.errors import InputError
from deduce.evaluation import bundle, figures
from deduce.training import Plan, train

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system")


@contextlib.contextmanager
def mounted(folder: Path, *options: str) -> Iterator[Path]:
    """A small file system in memory."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def remount(folder: Path, *options: str) -> None:
    subprocess.run(["mount", "-o", ",".join(["remount", *options]), str(folder)], check=True)


def drawing() -> figures.Figure:
    figure, axis = figures.plt.subplots()
    axis.plot(np.random.default_rng(0).random(3000))
    return figure


def training(path: Path) -> None:
    """A real training, whose checkpoint does not fit."""
    from deduce.models.resnet import Classification, PlainResNet

    w = world()
    settings = {"learning_rate": 0.01, "precision": "float32"}
    task = Classification(PlainResNet(4, 1, 5), settings)
    data = w.training_images[:32], w.training_labels[:32]
    train(task, Plan(epochs=1, batch_size=16, seed=1), data, data, path.with_suffix(".safetensors"))


NOISE = np.random.default_rng(0)
BIG = NOISE.bytes(200_000).hex()
WRITERS = {
    "text.txt": lambda path: artifacts.save_text(path, BIG),
    "table.csv": lambda path: artifacts.save_csv(path, pd.DataFrame({"x": NOISE.random(20_000)})),
    "arrays.npz": lambda path: artifacts.save_arrays(path, {"x": NOISE.random(40_000)}),
    "facts.json": lambda path: artifacts.save_json(path, BIG),
    "table.parquet": lambda path: parquet(path),
    "weights.safetensors": lambda path: models.save(path, world().plain),
    "figure.png": lambda path: figures.draw(path.with_suffix(""), {}, drawing),
    "model.checkpoint": lambda path: training(path),
}


def parquet(path: Path) -> None:
    with artifacts.atomic(path) as temporary:
        pd.DataFrame({"x": NOISE.random(40_000)}).to_parquet(temporary)


@root_only
@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_is_named_and_harms_nothing(name, tmp_path):
    world()  # trained before, because that takes a while
    with mounted(tmp_path / "disk", "size=24k") as disk:
        path = disk / name
        path.write_text("old")
        with pytest.raises(InputError) as caught:
            WRITERS[name](path)
        assert "no space left on device" in str(caught.value) and str(disk) in str(caught.value)
        assert path.read_text() == "old"
        assert {file.name for file in disk.iterdir()} <= {name, "weights.json"}, "something was left behind"
    count("disks", "a full one, while a file is written", "named; the old file is whole")


@root_only
@pytest.mark.parametrize("name", WRITERS)
def test_a_read_only_disk_is_named(name, tmp_path):
    world()
    with mounted(tmp_path / "disk", "size=1m") as disk:
        path = disk / name
        path.write_text("old")
        remount(disk, "ro")
        with pytest.raises(InputError) as caught:
            WRITERS[name](path)
        assert "read-only file system" in str(caught.value) and str(disk) in str(caught.value)
        assert path.read_text() == "old"
    count("disks", "a read-only one, while a file is written", "named; the old file is whole")


@root_only
def test_a_read_only_folder_is_named_before_a_run_begins(tmp_path):
    with mounted(tmp_path / "results/models", "size=1m") as disk:
        check_writable(tmp_path / "results")
        remount(disk, "ro")
        with pytest.raises(InputError, match="results/models: cannot be written: read-only file system"):
            check_writable(tmp_path / "results")


def test_a_limit_on_the_size_of_files_is_named(tmp_path):
    """Where nothing can be mounted, a limit of the process stands for the full disk."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    (tmp_path / "text.txt").write_text("old")
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(InputError, match="text.txt: cannot be written: file too large"):
            artifacts.save_text(tmp_path / "text.txt", BIG)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]
    count("disks", "a limit on the size of files", "named; the old file is whole")


@root_only
def test_an_archive_on_a_full_disk(tmp_path):
    import artefacts

    folder = artefacts.make_folder(tmp_path / "stored")
    with mounted(tmp_path / "disk", "size=24k") as disk, pytest.raises(InputError, match="no space left on device"):
        bundle.pack(folder, disk / "whole.tar.gz")
    with mounted(tmp_path / "disk", "size=24k") as disk, pytest.raises(InputError, match="no space left on device"):
        bundle.Bundle(folder).extract(disk / "copy")
    count("disks", "a full one, while artefacts are packed and unpacked", "named", 2)


# A target, and the folder of results/test in which the disk is full or read-only.
RUNS = {
    "pairs/1.npz": "pairs",
    "models/autoencoder.safetensors": "models",
    "counterfactuals/jsma/1.npz": "counterfactuals/jsma",
    "realism/jsma/1.npz": "realism/jsma",
    "tables/references.csv": "tables",
    "figures/training.png": "figures",
}


@root_only
@pytest.mark.faults
@pytest.mark.workflow
@pytest.mark.parametrize("kind", ["full", "read-only"])
def test_a_run_names_the_disk_and_resumes_when_there_is_room(finished, tmp_path, kind):
    victim = Victim(finished, tmp_path / "repository")
    # Snakemake itself names files that a job would make again and that cannot be written.
    sentences = {"full": ["o space left on device"], "read-only": ["ead-only file system", "Write-protected output"]}
    for target, folder in RUNS.items():
        path = victim.results / folder
        kept = tmp_path / "kept"
        path.rename(kept)
        with mounted(path, "size=64m") as disk:
            subprocess.run(["cp", "-a", f"{kept}/.", str(disk)], check=True)
            (victim.results / target).unlink()
            if (record := disk / RECORDS / Path(target).name).exists():
                record.unlink()  # so that the job has nothing to delete, and the disk stays full
            if kind == "full":
                with (disk / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
                    while filler.write(bytes(4096)):
                        pass
            else:
                remount(disk, "ro")
            status, output = victim.finish(f"results/test/{target}")
            assert status != 0 and any(sentence in output for sentence in sentences[kind]), output[-3000:]
            assert f"results/test/{folder}" in output and "Traceback" not in output, output[-3000:]
        path.rmdir()
        kept.rename(path)
        (victim.results / target).unlink(missing_ok=True)
        status, output = victim.finish(f"results/test/{target}")
        assert status == 0, output[-3000:]
        assert differences(victim.whole, victim.digests()) == []
        count("disks", f"a {kind} one, during a run", "named; the next run resumes")
        victim.restore()
