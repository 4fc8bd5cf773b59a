"""The configuration: its schema, its defaults, and what is said of mistakes."""

from pathlib import Path

import pytest
import yaml

from deduce.config import check_keys, checked, defaults, documentation, schema, typed
from deduce.errors import InputError

ROOT = Path(__file__).parent.parent
METHODS = [path.stem for path in (ROOT / "rules" / "methods").glob("*.smk")]
SCHEMA = schema(ROOT / "schemas", METHODS)
DEFAULT = yaml.safe_load((ROOT / "config.yaml").read_text())


def test_config_yaml_spells_out_exactly_the_schemas_defaults():
    # By default there are no sweeps; the paper's are declared in config.yaml as a user's would be.
    assert defaults(SCHEMA) | {"sweeps": DEFAULT["sweeps"]} == DEFAULT


def test_the_reference_page_is_the_schemas():
    page = (ROOT / "docs" / "configuration.md").read_text()
    assert documentation(SCHEMA) in page, "docs/configuration.md is out of date: run `make docs`"


def test_every_key_has_a_description_and_a_default():
    def walk(part, key):
        assert part.get("description"), f"{key} has no description"
        if "properties" in part:
            assert part.get("additionalProperties") is False, f"{key} lets unknown keys through"
            for name, inner in part["properties"].items():
                walk(inner, f"{key}.{name}")
        else:
            assert "default" in part, f"{key} has no default"

    for name, part in SCHEMA["properties"].items():
        walk(part, name)


def merged(base, overlay):
    return {
        **base,
        **{k: merged(base[k], v) if isinstance(v, dict) and k in base else v for k, v in overlay.items()},
    }


@pytest.mark.parametrize("overlay", sorted(path.name for path in (ROOT / "config").glob("*.yaml")))
def test_overlays_are_valid_and_name_only_what_they_change(overlay):
    changes = yaml.safe_load((ROOT / "config" / overlay).read_text())
    checked(merged(DEFAULT, changes), SCHEMA)

    def repeats(change, default, key=""):
        for name, value in change.items():
            if isinstance(value, dict):
                yield from repeats(value, default[name], f"{key}{name}.")
            elif value == default[name]:
                yield f"{key}{name}"

    # seeds and the like may coincide with the default at one scale; a whole file that changes nothing may not
    assert len(list(repeats(changes, DEFAULT))) < len(changes)


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
    assert set(conda) <= core
    constraints = pins((ROOT / "envs" / "constraints.txt").read_text().splitlines())
    develop = pins((ROOT / "envs" / "develop.txt").read_text().splitlines())
    assert {pin.lower() for pin in core | develop} <= {pin.lower() for pin in constraints}


def test_lists_and_sections_of_the_command_line_hold_numbers():
    given = {"seeds": ["1", "2"], "vlk": {"max_iterations": "500", "momentum": "true", "backend": "alibi"}, "name": 3}
    vlk = {"max_iterations": 500, "momentum": True, "backend": "alibi"}
    assert typed(given) == {"seeds": [1, 2], "vlk": vlk, "name": 3}


def test_a_key_that_is_there_twice_is_an_error(tmp_path):
    check_keys(ROOT / "config.yaml")
    (tmp_path / "twice.yaml").write_text("sweeps:\n  mine: {method: jsma}\nname: x\nsweeps: {}\n")
    with pytest.raises(InputError, match=r"twice.yaml, line 4: 'sweeps' is there already"):
        check_keys(tmp_path / "twice.yaml")
    (tmp_path / "deeper.yaml").write_text("deduce: {momentum: 0, momentum: 1}\n")
    with pytest.raises(InputError, match=r"line 1: 'deduce.momentum' is there already"):
        check_keys(tmp_path / "deeper.yaml")
