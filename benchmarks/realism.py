"""How fast AnoGAN scores are, against the textbook's way: images per second, and whether the scores agree.

    python benchmarks/realism.py [--wgan results/small/models/wgan.safetensors] [--threads 2] [--steps 40]

The textbook is what the released code does (tests/textbook_anogan.py): a batch of 100 images, one restart after the
other, automatic differentiation through the networks as they were trained. Both ways run in turns on the same images,
for as many steps as told, with the paper's three restarts; the best of the turns counts, so that a busy machine hurts
both alike. A whole score at the paper's scale takes 4000 steps: the time per step is all that scales.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from textbook_anogan import textbook_scores  # noqa: E402

from deduce import models, provenance  # noqa: E402
from deduce.artifacts import save_json  # noqa: E402
from deduce.models.wgan import WGAN  # noqa: E402
from deduce.realism.anogan import AnoGAN  # noqa: E402

PAPER = AnoGAN()


def timed(function) -> tuple[float, float, np.ndarray]:
    """Seconds on the clock, seconds of processor time, and the result."""
    clock, processor = time.perf_counter(), time.process_time()
    result = function()
    return time.perf_counter() - clock, time.process_time() - processor, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wgan", help="trained weights; without them, random ones of the paper's size")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--images", type=int, default=96)
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--quick", action="store_true", help="one turn of fewer images")
    parser.add_argument("--output", default=ROOT / "results" / "benchmarks" / "realism.json")
    options = parser.parse_args()
    if options.quick:
        options.turns, options.images = 1, 24
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    wgan = models.load(options.wgan) if options.wgan else WGAN(64, 1, 64, 16).eval()
    images = torch.rand(options.images, 1, 28, 28) ** 4
    keys = [(index,) for index in range(options.images)]
    anogan = AnoGAN(steps=options.steps, restarts=PAPER.restarts)
    starts = torch.stack([anogan._starts(wgan.generator.latent, key) for key in keys])
    ways = {
        "textbook": lambda: textbook_scores(wgan, images, starts, options.steps, anogan.step_size).numpy(),
        "library": lambda: anogan.score(wgan, images, keys).numpy(),
    }
    best: dict[str, tuple[float, float]] = {name: (np.inf, np.inf) for name in ways}
    scores = {}
    for _ in range(options.turns):
        for name, way in ways.items():
            clock, processor, scores[name] = timed(way)
            best[name] = min(best[name][0], clock), min(best[name][1], processor)
    whole = PAPER.steps / options.steps
    result = {
        name: {
            "images_per_second_at_the_papers_scale": options.images / (clock * whole),
            "milliseconds_per_step_of_100_images": 1e5 * clock / (options.images * anogan.restarts * options.steps),
            "processor_seconds": processor,
        }
        for name, (clock, processor) in best.items()
    }
    result |= {
        "speedup": best["textbook"][0] / best["library"][0],
        "speedup_in_processor_time": best["textbook"][1] / best["library"][1],
        "largest_difference": float(np.abs(scores["textbook"] - scores["library"]).max()),
        "setting": {name: str(value) for name, value in vars(options).items() if name != "output"}
        | {"wgan": wgan.arguments, "restarts": anogan.restarts},
        "versions": provenance.versions("torch"),
    }
    save_json(options.output, result)
    for name in ways:
        print(f"{name:9} {result[name]['milliseconds_per_step_of_100_images']:7.2f} ms per step of 100 images")
    print(f"speed-up {result['speedup']:.1f} (processor time {result['speedup_in_processor_time']:.1f}), ", end="")
    print(f"largest difference of the scores {result['largest_difference']:.1e}; {options.output}")


if __name__ == "__main__":
    main()
