"""Which modules a script depends on."""

import pytest

from deduce import provenance


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package `deduce` with three modules: `a` imports `b`, and nobody imports `c`."""
    folder = tmp_path / "deduce"
    (folder / "sub").mkdir(parents=True)
    for name, text in {
        "__init__.py": "",
        "a.py": "from deduce.sub import b",
        "sub/__init__.py": "",
        "sub/b.py": "def f():\n    import deduce.late",
        "late.py": "",
        "c.py": "",
    }.items():
        (folder / name).write_text(text)
    monkeypatch.setattr(provenance, "PACKAGE", folder)
    script = tmp_path / "script.py"
    script.write_text("import numpy\nfrom deduce import a")
    return script, folder


def test_imports_are_followed_through_modules_and_into_functions(package):
    script, folder = package
    expected = {"a.py", "sub/__init__.py", "sub/b.py", "late.py"}
    assert {str(path.relative_to(folder)) for path in provenance.modules(script)} == expected


@pytest.mark.parametrize("edited, changes", [("a.py", True), ("sub/b.py", True), ("late.py", True), ("c.py", False)])
def test_the_digest_changes_with_what_is_used_and_nothing_else(package, edited, changes):
    script, folder = package
    before = provenance.digest(script)
    (folder / edited).write_text((folder / edited).read_text() + "\n# edited")
    assert (provenance.digest(script) != before) == changes
