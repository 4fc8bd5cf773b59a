"""docs/adding-a-method.md, followed to the letter; and methods that misbehave."""

import re
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "adding-a-method.md").read_text()
FILES = dict(re.findall(r"^\*\*`([^`]+)`\*\*\n\n```\w+\n(.*?)^```", PAGE, re.M | re.S))
NAME = "random_pixels"
pytestmark = pytest.mark.workflow


def follow(checkout) -> None:
    """Does what the page says: two new files, and the lines for the config in place of its list of methods."""
    for name, content in FILES.items():
        path = checkout.root / name
        if path.exists():
            old = path.read_text()
            assert (
                re.search(r"^methods:.*", old, re.M).group()
                == re.search(r"^methods:.*", content.replace(f", {NAME}]", "]"), re.M).group()
            ), "the page's list of methods is not the default's and one more"
            content = re.sub(r"^methods:.*\n", content, old, flags=re.M)
        path.write_text(content)


@pytest.fixture
def checkout(finished, tmp_path):
    checkout = finished.copy(tmp_path / "repository")
    follow(checkout)
    return checkout


def test_the_page_names_three_files_and_fewer_than_40_lines():
    assert sorted(FILES) == ["config.yaml", f"rules/methods/{NAME}.smk", f"scripts/run_{NAME}.py"]
    lines = [line for name, text in FILES.items() if name != "config.yaml" for line in text.splitlines()]
    assert len(lines) < 40 or sum(bool(line.strip()) for line in lines) < 40


def test_a_method_added_by_the_page_is_in_every_table(checkout):
    run = checkout.snakemake()
    assert run.returncode == 0, run.stdout[-5000:]
    assert not {"classifier", "deduce", "jsma", "vae"} & set(re.findall(r"^rule (\w+):", run.stdout, re.M))
    results = checkout.root / "results" / "test"
    assert NAME in set(pd.read_csv(results / "results.csv").method)
    assert len(pd.read_csv(results / "tables/table1.csv")) == len(re.search(r"methods: \[(.*)\]", PAGE)[1].split(","))
    for table in ("tests.csv", "table1.md", "table1.tex", "table2.md", "table3.md"):
        assert re.search("random.pixels", (results / "tables" / table).read_text(), re.I), table


@pytest.mark.parametrize(
    "line, instead, message",
    [
        ("iterations += live\n", "raise RuntimeError('out of luck')\n", "out of luck"),
        ("images, confidence >= 0.5", "images * 2, confidence >= 0.5", "'counterfactual' has values outside [0, 1]"),
        ("confidence >= 0.5, confidence", "confidence >= 0.0, confidence", "'found' is True but confidence is"),
    ],
)
def test_a_method_that_misbehaves_stops_the_tables_and_nobody_else(checkout, line, instead, message):
    script = checkout.root / f"scripts/run_{NAME}.py"
    assert line in script.read_text()
    script.write_text(script.read_text().replace(line, instead))
    (checkout.root / "results/test/counterfactuals/jsma/2.npz").unlink()  # another method has work to do meanwhile
    before = (checkout.root / "results/test/tables/table1.csv").read_text()
    run = checkout.snakemake()
    assert run.returncode != 0
    assert message in run.stdout and NAME in run.stdout
    assert (checkout.root / "results/test/counterfactuals/jsma/2.npz").exists()
    assert not (checkout.root / f"results/test/counterfactuals/{NAME}/1.npz").exists()
    table = checkout.root / "results/test/tables/table1.csv"
    assert not table.exists() or table.read_text() == before


def test_no_file_but_its_own_names_a_method():
    """A central list or an `if method == …` would have to be edited for every new method."""
    own = {"deduce/__init__.py"}  # the library's front door
    # The paper's facts and claims are about its methods; the importer reads the authors' files by their names.
    paper = re.compile(r"deduce/evaluation/(paper|claims|published|audit)|deduce/feature_map|scripts/feature_map")
    searched = [*ROOT.glob("deduce/**/*.py"), *ROOT.glob("scripts/*.py"), *ROOT.glob("rules/*.smk"), ROOT / "Snakefile"]
    for method in [path.stem for path in (ROOT / "rules/methods").glob("*.smk")]:
        # `deduce` is also the package's name: as a method it is quoted, or a class.
        pattern = r"""["']deduce["']|DeDUCE\(|== ["']deduce""" if method == "deduce" else rf"(?i)\b{method}\b"
        for path in searched:
            name = str(path.relative_to(ROOT))
            if method.split("_")[0] in path.stem or name in own or paper.match(name):
                continue
            code = re.sub(r"\"\"\".*?\"\"\"|#[^\n]*", "", path.read_text(), flags=re.S)
            found = re.search(pattern, code)
            assert not found, f"{name} names the method {method}: {found.group()}"
