"""The methods as their users meet them: what they accept, refuse and need, and the shards they answer with."""

import inspect
import json
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from small_world import CLASSES, SIZE, Drawing, autoencoder, ensemble, world
from torch import nn

from deduce import JSMA, REVISE, DeDUCE, methods, provenance
from deduce.config import available_methods
from deduce.errors import InputError
from deduce.methods.cem import CEM
from deduce.methods.nearest_image import NearestImage
from deduce.methods.piece import PIECE
from deduce.methods.schut import Schut
from deduce.methods.vlk import VLK
from deduce.methods.wachter import Wachter
from deduce.pairs import TIMED
from deduce.search import Method
from deduce.shards import ContractError, Pairs, Shard

ROOT = Path(__file__).parent.parent


class NoFeatures(nn.Module):
    def forward(self, images):
        return images.flatten(1)[:, :CLASSES]


def changed(images, value):
    images = images.clone()
    images[2, 0, 3, 3] = value
    return images


METHODS = {
    "deduce": DeDUCE(max_iterations=20),
    "jsma": JSMA(max_iterations=20),
    "revise": REVISE(step_size=0.002, max_iterations=12),
    "vlk": VLK(max_iterations=10, autoencoder_weight=2.0, prototype_weight=5.0, sparsity=0.005),
    "nearest_image": NearestImage(),
    "cem": CEM(max_iterations=10, loss_weight_steps=2, autoencoder_weight=2.0, sparsity=0.005),
    "piece": PIECE(max_iterations=5, inversion_steps=5),
    "schut": Schut(max_iterations=20),
    "wachter": Wachter(max_iterations=20, weight_steps=2, patience=5),
}


