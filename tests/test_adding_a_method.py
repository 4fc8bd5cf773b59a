"""docs/adding-a-method.md, followed to the letter; and methods that misbehave."""

import io
import re
import tokenize
from pathlib import Path

import pandas as pd
import pytest
import yaml

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "adding-a-method.md").read_text()
BLOCK = re.compile(r"^\*\*`([^`]+)`\*\*\n\n```\w+\n(.*?)^```", re.M | re.S)
LIBRARY, SCRIPT = (dict(BLOCK.findall(part)) for part in PAGE.split("\n## ")[1:3])
METHODS = yaml.safe_load((ROOT / "config.yaml").read_text())["methods"]


def name_of(recipe: dict[str, str]) -> str:
    return next(Path(name).stem for name in recipe if name.startswith("rules/methods/"))


def follow(checkout, recipe: dict[str, str]) -> None:
    """Does what the page says: two new files, and one more method in the config, with its section."""
    for name, content in recipe.items():
        path = checkout.root / name
        if name == "config.yaml":
            lines = yaml.safe_load(content)
            added = name_of(recipe)
            assert lines.pop("methods") == [*METHODS, added], "the page's list is the default's and one more"
            assert list(lines) == [added]
            old = path.read_text()
            content = re.sub(r"^(methods: \[.*)\]", rf"\1, {added}]", old, flags=re.M)
            content += yaml.safe_dump(lines)
            assert len(yaml.safe_load(content)["methods"]) == len(yaml.safe_load(old)["methods"]) + 1
        else:
            assert not path.exists()
        path.write_text(content)


@pytest.fixture
def checkout(finished, tmp_path):
    return finished.copy(tmp_path / "repository")


def test_the_page_names_three_files_for_each_way():
    name = name_of(LIBRARY)
    assert sorted(LIBRARY) == ["config.yaml", f"deduce/methods/{name}.py", f"rules/methods/{name}.smk"]
    name = name_of(SCRIPT)
    assert sorted(SCRIPT) == ["config.yaml", f"rules/methods/{name}.smk", f"scripts/run_{name}.py"]
    assert "run_method.py" in LIBRARY[f"rules/methods/{name_of(LIBRARY)}.smk"]
    for recipe in (LIBRARY, SCRIPT):
        lines = [line for name, text in recipe.items() if name.endswith(".py") for line in text.splitlines()]
        assert sum(bool(line.strip()) for line in lines) < 40


@pytest.mark.workflow
def test_methods_added_by_the_page_are_in_every_table(checkout):
    names = [name_of(LIBRARY), name_of(SCRIPT)]
    follow(checkout, LIBRARY)
    follow(checkout, SCRIPT)
    run = checkout.snakemake()
    assert run.returncode == 0, run.stdout[-5000:]
    ran = set(re.findall(r"^(?:local)?rule (\w+):", run.stdout, re.M))
    assert set(names) <= ran and not {"train", "pairs", "fetch", "model_card", *METHODS} & ran
    results = checkout.root / "results" / "test"
    assert set(names) <= set(pd.read_csv(results / "results.csv").method)
    assert pd.read_csv(results / "tables/table1.csv").method.tolist() == [*METHODS, *names]
    for table in ("tests.csv", "table1.md", "table1.tex", "table2.md", "table3.md", "table1.json"):
        for name in names:
            assert re.search(name.replace("_", "."), (results / "tables" / table).read_text(), re.I), table
    seconds = pd.read_csv(results / "tables/table2.csv").set_index("method").seconds
    assert seconds[names[0]] > 0, "a method of the library is timed"
    assert pd.isna(seconds[names[1]]), "a script that records no seconds is not"
    page = (results / "report.html").read_text()
    assert "Gradient sign" in page and "Random pixels" in page


@pytest.mark.workflow
@pytest.mark.parametrize(
    "line, instead, message",
    [
        ("iterations += live\n", "raise RuntimeError('out of luck')\n", "out of luck"),
        ("images, confidence >= 0.5", "images * 2, confidence >= 0.5", "'counterfactual' has values outside [0, 1]"),
        ("confidence >= 0.5, confidence", "confidence >= 0.0, confidence", "'found' is True but confidence is"),
    ],
)
def test_a_method_that_misbehaves_stops_the_tables_and_nobody_else(checkout, line, instead, message):
    name = name_of(SCRIPT)
    follow(checkout, SCRIPT)
    script = checkout.root / f"scripts/run_{name}.py"
    assert line in script.read_text()
    script.write_text(script.read_text().replace(line, instead))
    (checkout.root / "results/test/counterfactuals/jsma/2.npz").unlink()  # another method has work to do meanwhile
    before = (checkout.root / "results/test/tables/table1.csv").read_text()
    run = checkout.snakemake()
    assert run.returncode != 0
    assert message in run.stdout and name in run.stdout
    assert (checkout.root / "results/test/counterfactuals/jsma/2.npz").exists()
    assert not (checkout.root / f"results/test/counterfactuals/{name}/1.npz").exists()
    table = checkout.root / "results/test/tables/table1.csv"
    assert not table.exists() or table.read_text() == before


