"""Rule `vlk_alibi`: one pair file answered by alibi.

It runs in alibi's environment, which has no Snakemake: hence a command line instead of the `snakemake` object.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deduce import artifacts, lock, provenance
from deduce.alibi_reference import Alibi
from deduce.datasets import DATASETS, root_of
from deduce.pairs import is_measured
from deduce.shards import Pairs, Shard


def main(job: argparse.Namespace) -> None:
    lock.join()
    for path in (job.pairs, job.data, job.classifier, job.autoencoder):
        artifacts.verify(path)
    pairs, settings = Pairs.load(job.pairs), json.loads(job.settings)
    training, _ = DATASETS[job.dataset].read(root_of(job.data), "train")
    training = training[: settings["training_images"]].astype(np.float32) / 255
    alibi = Alibi(job.classifier, job.autoencoder, training, settings, job.order, job.threads)
    arrays = alibi.generate(pairs.original, pairs.target)
    if len(pairs):
        arrays["confidence_before"] = alibi.probabilities(pairs.original)[np.arange(len(pairs)), pairs.target]
    print(f"{arrays['found'].sum()} of {len(pairs)} found")
    metadata = {
        "method": "vlk_alibi",
        "display_name": "VLK (alibi)",
        "settings": settings | {"order": job.order},
        "models": {"classifier": Path(job.classifier).stem, "autoencoder": Path(job.autoencoder).stem},
        "target_confidence": None,
        "classes": int(pairs.classes),
        "versions": provenance.versions("alibi", "tensorflow-cpu", "numpy"),
        "source": job.source,
    }
    if is_measured(job.pair_set):
        metadata["machine"] = provenance.machine(job.threads)
    else:
        del arrays["seconds"]
    Shard(pairs.image, pairs.label, pairs.target, **arrays, metadata=metadata).save(job.shard)
    artifacts.record(job.shard)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    inputs = ("pair-set", "pairs", "dataset", "data", "classifier", "autoencoder", "settings", "order", "source")
    for name in (*inputs, "shard"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--threads", type=int, default=1)
    main(parser.parse_args())
