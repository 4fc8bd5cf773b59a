"""Everything runs on another device than the CPU, wherever the caller's tensors are, and hardly waits (tests/sim.py).

Where the same operations run on the same shapes, results are equal bit by bit. Searches and scores have other memory
layouts there, and densities and AnoGAN other operations: these agree up to rounding.
"""

import copy
import functools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sim import SIM, SimTensor, simulation, traffic
from small_world import CLASSES, Drawing, autoencoder, ensemble, world
from test_training import patterns
from torch import nn

from deduce import JSMA, REVISE, DeDUCE, compute, methods, models, search, training
from deduce.config import defaults
from deduce.datasets import DATASETS
from deduce.evaluation.metrics import METRICS, ROLES, SCORES
from deduce.fold import device_of
from deduce.methods import deduce, nearest_image, revise, vlk
from deduce.methods.cem import CEM
from deduce.methods.nearest_image import NearestImage
from deduce.methods.piece import PIECE
from deduce.methods.schut import Schut
from deduce.methods.vlk import VLK
from deduce.methods.wachter import Wachter
from deduce.models.ensemble import uncertainty
from deduce.realism.anogan import AnoGAN, AutodiffGAN
from deduce.realism.score import score
from deduce.shards import Pairs

ROOT = Path(__file__).parent.parent
ROWS = slice(0, 200, 18)


def training_data():
    return world().training_images, world().training_labels


def densities():
    return {"densities": world().densities}


METHODS = {
    "deduce": (DeDUCE(max_iterations=15, pixels_per_step=3, batch_size=6), densities),
    "deduce, fitted": (
        DeDUCE(max_iterations=15, pixels_per_step=3, batch_size=6),
        lambda: {"densities": training_data()},
    ),
    "deduce, confirmed": (
        DeDUCE(max_iterations=15, pixels_per_step=3, batch_size=6),
        lambda: densities() | {"confirming": world().plain},
    ),
    "jsma": (JSMA(max_iterations=20, batch_size=6), dict),
    "revise": (REVISE(step_size=0.002, max_iterations=12, batch_size=6), lambda: {"generative_model": world().vae}),
    "vlk": (
        VLK(max_iterations=10, autoencoder_weight=2.0, prototype_weight=5.0, sparsity=0.005),
        lambda: {"autoencoder": autoencoder(), "training": training_data()},
    ),
    "nearest_image": (NearestImage(), lambda: {"training": training_data()}),
    "wachter": (
        Wachter(max_iterations=20, weight_steps=1, patience=10, distance="mad", batch_size=6),
        lambda: {"training": training_data()},
    ),
    "schut": (Schut(target_confidence=0.9, max_iterations=60, batch_size=6), dict),
    "cem": (
        CEM(initial_loss_weight=100.0, loss_weight_steps=2, max_iterations=10, autoencoder_weight=2.0, sparsity=0.005),
        lambda: {"autoencoder": autoencoder()},
    ),
    "piece": (
        PIECE(max_iterations=10, inversion_steps=10, improbable=0.2, target_confidence=0.3),
        lambda: {"generative_model": Drawing(), "training": training_data()},
    ),
}
# What a step changes by a fixed amount comes out the same on both devices; the others amplify another rounding.
TOLERANCE = {"deduce": 0, "jsma": 0, "schut": 0, "nearest_image": 0, "wachter": 1e-3, "cem": 1e-3}


def answers(name, device, prepare=False, **settings):
    """A method's result, with the classifier on a device and everything else on the CPU."""
    method, needed = METHODS[name]
    explained = ensemble() if name == "schut" else world().ddu if "densities" in method.needs else world().plain
    arguments = {"classifier": copy.deepcopy(explained).to(device)} | needed()
    images, targets = world().images[ROWS], world().targets[ROWS]
    if prepare:
        arguments = method.prepare(images, **arguments)
    result = replace(method, **settings).generate(**arguments, images=images, targets=targets, allow_reached=True)
    for model in (model for model in needed().values() if isinstance(model, nn.Module)):
        assert {tensor.device.type for tensor in model.state_dict().values()} == {"cpu"}, "the caller's model was moved"
    return result


