"""The configuration: its schema, its defaults, its page, and what is said of mistakes."""

import re
from pathlib import Path

import pytest
import tables_environment
import yaml
from reference_pages import catalogue, configuration

from deduce.config import available_methods, checked, complete, defaults, schema, typed
from deduce.config_files import check_file
from deduce.errors import InputError
from deduce.experiment import Experiment

ROOT = Path(__file__).parent.parent
SCHEMA, DEFAULT = schema(ROOT, available_methods(ROOT)), defaults(ROOT)
# A method may have settings that no schema describes (docs/adding-a-method.md); nothing is known of them here.
UNDESCRIBED = {name for name in available_methods(ROOT) if not (ROOT / f"schemas/methods/{name}.schema.yaml").exists()}
# A model has the experiment's training seed unless it sets its own.
OPTIONAL = re.compile(r"\w+\.training_seed")


def test_the_default_config_is_valid():
    checked(DEFAULT, SCHEMA)
    Experiment.load({}, ROOT)  # checks the settings of sweeps and comparisons too


def rows(page: str) -> dict[str, list[str]]:
    """The cells of the page's table by key."""
    cells = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    return {row[0].strip("*`"): row for row in cells}


def test_the_reference_page_is_the_schemas():
    text, current = (ROOT / "docs/configuration.md").read_text(), configuration()
    assert text.partition("\n| ")[0] == current.partition("\n| ")[0], (
        "docs/configuration.md is out of date: run `make docs`"
    )
    page, expected = rows(text), rows(current)
    for name in UNDESCRIBED:
        expected.pop(name)
    # An experiment may add methods to the list; what the list is stays the same.
    page["methods"], expected["methods"] = page["methods"][2:], expected["methods"][2:]
    assert page == expected, "docs/configuration.md is out of date: run `make docs`"


def test_the_page_of_tables_and_figures_is_the_catalogues():
    page, current = rows((ROOT / "docs/catalogue.md").read_text()), rows(catalogue())
    # A table or figure may be added without its row; a row that is there is right.
    assert page.items() <= current.items(), "docs/catalogue.md is out of date: run `make docs`"
    assert len(page) > 30


def described_keys(properties, prefix=""):
    """Every key of the schema with its part of the schema, sections before their keys."""
    for name, part in properties.items():
        yield prefix + name, part
        yield from described_keys(part.get("properties", {}), f"{prefix}{name}.")


def value_of(config, key):
    for name in key.split("."):
        config = config[name]
    return config


def test_every_key_has_a_description_and_a_default_in_config_yaml():
    keys = dict(described_keys({key: part for key, part in SCHEMA["properties"].items() if key not in UNDESCRIBED}))
    assert len(keys) > 100
    for key, part in keys.items():
        assert part.get("description"), f"{key} has no description"
        assert "default" not in part, f"{key} has a default in the schema; config.yaml has the defaults"
        if "properties" in part:
            assert part.get("additionalProperties") is False, f"{key} lets unknown keys through"
        elif not OPTIONAL.fullmatch(key):
            value_of(DEFAULT, key)  # KeyError: the key has no default


def test_a_config_is_completed_section_by_section_from_the_default():
    config = complete({"jsma": {"step_size": 0.1}, "new": {"a": 1}, "seeds": [3]}, DEFAULT)
    assert config["jsma"] == DEFAULT["jsma"] | {"step_size": 0.1} and config["seeds"] == [3]
    assert list(config) == [*DEFAULT, "new"] and config["deduce"] == DEFAULT["deduce"]
    config["deduce"]["momentum"] = 1  # a copy: the default stays as it was
    assert DEFAULT["deduce"]["momentum"] == 0.6


def test_methods_name_one_of_the_registered_classifiers():
    with pytest.raises(InputError, match="'jsma.classifier' is 'vae'; allowed: ddu, plain"):
        checked({"jsma": {"classifier": "vae"}}, SCHEMA)
    checked({"jsma": {"classifier": "ddu"}}, SCHEMA)


@pytest.mark.parametrize("overlay", sorted(path.name for path in (ROOT / "config").glob("*.yaml")))
def test_overlays_are_valid_and_name_only_what_they_change(overlay):
    changes = yaml.safe_load((ROOT / "config" / overlay).read_text())
    Experiment.load(changes, ROOT)
    assert complete(changes, DEFAULT) != DEFAULT

    def repeated(change, default, key=""):
        for name, value in change.items():
            if isinstance(value, dict):
                yield from repeated(value, default.get(name, {}), f"{key}{name}.")
            elif name in default and value == default[name]:
                yield f"{key}{name}"

    # An overlay states its scale in full, even where it coincides with the default's: test sets, and epochs of a model.
    redundant = [key for key in repeated(changes, DEFAULT) if key.split(".")[-1] not in ("seeds", "epochs")]
    assert not redundant, "these are as in config.yaml already"


