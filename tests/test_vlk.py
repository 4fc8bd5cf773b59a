"""The batched VLK does what the textbook and alibi do, pair by pair; and how a comparison of the two is evaluated."""

import copy
import functools
import json
import os
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from small_world import CLASSES, autoencoder, world

from deduce import models
from deduce.errors import InputError
from deduce.evaluation import comparison
from deduce.methods import answer
from deduce.methods.vlk import INFINITE, VLK, AutoencoderModels, prototypes
from deduce.shards import Pairs, Shard

ROOT = Path(__file__).parent.parent
# Rounding is amplified from step to step, more at the weights of alibi's example than at mild ones, and differs between
# processors. So whole searches are compared in 64 bits, and in 32 bits single steps.
EXAMPLE = VLK(max_iterations=30)
MILD = VLK(max_iterations=30, autoencoder_weight=2.0, prototype_weight=5.0, sparsity=0.005, initial_loss_weight=4.0)


@functools.cache
def open_pairs(n=24):
    """Images and targets spread over the world's pairs, where the classifier does not predict the target yet."""
    w = world()
    with torch.no_grad():
        not_reached = (w.plain(w.images).argmax(1) != w.targets).nonzero().squeeze(1)
    chosen = not_reached[torch.linspace(0, len(not_reached) - 1, n).long()]
    return w.images[chosen], w.targets[chosen]


def run(method, rows=slice(None)):
    images, targets = open_pairs()
    return method.generate(world().plain, autoencoder(), world().training_images, images[rows], targets[rows])


@functools.cache
def doubled():
    """The networks in 64 bits, and the encodings of the training images by predicted class."""
    classifier, coder = (copy.deepcopy(network).double().eval() for network in (world().plain, autoencoder()))
    with torch.no_grad():
        encodings, predicted = (net(world().training_images.double()) for net in (coder.encode, classifier))
    by_class = {label: encodings.flatten(1)[predicted.argmax(1) == label] for label in range(CLASSES)}
    return AutoencoderModels(classifier, coder), by_class


def searched(method, count):
    """The first pairs' rows after a search in 64 bits."""
    (images, targets), (networks, encodings) = open_pairs(), doubled()
    rows = method.start(networks, encodings, images[:count].double(), targets[:count])
    method.search(networks, rows)
    return rows


def textbook(method, image, target):
    """One pair in 64 bits, as alibi's documentation and code have it: the best image, or None."""
    classify, coder, training = doubled()[0].classifier, doubled()[0].autoencoder, world().training_images.double()
    image = image.double()
    with torch.no_grad():
        y = int(classify(image[None]).argmax())
        encodings = coder.encode(training[classify(training).argmax(1) == target])
        distance = (encodings - coder.encode(image[None])).flatten(1).norm(dim=1)
        prototype = encodings[distance.argsort()[: method.neighbours]].mean(0, keepdim=True)
    lower, c, upper, best, best_image = 0.0, method.initial_loss_weight, 1e10, 1e10, None
    for _ in range(method.loss_weight_steps):
        new = point = x = image[None]
        found = False
        for i in range(method.max_iterations):
            point = point.detach().requires_grad_()
            p, encoding = classify(point).softmax(1)[0], coder.encode(point)
            rival = max(p[j] for j in range(CLASSES) if j != y)
            loss = c * torch.clamp(p[y] - rival + method.confidence_margin, min=0) + (point - x).square().sum()
            loss = loss + method.autoencoder_weight * (coder.decode(encoding) - point).square().sum()
            loss = loss + method.prototype_weight * (encoding - prototype).square().sum()
            (gradient,) = torch.autograd.grad(loss, point)
            rate = method.learning_rate * (1 - i / method.max_iterations) ** 0.5
            moved = point.detach() - rate * gradient.clamp(-method.gradient_clip, method.gradient_clip)
            old, d = new, moved - x
            new = x.clone()
            new[d > method.sparsity] = (moved - method.sparsity).clamp(max=1)[d > method.sparsity]
            new[d < -method.sparsity] = (moved + method.sparsity).clamp(min=0)[d < -method.sparsity]
            point = (new + (i + 1) / (i + 4) * (new - old)).clamp(0, 1) if method.momentum else new
            with torch.no_grad():
                q = classify(new).softmax(1)[0]
            size = float((new - x).square().sum() + method.sparsity * (new - x).abs().sum())
            lifted = q.clone()
            lifted[y] += method.confidence_margin
            if int(lifted.argmax()) != y and int(q.argmax()) == target:
                found = True
                if size < best:
                    best, best_image = size, new[0]
        upper, lower = (min(upper, c), lower) if found else (upper, max(lower, c))
        c = (lower + upper) / 2 if upper < 1e9 else 10 * c
    return best_image