def arguments(method):
    """What `generate` takes before images and targets, as a job has loaded it."""
    w = world()
    known = {"densities": w.densities, "generative_model": w.vae, "autoencoder": autoencoder()}
    known["training"] = (w.training_images, w.training_labels)
    classifier = w.ddu if "densities" in method.needs else w.plain
    if isinstance(method, PIECE):
        known["generative_model"] = Drawing()
    if isinstance(method, Schut):
        classifier = ensemble()
    return {"classifier": classifier} | {name: known[name] for name in method.needs}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "spoil, message",
    [
        (lambda images, targets: (changed(images, 1.5), targets), r"image 2 has values outside \[0, 1\]"),
        (lambda images, targets: (changed(images, -0.1), targets), r"image 2 has values outside \[0, 1\]"),
        (lambda images, targets: (changed(images, float("nan")), targets), "image 2 .* NaN"),
        (lambda images, targets: (images[:, 0], targets), r"must have shape \(n, channels, height, width\)"),
        (
            lambda images, targets: (images.repeat(1, 3, 1, 1), targets),
            r"does not accept images of shape \(3, 12, 12\)",
        ),
        (lambda images, targets: (images, targets[:-1]), "one whole number per image"),
        (lambda images, targets: (images, targets.float()), "one whole number per image"),
        (lambda images, targets: (images, targets.clone().fill_(CLASSES)), r"target 5 of image 0 is outside 0\.\.4"),
        (lambda images, targets: (images, targets.clone().fill_(-1)), "target -1 of image 0 is outside"),
        (lambda images, targets: (images, torch.arange(4) // 4), "already predicts target 0 for image 0"),
        (lambda images, targets: (None, targets), "images must be a tensor"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(method, spoil, message):
    images, targets = spoil(world().images[:4], world().targets[:4])
    with pytest.raises(InputError, match=message):
        METHODS[method].generate(**arguments(METHODS[method]), images=images, targets=targets)


def test_deduce_needs_features():
    images, targets = world().images[:2], world().targets[:2]
    with pytest.raises(InputError, match=r"\(NoFeatures\) does not end in a linear layer"):
        DeDUCE().generate(NoFeatures(), world().densities, images, targets)
    JSMA(max_iterations=1).generate(NoFeatures(), images, targets, allow_reached=True)  # JSMA needs logits only


@pytest.mark.parametrize(
    "settings", [dict(target_confidence=0), dict(target_confidence=1.2), dict(max_iterations=-1), dict(batch_size=0)]
)
def test_impossible_settings_are_refused(settings):
    with pytest.raises(InputError):
        DeDUCE(**settings)


@pytest.mark.parametrize("method", ["deduce", "jsma"])
def test_an_image_that_has_reached_its_target_is_the_answer_after_no_iterations(method):
    method, images = replace(METHODS[method], max_iterations=3), world().images[::4]
    models = arguments(method)
    predicted = models["classifier"](images).argmax(1)
    result = method.generate(**models, images=images, targets=predicted, allow_reached=True)
    reached = result.iterations == 0
    assert reached.float().mean() > 0.8  # the rest is predicted with less than the target confidence
    assert result.found[reached].all() and (result.confidence[reached] >= 0.5).all()
    assert torch.equal(result.counterfactual[reached], images[reached])


class ColourNetwork(nn.Module):
    """A network unlike those of the library: other image size, three channels, no batch normalisation."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 6, 3, 2, 1), nn.Tanh(), nn.Conv2d(6, 12, 3, 2, 1), nn.Tanh())
        self.top = nn.Linear(12, 3)

    def features(self, images):
        return self.body(images).mean((2, 3))

    def head(self, features):
        return self.top(features)

    def forward(self, images):
        return self.head(self.features(images))


@pytest.mark.parametrize("name", ["deduce", "jsma"])
def test_a_search_goes_on_until_a_confirming_classifier_agrees(name):
    w, method = world(), replace(METHODS[name], max_iterations=60)
    models, pairs = arguments(method), {"images": w.images, "targets": w.targets, "allow_reached": True}
    other = w.plain if name == "deduce" else w.ddu
    alone, both = (method.generate(**models, **pairs, confirming=confirming) for confirming in (None, other))

    def agrees(result):
        return other(result.counterfactual).argmax(1) == w.targets

    # By itself, a search leaves many counterfactuals that the other network does not believe.
    doubted = alone.found & ~agrees(alone)
    assert doubted.float().mean() > 0.1
    assert both.found[doubted].any() and agrees(both)[both.found].all()
    # Where the other network agrees at once, nothing changes; where it does not, the search goes on from there.
    at_once = alone.found & agrees(alone)
    assert torch.equal(both.counterfactual[at_once], alone.counterfactual[at_once]) and both.found[at_once].all()
    assert (both.iterations[doubted] > alone.iterations[doubted]).all()
    assert not both.found[~alone.found].any()


def test_a_shard_may_end_unconfirmed_with_the_target_confidence(tmp_path):
    never = NoFeatures()
    never.forward = lambda images: torch.nn.functional.one_hot(images.new_zeros(len(images)).long(), CLASSES).float()
    prepared = METHODS["jsma"].prepare(pairs().original, **arguments(METHODS["jsma"]), confirming=never)
    models = {"classifier": "network", "confirming": "never"}
    shard = methods.answer(METHODS["jsma"], prepared, pairs(), "abc", models)
    stubborn = (shard.target != 0) & (shard.confidence >= 0.5)
    assert stubborn.any() and not shard.found[shard.target != 0].any()
    shard.save(tmp_path / "shard.npz")
    Shard.load(tmp_path / "shard.npz")  # keeps the contract
    del shard.metadata["models"]["confirming"]
    with pytest.raises(ContractError, match="'found' is False but confidence is"):
        shard.check("x")


def test_deduce_explains_any_classifier_with_features_and_fits_its_densities():
    torch.manual_seed(0)
    labels = torch.arange(300) % 3
    images = 0.5 * torch.rand(300, 3, 20, 14)
    images[torch.arange(300), labels] += 0.4  # the class is the colour
    network = ColourNetwork()
    optimiser = torch.optim.Adam(network.parameters(), 0.02)
    for _ in range(60):
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(images), labels).backward()
        optimiser.step()
    method = DeDUCE(pixels_per_step=8, step_size=0.5, max_iterations=200)
    result = method.generate(network, (images, labels), images[:6], (labels[:6] + 1) % 3)
    assert result.counterfactual.shape == (6, 3, 20, 14)
    assert result.found.all()
    with torch.no_grad():
        assert (network(result.counterfactual).softmax(1)[range(6), (labels[:6] + 1) % 3] >= 0.5 - 1e-5).all()
    assert (result.counterfactual != images[:6]).flatten(1).sum(1).max() <= 8 * result.iterations.max()
    with pytest.raises(InputError, match=r"300 images came with training labels of shape \(299,\), not \(300,\)"):
        method.generate(network, (images, labels[1:]), images[:1], torch.tensor([1]))


def pairs(rows=slice(0, 12)) -> Pairs:
    w = world()
    targets = w.targets[rows].numpy()
    return Pairs(
        image=np.arange(len(targets)) // 4,
        label=(np.arange(len(targets)) // 4) % CLASSES,
        target=targets,
        original=w.images[rows].numpy(),
        classes=np.array(CLASSES),
    )


def answer(method, pairs, source="abc", measured=""):
    prepared = method.prepare(pairs.original, **arguments(method))
    return methods.answer(method, prepared, pairs, source, {"classifier": "network"}, measured)


def test_the_shard_answers_its_pairs_and_is_the_same_file_every_time(tmp_path):
    for name in ("first", "second"):
        answer(METHODS["deduce"], pairs()).save(tmp_path / f"{name}.npz")
    assert (tmp_path / "first.npz").read_bytes() == (tmp_path / "second.npz").read_bytes()
    shard = Shard.load(tmp_path / "first.npz")  # checks the contract
    shard.answers(pairs(), "here")
    assert shard.counterfactual.shape == (12, 1, SIZE, SIZE) and shard.seconds is None
    with torch.no_grad():
        before = world().ddu(torch.from_numpy(pairs().original)).softmax(1).numpy()
    np.testing.assert_allclose(shard.confidence_before, before[np.arange(12), pairs().target], rtol=1e-4)
    assert shard.metadata["method"] == "deduce" and shard.metadata["display_name"] == "DeDUCE"
    assert shard.metadata["settings"]["max_iterations"] == 20 and shard.metadata["source"] == "abc"
    assert shard.metadata["models"] == {"classifier": "network"} and "machine" not in shard.metadata


@pytest.mark.parametrize("method", METHODS)
def test_every_method_answers_through_what_it_prepares_once(method, tmp_path):
    """A job's shard keeps the contract and has the counterfactuals of a plain call."""
    method = METHODS[method]
    shard = answer(method, pairs())
    shard.save(tmp_path / "shard.npz")
    Shard.load(tmp_path / "shard.npz").answers(pairs(), "here")
    assert shard.metadata["target_confidence"] == getattr(method, "target_confidence", None)
    images, targets = world().images[:12], world().targets[:12]
    result = method.generate(**arguments(method), images=images, targets=targets, allow_reached=True)
    np.testing.assert_array_equal(shard.counterfactual, result.counterfactual)


@pytest.mark.parametrize("method", METHODS)
def test_a_job_without_pairs_has_an_empty_shard(method, tmp_path):
    answer(METHODS[method], pairs(slice(0, 0))).save(tmp_path / "empty.npz")
    assert len(Shard.load(tmp_path / "empty.npz")) == 0


def test_timed_pairs_are_searched_one_by_one_and_say_on_which_machine(tmp_path):
    alone, batch = answer(METHODS["deduce"], pairs(), measured=TIMED), answer(METHODS["deduce"], pairs())
    assert alone.seconds.shape == (12,) and alone.seconds.dtype == np.float64
    assert (alone.seconds > 0).all() and len(set(alone.seconds)) > 1  # each pair has its own time
    assert alone.metadata["machine"] == methods.machine() and "1 thread" in methods.machine()
    np.testing.assert_array_equal(alone.counterfactual, batch.counterfactual)
    np.testing.assert_array_equal(alone.path_offset, batch.path_offset)
    assert {key: value for key, value in alone.metadata.items() if key != "machine"} == batch.metadata
    alone.save(tmp_path / "timed.npz")
    Shard.load(tmp_path / "timed.npz").answers(pairs(), "here")


def test_a_measured_sample_is_searched_as_a_batch_that_shares_its_time():
    rows = slice(0, 3)
    shard, batch = answer(METHODS["jsma"], pairs(rows), measured="sample3"), answer(METHODS["jsma"], pairs(rows))
    assert shard.seconds.shape == (3,) and len(set(shard.seconds)) == 1 and shard.seconds[0] > 0
    assert shard.metadata["machine"] == methods.machine()
    np.testing.assert_array_equal(shard.counterfactual, batch.counterfactual)


LIBRARY = sorted(path.stem for path in (ROOT / "deduce/methods").glob("[!_]*.py"))


@pytest.mark.parametrize("name", LIBRARY)
def test_a_method_is_found_by_its_name_and_takes_what_it_needs(name):
    found = methods.by_name(name)
    assert issubclass(found, Method) and found.name == name and found.display_name
    expected = ["self", "classifier", *found.needs, "images", "targets", "allow_reached", "progress"]
    expected += ["confirming"] * getattr(found, "changes_pixels", False)
    assert list(inspect.signature(found.generate).parameters) == expected
    assert found().settings() == vars(found())


def test_a_module_without_its_method_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "deduce.methods.nothing", types.ModuleType("nothing"))
    with pytest.raises(InputError, match="deduce/methods/nothing.py has no Method whose name is 'nothing'"):
        methods.by_name("nothing")


def test_every_method_of_the_library_has_a_rule():
    assert set(LIBRARY) <= set(available_methods(ROOT))


PARSED_RULES = """
import json, sys
from pathlib import Path
from snakemake.api import SnakemakeApi
from snakemake.settings.types import ConfigSettings, OutputSettings, ResourceSettings

with SnakemakeApi(OutputSettings(dryrun=True)) as api:
    workflow = api.workflow(
        resource_settings=ResourceSettings(cores=1),
        config_settings=ConfigSettings(config={"methods": sys.argv[2:]}),
        snakefile=Path(sys.argv[1], "Snakefile"),
    )
    rules = workflow._workflow.rules
    print(json.dumps({rule.name: [list(rule.input.keys()), str(rule.params.get("source"))] for rule in rules}))
"""


@pytest.fixture(scope="module")
def parsed_rules(tmp_path_factory):
    """The names of the inputs of every rule and the digest of its code, as Snakemake has parsed them."""
    command = [sys.executable, "-c", PARSED_RULES, str(ROOT), *LIBRARY]
    parsed = subprocess.run(command, cwd=tmp_path_factory.mktemp("empty"), capture_output=True, text=True)
    assert parsed.returncode == 0, parsed.stderr[-3000:]
    return json.loads(parsed.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", LIBRARY)
def test_a_rule_gives_its_method_what_it_needs_and_reruns_with_its_code(name, parsed_rules):
    inputs, source = parsed_rules[name]
    needs = {"data" if need == "training" else need for need in methods.by_name(name).needs}
    assert set(inputs) == {"pairs", "classifier", *needs}
    assert source == provenance.digest(ROOT / "scripts/run_method.py", f"deduce.methods.{name}")
