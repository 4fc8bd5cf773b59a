"""Properties that hold for any input: of configs, of the contract and of the search."""

import numpy as np
import pytest
import tally
import torch
from conftest import ROOT
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from small_world import world

from deduce import JSMA, DeDUCE
from deduce.config import available_methods, complete, defaults, schema
from deduce.errors import InputError
from deduce.experiment import Experiment
from deduce.shards import ContractError, Pairs, Scores, Shard

SCHEMA, DEFAULT = schema(ROOT, available_methods(ROOT)), defaults(ROOT)
LIMITS = settings(  # many examples in `make test-faults`, few in `make test`
    max_examples=400 if tally.FILE else 40,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
SEARCHES = settings(LIMITS, max_examples=LIMITS.max_examples // 4)


def paths(config, prefix=()):
    for key, value in config.items():
        yield (*prefix, key)
        if isinstance(value, dict) and value:
            yield from paths(value, (*prefix, key))


KEYS = sorted(paths({key: value for key, value in DEFAULT.items() if key not in ("artifacts", "published")}))
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def changed(key, value):
    for name in reversed(key):
        value = {name: value}
    return value


@LIMITS
@given(key=st.sampled_from(KEYS), value=VALUES)
def test_any_config_is_accepted_or_refused_in_one_sentence(key, value):
    try:
        experiment = Experiment.load(changed(key, value), ROOT)
    except InputError as error:
        assert "\n" not in str(error) and len(str(error)) < 2000
    else:  # whatever is accepted can be planned
        assert experiment.artifact_names and experiment.tables and experiment.figures


@LIMITS
@given(key=st.sampled_from(KEYS), value=VALUES)
def test_a_completed_config_is_complete(key, value):
    once = complete(changed(key, value), DEFAULT)
    assert complete(once, DEFAULT) == once or value != value
    assert defaults(ROOT) == DEFAULT


@st.composite
def shards(draw):
    """Valid pairs, and a valid shard that answers them."""
    n = draw(st.integers(0, 5))
    classes = draw(st.integers(2, 5))
    shape = (n, draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    pixels = hnp.arrays(np.float32, shape, elements=st.floats(0, 1, width=32))
    label = draw(hnp.arrays(np.int64, n, elements=st.integers(0, classes - 1)))
    target = (label + draw(st.integers(1, classes - 1))) % classes
    pairs = Pairs(np.arange(n), label, target, draw(pixels), np.array(classes))
    found = draw(hnp.arrays(bool, n))
    confidence = np.where(found, 0.75, 0.25).astype(np.float32)
    iterations = draw(hnp.arrays(np.int64, n, elements=st.integers(0, 1000)))
    metadata = {"method": "example", "target_confidence": 0.5, "classes": classes}
    return pairs, Shard(pairs.image, label, target, draw(pixels), found, confidence, iterations, metadata)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("contract") / "file.npz"


@LIMITS
@given(both=shards())
def test_what_is_saved_comes_back(path, both):
    pairs, shard = both
    for table, kind in ((pairs, Pairs), (shard, Shard)):
        table.save(path)
        again = kind.load(path)
        for name, value in vars(table).items():
            np.testing.assert_array_equal(getattr(again, name), value)
    shard.answers(pairs, "x")


ANY_ARRAY = hnp.arrays(
    st.sampled_from([np.float32, np.float64, np.int64, np.uint8, np.bool_, np.complex64, "U3"]),
    hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3),
)


COLUMNS = ["image", "label", "target", "counterfactual", "found", "confidence", "iterations", "seconds", "path_offset"]


@LIMITS
@given(both=shards(), name=st.sampled_from(COLUMNS), array=ANY_ARRAY)
def test_one_wrong_array_is_refused_by_name_or_right(path, both, name, array):
    """A shard with any array in place of one of its own is refused by a `ContractError`, or keeps the contract."""
    setattr(both[1], name, array)
    both[1].save(path)
    try:
        loaded = Shard.load(path)
    except ContractError as error:
        assert str(path) in str(error)
    else:
        loaded.check("again")
        assert (
            np.isfinite(loaded.counterfactual).all()
            and ((loaded.confidence >= -1e-6) & (loaded.confidence <= 1 + 1e-6)).all()
        )


@LIMITS
@given(values=hnp.arrays(np.float64, st.integers(0, 4), elements=st.floats()))
def test_scores_are_finite_or_missing(path, values):
    n = len(values)
    Scores(np.arange(n), np.zeros(n, int), agan=values).save(path)
    if np.isinf(values).any():
        with pytest.raises(ContractError, match="infinite"):
            Scores.load(path)
    else:
        np.testing.assert_array_equal(Scores.load(path).values["agan"], values)


@SEARCHES
@given(
    method=st.sampled_from(["deduce", "jsma"]),
    rows=st.lists(st.integers(0, 199), min_size=1, max_size=6),
    noise=st.floats(0, 0.5),
    changed_pixels=st.integers(1, 5),
    confidence=st.floats(0.05, 0.95),
    batch_size=st.integers(1, 7),
)
def test_a_search_keeps_its_promises(method, rows, noise, changed_pixels, confidence, batch_size):
    """In range, found exactly if confident, its path leads to its answer, and the batch has no influence."""
    w = world()
    kinds = {"deduce": (DeDUCE, (w.ddu, w.densities)), "jsma": (JSMA, (w.plain,))}
    kind, models = kinds[method]
    search = kind(max_iterations=8, pixels_per_step=changed_pixels, target_confidence=confidence, batch_size=batch_size)
    images = (
        w.images[rows] + noise * torch.randn(w.images[rows].shape, generator=torch.Generator().manual_seed(0))
    ).clamp(0, 1)
    result = search.generate(*models, images, w.targets[rows], allow_reached=True)
    answers = result.counterfactual
    assert ((answers >= 0) & (answers <= 1)).all()
    assert torch.equal(result.found, result.confidence >= confidence)
    assert ((result.iterations >= 0) & (result.iterations <= 8)).all()
    replayed = images.flatten(1).clone()
    for row in range(len(rows)):
        for step in range(result.path_offset[row], result.path_offset[row + 1]):
            replayed[row, result.path_pixel[step]] = result.path_value[step]
    assert torch.equal(replayed.view_as(answers), answers)
    single = kind(max_iterations=8, pixels_per_step=changed_pixels, target_confidence=confidence, batch_size=1)
    alone = single.generate(*models, images[:1], w.targets[rows][:1], allow_reached=True)
    assert torch.allclose(alone.counterfactual, answers[:1], atol=1e-4) or abs(alone.confidence - confidence) < 1e-3
