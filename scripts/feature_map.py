"""Rule `feature_map`: what figure 2 shows, from the real features of two classes and one real search."""

from _job import log, snakemake

import torch

from deduce import compute, feature_map, models
from deduce.artifacts import save_arrays
from deduce.datasets import DATASETS, load, root_of
from deduce.evaluation import paper
from deduce.shards import Pairs, Shard

IMAGES = 300  # of each class

inputs, dataset, device = snakemake.input, DATASETS[snakemake.params.dataset], compute.device()
images, labels = load(root_of(inputs.data), dataset.name, "train")
pairs, shard = Pairs.load(inputs.pairs), Shard.load(inputs.shard)
row = feature_map.choose_row(shard, paper.TABLE3_PAIRS[0] if dataset.paper else None)
if row is None:
    row, path = 0, pairs.original[:1]  # nothing was found: the path is the original alone
else:
    path = feature_map.states(shard, pairs, row)
pair = int(shard.label[row]), int(shard.target[row])
classes = {label: images[labels == label][:IMAGES].to(device) for label in pair}
classifier, density = (models.load(inputs[role]).to(device) for role in ("classifier", "density"))
arrays = feature_map.feature_map(classifier, density, classes, torch.from_numpy(path).to(device))
save_arrays(snakemake.output[0], arrays)
log.info("image %d, %d to %d, %d steps", shard.image[row], *pair, len(path) - 1)
