"""How fast VLK is: the batched version against alibi, on the same cores and networks, and against the machine's peak.

`python benchmarks/vlk.py [--quick]` writes results/benchmarks/vlk.json. alibi is measured where it is installed (`make
alibi`, or DEDUCE_ALIBI_PYTHON). No search stops early, so that the time of a few iterations tells the time of all.
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
from deduce.artifacts import save_json
from deduce.fold import fold
from deduce.methods import machine
from deduce.methods.vlk import VLK, AutoencoderModels, ProtoRows
from deduce.models.autoencoder import Autoencoder
from deduce.models.resnet import PlainResNet
from deduce.search import frozen_beside
from deduce.shards import Pairs

ROOT = Path(__file__).parent.parent
ALIBI = Path(os.environ.get("DEDUCE_ALIBI_PYTHON") or ROOT / "results/environments/alibi/bin/python")
ITERATIONS = 2 * 1000  # of a counterfactual at the settings of alibi's example
IN_ALIBI = """
import json, sys, time
root, folder, settings, threads = sys.argv[1:]
sys.path.insert(0, root)
import numpy as np
from deduce.alibi_reference import Alibi
from deduce.shards import Pairs

networks = (f"{folder}/{name}.safetensors" for name in ("plain", "autoencoder"))
alibi = Alibi(*networks, np.load(f"{folder}/images.npy"), json.loads(settings), threads=int(threads))
pairs, start = Pairs.load(f"{folder}/pairs.npz"), np.array([time.perf_counter(), time.process_time()])
alibi.generate(pairs.original, pairs.target)
seconds, processor_seconds = np.array([time.perf_counter(), time.process_time()]) - start
print(json.dumps({"seconds": seconds, "processor_seconds": processor_seconds}))
"""


def networks(width: int, images: torch.Tensor) -> tuple[PlainResNet, Autoencoder]:
    """Random weights cost what trained ones do; they are balanced, so that all classes have images for prototypes."""
    torch.manual_seed(0)
    classifier, autoencoder = PlainResNet(width, 1, 10).eval(), Autoencoder(1).eval()
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


def batched(method: VLK, network: AutoencoderModels, rows: ProtoRows, repeats: int) -> dict[str, float]:
    """Seconds and floating-point operations per pair and iteration."""
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
    np.save(folder / "images.npy", images.numpy())
    command = [str(ALIBI), "-c", IN_ALIBI, str(ROOT), str(folder), json.dumps(method.settings()), str(threads)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    taken, iterations = json.loads(output.splitlines()[-1]), method.max_iterations * method.loss_weight_steps
    return {name: seconds / len(pairs) / iterations for name, seconds in taken.items()}


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
    network = AutoencoderModels(fold(classifier, (1, 28, 28)), frozen_beside(autoencoder, classifier))
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
            shorter = VLK(max_iterations=30 if quick else 200, loss_weight_steps=1)
            each = by_alibi(Path(folder), pairs.rows(slice(0, 3)), images, shorter, threads)
        report["alibi_seconds_per_counterfactual"] = each["seconds"] * ITERATIONS
        report["alibi_processor_seconds_per_counterfactual"] = each["processor_seconds"] * ITERATIONS
        report["speed_up"] = each["seconds"] / ours["seconds"]
        # Processor time is more reliable than the clock on a machine that does other things as well.
        report["speed_up_in_processor_time"] = each["processor_seconds"] / ours["processor_seconds"]
    return report


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer iterations, one narrow network")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    reports = [main(width, options.threads, options.quick) for width in ((16,) if options.quick else (16, 64))]
    save_json(ROOT / "results/benchmarks/vlk.json", reports)
    print(json.dumps(reports, indent=2))
