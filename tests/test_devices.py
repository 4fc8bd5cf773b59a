"""Methods run on the classifier's device, wherever the caller's other tensors and models are (see tests/devices.py)."""

import copy
import functools

import numpy as np
import pytest
import torch
from devices import SIM, SimTensor, simulation
from small_world import CLASSES, autoencoder, world
from torch import nn

from deduce import JSMA, REVISE, DeDUCE, methods
from deduce.fold import device_of
from deduce.methods import deduce, nearest_image, revise, vlk
from deduce.methods.nearest_image import NearestImage
from deduce.methods.vlk import VLK
from deduce.shards import Pairs

ROWS = slice(0, 200, 14)


def training():
    return world().training_images, world().training_labels


METHODS = {
    "deduce": (DeDUCE(max_iterations=25, batch_size=6), lambda: {"densities": world().densities}),
    "deduce, fitted": (DeDUCE(max_iterations=25, batch_size=6), lambda: {"densities": training()}),
    "jsma": (JSMA(max_iterations=20, batch_size=6), dict),
    "revise": (REVISE(step_size=0.002, max_iterations=12, batch_size=6), lambda: {"generative_model": world().vae}),
    "nearest_image": (NearestImage(), lambda: {"training": training()}),
    "vlk": (
        VLK(max_iterations=10, autoencoder_weight=2.0, prototype_weight=5.0, sparsity=0.005),
        lambda: {"autoencoder": autoencoder(), "training": training()},
    ),
}


def answers(name, device, prepare=False):
    """A method's result, with the classifier on a device and everything else on the CPU."""
    method, needed = METHODS[name]
    classifier = copy.deepcopy(world().ddu if "densities" in method.needs else world().plain).to(device)
    arguments = {"classifier": classifier} | needed()
    images, targets = world().images[ROWS], world().targets[ROWS]
    if prepare:
        arguments = method.prepare(images, **arguments)
    result = method.generate(**arguments, images=images, targets=targets, allow_reached=True)
    for model in (model for model in needed().values() if isinstance(model, nn.Module)):
        assert {tensor.device.type for tensor in model.state_dict().values()} == {"cpu"}, "the caller's model was moved"
    return result


@functools.cache
def answers_on_cpu(name):
    return answers(name, "cpu")


@pytest.mark.parametrize("prepare", [False, True], ids=["called", "prepared"])
@pytest.mark.parametrize("name", METHODS)
def test_a_method_gives_the_same_on_another_device(name, prepare):
    expected = answers_on_cpu(name)
    with simulation():
        result = answers(name, SIM, prepare)
    for tensor in (tensor for tensor in vars(result).values() if tensor is not None):
        assert tensor.device.type == "cpu" and not isinstance(tensor, SimTensor)
    assert torch.equal(result.found, expected.found) and torch.equal(result.iterations, expected.iterations)
    assert result.found.any()
    # Another memory layout rounds differently; what changes single pixels by fixed steps comes out the same.
    torch.testing.assert_close(result.counterfactual, expected.counterfactual, atol=1e-4, rtol=0)
    torch.testing.assert_close(result.confidence, expected.confidence, atol=1e-4, rtol=0)


def test_the_confidence_before_is_measured_on_the_classifiers_device():
    method, network = JSMA(max_iterations=2), world().plain
    images, targets = world().images[:6].numpy(), world().targets[:6].numpy()
    pairs = Pairs(np.arange(6), np.zeros(6, int), targets, images, np.array(CLASSES))
    expected = methods.answer(method, method.prepare(images, network), pairs, "", {})
    with simulation():
        prepared = method.prepare(images, copy.deepcopy(network).to(SIM))
        shard = methods.answer(method, prepared, pairs, "", {})
    np.testing.assert_allclose(shard.confidence_before, expected.confidence_before, atol=1e-5)


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
