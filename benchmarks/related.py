"""How much a batch gains for the methods of the related work: seconds per counterfactual alone and in a batch of 100.

`python benchmarks/related.py [--quick]` writes results/benchmarks/related.json. Both take turns, and the least
processor time of each counts. The networks and images are those of the tests' small world; on images of 12 × 12 pixels
a pair by itself leaves most of a core's time to overhead.
"""

import argparse
import math
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from related_case import open_pairs
from small_world import Drawing, autoencoder, ensemble, world
from torch import Tensor

from deduce.artifacts import save_json
from deduce.methods import machine
from deduce.methods.cem import CEM
from deduce.methods.piece import PIECE
from deduce.methods.schut import Schut
from deduce.methods.wachter import Wachter
from deduce.search import Search

ROOT = Path(__file__).parent.parent
PAIRS, ALONE = 100, 5


def processor_time(method: Search, models: tuple, images: Tensor, targets: Tensor) -> float:
    start = time.process_time()
    method.generate(*models, images, targets)
    return time.process_time() - start


def per_counterfactual(method: Search, models: tuple, turns: int) -> dict[str, float]:
    images, targets = open_pairs(PAIRS, models[0])
    chosen = range(0, PAIRS, PAIRS // ALONE)
    method.generate(*models, images[:1], targets[:1])  # a warm-up
    batched = alone = math.inf
    for _ in range(turns):
        batched = min(batched, processor_time(method, models, images, targets) / PAIRS)
        alone = min(alone, sum(processor_time(method, models, images[[i]], targets[[i]]) for i in chosen) / ALONE)
    return {"alone": alone, "batched": batched, "ratio": alone / batched}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one turn instead of two")
    turns = 1 if parser.parse_args().quick else 2
    torch.set_num_threads(1)
    w, piece = world(), PIECE(inversion_steps=50, max_iterations=100)
    cases = {
        Wachter(max_iterations=200): (w.plain, None),
        Schut(max_iterations=500): (ensemble(),),
        CEM(loss_weight_steps=2, max_iterations=50): (w.plain, autoencoder()),
        piece: (w.plain, Drawing(), piece.hurdles(w.plain, w.training_images)),
    }
    measured: dict[str, object] = {"machine": machine(), "pairs": PAIRS}
    for method, models in cases.items():
        seconds = measured[method.name] = per_counterfactual(method, models, turns)
        print(
            "{}: {alone:.3f} s alone, {batched:.4f} s in a batch: {ratio:.0f} times".format(
                method.display_name, **seconds
            )
        )
    save_json(ROOT / "results/benchmarks/related.json", measured)


if __name__ == "__main__":
    main()
