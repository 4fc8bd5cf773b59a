"""How much a batch gains for the methods of the related work: seconds per counterfactual alone and in a batch of 100.

`python benchmarks/related.py` writes results/benchmarks/related.json. The networks and images are those of the tests'
small world; on images of 12 × 12 pixels a pair by itself leaves most of a core's time to overhead.
"""

import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from related_case import open_pairs
from small_world import Drawing, autoencoder, ensemble, world

from deduce.artifacts import save_json
from deduce.methods import machine
from deduce.methods.cem import CEM
from deduce.methods.piece import PIECE
from deduce.methods.schut import Schut
from deduce.methods.wachter import Wachter

ROOT = Path(__file__).parent.parent
PAIRS, ALONE = 100, 5


def main() -> None:
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
        images, targets = open_pairs(PAIRS, models[0])
        method.generate(*models, images[:1], targets[:1])  # a warm-up
        start = time.perf_counter()
        method.generate(*models, images, targets)
        batched = (time.perf_counter() - start) / PAIRS
        start = time.perf_counter()
        for row in range(0, PAIRS, PAIRS // ALONE):
            method.generate(*models, images[[row]], targets[[row]])
        alone = (time.perf_counter() - start) / ALONE
        measured[method.name] = {"alone": alone, "batched": batched, "ratio": alone / batched}
        print(f"{method.display_name}: {alone:.3f} s alone, {batched:.4f} s in a batch: {alone / batched:.0f} times")
    save_json(ROOT / "results/benchmarks/related.json", measured)


if __name__ == "__main__":
    main()
