"""Rule `vlk_parity_pairs`: some pairs of a test set, evenly spread over its images and targets."""

from _job import job

log = job(snakemake)

import numpy as np

from deduce.shards import Pairs

pairs = Pairs.load(snakemake.input[0])
some = pairs.rows(np.unique(np.linspace(0, len(pairs) - 1, snakemake.params.pairs).round().astype(int)))
some.save(snakemake.output[0])
log.info("%d of %d pairs", len(some), len(pairs))