@pytest.mark.parametrize(
    "method",
    [
        MILD,
        replace(MILD, momentum=True),
        replace(MILD, confidence_margin=0.1, loss_weight_steps=3, initial_loss_weight=0.01),
        replace(MILD, gradient_clip=3.0),
    ],
)
def test_every_pair_agrees_with_the_textbook(method):
    rows = searched(method, 5)
    found = rows.best_distance < INFINITE
    for row, (image, target) in enumerate(zip(*(part[:5] for part in open_pairs()), strict=True)):
        expected = textbook(method, image, int(target))
        assert bool(found[row]) == (expected is not None)
        if expected is not None:
            torch.testing.assert_close(rows.best[row], expected, atol=1e-8, rtol=0)
    assert found.any()


def test_a_row_does_not_depend_on_the_others_and_has_its_own_loss_weight():
    whole, parts = run(MILD), run(replace(MILD, batch_size=7))
    alone = [run(MILD, slice(row, row + 1)) for row in (0, 11, 23)]
    assert whole.found.any() and not whole.found.all()  # so that loss weights differ within the batch
    torch.testing.assert_close(parts.counterfactual, whole.counterfactual, atol=1e-5, rtol=0)
    torch.testing.assert_close(
        torch.cat([result.counterfactual for result in alone]), whole.counterfactual[[0, 11, 23]], atol=1e-5, rtol=0
    )
    assert (parts.found == whole.found).all()


def test_the_loss_weight_rises_until_a_counterfactual_is_found_and_is_halved_after():
    weights_tried = []

    class Scripted(VLK):
        def descend(self, models, rows, bar=None):
            weights_tried.append(rows.loss_weight.tolist())
            return torch.tensor([True, False, len(weights_tried) == 2])

    method = Scripted(loss_weight_steps=4)
    value = torch.zeros(3)
    rows = type("Rows", (), dict(loss_weight=value + 1, lower=value, upper=value + 1e10))()
    method.search(None, rows)
    assert [list(weights) for weights in zip(*weights_tried, strict=True)] == [
        [1, 0.5, 0.25, 0.125],
        [1, 10, 100, 1000],
        [1, 10, 5.5, 7.75],
    ]


def test_rows_that_met_a_counterfactual_go_on_to_nearer_ones():
    """So no row can leave a round early: only the last iterate settles which counterfactual is the nearest."""
    distances = []

    class Recorded(VLK):
        def accept(self, rows, probabilities):
            accepted = super().accept(rows, probabilities)
            distances.append(rows.best_distance)
            return accepted

    searched(Recorded(**MILD.settings() | {"loss_weight_steps": 1}), 24)
    nearest = torch.stack(distances)
    met = nearest < INFINITE
    first = nearest.gather(0, met.int().argmax(0, keepdim=True))[0]
    improved = met.any(0) & (nearest[-1] < first)
    assert improved.sum() >= met.any(0).sum() / 2
    assert (nearest[-1] < nearest[-4])[met.any(0)].any(), "and not only soon after"


