"""Rule `yardsticks`: each method's counterfactuals beside real images, as sets."""

from _job import log, snakemake

from pathlib import Path

import numpy as np

from deduce import compute, models
from deduce.artifacts import save_csv
from deduce.datasets import load, root_of
from deduce.realism.closeness import CommonPairs, RealImages, target_distances
from deduce.shards import Pairs, Shard

inputs, params = snakemake.input, snakemake.params
pairs = {Path(file).stem: Pairs.load(file) for file in inputs.pairs}
files = {(Path(file).parent.name, Path(file).stem): file for file in inputs.counterfactuals}
common = CommonPairs()
for training in params.trainings:
    for seed, asked in pairs.items():
        common.add(asked, {method: Shard.load(files[folder, seed]) for method, folder in training.items()})
images, labels = load(root_of(inputs.data), params.dataset, "test")
others = np.setdiff1d(np.arange(len(images)), np.concatenate([asked.image for asked in pairs.values()]))
real = RealImages(images[others], labels[others])
oracles = models.load(inputs.oracles).to(compute.device())
distances = target_distances(oracles, real, common)
save_csv(snakemake.output.distances, distances)
save_csv(snakemake.output.changes, real.natural_changes)
log.info("%d common pairs: %s", len(common.targets), distances.set_index("method")["distance"].round(2).to_dict())
