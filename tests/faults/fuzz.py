"""Coverage-guided fuzzing of one reader, bounded in time: `python tests/faults/fuzz.py READER SECONDS FOLDER`.

FOLDER has valid files to begin with. Any exception other than an `InputError` is a crash, which atheris reports.
"""

import contextlib
import re
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["deduce", "numpy.lib", "zipfile", "tarfile", "json", "yaml"]):
    from deduce import models
    from deduce.artifacts import load_json
    from deduce.config_files import check_file
    from deduce.datasets import _idx_array
    from deduce.errors import InputError
    from deduce.evaluation.bundle import Bundle
    from deduce.shards import Pairs, Scores, Shard


def idx(path: Path) -> None:
    try:
        _idx_array(path.read_bytes())
    except (ValueError, IndexError):  # which its caller turns into a sentence
        raise InputError from None


def archive(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Bundle(path).extract(Path(folder) / "copy")
        assert not [
            file for file in Path(folder).rglob("*") if not file.resolve().is_relative_to(Path(folder).resolve())
        ]


READERS = {
    "pairs": (Pairs.load, ".npz"), "shards": (Shard.load, ".npz"), "scores": (Scores.load, ".npz"),
    "weights": (models.load, ".safetensors"), "configs": (check_file, ".yaml"), "json": (load_json, ".json"),
    "archives": (archive, ".tar.gz"), "idx": (idx, "-idx"),
}  # fmt: skip


def main(name: str, seconds: str, folder: str) -> None:
    reader, suffix = READERS[name]
    path = Path(tempfile.mkdtemp()) / f"file{suffix}"
    for architecture in Path(folder).glob("*.architecture"):
        path.with_suffix(".json").write_bytes(architecture.read_bytes())

    def one_input(content: bytes) -> None:
        path.write_bytes(content)
        with contextlib.suppress(InputError):
            reader(path)

    options = [f"-max_total_time={seconds}", "-seed=1", "-max_len=20000", "-rss_limit_mb=4096", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *options, "-artifact_prefix=/tmp/", folder], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    assert re.fullmatch(r"\d+", sys.argv[2])
    main(*sys.argv[1:])
