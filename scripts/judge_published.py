"""Rule `judge_published`: the authors' own scores, and beside them what oracles see in the authors' counterfactuals."""

from _job import log, snakemake

import shutil
from pathlib import Path

import numpy as np

from deduce import models
from deduce.datasets import load, root_of
from deduce.realism.score import score
from deduce.shards import Pairs, Scores, Shard

inputs, output = snakemake.input, snakemake.output
judges = {"oracles": models.load(inputs.oracles)}
judges["training"] = load(root_of(inputs.data), snakemake.params.dataset, "train")
shards = {(Path(file).parent.name, Path(file).stem): file for file in inputs.counterfactuals}
pairs = {Path(file).stem: Pairs.load(file) for file in inputs.pairs}
for source, destination in zip(inputs.scores, output.scores, strict=True):
    kind, seed = Path(source).parent.name, Path(source).stem
    scores, asked = Scores.load(source), pairs[seed]
    if (kind, seed) in shards:
        shard = Shard.load(shards[kind, seed])
        scores.scores(shard, source)
        # Some of the stored rows have values outside the range: the oracles are shown what a screen would show.
        rows = shard.counterfactual.clip(0, 1), asked.original, shard.image, shard.label, shard.target, shard.found
    else:
        first = np.unique(asked.image, return_index=True)[1]
        images = asked.original[first]
        rows = images, images, asked.image[first], asked.label[first], asked.label[first], np.ones(len(first), bool)
    if kind != "reconstruction":  # the reconstructions themselves are not among the artefacts
        scores.values |= score(judges, {}, *rows).values
    scores.save(destination)
    log.info("%s, test set %s", kind, seed)
Path(output.record).parent.mkdir(parents=True, exist_ok=True)
shutil.copyfile(inputs.record, output.record)
