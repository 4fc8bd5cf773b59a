"""Writing and reading artefacts: whole or not at all, and verified."""

import os
import subprocess

import numpy as np
import pytest

from deduce import artifacts
from deduce.errors import InputError


def test_a_failed_block_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file.txt"
    artifacts.save_text(path, "old")
    with pytest.raises(ZeroDivisionError), artifacts.atomic(path) as temporary:
        temporary.write_text("half")
        raise ZeroDivisionError
    assert path.read_text() == "old" and [file.name for file in tmp_path.iterdir()] == ["file.txt"]


def test_what_killed_jobs_left_is_removed_and_nothing_else(tmp_path):
    artifacts.save_text(tmp_path / "a/whole.txt", "whole")
    with artifacts.atomic(tmp_path / "a/file.npz") as temporary:
        left = temporary.with_name(temporary.name + "2")
        left.write_text("half")
    artifacts.remove_unfinished(tmp_path)
    assert not left.exists()
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["file.npz", "whole.txt"]


def test_a_changed_file_is_named_with_the_command_that_makes_it_again(tmp_path):
    path = tmp_path / "weights.bin"
    path.write_bytes(b"abc")
    artifacts.verify(path)  # it has no record
    artifacts.record(path)
    artifacts.verify(path)
    times = os.stat(path)
    path.write_bytes(b"abd")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    sentence = f"{path}: is damaged or was changed.*`rm '{path}'`, and the same command again"
    with pytest.raises(InputError, match=sentence):
        verify_afresh(path)
    artifacts.forget(path)
    verify_afresh(path)


def verify_afresh(path):
    """As another process would: nothing is remembered."""
    artifacts._digest.cache_clear()
    artifacts.verify(path)


def test_the_record_is_what_sha256sum_reads(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b\n")
    artifacts.record(path)
    check = ["sha256sum", "-c", path.name]
    assert subprocess.run(check, cwd=tmp_path / artifacts.RECORDS, capture_output=True).returncode == 0


@pytest.mark.parametrize("damage", [b"", b"\0" * 64, b"no digest"])
def test_a_damaged_record_makes_the_file_suspect(tmp_path, damage):
    path = tmp_path / "table.csv"
    path.write_text("a,b\n")
    artifacts.record(path)
    (tmp_path / artifacts.RECORDS / path.name).write_bytes(damage)
    with pytest.raises(InputError, match="is damaged or was changed"):
        artifacts.verify(path)


def test_arrays_come_back_as_they_were_saved(tmp_path):
    arrays = {
        "floats": np.random.default_rng(0).random((3, 4)), "nothing": np.zeros((0, 5), np.float32),
        "one": np.array(7), "text": np.array("ä"), "columns": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "flags": np.array([True, False]),
    }  # fmt: skip
    artifacts.save_arrays(tmp_path / "x.npz", arrays)
    loaded = artifacts.load_arrays(tmp_path / "x.npz")
    assert loaded.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(loaded[name], array)
        assert loaded[name].dtype == array.dtype