@functools.cache
def answers_on_cpu(name):
    return answers(name, "cpu")


def same_as_on_cpu(result, name):
    expected, tolerance = answers_on_cpu(name), TOLERANCE.get(name.split(",")[0], 1e-5)
    tensors = {field: tensor for field, tensor in vars(result).items() if tensor is not None}
    assert all(tensor.device.type == "cpu" and not isinstance(tensor, SimTensor) for tensor in tensors.values())
    for field in tensors.keys() - {"counterfactual", "confidence"}:  # also the paths, with the values of pixels
        assert torch.equal(tensors[field], getattr(expected, field)), field
    assert result.found.any()
    torch.testing.assert_close(result.counterfactual, expected.counterfactual, atol=tolerance, rtol=0)
    torch.testing.assert_close(result.confidence, expected.confidence, atol=max(tolerance, 1e-5), rtol=0)


@pytest.fixture
def waits(monkeypatch):
    """How often the host has waited for the device when each iteration of a search begins."""
    counts = []

    def counted(gradient):
        def counting(*arguments):
            counts.append(len(traffic.waits))
            return gradient(*arguments)

        return counting

    monkeypatch.setattr(search, "gradient_of", counted(search.gradient_of))
    monkeypatch.setattr(VLK, "gradient", counted(VLK.gradient))
    return counts


@pytest.mark.parametrize("name", METHODS)
def test_a_method_gives_the_same_on_another_device_and_waits_once_per_iteration(name, waits):
    answers_on_cpu(name)
    waits.clear()
    with simulation():
        result = answers(name, SIM)
    same_as_on_cpu(result, name)
    budget = {"vlk": 0, "deduce, confirmed": 2}.get(name, 1)
    if name == "vlk":
        assert not np.diff(waits[: METHODS["vlk"][0].max_iterations]).any()
    elif name != "nearest_image":
        assert len(waits) > 10 and np.diff(waits).max() <= budget, traffic.waits


@pytest.mark.parametrize("name", METHODS)
def test_a_prepared_method_gives_the_same_on_another_device(name):
    with simulation():
        result = answers(name, SIM, prepare=True)
    same_as_on_cpu(result, name)


@pytest.mark.parametrize("name", ["deduce", "jsma", "revise", "cem", "piece"])
def test_rows_that_have_ended_may_stay_until_the_host_looks(name, waits, monkeypatch):
    monkeypatch.setattr(compute, "accelerator", compute.Accelerator(retire_every=4))
    answers_on_cpu(name)
    waits.clear()
    with simulation():
        result = answers(name, SIM)
    same_as_on_cpu(result, name)
    between = np.diff(waits)
    assert between.max() == 1 and between.sum() <= len(between) / 4 + 1


def test_a_hidden_wait_exceeds_the_budget(waits, monkeypatch):
    class Printing(JSMA):
        def step(self, rows, gradient):
            float(gradient.abs().max())
            return super().step(rows, gradient)

    monkeypatch.setitem(METHODS, "printing", (Printing(max_iterations=5), dict))
    with simulation():
        answers("printing", SIM)
    assert set(np.diff(waits)) == {2} and "aten::_local_scalar_dense" in traffic.waits[waits[0] :]


def test_reduced_precision_is_for_accelerators_only(monkeypatch):
    dtypes = []

    class Noting(JSMA):
        def evaluate(self, models, rows):
            dtypes.append(models.classifier(rows.image).dtype)
            return super().evaluate(models, rows)

    monkeypatch.setitem(METHODS, "noting", (Noting(max_iterations=3), dict))
    monkeypatch.setattr(compute, "accelerator", compute.Accelerator(autocast=True))
    answers("noting", "cpu")
    assert set(dtypes) == {torch.float32}
    dtypes.clear()
    with simulation():
        answers("noting", SIM)
        assert device_of(nn.Linear(1, 1)).type == "cpu"
    assert set(dtypes) == {torch.bfloat16}


