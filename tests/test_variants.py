"""The grammar of variants, `name@key=value,key=value`, for methods and models."""

import pytest

from deduce.errors import InputError
from deduce.variants import base, configured, overrides, sections, variant

CONFIG = {
    "training_seeds": [3, 4],
    "replicated": ["ddu"],
    "jsma": {"step_size": 0.2, "pixels_per_step": 1, "classifier": "plain"},
    "ddu": {"width": 8, "coefficient": 4},
    "vae": {"latent": 32, "training_seed": 7},
}


@pytest.mark.parametrize(
    "name, settings, expected",
    [
        ("jsma", {"step_size": 0.00001}, "jsma@step_size=1e-05"),
        ("jsma", {"flag": True, "classifier": "ddu"}, "jsma@classifier=ddu,flag=true"),
        ("jsma", {"step_size": 0.1, "ddu.coefficient": 2}, "jsma@ddu.coefficient=2,step_size=0.1"),
        ("jsma", {"weight": -1.5, "text": "a.b-c+d_e"}, "jsma@text=a.b-c+d_e,weight=-1.5"),
        ("ddu", {"width": 16}, "ddu@width=16"),
    ],
)
def test_a_variant_has_its_settings_in_its_name(name, settings, expected):
    assert variant(name, settings, CONFIG) == expected
    assert base(expected) == name and overrides(expected) == settings
    assert variant(base(expected), overrides(expected), CONFIG) == expected


@pytest.mark.parametrize(
    "name, settings",
    [
        ("jsma", {}),
        ("jsma", {"step_size": 0.2, "pixels_per_step": 1}),
        ("jsma", {"ddu.coefficient": 4, "ddu.width": 8}),
        ("ddu", {"width": 8}),
        ("ddu", {"training_seed": 3}),
        ("jsma", {"training_seed": 3}),
        ("jsma", {"ddu.training_seed": 3, "vae.training_seed": 7}),
    ],
)
def test_what_equals_the_config_has_the_plain_name(name, settings):
    assert variant(name, settings, CONFIG) == name


def test_a_plain_name_has_no_settings():
    assert base("jsma") == "jsma" and overrides("jsma") == {}


def test_only_what_differs_from_the_config_is_named_in_one_order():
    settings = {"step_size": 0.1, "pixels_per_step": 1, "ddu.width": 8, "batch_size": 7}
    assert variant("jsma", settings, CONFIG) == "jsma@batch_size=7,step_size=0.1"
    assert variant("jsma", dict(reversed(settings.items())), CONFIG) == "jsma@batch_size=7,step_size=0.1"


def test_a_method_and_a_replicated_model_have_the_first_training_seed_and_a_shared_model_its_own():
    assert configured(CONFIG, "ddu", "training_seed") == configured(CONFIG, "jsma", "training_seed") == 3
    assert configured(CONFIG, "jsma", "ddu.training_seed") == 3
    assert configured(CONFIG, "vae", "training_seed") == 7 and configured(CONFIG, "wgan", "training_seed") == 1
    assert variant("vae", {"training_seed": 1}, CONFIG) == "vae@training_seed=1"
    assert variant("jsma", {"training_seed": 4}, CONFIG) == "jsma@training_seed=4"


@pytest.mark.parametrize("value", ["a/b", "a b", "a,b", "a=b", "a@b", "", [1, 2]])
def test_a_value_that_no_path_can_hold_is_refused(value):
    with pytest.raises(InputError, match=r"'step_size' is .*; allowed: a number, true, false or one word"):
        variant("jsma", {"step_size": value}, CONFIG)


def test_settings_are_put_into_the_sections_that_they_are_of():
    changed = sections("jsma", {"step_size": 0.1, "ddu.width": 16}, CONFIG)
    assert changed == {"jsma": CONFIG["jsma"] | {"step_size": 0.1}, "ddu": {"width": 16, "coefficient": 4}}
    assert CONFIG["ddu"]["width"] == 8
