"""Rule `nearest_image`: the nearest training image of the target. Rule `time_nearest_image`: how long one takes."""

from pathlib import Path

from _job import job

log = job(snakemake)

import torch
from _method import respond

from deduce.compute import device
from deduce.data import load as load_data
from deduce.fold import fold
from deduce.methods.nearest_image import NearestImage
from deduce.models import load
from deduce.shards import Pairs

method = NearestImage(**snakemake.params.settings)
shape = Pairs.load(snakemake.input.pairs).original.shape[1:]
classifier = fold(load(snakemake.input.classifier).to(device()), shape)
known, labels = load_data(Path(snakemake.input.data[0]).parents[2], snakemake.params.dataset, "train")
known, labels = known.to(device()), labels.to(device())


def generate(images, targets, progress=False):
    images, targets = torch.as_tensor(images, device=device()), torch.as_tensor(targets, device=device())
    return method.generate(classifier, images, targets, known, labels)


respond(snakemake, log, method, generate, classifier)