@pytest.mark.parametrize("name", ["deduce", "jsma", "revise", "vlk", "wachter", "schut", "cem", "piece"])
def test_every_search_runs_in_reduced_precision(name, monkeypatch):
    monkeypatch.setattr(compute, "accelerator", compute.Accelerator(autocast=True))
    with simulation():
        result = answers(name, SIM, max_iterations=10 if name == "wachter" else 3)
    assert result.counterfactual.dtype == result.confidence.dtype == torch.float32
    assert result.counterfactual.isfinite().all() and result.confidence.isfinite().all()


def test_settings_of_accelerators_reach_torch():
    try:
        compute.configure(tf32=True)
        assert torch.backends.cuda.matmul.allow_tf32 and torch.backends.cudnn.allow_tf32
    finally:
        compute.configure()
    assert not torch.backends.cuda.matmul.allow_tf32 and not torch.backends.cudnn.allow_tf32
    assert compute.retire_every(torch.device("cpu")) == compute.retire_every(SIM) == 1


def test_copies_to_a_gpu_start_from_page_locked_memory(monkeypatch):
    calls = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: calls.append("pin_memory") or tensor)
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, *to, **options: calls.append((*to, options)) or tensor)
    compute.sent(torch.zeros(1), torch.device("cuda"))
    compute.sent(torch.zeros(1), torch.device("mps"))
    gpu, other = (torch.device("cuda"), {"non_blocking": True}), (torch.device("mps"), {"non_blocking": False})
    assert calls == ["pin_memory", gpu, other]


def test_the_confidence_before_is_measured_on_the_classifiers_device():
    method, network = JSMA(max_iterations=2), world().plain
    images, targets = world().images[:6].numpy(), world().targets[:6].numpy()
    pairs = Pairs(np.arange(6), np.zeros(6, int), targets, images, np.array(CLASSES))
    expected = methods.answer(method, method.prepare(images, network), pairs, "", {})
    with simulation():
        prepared = method.prepare(images, copy.deepcopy(network).to(SIM))
        shard = methods.answer(method, prepared, pairs, "", {})
    np.testing.assert_allclose(shard.confidence_before, expected.confidence_before, atol=1e-5)


# --- training

DATASET = replace(DATASETS["mnist"], classes=("upper", "middle", "lower"))
TINY = {"width": 2, "critic_width": 2, "latent": 4, "hidden": 8, "members": 2}
BRIEF = {"training_images": 90, "epochs": 2, "batch_size": 30, "annealing_epochs": 1}
VARIANTS = {name: {} for name in models.REGISTRY} | {
    "density@covariance=low_rank": {"covariance": "low_rank", "rank": 2, "confidence_weighted": True},
    "density@ambiguous_images=12": {"ambiguous_images": 12},
}


def fitted(variant, folder):
    """The weights and the record of a small model of the registry, trained on DEDUCE_DEVICE."""
    name, settings = variant.partition("@")[0], defaults(ROOT)[variant.partition("@")[0]]
    settings |= {key: value for key, value in (TINY | BRIEF).items() if key in settings} | VARIANTS[variant]
    torch.manual_seed(1)
    others = {
        "classifier": models.REGISTRY["plain"].build(2, 1, 3).eval(),
        "vae": models.REGISTRY["vae"].build(4, 1, 28).eval(),
    }
    needed = {role: others[role].to(compute.device()) for role in models.REGISTRY[name].needed(settings)}
    folder.mkdir(exist_ok=True)
    record = training.fit(name, settings, DATASET, "", folder / "model.safetensors", seed=1, **needed)
    return load_file(folder / "model.safetensors"), record.drop(columns="seconds", errors="ignore")


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_model_is_trained_to_the_same_weights_on_another_device(variant, tmp_path, monkeypatch):
    splits = {"train": patterns(90, 1), "validation": patterns(90, 2)}
    monkeypatch.setattr(
        training, "load", lambda root, name, split, count: tuple(part[:count] for part in splits[split])
    )
    monkeypatch.setenv("DEDUCE_DEVICE", "cpu")
    expected, record = fitted(variant, tmp_path / "cpu")
    monkeypatch.setenv("DEDUCE_DEVICE", "sim")
    waits, epoch = [], training._epoch

    def watched(*arguments):
        before = len(traffic.waits)
        averages = epoch(*arguments)
        waits.append(len(traffic.waits) - before - len(averages))
        return averages

    monkeypatch.setattr(training, "_epoch", watched)
    with simulation():
        weights, record_there = fitted(variant, tmp_path / "sim")
    assert traffic.waits, "nothing was trained on the device"
    assert max(waits, default=0) <= 0, "an epoch waits for its averages only"
    assert weights.keys() == expected.keys()
    for name, tensor in weights.items():
        assert torch.equal(tensor, expected[name]), name
    np.testing.assert_allclose(record_there.to_numpy(float), record.to_numpy(float), rtol=1e-6)


