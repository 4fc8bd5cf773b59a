"""Which source files a job depends on."""

import pytest

from deduce import provenance

FILES = {
    "scripts/job.py": "import numpy\nfrom _helper import run\nfrom deduce import a",
    "scripts/_helper.py": "from deduce.methods.common import answered",
    "scripts/_unused.py": "",
    "deduce/__init__.py": "",
    "deduce/a.py": "from deduce.sub import b",
    "deduce/sub/__init__.py": "",
    "deduce/sub/b.py": "from . import relative\nfrom ..upper import name\n\n\ndef f():\n    import deduce.late",
    "deduce/sub/relative.py": "",
    "deduce/upper.py": "",
    "deduce/late.py": "",
    "deduce/methods/__init__.py": "",
    "deduce/methods/common.py": "",
    "deduce/methods/named.py": "from deduce.methods import of_named",
    "deduce/methods/of_named.py": "",
    "deduce/unrelated.py": "import deduce.a",
}
ALWAYS = {
    "scripts/job.py",
    "scripts/_helper.py",
    "deduce/a.py",
    "deduce/sub/__init__.py",
    "deduce/sub/b.py",
    "deduce/sub/relative.py",
    "deduce/upper.py",
    "deduce/late.py",
    "deduce/methods/__init__.py",
    "deduce/methods/common.py",
}
NAMED = {"deduce/methods/named.py", "deduce/methods/of_named.py"}


@pytest.fixture
def repository(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(provenance, "PACKAGE", tmp_path / "deduce")
    return tmp_path


@pytest.mark.parametrize("named", [[], ["deduce.methods.named"]])
def test_the_digest_changes_with_every_file_that_is_used_and_with_no_other(repository, named):
    def digest() -> str:
        return provenance.digest(repository / "scripts/job.py", *named)

    changing = set()
    for name in FILES:
        before = digest()
        with (repository / name).open("a") as file:
            file.write("\n# edited")
        if digest() != before:
            changing.add(name)
    assert changing == (ALWAYS | NAMED if named else ALWAYS)


def test_the_digest_does_not_depend_on_where_the_repository_lies(repository, tmp_path_factory, monkeypatch):
    before = provenance.digest(repository / "scripts/job.py")
    elsewhere = repository.rename(tmp_path_factory.mktemp("else") / "where")
    monkeypatch.setattr(provenance, "PACKAGE", elsewhere / "deduce")
    assert provenance.digest(elsewhere / "scripts/job.py") == before


def test_an_import_that_is_added_is_followed(repository):
    with (repository / "deduce/late.py").open("a") as file:
        file.write("import deduce.unrelated")
    assert repository / "deduce/unrelated.py" in provenance.source_files(repository / "scripts/job.py")


def test_a_module_that_does_not_exist_is_named(repository):
    with pytest.raises(ValueError, match="no module deduce.methods.nowhere"):
        provenance.digest(repository / "scripts/job.py", "deduce.methods.nowhere")
