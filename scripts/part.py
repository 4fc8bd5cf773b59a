"""Rule `part`: one job's share of a test set's pairs."""

from _job import job

log = job(snakemake)

import numpy as np

from deduce.shards import Pairs

pairs = Pairs.load(snakemake.input[0])
# Every n-th pair, so that easy and hard targets are spread evenly over the jobs.
mine = np.arange(int(snakemake.wildcards.part), len(pairs), snakemake.params.parts)
pairs.rows(mine).save(snakemake.output[0])
log.info("%d of %d pairs", len(mine), len(pairs))
