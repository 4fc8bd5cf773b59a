"""CEM does what the textbook and alibi do for every pair; its negatives only add ink, its positives only keep some."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import textbook_related as textbook
import torch
from related_case import depends_on_the_pair_alone, in_double, open_pairs, same
from small_world import autoencoder, world

from deduce import models
from deduce.errors import InputError
from deduce.methods.cem import CEM, PertinentPositives
from deduce.search import search

MILD = CEM(
    max_iterations=15, autoencoder_weight=1.0, sparsity=0.004, initial_loss_weight=4.0, loss_weight_steps=2,
    learning_rate=0.05,
)  # fmt: skip


def networks():
    return in_double(world().plain), in_double(autoencoder())


@pytest.mark.parametrize(
    "settings, n",
    [({}, 50), ({"momentum": True}, 10), ({"confidence_margin": 0.1, "loss_weight_steps": 3}, 10)],
    ids=str,
)
def test_every_pair_agrees_with_the_textbook(double, settings, n):
    method, (images, targets) = replace(MILD, **settings), open_pairs(n)
    result, alike = method.generate(*networks(), images, targets), 0
    for row, (image, target) in enumerate(zip(images.double(), targets.tolist(), strict=True)):
        expected = textbook.cem(*networks(), image, method, target)
        assert bool(result.found[row]) == (expected is not None)
        alike += expected is None or bool((result.counterfactual[row] - expected).abs().max() < 1e-6)
    assert alike >= 0.99 * n and 0.2 < result.found.float().mean() < 1


def test_untargeted_and_positives_agree_with_the_textbook(double):
    images, method = world().images[:40:4].double(), replace(MILD, targeted=False)
    positives = method.positives(*networks(), images)
    with torch.no_grad():
        predicted = networks()[0](images.double()).argmax(1)
    targets = torch.arange(5).repeat(len(images))
    result = method.generate(*networks(), images.repeat_interleave(5, 0), targets, allow_reached=True)
    found = result.found.view(-1, 5) & (targets.view(-1, 5) != predicted[:, None])
    assert found.sum(1).max() == 1 and found.any(), "one class is reached at most"
    for row, image in enumerate(images.double()):
        expected = textbook.cem(*networks(), image, method)
        assert bool(found[row].any()) == (expected is not None)
        if expected is not None:
            column = int(found[row].nonzero())
            torch.testing.assert_close(result.counterfactual[5 * row + column], expected, atol=1e-6, rtol=0)
        expected = textbook.cem(*networks(), image, method, positive=True)
        assert bool(positives.found[row]) == (expected is not None)
        if expected is not None:
            torch.testing.assert_close(positives.counterfactual[row], expected, atol=1e-6, rtol=0)
    assert positives.found.any()


def test_a_row_does_not_depend_on_the_others(double):
    depends_on_the_pair_alone(MILD, networks(), *open_pairs(20))
    images = world().images[:40:4]
    positives = MILD.positives(*networks(), images)
    for batch_size in (1, 3):
        assert same(positives, replace(MILD, batch_size=batch_size).positives(*networks(), images)) == 1


def test_negatives_only_add_ink_and_reach_their_target():
    images, targets = open_pairs(30)
    for method in (MILD, replace(MILD, momentum=True)):
        result = method.generate(world().plain, autoencoder(), images, targets)
        assert result.found.sum() >= 5
        assert (result.counterfactual >= images - 1e-6).all(), "found or not, nothing is taken away"
        changed = (result.counterfactual != images).flatten(1).sum(1)
        assert (changed[result.found] > 0).all()
        with torch.no_grad():
            predicted = world().plain(result.counterfactual[result.found]).argmax(1)
        assert (predicted == targets[result.found]).all()


def test_positives_only_keep_ink_and_its_class():
    images = world().images[::4]
    result = MILD.positives(world().plain, autoencoder(), images)
    assert result.found.float().mean() > 0.5
    assert ((result.counterfactual >= 0) & (result.counterfactual <= images + 1e-6)).all()
    with torch.no_grad():
        before, after = (world().plain(part[result.found]).argmax(1) for part in (images, result.counterfactual))
    assert (before == after).all()


def test_an_image_of_its_target_is_its_own_answer():
    images = world().images[:40:4]
    with torch.no_grad():
        predicted = world().plain(images).argmax(1)
    for method in (MILD, replace(MILD, targeted=False)):
        result = method.generate(world().plain, autoencoder(), images, predicted, allow_reached=True)
        assert result.found.all() and torch.equal(result.counterfactual, images)


def test_impossible_settings_are_refused():
    with pytest.raises(InputError, match="loss_weight_steps is 0"):
        CEM(loss_weight_steps=0)


ALIBI = replace(MILD, targeted=False)


@pytest.fixture(scope="module")
def alibi(tmp_path_factory, alibi_python):
    """What alibi's `CEM` records in 64 bits: negatives and positives of ten images, negatives with momentum of five."""
    folder = tmp_path_factory.mktemp("alibi")
    models.save(folder / "plain.safetensors", world().plain)
    models.save(folder / "autoencoder.safetensors", autoencoder())
    np.savez(folder / "inputs.npz", images=world().images[:40:4].numpy())
    cases = {
        "negatives": {"settings": ALIBI.settings(), "mode": "PN", "order": "image_first", "images": 10},
        "momentum": {"settings": ALIBI.settings(), "mode": "PN", "order": "point_first", "images": 5},
        "positives": {"settings": ALIBI.settings(), "mode": "PP", "order": "image_first", "images": 10},
    }
    (folder / "cases.json").write_text(json.dumps(cases))
    command = [str(alibi_python), str(Path(__file__).parent / "alibi_cem_case.py"), str(folder)]
    ran = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert ran.returncode == 0, ran.stderr[-3000:]
    with np.load(folder / "recorded.npz") as recorded:
        return dict(recorded)


@pytest.mark.parametrize("case", ["negatives", "momentum", "positives"])
def test_alibi_and_the_batched_version_have_the_same_iterates(double, alibi, case):
    kind, iterates = PertinentPositives if case == "positives" else CEM, {}
    images = world().images[:40:4][: len(alibi[f"{case}_found"])]

    class Recorded(kind):
        def judge(self, rows, by_class):
            for row in (rows.steps > 0).nonzero()[:, 0].tolist():
                iterates.setdefault(int(rows.index[row]), []).append(rows.iterate[row].detach().numpy())
            super().judge(rows, by_class)

    method = Recorded(**ALIBI.settings() | {"momentum": case == "momentum"})
    prepared = method.models(*networks(), images)
    with torch.no_grad():
        predicted = prepared.classifier(images.double()).argmax(1)
    result = search(method, prepared, images, predicted, allow_reached=True)
    for row in range(len(images)):
        np.testing.assert_allclose(np.stack(iterates[row]), alibi[f"{case}_iterates"][row], atol=1e-6)
    assert (result.found.numpy() == alibi[f"{case}_found"]).all() and result.found.any()
    found = result.found.numpy()
    np.testing.assert_allclose(result.counterfactual[found], alibi[f"{case}_answers"][found], atol=1e-6)
