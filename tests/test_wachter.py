"""Wachter does what the textbook does for every pair; it narrows λ, and keeps the nearest hit."""

from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
import textbook_related as textbook
import torch
from related_case import depends_on_the_pair_alone, in_double, open_pairs
from small_world import world

from deduce.errors import InputError
from deduce.methods.wachter import Wachter

SMALL = Wachter(max_iterations=40, sweep_weights=4, weight_steps=3, patience=8, enough_hits=3)


@dataclass(frozen=True)
class Recorded(Wachter):
    """Keeps what the engine saw: each point with its row, confidence, distance and whether it was a bisection's."""

    def judge(self, rows, confidence, distance):
        weight = rows.weight.clone()
        bisecting = (rows.tried >= self.sweep_weights) & (rows.steps > 0)
        super().judge(rows, confidence, distance)
        seen = (rows.index, weight, rows.lower, rows.upper, confidence, distance, bisecting, rows.tried)
        self.__dict__.setdefault("seen", []).extend(zip(*(part.tolist() for part in seen), strict=True))


@pytest.mark.parametrize("settings, n", [({}, 52), ({"loss": "cross_entropy"}, 10), ({"distance": "mad"}, 10)])
def test_every_pair_agrees_with_the_textbook(double, settings, n):
    method, network, (images, targets) = replace(SMALL, **settings), in_double(world().plain), open_pairs(n)
    training = world().training_images.double()
    result = method.generate(network, training, images, targets)
    weights = method.pixel_weights(training).values
    agreed = 0
    for row, (image, target) in enumerate(zip(images.double(), targets.tolist(), strict=True)):
        expected, _, tried = textbook.wachter(network, image, target, method, weights)
        assert bool(result.found[row]) == (expected is not None)
        assert len(tried) in (4, 7)
        agreed += expected is None or bool((result.counterfactual[row] - expected).abs().max() < 1e-6)
    assert agreed >= 0.99 * n and result.found.float().mean() > 0.3 and (n < 50 or not result.found.all())


def test_a_row_does_not_depend_on_the_others(double):
    depends_on_the_pair_alone(SMALL, (in_double(world().plain), None), *open_pairs(30))


def test_the_weight_is_narrowed_and_the_nearest_hit_kept():
    method, (images, targets) = Recorded(max_iterations=60, weight_steps=6, patience=15), open_pairs(20)
    result = method.generate(world().plain, None, images, targets)
    assert result.found.float().mean() > 0.8
    narrowed = 0
    for row in result.found.nonzero()[:, 0].tolist():
        seen = [entry[1:] for entry in method.seen if entry[0] == row]
        hits = [distance for *_, confidence, distance, bisecting, _ in seen if bisecting and confidence >= 0.5]
        kept = (result.counterfactual[row] - images[row]).abs().sum().item()
        assert kept == pytest.approx(min(hits), rel=1e-5), "the nearest of all hits"
        bounds = [(lower, upper) for _, lower, upper, *_, tried in seen if tried >= method.sweep_weights]
        if bounds[0][0] < bounds[0][1]:  # alibi's sweep may also end in an empty bracket
            narrowed += 1
            widths = [upper - lower for lower, upper in bounds]
            assert all(after <= before for before, after in pairwise(widths)), "the bracket only narrows"
            assert widths[-1] <= 0.51**method.weight_steps * widths[0]
        weights = [weight for weight, *_, tried in seen if tried >= method.sweep_weights][1:]
        assert all(min(bounds[0]) <= weight <= max(bounds[0]) for weight in weights)
    assert narrowed >= 5 and (result.confidence[result.found] >= 0.5).all()


def test_pixels_that_never_change_weigh_as_much_as_the_floor_allows():
    images = torch.tensor([0.0, 0.2, 0.4, 0.6, 1.0]).view(5, 1, 1, 1) * torch.tensor([1.0, 0.0])
    weights = Wachter(distance="mad", smallest_deviation=0.05).pixel_weights((images, torch.zeros(5))).values
    torch.testing.assert_close(weights, torch.tensor([[[1 / 0.2, 1 / 0.05]]]))
    with pytest.raises(InputError, match="'mad' needs training images"):
        Wachter(distance="mad").pixel_weights(None)


@pytest.mark.parametrize("settings", [{"weight_steps": 0}, {"patience": 0}, {"max_iterations": 9}])
def test_impossible_settings_are_refused(settings):
    with pytest.raises(InputError, match=next(iter(settings))):
        Wachter(**settings)
