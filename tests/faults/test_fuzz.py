"""A bounded, coverage-guided search for bytes that break a reader."""

import gzip
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import artefacts
import numpy as np
import pytest
from bad_inputs import CONFIG_FILES, SHARDS
from small_world import world
from tally import count

from deduce import models
from deduce.evaluation import bundle

pytestmark = pytest.mark.faults
SECONDS = 10  # for each reader


@pytest.fixture(scope="module")
def seeds(tmp_path_factory) -> Path:
    """A folder of valid files, and of some broken ones, for each reader."""
    folder = tmp_path_factory.mktemp("seeds")
    stored = artefacts.make_folder(folder / "stored", methods=("deduce",), seeds=(1,), images=1)
    files = {"pairs": "pairs/1.npz", "shards": "counterfactuals/deduce/1.npz", "scores": "realism/deduce/1.npz"}
    for name, file in files.items():
        (folder / name).mkdir()
        shutil.copy(stored / file, folder / name)
    for number, (content, _) in enumerate(SHARDS.values()):
        (folder / "shards" / str(number)).write_bytes(content)
    for name in ("weights", "configs", "json", "archives", "idx"):
        (folder / name).mkdir()
    models.save(folder / "model.safetensors", world().densities)
    shutil.move(folder / "model.safetensors", folder / "weights/model")
    shutil.move(folder / "model.json", folder / "weights/model.architecture")
    for number, (content, _) in enumerate(CONFIG_FILES.values()):
        if content and len(content) < 20_000:
            (folder / "configs" / str(number)).write_bytes(content)
    shutil.copy(stored / "manifest.json", folder / "json")
    bundle.pack(stored, folder / "archives/whole")
    (folder / "archives/plain").write_bytes(gzip.compress(gzip.decompress((folder / "archives/whole").read_bytes()), 0))
    header = b"\0\0\x08\x03" + np.array([2, 3, 3], ">u4").tobytes()
    (folder / "idx/images").write_bytes(header + bytes(18))
    return folder


@pytest.mark.skipif(not find_spec("atheris"), reason="atheris is not installed: `make test-faults` does it")
@pytest.mark.parametrize("reader", ["pairs", "shards", "scores", "weights", "configs", "json", "archives", "idx"])
def test_no_bytes_break_a_reader(reader, seeds):
    script = Path(__file__).with_name("fuzz.py")
    command = [sys.executable, str(script), reader, str(SECONDS), str(seeds / reader)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS * 10 + 120, cwd=script.parents[2])
    output = run.stdout + run.stderr
    assert run.returncode == 0, output[-4000:]
    executed = int(re.search(r"number_of_executed_units: (\d+)", output)[1])
    assert executed > 100
    count("fuzzed bytes", f"the reader of {reader}", "a sentence or a value", executed)
