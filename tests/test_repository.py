"""The files that serve contributors, continuous integration and the workflow catalogue say what is so."""

import re
import subprocess
import tomllib
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml

ROOT = Path(__file__).parent.parent
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = re.findall(r"^([a-z-]+):", MAKEFILE, re.M)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAMES = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
PAGES = sorted(name for name in NAMES if name.endswith(".md") and (ROOT / name).exists())


def read(name: str):
    return yaml.safe_load((ROOT / name).read_text())


def test_the_hooks_are_the_linters_of_make_lint():
    linters = re.search(r"^lint:.*\n((?:\t.*\n)+)", MAKEFILE, re.M)[1].replace("$(BIN)", ".venv/bin").split("\n\t")
    [repository] = read(".pre-commit-config.yaml")["repos"]
    assert [hook["entry"] for hook in repository["hooks"]] == [line.strip() for line in linters]
    for hook in repository["hooks"]:
        assert hook["language"] == "system" and not hook["pass_filenames"]
        assert any(re.search(hook["files"], name) for name in NAMES), f"{hook['id']} would never run"


def test_continuous_integration_runs_what_ci_run_runs():
    [job] = read(".github/workflows/tests.yml")["jobs"].values()
    assert job["steps"][-1] == {"run": ".ci/run"}
    versions = job["strategy"]["matrix"]["python"]
    assert versions == ["3.11", "3.12", "3.13"] and PROJECT["requires-python"] == f">={versions[0]}"
    script = (ROOT / ".ci/run").read_text()
    assert set(re.findall(r"^ *make (\S+)", script, re.M)) <= set(TARGETS)
    assert subprocess.run(["bash", "-n", ROOT / ".ci/run"], check=False).returncode == 0
    assert (ROOT / ".ci/run").stat().st_mode & 0o100


def test_the_workflow_catalogue_finds_what_it_reads():
    usage = read(".snakemake-workflow-catalog.yml")["usage"]
    assert usage["report"] and usage["software-stack-deployment"]["conda"]
    readme = (ROOT / "README.md").read_text().lower()
    assert "snakemake" in readme and "workflow" in readme
    # With a folder of this name, the catalogue would look for rules there.
    assert not (ROOT / "workflow").exists() and (ROOT / "Snakefile").exists() and [*ROOT.glob("rules/*.smk")]
    page = (ROOT / "config/README.md").read_text()
    configs = {Path(name).name for name in NAMES if re.fullmatch(r"config/\w+\.yaml", name)}
    assert set(re.findall(r"^\| \[`(\w+\.yaml)`\]", page, re.M)) == configs


def test_the_changelog_begins_with_the_current_version():
    versions = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert versions[0] == PROJECT["version"]


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_to_files_and_commands_to_targets(name):
    text = re.sub(r"^```.*?^```", "", (ROOT / name).read_text(), flags=re.M | re.S)
    for link in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text):
        assert (ROOT / name).parent.joinpath(unquote(link)).exists(), link
    assert set(re.findall(r"`make ([a-z-]+)[^`]*`", text)) <= set(TARGETS)
