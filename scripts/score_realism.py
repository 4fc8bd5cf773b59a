"""Rules `realism_scores` and `reference_scores`: how realistic counterfactuals or reference images are."""

from _job import log, snakemake

import numpy as np
import torch

from deduce import models, provenance
from deduce.datasets import load, root_of
from deduce.evaluation.metrics import TRAINING
from deduce.realism.score import score
from deduce.shards import Pairs, Shard

settings, inputs = snakemake.params.settings, snakemake.input
kind = snakemake.wildcards.get("kind")  # of reference images; absent for a method's counterfactuals
pairs = Pairs.load(inputs.pairs)
if kind:
    first = np.unique(pairs.image, return_index=True)[1]
    index, labels, originals = pairs.image[first], pairs.label[first], pairs.original[first]
    images, targets, wanted = originals, labels, np.ones(len(first), bool)
    if kind == "reconstruction":
        with torch.no_grad():
            images = models.load(inputs.vae)(torch.as_tensor(originals)).numpy()
else:
    shard, originals = Shard.load(inputs.shard), pairs.original
    shard.answers(pairs, inputs.shard)
    index, labels, targets, images, wanted = shard.image, shard.label, shard.target, shard.counterfactual, shard.found
    log.info("%d of %d counterfactuals were found and are scored", wanted.sum(), len(wanted))

judges = {role: models.load(file) for role, file in inputs.items() if "/models/" in file}
judges[TRAINING] = load(root_of(inputs.data), snakemake.params.dataset, "train")
scores = score(judges, settings, images, originals, index, labels, targets, wanted)
scores.metadata = {"of": kind or snakemake.wildcards.method, "settings": settings, "source": snakemake.params.source}
scores.metadata["versions"] = provenance.versions("torch", "numpy")
scores.save(snakemake.output[0])
if wanted.any():
    means = {name: values[np.isfinite(values)].mean() for name, values in scores.values.items()}
    log.info("means: %s", {name: f"{mean:.3f}" for name, mean in means.items()})