@pytest.mark.workflow
def test_an_input_that_a_class_needs_and_its_rule_lacks_is_named(checkout):
    follow(checkout, LIBRARY)
    name = name_of(LIBRARY)
    path, line = checkout.root / f"deduce/methods/{name}.py", '    display_name = "Gradient sign"\n'
    assert line in path.read_text()
    path.write_text(path.read_text().replace(line, line + '    needs = ("training",)\n'))
    run = checkout.snakemake(f"results/test/counterfactuals/{name}/1.npz")
    assert run.returncode != 0
    assert "Gradient sign needs training, so its rule needs the input 'data'." in run.stdout


@pytest.mark.workflow
def test_a_method_needs_neither_a_section_nor_a_classifier(clean_checkout, tmp_path):
    checkout = clean_checkout.copy(tmp_path / "repository")
    folder = checkout.root / "tests/slurm/faulty"
    (checkout.root / "rules/methods/faulty.smk").write_text((folder / "faulty.smk").read_text())
    (checkout.root / "scripts/faulty.py").write_text((folder / "faulty.py").read_text())
    planned = checkout.planned("all", "--config", "methods=['faulty','jsma']")
    assert {"faulty", "jsma", "feature_map", "write_report"} <= planned


# --- nothing central names a method


def code_of(path: Path) -> str:
    """A file without comments, and a Python file without docstrings."""
    text = path.read_text()
    if path.suffix != ".py":
        return re.sub(r'""".*?"""|#[^\n]*', "", text, flags=re.S)
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    kept = [token for token in tokens if token.type != tokenize.COMMENT and not token.string.startswith('"""')]
    return "\n".join(token.string for token in kept)


def pattern_of(method: str) -> re.Pattern[str]:
    """The method's name, also as part of another: `vlk_parity`, `VLKInputs`, `time_vlk`."""
    if method == "deduce":  # also the name of the package: as a method it is quoted, a variant, or a class
        return re.compile(r"""["']deduce["'@]|DeDUCE(?!: |:? ·)|time_deduce|run_deduce""")
    return re.compile(rf"(?i)(?<![a-z]){method}")


def test_the_search_for_names_finds_parts_of_words():
    for text in ('"vlk_parity"', "time_vlk", "VLKInputs(", "'vlk@kappa=1'", "vlk"):
        assert pattern_of("vlk").search(text), text
    for text in ('"deduce"', "'deduce@ddu.width=4'", "DeDUCE(", "run_deduce.py"):
        assert pattern_of("deduce").search(text), text
    assert not pattern_of("deduce").search("from deduce.models import load")


def test_no_file_but_its_own_names_a_method():
    """A central list or an `if method == …` would have to be edited for every new method."""
    # The library's front door; the paper's facts and claims, which are about its methods; the authors' files.
    allowed = re.compile(
        r"deduce/__init__\.py|deduce/evaluation/(paper|claims)\.py|deduce/published/|rules/published\.smk"
    )
    searched = [*ROOT.glob("deduce/**/*.py"), *ROOT.glob("scripts/*.py"), *ROOT.glob("rules/*.smk"), ROOT / "Snakefile"]
    searched += [path for path in ROOT.glob("deduce/report/templates/*") if path.suffix != ".css"]
    assert len(searched) > 60
    methods = [path.stem for path in (ROOT / "rules/methods").glob("[!_]*.smk")]
    for path in searched:
        name = str(path.relative_to(ROOT))
        owner = [method for method in methods if name == f"deduce/methods/{method}.py" or path.stem == f"run_{method}"]
        if owner or allowed.match(name):
            continue
        code = re.sub(r"github\.com/benedikthoeltgen/DeDUCE|\.\./DeDUCE", "", code_of(path))
        for method in methods:
            match = pattern_of(method).search(code)
            assert not match, f"{name} names the method {method}: {match.group()}"
