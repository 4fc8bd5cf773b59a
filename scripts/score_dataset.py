"""Rule `sanity_scores`: AnoGAN scores of images of one dataset."""

from pathlib import Path

from _job import job

log = job(snakemake)

import numpy as np

from deduce import data, models
from deduce.realism import sanity
from deduce.realism.anogan import AnoGAN
from deduce.shards import Scores

settings, name = snakemake.params.settings, snakemake.wildcards.judged
if name == "emnist_letters":
    images = sanity.emnist_letters(snakemake.params.folder)
else:
    images = data.load(Path(snakemake.input.data[0]).parents[2], name, "test")[0].numpy()
index = sanity.choice(name, len(images), snakemake.params.images)
scores = AnoGAN(**settings).score(models.load(snakemake.input.wgan), images[index], [(name, int(i)) for i in index])
metadata = {"of": name, "settings": dict(settings), "source": snakemake.params.source}
Scores(image=index, target=np.full(len(index), -1), agan=scores, metadata=metadata).save(snakemake.output[0])
log.info("%d images of %s: mean score %.2f", len(index), name, np.nanmean(scores))
