"""Rules `realism_scores` and `reference_scores`: how realistic counterfactuals or reference images are."""

from _job import log, snakemake

import numpy as np
import torch

from deduce import compute, models, provenance
from deduce.datasets import load, root_of
from deduce.evaluation import metrics
from deduce.experiment import REFERENCES
from deduce.realism.score import score
from deduce.shards import Pairs, Scores, Shard

settings, inputs = snakemake.params.settings, snakemake.input
compute.configure(**snakemake.params.accelerator)
pairs = Pairs.load(inputs.pairs)
if "method" in dict(snakemake.wildcards.items()):
    shard, kinds = Shard.load(inputs.shard), [snakemake.wildcards.method]
    shard.answers(pairs, inputs.shard)
    index, labels, targets, images, wanted = shard.image, shard.label, shard.target, shard.counterfactual, shard.found
    originals = pairs.original
    log.info("%d of %d counterfactuals were found and are scored", wanted.sum(), len(wanted))
else:
    first, kinds = np.unique(pairs.image, return_index=True)[1], list(REFERENCES)
    with torch.no_grad():
        rebuilt = models.load(inputs.vae)(torch.as_tensor(pairs.original[first])).numpy()
    index, labels, originals = (
        np.concatenate([each[first]] * 2) for each in (pairs.image, pairs.label, pairs.original)
    )
    images, targets, wanted = np.concatenate([pairs.original[first], rebuilt]), labels, np.ones(len(index), bool)

names = snakemake.params.scores
judges = {role: models.load(file) for role, file in inputs.items() if "/models/" in file}
if metrics.TRAINING in metrics.judges(names):
    judges[metrics.TRAINING] = load(root_of(inputs.data), snakemake.params.dataset, "train")
scores = score(judges, settings, images, originals, index, labels, targets, wanted, names)
metadata = {"settings": settings, "source": snakemake.params.source, "versions": provenance.versions("torch", "numpy")}
for kind, output, rows in zip(kinds, snakemake.output, np.split(np.arange(len(index)), len(kinds)), strict=True):
    values = {name: column[rows] for name, column in scores.values.items()}
    Scores(index[rows], targets[rows], metadata={"of": kind} | metadata, **values).save(output)
    if wanted[rows].any():
        means = {name: column[np.isfinite(column)].mean() for name, column in values.items()}
        log.info("means of %s: %s", kind, {name: f"{mean:.3f}" for name, mean in means.items()})
