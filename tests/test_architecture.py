"""docs/architecture.md: each thing is declared once. Every row of "to add … touch …" is followed, file by file."""

import ast
import io
import re
import tokenize
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from artefacts import make_folder, reseal
from test_adding_a_method import LIBRARY, SCRIPT, follow

from deduce.shards import Pairs, Scores, Shard

ROOT = Path(__file__).parent.parent
LIMITS = {"a method": 3, "a dataset": 3, "a model": 4, "a metric": 2, "a table or figure": 2, "a claim": 1}
PAGE = (ROOT / "docs/architecture.md").read_text()
STATED = {
    name: (places, int(count))
    for name, places, count in re.findall(r"^\| (a[^|]*) \| ([^|]*) \| (\d+) \|$", PAGE.split("## To add")[1], re.M)
}
MODULES = [*sorted(ROOT.glob("deduce/**/*.py")), *sorted(ROOT.glob("scripts/*.py"))]
RULES = [ROOT / "Snakefile", *sorted(ROOT.glob("rules/**/*.smk"))]


def test_the_page_states_no_more_files_than_allowed():
    assert set(STATED) == set(LIMITS)
    for name, (places, count) in STATED.items():
        assert count <= LIMITS[name], name
        for place in re.findall(r"`([\w./]+\.\w+)`", places):
            assert "NAME" in place or (ROOT / place).exists(), f"{name}: there is no {place}"


# --- to add … touch …


def files_of(root: Path) -> dict[str, bytes]:
    generated = {"results", ".snakemake", "__pycache__"}
    paths = (path for path in root.rglob("*") if path.is_file() and not generated & set(path.relative_to(root).parts))
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


@pytest.fixture
def addition(finished, clean_checkout, tmp_path):
    """A function that makes an addition in a copy of a checkout, and returns the copy and the files that it changed."""

    def add(change: Callable[..., None], ready: bool = True):
        checkout = (finished if ready else clean_checkout).copy(tmp_path / change.__name__)
        before = files_of(checkout.root)
        change(checkout.root)
        after = files_of(checkout.root)
        return checkout, sorted(name for name in {*before, *after} if before.get(name) != after.get(name))

    return add


def insert(path: Path, line: str, text: str) -> None:
    """Puts text after a line, which the file has exactly once."""
    content = path.read_text()
    assert content.count(f"\n{line}\n") == 1, f"{path.name}: {line}"
    path.write_text(content.replace(f"\n{line}\n", f"\n{line}\n{text}"))


@pytest.mark.workflow
@pytest.mark.parametrize("recipe", [LIBRARY, SCRIPT], ids=["library", "script"])
def test_a_method(addition, recipe):
    """That it works is shown by test_adding_a_method.py."""

    class Folder:
        def __init__(self, root):
            self.root = root

    checkout, changed = addition(lambda root: follow(Folder(root), recipe), ready=False)
    assert len(changed) == STATED["a method"][1] == LIMITS["a method"], changed
    run = checkout.snakemake("--dry-run", "counterfactuals")
    assert run.returncode == 0, run.stdout[-3000:]


STRIPES = """\
        Dataset(
            name="stripes", title="Stripes", folder="Stripes", channels=3, size=16,
            classes=("red", "green", "blue", "grey"),
            files={"images": None, "labels": None},
            splits={
                "train": Split("images", "labels", 0, 600),
                "validation": Split("images", "labels", 600, 800),
                "test": Split("images", "labels", 800, 1000),
            },
            outliers=("mnist",),
        ),
"""