def test_a_row_whose_step_leads_back_to_its_original_stays_there():
    rows = searched(replace(EXAMPLE, sparsity=1e4), 4)
    assert torch.equal(rows.image, rows.original) and (rows.best_distance == INFINITE).all()


def test_shrinking_takes_back_small_changes_and_clips_large_ones():
    original = torch.tensor([0.5, 0.5, 0.5, 0.5, 0.95, 0.05]).view(1, 1, 1, 6)
    moved = torch.tensor([0.58, 0.42, 0.8, 0.2, 1.3, -0.3]).view(1, 1, 1, 6)
    expected = torch.tensor([0.5, 0.5, 0.7, 0.3, 1.0, 0.0]).view(1, 1, 1, 6)
    torch.testing.assert_close(VLK().shrink(moved, original), expected)
    assert (VLK().shrink(moved, original)[..., :2] == original[..., :2]).all()  # exactly: L0 counts inequality


def test_prototypes_are_means_of_the_exactly_nearest_encodings_of_the_targets_class():
    generator = torch.Generator().manual_seed(0)
    encodings = {label: torch.rand(200, 9, generator=generator) for label in (0, 1)}
    encoded, targets = torch.rand(6, 1, 3, 3, generator=generator), torch.tensor([0, 1, 1, 0, 1, 0])
    prototype = prototypes(encoded, targets, encodings, neighbours=4)
    for row in range(6):
        known = encodings[int(targets[row])].double().numpy()
        nearest = np.argsort(np.linalg.norm(known - encoded[row].flatten().double().numpy(), axis=1))[:4]
        np.testing.assert_allclose(prototype[row].flatten(), known[nearest].mean(0), atol=1e-6)
    with pytest.raises(InputError, match="class 2 for 0 training images; 4 neighbours"):
        prototypes(encoded, targets + 1, encodings, neighbours=4)


def test_a_shard_keeps_the_contract_found_or_not():
    images, targets = open_pairs()
    w = world()
    with torch.no_grad():
        predicted = w.plain(images).argmax(1)
    targets = torch.cat([predicted[:1], targets[1:]])  # the first is reached before the search
    pairs = Pairs(np.arange(24), predicted.numpy(), targets.numpy(), images.numpy(), np.array(CLASSES))

    models = {"classifier": w.plain, "autoencoder": autoencoder(), "training": (w.training_images, w.training_labels)}
    shard = answer(MILD, MILD.prepare(pairs.original, **models), pairs, "source", {})
    shard.check("shard")
    shard.answers(pairs, "shard")
    assert shard.metadata["target_confidence"] is None and shard.metadata["display_name"] == "VLK"
    assert shard.found[0] and shard.iterations[0] == 0 and (shard.counterfactual[0] == pairs.original[0]).all()
    assert (shard.iterations[1:] == 60).all() and not shard.found.all()
    with torch.no_grad():
        probabilities = w.plain(torch.tensor(shard.counterfactual)).softmax(1).numpy()
    np.testing.assert_allclose(shard.confidence, probabilities[np.arange(24), pairs.target], atol=1e-5)
    assert (probabilities.argmax(1) == pairs.target)[shard.found].all()


def test_mistakes_are_named():
    with pytest.raises(InputError, match="neighbours is 0; it must be at least 1"):
        VLK(neighbours=0)
    with pytest.raises(InputError, match="already predicts target"):
        images, _ = open_pairs()
        with torch.no_grad():
            VLK().generate(world().plain, autoencoder(), images, images, world().plain(images).argmax(1))


def test_conda_and_pip_install_the_same_alibi():
    pip = {line.split(" #")[0].strip() for line in (ROOT / "envs/alibi.txt").read_text().splitlines() if "==" in line}
    assert set(yaml.safe_load((ROOT / "envs/alibi.yaml").read_text())["dependencies"][-1]["pip"]) == pip


