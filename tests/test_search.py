"""The search engine does what the textbook does, for each pair by itself, and no more work than that."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import textbook
import torch
from small_world import CLASSES, drawn, world
from torch import nn

from deduce import JSMA, REVISE, DeDUCE
from deduce.fold import fold
from deduce.models.resnet import PlainResNet, SpectralResNet


@pytest.fixture(scope="module")
def gaussians():
    w = world()
    return textbook.gaussians(w.ddu, w.training_images, w.training_labels, CLASSES)


def run(method, rows=slice(None)):
    w = world()
    images, targets = w.images[rows], w.targets[rows]
    models = {"deduce": (w.ddu, w.densities), "jsma": (w.plain,), "revise": (w.plain, w.vae)}[method.name]
    return method.generate(*models, images, targets, allow_reached=True)


def agreement(result, expected, tolerance=0.0) -> float:
    """The share of pairs with the same image after as many iterations; all must agree on what was found."""
    assert [bool(found) for found in result.found] == [found for _, found, _ in expected]
    difference = torch.stack([image for image, _, _ in expected]).sub(result.counterfactual).abs().flatten(1).amax(1)
    iterations = torch.tensor([iterations for _, _, iterations in expected])
    return ((difference <= tolerance) & (iterations == result.iterations)).float().mean().item()


def test_deduce_agrees_with_the_textbook(gaussians):
    w, settings = world(), dict(max_iterations=25)
    expected = [
        textbook.deduce(w.ddu, gaussians, image, target, **settings)
        for image, target in zip(w.images, w.targets.tolist(), strict=True)
    ]
    result = run(DeDUCE(**settings))
    assert len(expected) >= 200 and 0.2 < result.found.float().mean() < 1  # so that agreement means something
    assert agreement(result, expected) >= 0.99


@pytest.mark.parametrize(
    "settings",
    [
        dict(momentum_in_selection=True, momentum=0.9),
        dict(momentum=0.0),
        dict(objective="weighted", cross_entropy_weight=100.0),
        dict(objective="weighted", cross_entropy_weight=0.0),
        dict(cross_entropy_weight=5.0, pixels_per_step=3),
        dict(max_changes_per_pixel=1, step_size=0.5, target_confidence=0.9),
    ],
    ids=str,
)
def test_every_variant_of_deduce_agrees_with_the_textbook(gaussians, settings):
    w, rows = world(), slice(0, 200, 10)
    settings = dict(max_iterations=15) | settings
    expected = [
        textbook.deduce(w.ddu, gaussians, image, target, **settings)
        for image, target in zip(w.images[rows], w.targets[rows].tolist(), strict=True)
    ]
    assert agreement(run(DeDUCE(**settings), rows), expected) >= 0.95  # of 20


def test_jsma_agrees_with_the_textbook():
    w, settings = world(), dict(max_iterations=20)
    expected = [
        textbook.jsma(w.plain, image, target, **settings)
        for image, target in zip(w.images, w.targets.tolist(), strict=True)
    ]
    result = run(JSMA(**settings))
    assert 0.2 < result.found.float().mean() < 1
    assert agreement(result, expected) >= 0.99


# Plain descent would need many more steps to find anything; a few steps on few pairs already show agreement.
@pytest.mark.parametrize("accumulate, rows", [(True, slice(None)), (False, slice(0, 200, 10))])
def test_revise_agrees_with_the_textbook(accumulate, rows):
    w, settings = world(), dict(step_size=0.002, max_iterations=12, accumulate_gradients=accumulate)
    expected = [
        textbook.revise(w.plain, w.vae, image, target, **settings)
        for image, target in zip(w.images[rows], w.targets[rows].tolist(), strict=True)
    ]
    result = run(REVISE(**settings), rows)
    assert result.found.any() == accumulate and not result.found.all()
    assert agreement(result, expected, tolerance=1e-4) >= 0.99


METHODS = [DeDUCE(max_iterations=25), JSMA(max_iterations=20), REVISE(step_size=0.002, max_iterations=12)]


def same(first, second, tolerance) -> float:
    difference = (first.counterfactual - second.counterfactual).abs().flatten(1).amax(1)
    assert (first.found == second.found).all()
    return ((difference <= tolerance) & (first.iterations == second.iterations)).float().mean().item()


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_a_pair_has_the_same_result_alone_and_in_any_batch_order_and_shard(method):
    n, tolerance = len(world().images), 1e-4 if method.name == "revise" else 0.0
    whole = run(method)

    def put_together(parts):
        fields = ("counterfactual", "found", "confidence", "iterations")
        index = torch.cat([rows for rows, _ in parts]).argsort()
        return SimpleNamespace(
            **{name: torch.cat([getattr(result, name) for _, result in parts])[index] for name in fields}
        )

    shuffled = torch.randperm(n, generator=torch.Generator().manual_seed(3))
    assert same(whole, put_together([(shuffled, run(method, shuffled))]), tolerance) >= 0.99
    shards = [torch.arange(part, n, 3) for part in range(3)]
    assert same(whole, put_together([(rows, run(method, rows)) for rows in shards]), tolerance) >= 0.99
    subset = torch.arange(0, n, 5)
    alone = run(replace(method, batch_size=1), subset)
    in_sevens = put_together([(subset, run(replace(method, batch_size=7), subset))])
    assert same(in_sevens, alone, tolerance) >= 0.97  # of 40


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_the_same_call_twice_gives_the_same_bits(method):
    first, second = run(method, slice(40)), run(method, slice(40))
    assert all(torch.equal(getattr(first, name), getattr(second, name)) for name in ("counterfactual", "confidence"))


def test_finished_rows_cost_nothing_and_the_batch_is_bounded():
    """As many rows go through the network as there were updates, and one more per pair for its last test."""
    w, passes = world(), []
    network = fold(w.ddu, w.images.shape[1:])
    network.head.register_forward_pre_hook(lambda _, inputs: passes.append(len(inputs[0])))
    result = DeDUCE(max_iterations=15, batch_size=32).generate(
        network, w.densities, w.images, w.targets, allow_reached=True
    )
    passes = passes[4:]  # the first four looked for the features, and at a single image
    assert sum(passes) == int((result.iterations + 1).sum())
    assert max(passes) == 32
    assert passes.count(32) >= len(passes) - 17  # full until the queue is empty


def test_paths_replay_to_the_counterfactual():
    w = world()
    for method in (DeDUCE(max_iterations=15, pixels_per_step=2), JSMA(max_iterations=15)):
        result = run(method, slice(30))
        steps = result.path_offset.diff()
        assert torch.equal(steps, result.iterations * method.pixels_per_step)
        for row in range(30):
            replayed = w.images[row].flatten().clone()
            for step in range(int(result.path_offset[row]), int(result.path_offset[row + 1])):
                replayed[result.path_pixel[step]] = result.path_value[step]
            assert torch.equal(replayed, result.counterfactual[row].flatten())


def test_models_and_originals_are_left_as_they_were():
    w = world()
    before = [w.images.clone(), *(value.clone() for value in w.ddu.state_dict().values())]
    run(DeDUCE(max_iterations=5), slice(20))
    assert all(map(torch.equal, before, [w.images, *w.ddu.state_dict().values()]))
    assert all(parameter.requires_grad and parameter.grad is not None for parameter in w.ddu.parameters())


def test_a_search_whose_loss_is_not_finite_ends_as_not_found():
    method = REVISE(max_iterations=10)
    object.__setattr__(method, "step_size", float("inf"))  # which the constructor would refuse
    result = run(method, slice(12))
    assert not result.found[result.iterations > 0].any()
    assert result.counterfactual.isfinite().all() and result.confidence.isfinite().all()


def test_no_pair_and_no_iteration_are_fine():
    empty = run(DeDUCE(), slice(0))
    assert len(empty.found) == 0 and empty.path_offset.tolist() == [0]
    still = run(DeDUCE(max_iterations=0), slice(12))
    assert torch.equal(still.counterfactual, world().images[:12]) and (still.iterations == 0).all()


@pytest.mark.parametrize("network", ["ddu", "plain"])
def test_folding_changes_no_output(network):
    original, images = getattr(world(), network), drawn(50, seed=5)[0]
    folded = fold(original, images.shape[1:])
    assert not any(isinstance(layer, nn.BatchNorm2d) for layer in folded.modules())
    assert not any("parametrizations" in name for name, _ in folded.named_modules())
    with torch.no_grad():
        torch.testing.assert_close(folded(images), original(images), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(folded.features(images), original.features(images), atol=1e-5, rtol=1e-5)
    convolutions = [layer for layer in folded.modules() if isinstance(layer, nn.Conv2d)]
    assert all(layer.weight.is_contiguous(memory_format=torch.channels_last) for layer in convolutions)
    assert fold(folded, images.shape[1:]) is folded


@pytest.mark.parametrize("network", [SpectralResNet(64, 1, 10, 28), PlainResNet(64, 1, 10)], ids=["ddu", "plain"])
def test_folding_changes_no_output_at_the_papers_width(network):
    with torch.no_grad():
        for layer in network.modules():  # as if trained: statistics that are not those of the start
            if isinstance(layer, nn.BatchNorm2d):
                layer.running_mean.uniform_(-0.2, 0.2)
                layer.running_var.uniform_(0.5, 2)
        images = torch.rand(4, 1, 28, 28)
        expected = network.eval()(images)
        torch.testing.assert_close(fold(network, (1, 28, 28))(images), expected, atol=1e-5, rtol=1e-5)


def test_a_network_that_cannot_be_folded_is_left_whole():
    class Peeks(nn.Module):
        def __init__(self):
            super().__init__()
            self.convolution, self.normalisation = nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3)

        def forward(self, images):
            out = self.convolution(images)  # used twice: folding the normalisation into it would change the second
            return (self.normalisation(out) + out).mean((2, 3))

    network, images = Peeks().eval(), torch.rand(5, 1, 8, 8)
    network.normalisation.running_mean.fill_(0.5)
    with torch.no_grad():
        torch.testing.assert_close(fold(network, (1, 8, 8))(images), network(images))