def idx(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
    return header + array.astype(np.uint8).tobytes()


def make_stripes(folder: Path) -> None:
    """Colour images of 16 × 16 pixels, in four classes."""
    random = np.random.default_rng(0)
    labels = np.arange(1000) % 4
    images = random.integers(0, 100, (1000, 3, 16, 16))
    for label in range(4):
        channel = slice(label, label + 1) if label < 3 else slice(None)
        images[labels == label, channel, ::2] += 150
    folder.mkdir()
    (folder / "images").write_bytes(idx(images))
    (folder / "labels").write_bytes(idx(labels))


@pytest.mark.workflow
def test_a_dataset(addition, tmp_path):
    make_stripes(tmp_path / "raw")
    small = yaml.safe_load((ROOT / "config/test.yaml").read_text())
    config = small | {"name": "stripes", "dataset": "stripes", "seeds": [1], "sources": [f"folder:{tmp_path / 'raw'}"]}
    for model in ("ddu", "plain"):
        config[model] = small[model] | {"training_images": 600, "epochs": 3}

    def dataset(root: Path) -> None:
        insert(root / "deduce/datasets.py", "    for dataset in (", STRIPES)
        (root / "config/stripes.yaml").write_text(yaml.safe_dump(config))

    checkout, changed = addition(dataset, ready=False)
    assert len(changed) <= STATED["a dataset"][1] <= LIMITS["a dataset"], changed
    everything = checkout.planned("all", config="config/stripes.yaml")
    assert {"fetch", "train", "model_card", "sanity_scores", "deduce", "vlk", "write_report"} <= everything
    name = "results/stripes/counterfactuals/jsma/1.npz"
    run = checkout.snakemake(name, config="config/stripes.yaml")
    assert run.returncode == 0, run.stdout[-5000:]
    pairs = Pairs.load(checkout.root / "results/stripes/pairs/1.npz")
    assert pairs.original.shape == (9, 3, 16, 16) and int(pairs.classes) == 4
    shard = Shard.load(checkout.root / name)
    shard.answers(pairs, name)
    assert shard.found.any()


SOFTMAX = '''
"""Multinomial logistic regression, the simplest of classifiers."""

from torch import Tensor, nn

from deduce.models.resnet import Classification as Classification


class SoftmaxRegression(nn.Module):
    def __init__(self, pixels: int, classes: int) -> None:
        super().__init__()
        self.arguments = dict(pixels=pixels, classes=classes)
        self.head = nn.Linear(pixels, classes)

    def features(self, images: Tensor) -> Tensor:
        return images.flatten(1)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.features(images))
'''
SOFTMAX_LINE = """\
    "softmax": Model("deduce.models.softmax", "SoftmaxRegression", "Classification", classifies=True,
                     arguments=lambda s, data: (prod(data.shape), len(data.classes))),
"""
SOFTMAX_SECTION = """
softmax: {training_images: 2000, epochs: 2, batch_size: 64, learning_rate: 0.05, schedule: one_cycle}
"""
SOFTMAX_SCHEMA = """\
  softmax:
    description: A softmax regression.
    type: object
    additionalProperties: false
    properties:
      <<: *training
"""


def model(root: Path) -> None:
    (root / "deduce/models/softmax.py").write_text(SOFTMAX.lstrip())
    insert(root / "deduce/models/__init__.py", "REGISTRY = {", SOFTMAX_LINE)
    with (root / "config.yaml").open("a") as file:
        file.write(SOFTMAX_SECTION)
    insert(root / "schemas/config.schema.yaml", "properties:", SOFTMAX_SCHEMA)


@pytest.mark.workflow
def test_a_model(addition):
    checkout, changed = addition(model)
    assert len(changed) <= STATED["a model"][1] <= LIMITS["a model"], changed
    weights, explained = "results/test/models/softmax.safetensors", "results/test/counterfactuals/jsma/1.npz"
    run = checkout.snakemake(weights)
    assert run.returncode == 0, run.stdout[-5000:]
    assert (checkout.root / weights).exists()
    record = pd.read_csv(checkout.root / "results/test/models/softmax.csv")
    assert len(record) == 2 and record["validation_accuracy"].iloc[-1] > 0.7
    run = checkout.snakemake(explained, "--config", "jsma={classifier: softmax}")  # every method can explain it
    assert run.returncode == 0, run.stdout[-5000:]
    shard = Shard.load(checkout.root / explained)
    assert shard.metadata["models"] == {"classifier": "softmax"} and shard.found.mean() > 0.5
    variant = [job for job in checkout.jobs("results/test/models/softmax@epochs=1.safetensors") if job.rule == "train"]
    assert len(variant) == 1


BRIGHTNESS = """

def brightness(images: Images, models: Mapping[str, Any], settings: Mapping[str, Any]) -> Tensor:
    return images.pixels.flatten(1).mean(1)
"""


def metric(root: Path) -> None:
    with (root / "deduce/realism/opinions.py").open("a") as file:
        file.write(BRIGHTNESS)
    line = '    Metric("brightness", "brightness", "brightness", decimals=3, scorer=f"{OPINIONS}:brightness"),\n'
    insert(root / "deduce/evaluation/metrics.py", "BEYOND = [", line)


@pytest.mark.workflow
def test_a_metric(addition, tmp_path):
    checkout, changed = addition(metric)
    assert len(changed) <= STATED["a metric"][1] <= LIMITS["a metric"], changed
    name = "results/test/realism/jsma/1.npz"
    run = checkout.snakemake(name)
    assert run.returncode == 0, run.stdout[-5000:]
    scores = Scores.load(checkout.root / name).values["brightness"]
    shard = Shard.load(checkout.root / "results/test/counterfactuals/jsma/1.npz")
    expected = np.where(shard.found, shard.counterfactual.mean((1, 2, 3)), np.nan)
    np.testing.assert_allclose(scores, expected, rtol=1e-5)

    # Stored scores need only the column for the metric to stand in the table of all metrics.
    folder = make_folder(tmp_path / "artefacts")
    for path in folder.glob("realism/*/*.npz"):
        stored = Scores.load(path)
        stored.values["brightness"] = np.full(len(stored.image), 0.125)
        stored.save(path)
    reseal(folder)
    run = checkout.snakemake("tables", "--config", f"artifacts={folder}", config="config.yaml")
    assert run.returncode == 0, run.stdout[-5000:]
    table = pd.read_csv(checkout.root / "results/stored/tables/table1_all_metrics.csv")
    assert (table["brightness"] == 0.125).all()


COUNTED = '''

def counted(run: Run) -> Built:
    """How many pairs each method was asked."""
    frame = run.results.groupby("method", sort=False).size().rename("pairs").reset_index()
    return frame, frame_table(frame, "Pairs asked.", names=run.names)
'''
STAIRS = '''

def stairs(run: Run) -> Figure:
    """How many iterations the searches took, sorted."""
    figure, axis = plt.subplots()
    axis.plot(run.results["iterations"].sort_values().to_numpy())
    return figure
'''


def table(root: Path) -> None:
    with (root / "deduce/evaluation/paper_tables.py").open("a") as file:
        file.write(COUNTED)
    line = '    Entry("counted", f"{TABLE_BUILDERS}:counted", "metrics", fold="Counts"),\n'
    insert(root / "deduce/evaluation/catalogue.py", "TABLES = [", line)


def figure(root: Path) -> None:
    with (root / "deduce/evaluation/figures.py").open("a") as file:
        file.write(STAIRS)
    line = '    Entry("stairs", f"{FIGURE_BUILDERS}:stairs", "metrics", "Iterations, sorted.", "A rising line."),\n'
    insert(root / "deduce/evaluation/catalogue.py", "FIGURES = [", line)


def claim(root: Path) -> None:
    line = (
        '    Claim("many_pairs", "There are many pairs.", "nowhere", "more than ten rows",\n'
        "          lambda run: Finding(HOLDS if len(run.results) > 10 else FAILS, str(len(run.results)))),\n"
    )
    text = (root / "deduce/evaluation/claims.py").read_text()
    first = re.search(r"^CLAIMS.*\[$", text, re.M)[0]
    insert(root / "deduce/evaluation/claims.py", first, line)


@pytest.mark.workflow
def test_a_table_a_figure_and_a_claim(addition, tmp_path):
    for change, row in ((table, "a table or figure"), (figure, "a table or figure"), (claim, "a claim")):
        _, changed = addition(change, ready=False)
        assert len(changed) <= STATED[row][1] <= LIMITS[row], changed

    def everything(root: Path) -> None:
        for change in (table, figure, claim):
            change(root)

    checkout, _ = addition(everything, ready=False)
    folder = make_folder(tmp_path / "artefacts", images=3)
    run = checkout.snakemake("all", "--config", f"artifacts={folder}", config="config.yaml")
    assert run.returncode == 0, run.stdout[-5000:]
    results = checkout.root / "results/stored"
    assert pd.read_csv(results / "tables/counted.csv")["pairs"].tolist() == [2 * 3 * 9] * 3
    assert all((results / f"figures/stairs.{suffix}").stat().st_size > 100 for suffix in ("png", "pdf", "json"))
    claims = pd.read_csv(results / "tables/claims.csv").set_index("claim")
    assert claims.loc["There are many pairs.", "result"] == "holds"
    page = (results / "report.html").read_text()
    assert 'id="table-counted"' in page and 'id="figure-stairs"' in page and "There are many pairs." in page


# --- one place for each thing


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    nodes = ast.walk(ast.parse(path.read_text()))
    return [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def test_no_function_is_longer_than_a_screen():
    lengths = {
        f"{path.relative_to(ROOT)}: {function.name}": function.end_lineno - function.lineno + 1
        for path in MODULES
        for function in functions(path)
    }
    assert len(lengths) > 300
    assert {name: length for name, length in lengths.items() if length > 50} == {}


def test_the_shared_helpers_of_the_rules_are_short():
    lines = (ROOT / "rules/common.smk").read_text().splitlines()
    assert sum(bool(line.strip()) for line in lines) <= 100


def names_and_numbers(text: str) -> list[str]:
    """The names, numbers and texts of Python code, without comments and docstrings."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    wanted = (tokenize.NAME, tokenize.NUMBER, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING))
    return [token.string for token in tokens if token.type in wanted and not token.string.startswith('"""')]


def test_only_the_datasets_know_their_images():
    """Nothing else knows the side or the number of pixels of MNIST's images, or that its classes are digits."""
    allowed = {"deduce/datasets.py", "deduce/evaluation/paper.py"}  # the second has the paper's printed figures
    for path in [*MODULES, *RULES]:
        name = str(path.relative_to(ROOT))
        if name in allowed or name.startswith("deduce/published/"):  # the authors' files are of MNIST
            continue
        text = path.read_text()
        if path.suffix == ".py":
            words = names_and_numbers(text)
        else:
            words = re.findall(r"\w+", re.sub(r'""".*?"""|#[^\n]*', "", text, flags=re.S))
        known = [word for word in words if word in ("28", "784") or re.search(r"\bdigit\b", word, re.I)]
        known += re.findall(r"\b(?:channels|classes|pixels|size): int = \d+", text)  # a default for one dataset
        assert not known, f"{name}: {known}"
    for path in (ROOT / "deduce/report/templates").iterdir():
        assert not re.search(r"\b(28|784|digits?)\b", re.sub(r"<!--.*?-->|//.*", "", path.read_text())), path.name


def test_no_rule_or_script_counts_folders():
    for path in [*RULES, *ROOT.glob("scripts/*.py")]:
        assert "parents[2]" not in path.read_text(), path


@pytest.mark.parametrize("name", ["TABLES", "EXPERIMENT", "Cell", "frozen", "side_by_side"])
def test_a_name_means_one_thing(name):
    pattern = re.compile(rf"^(?:(?:def|class) {name}\b|{name}(?::[^=]+)? = )", re.M)
    places = [str(path.relative_to(ROOT)) for path in [*MODULES, *RULES] if pattern.search(path.read_text())]
    assert len(places) <= 1, places