@pytest.fixture
def compared_shards():
    """Ten pairs and two shards that change four or five pixels of each; the first finds nine, the second eight."""
    n = 10
    pairs = Pairs(np.arange(n), np.zeros(n, int), np.ones(n, int), np.zeros((n, 1, 4, 4), np.float32), np.array(2))

    def shard(name, changed, found, seconds):
        images = np.zeros((n, 1, 16), np.float32)
        for row, pixels in enumerate(changed):
            images[row, 0, :pixels] = 0.5
        confidence = np.linspace(0.6, 0.9, n, dtype=np.float32)
        answered = (pairs.image, pairs.label, pairs.target, images.reshape(n, 1, 4, 4), found, confidence)
        return Shard(*answered, np.zeros(n, int), {"method": name}, seconds=np.full(n, seconds))

    alibi = shard("vlk_alibi", [4, 5] * 5, np.arange(n) > 0, 5.0)
    return pairs, alibi, shard("vlk", [5, 4] * 5, np.arange(n) < 8, 0.2)


def test_two_implementations_are_compared_over_the_pairs_that_both_found(compared_shards):
    pairs, alibi, batched = compared_shards
    rows, names = comparison.measured(pairs, alibi, batched), comparison.display_names(alibi, batched)
    assert names == ["vlk_alibi", "vlk"]
    frame = comparison.compared(rows, names)
    table = frame.set_index("measure")
    assert table.loc["l0", "pairs"] == 7
    assert table.loc["l0", "a"] == pytest.approx(32 / 7) and table.loc["l0", "b"] == pytest.approx(31 / 7)
    assert table.loc["l1", "difference"] == pytest.approx(-0.5 / 7) and table.loc["confidence", "p"] == 1
    assert table.loc["found", "a"] == pytest.approx(0.9) and table.loc["found", "b"] == pytest.approx(0.8)
    assert table.loc["speed_up", "b"] == pytest.approx(25)
    sentence = comparison.sentence(frame, names)
    assert "Of the same 10 pairs, vlk_alibi found 9 and vlk 8" in sentence and "25 times as fast" in sentence
    assert len(comparison.picture(rows, frame, names).axes) == 8


def test_a_comparison_says_what_it_lacks(compared_shards):
    pairs, alibi, batched = compared_shards
    rows = comparison.measured(pairs, alibi, batched)
    with pytest.raises(InputError, match="a and b have 1 counterfactuals in common: too few"):
        comparison.compared(rows.assign(found_a=rows.index < 1), ["a", "b"])
    with pytest.raises(InputError, match="shard of vlk does not record 'seconds'"):
        comparison.measured(pairs, alibi, replace(batched, seconds=None))


@dataclass(frozen=True)
class Recorded(VLK):
    """Keeps every iterate, and whether it was accepted."""

    def __post_init__(self):
        object.__setattr__(self, "iterates", [])
        object.__setattr__(self, "accepted", [])

    def accept(self, rows, probabilities):
        accepted = super().accept(rows, probabilities)
        self.iterates.append(rows.image.clone())
        self.accepted.append(accepted.clone())
        return accepted


@pytest.fixture(scope="module")
def alibi(tmp_path_factory, alibi_python):
    """What alibi records for six pairs: at its example's weights in 32 and 64 bits, at mild weights in both orders."""
    folder, (images, targets) = tmp_path_factory.mktemp("alibi"), open_pairs()
    models.save(folder / "plain.safetensors", world().plain)
    models.save(folder / "autoencoder.safetensors", autoencoder())
    training = world().training_images.numpy()
    np.savez(folder / "inputs.npz", training=training, images=images[:6].numpy(), targets=targets[:6].numpy())
    cases = {
        "double": {"settings": EXAMPLE.settings(), "order": "image_first", "bits": 64},
        "example": {"settings": EXAMPLE.settings(), "order": "image_first", "bits": 32},
        "mild": {"settings": MILD.settings(), "order": "image_first", "bits": 64},
        "momentum": {"settings": MILD.settings(), "order": "point_first", "bits": 64},
    }
    (folder / "cases.json").write_text(json.dumps(cases))
    command = [str(alibi_python), str(Path(__file__).parent / "alibi_case.py"), str(folder)]
    ran = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert ran.returncode == 0, ran.stderr[-3000:]
    with np.load(folder / "recorded.npz") as recorded:
        return dict(recorded)


