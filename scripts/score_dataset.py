"""Rule `sanity_scores`: AnoGAN scores of images of one dataset."""

from _job import log, snakemake

import numpy as np

from deduce import compute, models
from deduce.datasets import load, root_of
from deduce.realism.anogan import AnoGAN
from deduce.realism.score import choice
from deduce.shards import Scores

compute.configure(**snakemake.params.accelerator)
settings, name, device = snakemake.params.settings, snakemake.wildcards.judged, compute.device()
images, _ = load(root_of(snakemake.input.data), name, "test")
index = choice(name, len(images), snakemake.params.images)
wgan, keys = models.load(snakemake.input.wgan).to(device), [(name, int(i)) for i in index]
scores = AnoGAN(**settings["anogan"]).score(wgan, images[index].to(device), keys).cpu().numpy()
metadata = {"of": name, "settings": settings, "source": snakemake.params.source}
Scores(index, np.full(len(index), -1), agan=scores, metadata=metadata).save(snakemake.output[0])
log.info("%d images of %s: mean score %.2f", len(index), name, np.nanmean(scores))
