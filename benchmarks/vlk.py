"""How fast VLK is: the batched version against alibi, on the same cores and networks, and against the machine's peak.

`python benchmarks/vlk.py [--quick]` writes results/benchmarks/vlk.json. alibi is measured where it is installed (`make
alibi`, or DEDUCE_ALIBI_PYTHON). No search stops early, so that some iterations tell what all of them take.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

sys.path.insert(0, str(Path(__file__).parent.parent))

from deduce import models
from deduce.artifacts import load_json, save_json
from deduce.fold import fold
from deduce.methods.common import machine
from deduce.methods.vlk import VLK, prepared_autoencoder
from deduce.models.autoencoder import Autoencoder
from deduce.models.resnet import PlainResNet
from deduce.search import Models
from deduce.shards import Pairs

ROOT = Path(__file__).parent.parent
ALIBI = Path(os.environ.get("DEDUCE_ALIBI_PYTHON") or ROOT / "results/environments/alibi/bin/python")
ITERATIONS = 2 * 1000  # of a counterfactual at the settings of alibi's example


def networks(width: int, images: torch.Tensor) -> tuple[PlainResNet, Autoencoder]:
    """Of random weights, which cost what trained ones do; the classes are balanced, so that all have prototypes."""
    torch.manual_seed(0)
    classifier, autoencoder = PlainResNet(width).eval(), Autoencoder().eval()
    with torch.no_grad():
        features = classifier.features(images)
        classifier.head.weight.div_(features.std(0) + 1e-6)
        classifier.head.bias.copy_(-classifier.head.weight @ features.mean(0))
    return classifier, autoencoder


def random_pairs(classifier: PlainResNet, images: torch.Tensor, n: int) -> Pairs:
    with torch.no_grad():
        labels = classifier(images).argmax(1)
    counts = labels.bincount(minlength=10)
    targets = torch.where(labels[:n] == counts.argmax(), counts.argsort()[-2], counts.argmax())
    return Pairs(np.arange(n), labels[:n].numpy(), targets.numpy(), images[:n].numpy(), np.array(10))


def batched(method: VLK, network: Models, rows, repeats: int) -> dict[str, float]:
    """Seconds per pair and iteration, and the floating-point operations of one."""
    n = len(rows.original)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network.classifier(rows.original)
        network.autoencoder(rows.original)
    taken = []
    for _ in range(repeats):
        start = np.array([time.perf_counter(), time.process_time()])
        method.descend(network, rows)
        taken.append(np.array([time.perf_counter(), time.process_time()]) - start)
    seconds, processor_seconds = np.min(taken, 0) / method.max_iterations / n
    operations = 2 * counter.get_total_flops() / n  # backwards as forwards
    return {"seconds": seconds, "processor_seconds": processor_seconds, "operations": operations}


def by_alibi(folder: Path, pairs: Pairs, images: torch.Tensor, method: VLK, threads: int) -> dict:
    """Seconds per pair and iteration, on the clock and of the processor, in a process of alibi's environment."""
    pairs.save(folder / "pairs.npz")
    (folder / "images").write_bytes(bytes(16) + (images * 255).round().to(torch.uint8).numpy().tobytes())
    command = [ALIBI, ROOT / "scripts/run_vlk_alibi.py", "--pairs", folder / "pairs.npz"]
    command += ["--training-images", folder / "images", "--settings", json.dumps(method.settings())]
    command += ["--classifier", folder / "plain.safetensors", "--autoencoder", folder / "autoencoder.safetensors"]
    command += ["--order", "race", "--method", "vlk_alibi", "--threads", threads]
    command += ["--shard", folder / "shard.npz", "--seconds", folder / "seconds.json"]
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    taken, iterations = load_json(folder / "seconds.json"), method.max_iterations * method.loss_weight_steps
    return {name: taken[name] / len(pairs) / iterations for name in ("seconds", "processor_seconds")}


def peak(repeats: int = 5) -> float:
    """Floating-point operations per second of a large matrix multiplication."""
    a, best = torch.rand(1536, 1536), float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        a @ a
        best = min(best, time.perf_counter() - start)
    return 2 * 1536**3 / best


def main(width: int, threads: int, quick: bool) -> dict:
    torch.set_num_threads(threads)
    images = torch.rand(1000, 1, 28, 28, generator=torch.Generator().manual_seed(0)).mul(255).round().div(255)
    classifier, autoencoder = networks(width, images)
    n, length = (32, 3) if quick else (128, 10)
    pairs, method = random_pairs(classifier, images, n), VLK(max_iterations=length, loss_weight_steps=1)
    network = Models(
        classifier=fold(classifier, (1, 28, 28)), autoencoder=prepared_autoencoder(autoencoder, classifier)
    )
    encodings = method.class_encodings(classifier, autoencoder, images)
    rows = method.start(network, encodings, torch.tensor(pairs.original), torch.tensor(pairs.target))
    ours = batched(method, network, rows, repeats=2 if quick else 5)
    top = peak()
    report = {
        "machine": machine(),
        "threads": threads,
        "width": width,
        "batch_size": n,
        "batched_seconds_per_counterfactual": ours["seconds"] * ITERATIONS,
        "batched_processor_seconds_per_counterfactual": ours["processor_seconds"] * ITERATIONS,
        "batched_operations_per_second": ours["operations"] / ours["seconds"],
        "matrix_multiplication_operations_per_second": top,
        "share_of_peak": ours["operations"] / ours["seconds"] / top,
    }
    if ALIBI.exists():
        with tempfile.TemporaryDirectory() as folder:
            models.save(Path(folder, "plain.safetensors"), classifier)
            models.save(Path(folder, "autoencoder.safetensors"), autoencoder)
            some = VLK(max_iterations=30 if quick else 200, loss_weight_steps=1)
            each = by_alibi(Path(folder), pairs.rows(slice(0, 3)), images, some, threads)
        report["alibi_seconds_per_counterfactual"] = each["seconds"] * ITERATIONS
        report["alibi_processor_seconds_per_counterfactual"] = each["processor_seconds"] * ITERATIONS
        report["speed_up"] = each["seconds"] / ours["seconds"]
        # What the clock says on a machine that does other things as well is less certain than this.
        report["speed_up_in_processor_time"] = each["processor_seconds"] / ours["processor_seconds"]
    return report


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer iterations, one narrow network")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    found = [main(width, options.threads, options.quick) for width in ((16,) if options.quick else (16, 64))]
    save_json(ROOT / "results/benchmarks/vlk.json", found)
    print(json.dumps(found, indent=2))