def test_the_keras_copies_are_the_networks(alibi):
    with torch.no_grad():
        training = world().training_images
        logarithms = world().plain(training).log_softmax(1).numpy()
        encodings, reconstructions = autoencoder().encode(training).numpy(), autoencoder()(training).numpy()
    np.testing.assert_allclose(np.log(alibi["probabilities"]), logarithms, atol=1e-4)
    np.testing.assert_allclose(alibi["encodings"], encodings, atol=1e-5)
    np.testing.assert_allclose(alibi["reconstructions"], reconstructions, atol=1e-5)


@pytest.mark.parametrize("case, momentum", [("mild", False), ("momentum", True)])
def test_alibi_and_the_batched_version_agree_to_the_end_where_it_is_mild(alibi, case, momentum):
    method = Recorded(**{**MILD.settings(), "momentum": momentum})
    rows = searched(method, 6)
    iterates, accepted = torch.stack(method.iterates, 1).numpy(), torch.stack(method.accepted, 1).numpy()
    np.testing.assert_allclose(iterates, alibi[f"{case}_iterates"], atol=1e-6)
    of_alibi = alibi[f"{case}_probabilities"].argmax(2) == open_pairs()[1][:6, None].numpy()
    assert (accepted == of_alibi).all() and accepted.any()
    found = (rows.best_distance < INFINITE).numpy()
    assert (found == alibi[f"{case}_found"]).all() and found.any()
    np.testing.assert_allclose(rows.best[found], alibi[f"{case}_counterfactual"][found], atol=1e-6)
    np.testing.assert_allclose(rows.best_confidence[found], alibi[f"{case}_confidence"][found], atol=1e-6)


def test_at_the_examples_weights_all_iterates_agree_in_64_bits(alibi):
    """Both are the same algorithm: without rounding, every iterate of every pair agrees."""
    method = Recorded(**EXAMPLE.settings())
    searched(method, 6)
    apart = np.abs(torch.stack(method.iterates, 1).numpy() - alibi["double_iterates"]).max((2, 3, 4))
    first = slice(0, EXAMPLE.max_iterations)  # of the first loss weight
    assert apart[:, :10].max() < 1e-8 and apart[:, first].max() < 1e-6, apart


def test_at_the_examples_weights_every_single_step_agrees(alibi):
    """One step from any iterate of alibi ends in the next: what differs after many steps is amplified rounding."""
    images, targets = open_pairs()
    iterates = torch.tensor(alibi["example_iterates"])[:, : EXAMPLE.max_iterations]  # of the first loss weight
    network = AutoencoderModels(world().plain.eval(), autoencoder())
    encodings = EXAMPLE.class_encodings(world().plain, autoencoder(), world().training_images)
    rows = EXAMPLE.start(network, encodings, images[:6], targets[:6])
    for step in range(1, EXAMPLE.max_iterations):
        gradient, probabilities = EXAMPLE.gradient(network, rows, iterates[:, step - 1])
        rate = EXAMPLE.learning_rate * (1 - step / EXAMPLE.max_iterations) ** 0.5
        moved = EXAMPLE.shrink(iterates[:, step - 1] - rate * gradient.clamp(-1000, 1000), images[:6])
        np.testing.assert_allclose(moved, iterates[:, step], atol=1e-5)
        np.testing.assert_allclose(probabilities, alibi["example_probabilities"][:, step - 1], atol=1e-4)
