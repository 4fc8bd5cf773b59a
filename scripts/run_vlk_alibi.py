"""Rule `vlk_alibi`: the counterfactuals of one pair file by alibi. Rule `time_vlk_alibi`: how long one takes.

Runs in the environment of alibi, which has no Snakemake: hence a command line instead of the `snakemake` object.
"""

import argparse
import csv
import json
import platform
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from deduce import provenance
from deduce.alibi_reference import Alibi
from deduce.artifacts import atomic, save_json
from deduce.shards import Pairs, Shard

IDX_HEADER = 16  # bytes before the pixels of an IDX file of images


def main(job: argparse.Namespace) -> None:
    pairs = Pairs.load(job.pairs)
    if job.timing:
        pairs = pairs.rows(np.unique(np.linspace(0, len(pairs) - 1, job.timed_pairs).round().astype(int)))
    settings = json.loads(job.settings)
    known = np.fromfile(job.training_images, np.uint8, offset=IDX_HEADER).reshape(-1, *pairs.original.shape[1:])
    known = known[: settings["training_images"]].astype(np.float32) / 255
    alibi = Alibi(job.classifier, job.autoencoder, known, settings, job.order, job.threads)
    seconds = np.zeros(len(pairs))

    def progress(row, taken):
        seconds[row] = taken
        print(f"pair {row + 1} of {len(pairs)}: {taken:.1f} s", flush=True)

    start = time.process_time()
    arrays = alibi.generate(pairs.original, pairs.target, progress)
    processor_seconds = time.process_time() - start
    print(f"{arrays['found'].sum()} of {len(pairs)} found, {seconds.mean():.1f} s each")
    if job.timing:
        write_times(job, pairs, arrays, seconds)
        return
    arrays["confidence_before"] = alibi.probabilities(pairs.original)[np.arange(len(pairs)), pairs.target]
    metadata = {
        "method": job.method,
        "display_name": job.display_name,
        "settings": settings | {"backend": "alibi", "order": job.order},
        "target_confidence": None,
        "classes": int(pairs.classes),
        "versions": provenance.versions("alibi", "tensorflow-cpu", "numpy"),
        "source": job.source,
    }
    Shard(pairs.image, pairs.label, pairs.target, **arrays, metadata=metadata).save(job.shard)
    if job.seconds:
        taken = {"seconds": seconds.sum(), "processor_seconds": processor_seconds, "threads": job.threads}
        save_json(job.seconds, taken)


def write_times(job: argparse.Namespace, pairs: Pairs, arrays: dict[str, np.ndarray], seconds: np.ndarray) -> None:
    facts = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    processor = next((line.split(":", 1)[1].strip() for line in facts if line.startswith("model name")), None)
    machine = f"{processor or platform.machine()}, {job.threads} thread{'s' if job.threads > 1 else ''}"
    with atomic(job.timing) as temporary, temporary.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["method", "seed", "image", "target", "found", "iterations", "seconds", "machine"])
        for row in range(len(pairs)):
            answer = (arrays["found"][row], arrays["iterations"][row], seconds[row])
            table.writerow([job.method, job.seed, pairs.image[row], pairs.target[row], *answer, machine])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("pairs", "training-images", "classifier", "autoencoder", "settings", "order", "method"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("display-name", "source", "seed", "shard", "timing", "seconds"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--timed-pairs", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    main(parser.parse_args())
