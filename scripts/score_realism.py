"""Rules `realism_scores` and `reference_scores`: how realistic a method's counterfactuals, or the originals, are."""

from _job import job

log = job(snakemake)

import numpy as np
import torch

from deduce import models, provenance
from deduce.realism.anogan import AnoGAN
from deduce.realism.score import Judges, score
from deduce.shards import Pairs, Shard

settings, inputs = dict(snakemake.params.settings), snakemake.input
kind = snakemake.wildcards.get("kind")  # of the references; a method's scores have none
if kind:
    pairs = Pairs.load(inputs.pairs)
    first = np.unique(pairs.image, return_index=True)[1]
    image, label, images = pairs.image[first], pairs.label[first], pairs.original[first]
    target, wanted = label, np.ones(len(first), bool)
    if kind == "reconstruction":
        with torch.no_grad():
            images = models.load(inputs.vae)(torch.as_tensor(images)).numpy()
else:
    shard = Shard.load(inputs.shard)
    image, label, target, images, wanted = shard.image, shard.label, shard.target, shard.counterfactual, shard.found
    log.info("%d of %d counterfactuals were found; the others are not scored", wanted.sum(), len(wanted))

judges = Judges(*(models.load(inputs[name]) for name in ("wgan", "class_autoencoders", "ddu", "density")))
scores = score(judges, AnoGAN(**settings), images, image, label, target, wanted)
scores.metadata = {
    "of": kind or snakemake.wildcards.method,
    "settings": settings,
    "versions": provenance.versions("torch", "numpy"),
    "source": snakemake.params.source,
}
scores.save(snakemake.output[0])
if wanted.any():
    log.info("mean AnoGAN score: %.3f", np.nanmean(scores.agan))
