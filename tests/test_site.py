"""The documentation is built as a site without a warning, with every page and the library's docstrings."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import deduce

ROOT = Path(__file__).parent.parent
pytest.importorskip("mkdocs", reason="MkDocs is not installed: `make mkdocs` does it")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    run = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert run.returncode == 0, run.stdout[-5000:]
    return folder


def test_every_page_of_the_documentation_is_a_page_of_the_site(site):
    for page in (ROOT / "docs").glob("*.md"):
        assert (site / page.stem / "index.html").exists(), page.name
    for name in ("contributing", "changelog", "security"):
        assert (site / name / "index.html").exists()
    assert not [*site.rglob("*.py")]


def test_the_front_page_is_the_readme(site):
    page = (site / "index.html").read_text()
    assert 'src="counterfactuals.png"' in page and 'href="configuration/"' in page
    assert not re.search(r'href="[^"]*\.(?:md|py|smk)[#"]', page)


def test_the_library_is_documented_from_its_docstrings(site):
    page = (site / "api/index.html").read_text()
    for name, module in deduce._HOME.items():
        assert f'id="{module}.{name}"' in page, name
    assert "Counterfactuals of images (n, channels, height, width) in [0, 1]" in page
