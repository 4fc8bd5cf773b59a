"""What the tests of the related work's methods share: whole searches in 64 bits, and in any batch and order.

These searches amplify rounding: Adam and shrinkage make a large difference of a small one. In 64 bits they agree.
"""

import copy
from dataclasses import replace

import torch
from small_world import world
from torch import Tensor, nn

from deduce.search import Result


def in_double(network: nn.Module) -> nn.Module:
    network = copy.deepcopy(network).double().eval().requires_grad_(False)
    network.is_folded = True  # as it is: folding is for 32 bits
    return network


def open_pairs(n: int, network: nn.Module | None = None) -> tuple[Tensor, Tensor]:
    """Images and targets spread over the world's pairs, where the classifier does not predict the target yet."""
    w = world()
    with torch.no_grad():
        predicted = (network or w.plain)(w.images).argmax(1)
    candidates = (predicted != w.targets).nonzero()[:, 0]
    chosen = candidates[torch.linspace(0, len(candidates) - 1, n).long()]
    return w.images[chosen], w.targets[chosen]


def same(first: Result, second: Result, tolerance: float = 1e-6) -> float:
    """The share of pairs with the same image, verdict and iterations."""
    apart = (first.counterfactual - second.counterfactual).abs().flatten(1).amax(1)
    equal = (apart <= tolerance) & (first.found == second.found) & (first.iterations == second.iterations)
    return equal.double().mean().item()


def rows_of(result: Result, rows: Tensor) -> Result:
    return Result(*(getattr(result, name)[rows] for name in ("counterfactual", "found", "confidence", "iterations")))


def depends_on_the_pair_alone(method, models: tuple, images: Tensor, targets: Tensor) -> None:
    """Fails unless a pair's result is the same alone, in any order and in batches of any size."""
    n = len(images)
    whole = method.generate(*models, images, targets)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(3))
    assert same(rows_of(whole, order), method.generate(*models, images[order], targets[order])) == 1
    assert same(whole, replace(method, batch_size=7).generate(*models, images, targets)) == 1
    for row in range(0, n, 5):
        alone = method.generate(*models, images[[row]], targets[[row]])
        assert same(rows_of(whole, torch.tensor([row])), alone) == 1