def test_a_training_goes_on_from_a_checkpoint_on_another_device(tmp_path, monkeypatch):
    splits = {"train": patterns(90, 1), "validation": patterns(90, 2)}
    monkeypatch.setattr(
        training, "load", lambda root, name, split, count: tuple(part[:count] for part in splits[split])
    )
    monkeypatch.setenv("DEDUCE_DEVICE", "sim")
    with simulation():
        expected, _ = fitted("vae", tmp_path / "whole")
        with monkeypatch.context() as patch:
            patch.setattr(models, "save", lambda *arguments: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                fitted("vae", tmp_path / "killed")
        assert (tmp_path / "killed/model.checkpoint").exists()
        weights, record = fitted("vae", tmp_path / "killed")
    assert len(record) == 2 and all(torch.equal(weights[name], expected[name]) for name in weights)


# --- scores


@functools.cache
def judges():
    """Small networks for every role of a scorer, as they are before training."""
    torch.manual_seed(0)
    built = {name: model.build for name, model in models.REGISTRY.items()}
    classifier, other = built["plain"](2, 1, 3), built["plain"](2, 1, 3)
    roles = {
        "wgan": built["wgan"](4, 1, 2, 2),
        "class_autoencoders": built["class_autoencoders"](3, 784, 8, 4),
        "density": built["density"](3, classifier.head.in_features),
        "classifier": classifier,
        "oracles": built["oracles"](1, 3, 28),
        "retrained": other,
        "explained": classifier,
    }
    return {role: model.eval() for role, model in roles.items()} | {"training": patterns(60, 3)}


def test_every_score_is_the_same_on_another_device(monkeypatch):
    assert set(judges()) == set(ROLES)
    settings = defaults(ROOT)["realism"]
    settings["anogan"] |= {"steps": 12, "step_size": 0.01}
    (images, labels), (originals, _) = patterns(12, 4), patterns(12, 5)
    arrays = (images.numpy(), originals.numpy(), np.arange(12), labels.numpy(), (labels.numpy() + 1) % 3)
    wanted = np.arange(12) != 5
    monkeypatch.setattr("deduce.realism.anogan.GPU_ROWS", 24)  # a block is filled up
    monkeypatch.setenv("DEDUCE_DEVICE", "cpu")
    expected = score(judges(), settings, *arrays, wanted)
    monkeypatch.setenv("DEDUCE_DEVICE", "sim")
    with simulation():
        scores = score(copy.deepcopy(judges()), settings, *arrays, wanted)
    assert set(scores.values) == set(SCORES) and {name for name in METRICS if METRICS[name].scorer} <= set(SCORES)
    for name, values in scores.values.items():
        assert np.isfinite(values[wanted]).all() and np.isnan(values[5]), name
        np.testing.assert_allclose(values, expected.values[name], rtol=1e-4 if name == "agan" else 1e-6, err_msg=name)


def test_descents_of_the_anogan_score_never_wait(monkeypatch):
    waits, gradient = [], AutodiffGAN.gradient

    def watched(*arguments):
        waits.append(len(traffic.waits))
        return gradient(*arguments)

    monkeypatch.setattr(AutodiffGAN, "gradient", watched)
    monkeypatch.setattr("deduce.realism.anogan.GPU_ROWS", 24)
    with simulation():
        wgan = copy.deepcopy(judges()["wgan"]).to(SIM)
        AnoGAN(steps=12, restarts=2).score(wgan, patterns(12, 4)[0].to(SIM), [(row,) for row in range(12)])
    assert len(waits) == 11 and len(set(waits)) == 1


def test_uncertainty_is_the_same_on_another_device():
    images = world().images[ROWS]
    with simulation():
        there = uncertainty(copy.deepcopy(ensemble()).to(SIM), images.to(SIM))
        results = [values.cpu() for values in there]
    for values, expected in zip(results, uncertainty(ensemble(), images), strict=True):
        torch.testing.assert_close(values, expected, atol=1e-6, rtol=0)


# --- faults of the past, put back: these tests would have found them


def leave_training_images(monkeypatch):
    """DeDUCE fits densities on training images without moving them."""

    def fitted(classifier, images, labels):
        features = torch.cat([classifier.features(block) for block in images.split(500)])
        return deduce.ClassDensities.fit(features, labels, classifier.head(features[:1]).shape[1])

    monkeypatch.setattr(deduce, "fitted", fitted)


def leave_model(monkeypatch):
    """REVISE and VLK use their second model where it is."""
    for module in (revise, vlk):
        monkeypatch.setattr(module, "frozen_beside", lambda model, classifier: model)


def index_a_cpu_result(monkeypatch):
    """NearestImage indexes a result, which is on the CPU, with a tensor on the device."""
    monkeypatch.setattr(nearest_image, "checked_pairs", on_device_of_classifier(nearest_image.checked_pairs))


def on_device_of_classifier(checked_pairs):
    def moved(classifier, *arguments):
        return tuple(tensor.to(device_of(classifier)) for tensor in checked_pairs(classifier, *arguments))

    return moved


@pytest.mark.parametrize(
    "name, fault",
    [
        ("deduce, fitted", leave_training_images),
        ("revise", leave_model),
        ("vlk", leave_model),
        ("nearest_image", index_a_cpu_result),
    ],
)
def test_a_misplaced_tensor_is_caught(name, fault, monkeypatch):
    fault(monkeypatch)
    answers(name, "cpu")  # where nothing can be misplaced
    with simulation(), pytest.raises(RuntimeError, match="expected all tensors to be on one device"):
        answers(name, SIM)


# --- the simulation itself


def test_the_simulated_device_is_as_strict_as_a_gpu():
    with simulation():
        tensor = torch.rand(3, 4, device=SIM)
        assert tensor.device == SIM and tensor.cpu().device.type == "cpu"
        assert (tensor + torch.tensor(1.0)).device == SIM  # a number may come from the CPU
        for operate in (
            lambda: tensor + torch.rand(3, 4),
            lambda: torch.cat([tensor, torch.rand(3, 4)]),
            lambda: torch.rand(3, 4)[tensor[:, 0].long()],
            lambda: nn.Linear(4, 2)(tensor),
            lambda: torch.zeros(3, 4).index_put_((tensor[:, 0].long(),), torch.ones(3, 4)),
        ):
            with pytest.raises(RuntimeError, match="expected all tensors to be on one device"):
                operate()
        assert torch.tensor([1, 2], device=SIM).tolist() == [1, 2]
        in_place = torch.zeros(2, device=SIM)
        in_place[:1].add_(1)
        assert in_place.tolist() == [1, 0]


def test_the_simulated_device_differentiates():
    with simulation():
        variable = torch.arange(3.0).to(SIM).requires_grad_()
        (gradient,) = torch.autograd.grad(variable.square().sum(), variable)
        assert gradient.device == SIM and gradient.tolist() == [0, 2, 4]
        network = nn.Linear(3, 2).to(SIM)
        assert device_of(network) == device_of(copy.deepcopy(network)) == SIM
