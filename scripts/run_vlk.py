"""Rule `vlk`: the counterfactuals of one pair file by VLK. Rule `time_vlk`: how long one takes."""

from pathlib import Path

from _job import job

log = job(snakemake)

import time

from _method import respond

from deduce import data
from deduce.artifacts import save_json
from deduce.compute import device
from deduce.fold import fold
from deduce.methods.vlk import VLK
from deduce.models import load

method = VLK(**snakemake.params.settings)
known, _ = data.load(Path(snakemake.input.data[0]).parents[2], snakemake.params.dataset, "train")
classifier = fold(load(snakemake.input.classifier).to(device()), known.shape[1:])
autoencoder = load(snakemake.input.autoencoder).to(device())
encodings = method.class_encodings(classifier, autoencoder, known)


def generate(images, targets, progress=False):
    return method.generate(classifier, autoencoder, encodings, images, targets, allow_reached=True, progress=progress)


start = time.perf_counter()
respond(snakemake, log, method, generate, classifier)
if hasattr(snakemake.output, "seconds"):
    save_json(snakemake.output.seconds, {"seconds": time.perf_counter() - start, "threads": snakemake.threads})
