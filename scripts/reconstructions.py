"""Rule `reconstructions`: what the VAE makes of the first images of the first test set."""

from _job import job

log = job(snakemake)

import numpy as np
import torch

from deduce import feature_map
from deduce.artifacts import atomic
from deduce.models import load
from deduce.shards import Pairs

pairs = Pairs.load(snakemake.input.pairs)
_, rows = np.unique(pairs.image, return_index=True)
originals = torch.from_numpy(pairs.original[rows[: snakemake.params.images]])
with atomic(snakemake.output[0]) as temporary:
    np.savez_compressed(temporary, **feature_map.reconstructions(load(snakemake.input.vae), originals))
log.info("%d images", len(originals))