@pytest.mark.parametrize(
    "mistake, message",
    [
        ({"nmae": "x"}, "unknown key 'nmae'; did you mean 'name'?"),
        ({"deduce": {"momentun": 0.5}}, "unknown key 'deduce.momentun'; did you mean 'momentum'?"),
        ({"methods": ["deduce", "jsam"]}, r"'methods\[1\]' is 'jsam'; allowed: .*did you mean 'jsma'\?"),
        ({"images_per_seed": "ten"}, "'images_per_seed' is 'ten'; allowed: a value of type integer"),
        ({"images_per_seed": 0}, "'images_per_seed' is 0; allowed: at least 1"),
        ({"dataset": "cifar"}, "'dataset' is 'cifar'; allowed: mnist, fashion_mnist"),
        ({"seeds": []}, "'seeds' is \\[\\]; allowed: a list that is not empty"),
        ({"seeds": [1, 1]}, "without repetitions"),
        ({"name": "../x"}, "'name' is '../x'"),
        ({"name": "data"}, "'name' is 'data'"),
    ],
)
def test_a_mistake_is_named_with_what_is_allowed(mistake, message):
    with pytest.raises(InputError, match=message):
        checked(mistake, SCHEMA)


def test_conda_and_pip_agree_on_versions():
    def pins(lines):
        return {line.split("#")[0].strip() for line in lines if "==" in line and not line.startswith("#")}

    core = pins((ROOT / "envs" / "core.txt").read_text().splitlines())
    conda = yaml.safe_load((ROOT / "envs" / "core.yaml").read_text())["dependencies"][-1]["pip"]
    evaluation = pins((ROOT / "envs" / "evaluation.txt").read_text().splitlines())
    constraints = pins((ROOT / "envs" / "constraints.txt").read_text().splitlines())
    develop = pins((ROOT / "envs" / "develop.txt").read_text().splitlines())
    assert set(conda) <= core | evaluation
    assert {pin.lower() for pin in core | evaluation | develop} <= {pin.lower() for pin in constraints}


def test_lists_and_sections_of_the_command_line_hold_numbers():
    texts = {"seeds": ["1", "2"], "vlk": {"max_iterations": "500", "momentum": "true"}, "name": 3}
    vlk = {"max_iterations": 500, "momentum": True}
    assert typed(texts) == {"seeds": [1, 2], "vlk": vlk, "name": 3}


def test_a_repeated_key_is_an_error(tmp_path):
    check_file(ROOT / "config.yaml")
    (tmp_path / "twice.yaml").write_text("sweeps:\n  mine: {method: jsma}\nname: x\nsweeps: {}\n")
    with pytest.raises(InputError, match=r"twice.yaml, line 4: 'sweeps' is there already"):
        check_file(tmp_path / "twice.yaml")
    (tmp_path / "deeper.yaml").write_text("deduce: {momentum: 0, momentum: 1}\n")
    with pytest.raises(InputError, match=r"line 1: 'deduce.momentum' is there already"):
        check_file(tmp_path / "deeper.yaml")


def test_the_licence_of_every_pinned_package_is_listed():
    listed = dict(re.findall(r"^\| (\S+) \| (\S+) \| \S", (ROOT / "docs/licences.md").read_text(), re.M))
    hashes = "".join((ROOT / "envs" / name).read_text() for name in ("hashes.txt", "hashes-evaluation.txt"))
    pinned = dict(re.findall(r"^([\w.-]+)==([^\s;#]+)", hashes, re.M))
    same = {name.lower().replace("_", "-"): version for name, version in listed.items()}
    assert {name: same.get(name.lower().replace("_", "-")) for name in pinned} == pinned, "run `make audit`"


def test_every_pinned_package_has_hashes_or_a_reason_to_have_none():
    def pins(name):
        return set(re.findall(r"^([\w.-]+==[^\s;#]+)", (ROOT / "envs" / name).read_text(), re.M))

    without = pins("slurm.txt") | pins("generic.txt") | pins("faults.txt") | pins("docs.txt")
    without |= {pin for pin in pins("core.txt") if pin.startswith("torch")}
    evaluation = pins("hashes-evaluation.txt")
    assert pins("hashes.txt") | evaluation == pins("constraints.txt") - without, "run `python envs/update.py hashes`"
    names = {tables_environment.normalised(pin.partition("==")[0]) for pin in evaluation}
    assert set(tables_environment.installed(tables_environment.pinned("evaluation.txt"))) <= names
    for name in ("hashes.txt", "hashes-evaluation.txt"):
        text = (ROOT / "envs" / name).read_text()
        assert len(re.findall(r"==\S+ \\\n    --hash=sha256:[0-9a-f]{64}", text)) == len(pins(name))
