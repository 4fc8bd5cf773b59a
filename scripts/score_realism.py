"""Rules `realism_scores` and `reference_scores`: how realistic counterfactuals or reference images are."""

from _job import log, snakemake

import numpy as np
import torch

from deduce import models, provenance
from deduce.realism.score import score
from deduce.shards import Pairs, Shard

settings, inputs = snakemake.params.settings, snakemake.input
kind = snakemake.wildcards.get("kind")  # of reference images; absent for a method's counterfactuals
if kind:
    pairs = Pairs.load(inputs.pairs)
    first = np.unique(pairs.image, return_index=True)[1]
    index, labels, images = pairs.image[first], pairs.label[first], pairs.original[first]
    targets, wanted = labels, np.ones(len(first), bool)
    if kind == "reconstruction":
        with torch.no_grad():
            images = models.load(inputs.vae)(torch.as_tensor(images)).numpy()
else:
    shard = Shard.load(inputs.shard)
    index, labels, targets, images, wanted = shard.image, shard.label, shard.target, shard.counterfactual, shard.found
    log.info("%d of %d counterfactuals were found and are scored", wanted.sum(), len(wanted))

judges = {role: models.load(inputs[role]) for role in snakemake.params.judges}
scores = score(judges, settings, images, index, labels, targets, wanted)
scores.metadata = {"of": kind or snakemake.wildcards.method, "settings": settings, "source": snakemake.params.source}
scores.metadata["versions"] = provenance.versions("torch", "numpy")
scores.save(snakemake.output[0])
if wanted.any():
    log.info("means: %s", {name: f"{np.nanmean(values):.3f}" for name, values in scores.values.items()})
