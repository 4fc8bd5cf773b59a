"""How fast a whole search is, compared with the textbook's loop, with a batch that keeps finished rows, and with an
unfolded network.

`python benchmarks/search.py [--quick]` measures all of them in one run and writes results/benchmarks/search.json.
"""

import argparse
import copy
import sys
import time
from functools import partial
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import textbook
from small_world import CLASSES, pairs_of, world

from deduce import DeDUCE
from deduce.artifacts import save_json
from deduce.fold import fold
from deduce.methods import machine
from deduce.methods.deduce import DensityModels
from deduce.models.resnet import SpectralResNet
from deduce.search import Rows, gradient_of, search

ROOT = Path(__file__).parent.parent


class KeepsFinishedRows(DeDUCE):
    """The batched loop that retires no row: every batch steps all of its rows until the last one is done."""

    def generate_batches(self, models, images, targets) -> None:
        for batch, batch_targets in zip(images.split(self.batch_size), targets.split(self.batch_size), strict=True):
            self._run(models, batch, batch_targets)

    def _run(self, models, images, targets) -> None:
        n = len(images)
        done = torch.zeros(n, dtype=torch.bool)
        state = dict(iterations=torch.zeros(n, dtype=torch.int64), confidence=torch.zeros(n), broken=done.clone())
        rows = self.start(models, Rows(index=torch.arange(n), image=images.clone(), target=targets, **state))
        for _ in range(self.max_iterations + 1):
            gradient = gradient_of(self, models, rows)
            done |= rows.confidence >= self.target_confidence
            if done.all():
                return
            with torch.no_grad():
                self.step(rows, gradient)


def seconds(function, repeats: int = 1) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return best


def speed_of_searches(originals: int, alone: int) -> dict[str, float]:
    """Pairs per second on networks of width 4, trained on the small world of the tests."""
    w = world()
    method = DeDUCE()  # as published, with its limit of 700 iterations
    images, targets = pairs_of(originals, seed=2)
    pairs = len(images)
    gaussians = textbook.gaussians(w.ddu, w.training_images, w.training_labels, CLASSES)
    folded, unfolded = (DensityModels(network, w.densities) for network in (fold(w.ddu, images.shape[1:]), w.ddu))
    iterations = search(method, folded, images, targets).iterations + 1  # one more for the last test of each pair
    keeps = KeepsFinishedRows(max_iterations=method.max_iterations, batch_size=method.batch_size)
    engine = seconds(lambda: search(method, folded, images, targets), repeats=2)
    keeping = seconds(lambda: keeps.generate_batches(folded, images, targets))
    without_folding = seconds(lambda: search(method, unfolded, images, targets))
    # The textbook runs a sample of the pairs; its time for all follows from the iterations, equal for both.
    sample = torch.arange(0, pairs, max(1, pairs // alone))
    one_by_one = seconds(
        lambda: [textbook.deduce(w.ddu, gaussians, images[row], int(targets[row])) for row in sample]
    ) * float(iterations.sum() / iterations[sample].sum())
    return {
        "engine": pairs / engine,
        "batched, keeping finished rows": pairs / keeping,
        "unfolded": pairs / without_folding,
        "textbook, one at a time": pairs / one_by_one,
    }


def layouts(width: int, batch: int) -> dict[str, float]:
    """Seconds per forward and backward pass in both memory layouts."""
    network = fold(SpectralResNet(width, 1, 10, 28).eval(), (1, 28, 28))
    images = torch.rand(batch, 1, 28, 28)

    def step(network) -> None:
        variable = images.clone().requires_grad_()
        torch.autograd.grad(network(variable).sum(), variable)

    networks = {
        "channels_last": network,
        "contiguous": copy.deepcopy(network).to(memory_format=torch.contiguous_format),
    }
    for network in networks.values():
        step(network)  # warms up
    return {layout: seconds(partial(step, network), 3) for layout, network in networks.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer pairs and iterations")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    quick = options.quick
    speeds = speed_of_searches(originals=50 if quick else 200, alone=10 if quick else 40)
    report = {
        "machine": machine(),
        "threads": options.threads,
        "pairs_per_second": speeds,
        "engine_is_faster_by": {name: speeds["engine"] / speed for name, speed in speeds.items() if name != "engine"},
        "pairs": 200 if quick else 800,
        "layouts": {
            f"width {width}, batch {batch}": layouts(width, batch) for width, batch in ((8, 100), (64, 1), (64, 20))
        },
    }
    save_json(ROOT / "results" / "benchmarks" / "search.json", report)
    for name, ratio in report["engine_is_faster_by"].items():
        print(f"{ratio:6.1f} × faster than: {name}")


if __name__ == "__main__":
    main()
