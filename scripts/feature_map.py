"""Rule `feature_map`: what figure 2 shows, from the real features of two classes and one real search."""

from pathlib import Path

from _job import job

log = job(snakemake)

import numpy as np
import torch

from deduce import data, feature_map
from deduce.artifacts import atomic
from deduce.evaluation import paper
from deduce.models import load
from deduce.shards import Pairs, Shard

IMAGES = 300  # of each class

images, labels = data.load(Path(snakemake.input.data[0]).parents[2], snakemake.params.dataset, "train")
pairs, shard = Pairs.load(snakemake.input.pairs), Shard.load(snakemake.input.shard)
row = feature_map.choose_row(shard, paper.draws(paper.TABLE3_PAIRS)[0])
if row is None:
    row, path = 0, pairs.original[:1]  # nothing was found: the original stays where it is
else:
    path = feature_map.states(shard, pairs, row)
classes = {int(label): images[labels == int(label)][:IMAGES] for label in (shard.label[row], shard.target[row])}
stored = feature_map.feature_map(
    load(snakemake.input.classifier), load(snakemake.input.densities), classes, torch.from_numpy(path)
)
with atomic(snakemake.output[0]) as temporary:
    np.savez_compressed(temporary, **stored)
log.info("image %d, %d to %d, %d steps", shard.image[row], shard.label[row], shard.target[row], len(path) - 1)
