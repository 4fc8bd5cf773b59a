"""Schut does what the textbook does; its ensemble is what its members are, and is surer of its counterfactuals."""

from dataclasses import replace

import pytest
import textbook_related as textbook
import torch
from related_case import depends_on_the_pair_alone, open_pairs
from small_world import CLASSES, SIZE, ensemble, world

from deduce import JSMA
from deduce.errors import InputError
from deduce.methods.schut import Schut
from deduce.models.ensemble import AdversarialClassification, Ensemble, uncertainty
from deduce.training import Batch

SMALL = Schut(max_iterations=150, max_changes_per_pixel=3)


def members():
    """The ensemble's members, each as a classifier of its own."""

    def member(number):
        return lambda images: ensemble().member_logits(images)[number]

    return [member(number) for number in range(len(ensemble().weights[0]))]


@pytest.mark.parametrize("confidence, n", [(0.99, 50), (0.5, 20)])
def test_every_pair_agrees_with_the_textbook(confidence, n):
    method, (images, targets) = replace(SMALL, target_confidence=confidence), open_pairs(n, ensemble())
    result, alike = method.generate(ensemble(), images, targets), 0
    for row, (image, target) in enumerate(zip(images, targets.tolist(), strict=True)):
        expected, found, iterations = textbook.schut(members(), image, target, method)
        same = torch.allclose(result.counterfactual[row], expected, atol=1e-6)
        alike += same and bool(result.found[row]) == found and int(result.iterations[row]) == iterations
    assert alike >= 0.99 * n and result.found.float().mean() > 0.5


def test_a_row_does_not_depend_on_the_others():
    depends_on_the_pair_alone(SMALL, (ensemble(),), *open_pairs(40, ensemble()))


def test_no_pixel_changes_more_often_than_allowed():
    images, targets = open_pairs(20, ensemble())
    result = replace(SMALL, max_changes_per_pixel=1, target_confidence=0.999).generate(ensemble(), images, targets)
    for row in range(20):
        pixels = result.path_pixel[result.path_offset[row] : result.path_offset[row + 1]][: SIZE * SIZE]
        assert len(pixels.unique()) == len(pixels) == min(int(result.iterations[row]), SIZE * SIZE)


def test_found_pairs_are_sure_and_less_uncertain_than_those_of_a_single_network():
    images, targets = open_pairs(60, ensemble())
    ours = SMALL.generate(ensemble(), images, targets)
    single = JSMA(max_iterations=150).generate(world().plain, images, targets, allow_reached=True)
    both = ours.found & single.found
    assert both.sum() >= 30
    confidence = ensemble()(ours.counterfactual).softmax(1)[range(60), targets]
    assert (confidence[ours.found] >= 0.99 - 1e-5).all()
    (entropy, mutual), (jsma_entropy, jsma_mutual) = (
        uncertainty(ensemble(), result.counterfactual[both]) for result in (ours, single)
    )
    assert entropy.mean() < 0.3 * jsma_entropy.mean() and (entropy < jsma_entropy).float().mean() > 0.9
    assert mutual.mean() < jsma_mutual.mean()


def test_entropy_of_the_mean_is_that_of_the_members_plus_what_they_disagree_on():
    opinions = torch.tensor([[[0.5, 0.5], [1.0, 0.0]], [[0.5, 0.5], [0.0, 1.0]]])  # ambiguous; contradictory

    class Fixed:
        def member_logits(self, images):
            return opinions.clamp_min(1e-12).log()

    entropy, mutual = uncertainty(Fixed(), torch.zeros(2, 1, 1, 1))
    torch.testing.assert_close(entropy, torch.full((2,), 2.0).log(), atol=1e-5, rtol=0)
    torch.testing.assert_close(mutual, torch.tensor([0.0, torch.tensor(2.0).log()]), atol=1e-5, rtol=0)


def test_the_ensemble_is_its_members_with_their_normalisations_folded():
    task = AdversarialClassification(Ensemble(3, 144, 10, CLASSES), {"adversarial_step": 0.1, "learning_rate": 0.01})
    w = world()
    for number in range(10):
        task.step(Batch(w.training_images[:50], w.training_labels[:50], number, torch.Generator()))
    task.module.eval()
    with torch.no_grad():
        apart = torch.stack([network(w.images) for network in task.networks])
        joined = task.result()
        torch.testing.assert_close(joined.member_logits(w.images), apart, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(joined(w.images).softmax(1), apart.softmax(2).mean(0), atol=1e-5, rtol=1e-4)
    assert torch.equal(Ensemble.joined([joined, joined]).weights[0][3:], joined.weights[0])


def test_an_ensemble_is_needed():
    with pytest.raises(InputError, match="no function 'member_logits'"):
        Schut().generate(world().plain, *open_pairs(1))
