"""How many images a second training sees in both precisions, what share of the machine's peak that is, and what other
ways to train would gain: contiguous images, a fused optimiser, a WGAN in bfloat16, two threads.

`python benchmarks/training.py [--quick] [--threads 1]` writes results/benchmarks/training.json. The ways take turns,
and the least processor time of each counts; for two threads, which exist to save time on the clock, the clock counts.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

sys.path.insert(0, str(Path(__file__).parent.parent))

from deduce import compute, models
from deduce.artifacts import save_json
from deduce.config import defaults
from deduce.datasets import DATASETS
from deduce.methods import machine
from deduce.training import Batch, Task

ROOT = Path(__file__).parent.parent
BATCH = 128
TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def seconds(
    functions: dict[str, Callable[[], object]], repeats: int, clock: Callable[[], float] = time.process_time
) -> dict[str, float]:
    """The least time of each, in turns, so that none has the machine to itself."""
    best = dict.fromkeys(functions, float("inf"))
    for repeat in range(repeats + 1):  # the first warms up
        for name, function in functions.items():
            start = clock()
            function()
            if repeat:
                best[name] = min(best[name], clock() - start)
    return best


def peaks() -> dict[str, float]:
    """Operations per second of a large convolution, which is faster on many CPUs than a product of matrices."""
    images, weights = torch.rand(BATCH, 256, 14, 14), torch.rand(256, 256, 3, 3)
    pairs = {
        name: [tensor.to(dtype).contiguous(memory_format=torch.channels_last) for tensor in (images, weights)]
        for name, dtype in TYPES.items()
    }
    best = seconds({name: lambda pair=pair: F.conv2d(*pair, padding=1) for name, pair in pairs.items()}, 5)
    return {name: 2 * images.numel() * weights[0].numel() / taken for name, taken in best.items()}


def task_of(name: str, width: int, precision: str) -> Task:
    settings = defaults(ROOT)[name] | {"width": width, "precision": precision}
    torch.manual_seed(0)
    task = models.REGISTRY[name].training_task(settings, DATASETS["mnist"])
    task.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    task.module.train()
    return task


def random_batch() -> Batch:
    return Batch(torch.rand(BATCH, 1, 28, 28), torch.arange(BATCH) % 10, 0, torch.Generator())


def other_ways(width: int, repeats: int) -> dict[str, float]:
    """How many times as fast as the way of the library a step of `ddu` is in another way, in float32."""
    batch, tasks = (
        random_batch(),
        {name: task_of("ddu", width, "float32") for name in ("library", "contiguous", "fused")},
    )
    tasks["contiguous"].module.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    for group in tasks["fused"].optimisers[0].param_groups:
        group |= {"fused": True, "foreach": False}
    taken = seconds({name: lambda task=task: task.step(batch) for name, task in tasks.items()}, repeats)
    return {name: taken["library"] / second for name, second in taken.items() if name != "library"}


def wgan(width: int, repeats: int) -> dict[str, float]:
    """Images a second of the WGAN's training, as it is and with all of its products in bfloat16."""
    settings = defaults(ROOT)["wgan"] | {"width": width}
    torch.manual_seed(0)
    task = models.REGISTRY["wgan"].training_task(settings, DATASETS["mnist"])
    task.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    task.module.train()
    batch = random_batch()

    def in_bfloat16() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            task.step(batch)

    taken = seconds({"float32": lambda: task.step(batch), "bfloat16": in_bfloat16}, repeats)
    speeds = {f"images_per_second_{name}": BATCH / second for name, second in taken.items()}
    return speeds | {"bfloat16_is_faster_by": taken["float32"] / taken["bfloat16"]}


def two_threads(width: int, repeats: int) -> dict[str, float | bool]:
    """What a second thread gains in a step of `ddu`, on the clock, and whether three steps end in the same weights."""
    batch, taken, weights = random_batch(), {}, {}
    before = torch.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        task = task_of("ddu", width, "float32")
        for _ in range(3):
            task.step(batch)
        weights[threads] = torch.cat([weight.detach().flatten() for weight in task.module.parameters()])
        taken[threads] = seconds({"step": lambda task=task: task.step(batch)}, repeats, time.perf_counter)["step"]
    torch.set_num_threads(before)
    return {"faster_by": taken[1] / taken[2], "equal_bytes": bool(torch.equal(weights[1], weights[2]))}


def measured(name: str, width: int, repeats: int, peak: dict[str, float]) -> dict[str, float]:
    batch = random_batch()
    tasks = {precision: task_of(name, width, precision) for precision in TYPES}
    with FlopCounterMode(display=False) as counter:
        tasks["float32"].step(batch)
    taken = seconds({name: lambda task=task: task.step(batch) for name, task in tasks.items()}, repeats)
    values = {f"images_per_second_{name}": BATCH / second for name, second in taken.items()}
    values |= {
        f"share_of_peak_{name}": counter.get_total_flops() / second / peak[name] for name, second in taken.items()
    }
    return values | {"bfloat16_is_faster_by": taken["float32"] / taken["bfloat16"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repeats and widths")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    compute.deterministic(0)  # as in training
    peak = peaks()
    report: dict[str, object] = {"machine": machine(), "native_bfloat16": compute.multiplies_bfloat16(), "peak": peak}
    for width in (8, 64) if options.quick else (8, 16, 32, 64):
        for name in ("ddu", "plain"):
            values = measured(name, width, 2 if options.quick else 5, peak)
            report[f"{name}, width {width}"] = values
            speeds = " → ".join(f"{values[f'images_per_second_{name}']:.0f}" for name in TYPES)
            shares = " → ".join(f"{values[f'share_of_peak_{name}']:.0%}" for name in TYPES)
            faster = values["bfloat16_is_faster_by"]
            print(f"{name} at width {width}: {speeds} images per second ({faster:.2f} ×), {shares} of peak", flush=True)
    repeats, width = (2, 16) if options.quick else (5, 64)
    report["other_ways"] = {"width": width} | other_ways(width, repeats)
    report["wgan"] = {"width": width} | wgan(width, repeats)
    report["two_threads"] = {"width": width} | two_threads(width, repeats)
    for name in ("other_ways", "wgan", "two_threads"):
        print(name, report[name], flush=True)
    save_json(ROOT / "results" / "benchmarks" / "training.json", report)


if __name__ == "__main__":
    main()
