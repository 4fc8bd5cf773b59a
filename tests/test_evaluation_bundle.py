"""A set of artefacts is used only if every byte of it is the one that was sealed."""

import gzip
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest
from artefacts import make_folder

from deduce.evaluation import bundle
from deduce.evaluation.bundle import Bundle, BundleError

SHARD = "counterfactuals/jsma/2.npz"
FORMATS = pytest.mark.parametrize("format", [".zip", ".tar.gz"])


@pytest.fixture(scope="module")
def sealed(tmp_path_factory) -> Path:
    return make_folder(tmp_path_factory.mktemp("sealed") / "artefacts", images=2)


@pytest.fixture
def folder(sealed, tmp_path) -> Path:
    shutil.copytree(sealed, tmp_path / "artefacts")
    return tmp_path / "artefacts"


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def packed(folder: Path, files: dict[str, str], pack: Path) -> Path:
    """A packed file of a folder's files, under other names."""
    if pack.suffix == ".zip":
        with zipfile.ZipFile(pack, "w") as archive:
            for name, stored in files.items():
                archive.write(folder / name, stored)
    else:
        with tarfile.open(pack, "w:gz") as tar:
            for name, stored in files.items():
                tar.add(folder / name, stored)
    return pack


def test_a_sound_folder_is_copied_whole(folder, tmp_path):
    Bundle(folder).extract(tmp_path / "copy")
    for name in [bundle.SUMS, *Bundle(folder).sums]:
        assert (tmp_path / "copy" / name).read_bytes() == (folder / name).read_bytes()


def test_checksums_are_those_of_sha256sum(folder):
    import subprocess

    done = subprocess.run(["sha256sum", "--check", "--quiet", bundle.SUMS], cwd=folder, capture_output=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("damage, message", [
    (flip, "its SHA-256 is not the one in SHA256SUMS"),
    (lambda path: path.write_bytes(path.read_bytes()[:-10]), "its SHA-256 is not the one in SHA256SUMS"),
    (Path.unlink, "is listed in SHA256SUMS, but is missing"),
])  # fmt: skip
def test_damage_is_named(folder, tmp_path, damage, message):
    damage(folder / SHARD)
    with pytest.raises(BundleError, match=f"{SHARD}: .*{message}"):
        Bundle(folder).extract(tmp_path / "copy")
    assert not (tmp_path / "copy" / SHARD).exists()


def test_a_changed_manifest_is_noticed_too(folder, tmp_path):
    manifest = folder / bundle.MANIFEST
    manifest.write_text(manifest.read_text().replace("0.2", "0.3"))
    with pytest.raises(BundleError, match="manifest.json: its SHA-256"):
        Bundle(folder).extract(tmp_path / "copy")


@pytest.mark.parametrize(
    "line", ["nonsense", f"{'0' * 64}  ../../escape", f"{'0' * 64}  /etc/passwd", f"{'0' * 64}  {'a' * 400}"]
)
def test_checksums_of_paths_outside_are_refused(folder, line):
    sums = folder / bundle.SUMS
    sums.write_text(sums.read_text() + line + "\n")
    with pytest.raises(BundleError, match="SHA256SUMS: line .* path inside the folder"):
        Bundle(folder)


@FORMATS
def test_packing_is_deterministic_and_unpacks_to_the_same(folder, tmp_path, format):
    for name in ("a", "b"):
        bundle.pack(folder, tmp_path / f"{name}{format}")
        (folder / SHARD).touch()
    assert (tmp_path / f"a{format}").read_bytes() == (tmp_path / f"b{format}").read_bytes()
    Bundle(tmp_path / f"a{format}").extract(tmp_path / "copy")
    assert (tmp_path / "copy" / SHARD).read_bytes() == (folder / SHARD).read_bytes()


@FORMATS
def test_a_damaged_pack_is_named(folder, tmp_path, format):
    pack = tmp_path / f"a{format}"
    bundle.pack(folder, pack)
    whole = pack.read_bytes()
    pack.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BundleError, match=f"a{format}"):
        Bundle(pack).extract(tmp_path / "copy")
    pack.write_bytes(whole)
    flip(pack)
    with pytest.raises(BundleError, match=f"a{format}"):
        Bundle(pack).extract(tmp_path / "copy")


@FORMATS
def test_a_pack_cannot_write_outside(folder, tmp_path, format):
    files = {bundle.SUMS: bundle.SUMS, bundle.MANIFEST: bundle.MANIFEST, SHARD: "../escaped.npz"}
    pack = packed(folder, files, tmp_path / f"a{format}")
    with pytest.raises(BundleError, match="escaped"):
        Bundle(pack).extract(tmp_path / "deep" / "copy")
    assert not list(tmp_path.rglob("escaped.npz"))


def test_a_pack_that_claims_too_much_takes_no_memory(folder, tmp_path):
    pack, header = tmp_path / "a.tar.gz", tarfile.TarInfo(bundle.MANIFEST)
    header.size = 2**40
    pack.write_bytes(gzip.compress(header.tobuf()))
    with pytest.raises(BundleError, match="manifest.json claims to hold more than"):
        Bundle(pack)


@FORMATS
def test_a_file_in_a_pack_cannot_take_all_memory(folder, tmp_path, format, monkeypatch):
    limit = (folder / SHARD).stat().st_size - 1
    monkeypatch.setattr(bundle, "MOST_BYTES", limit)
    files = {name: name for name in (bundle.SUMS, bundle.MANIFEST, SHARD)}
    with pytest.raises(BundleError, match=f"{SHARD} claims to hold more than {limit} bytes"):
        Bundle(packed(folder, files, tmp_path / f"a{format}")).extract(tmp_path / "copy")


@pytest.mark.parametrize("name", ["nothing", "empty"])
def test_what_is_no_bundle_says_so(tmp_path, name):
    (tmp_path / "empty").mkdir()
    with pytest.raises(BundleError, match=name):
        Bundle(tmp_path / name)
