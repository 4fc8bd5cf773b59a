"""Rules `pairs` and `part`: the (image, target) pairs of a test set, of the validation batch or of a sample."""

from _job import log, snakemake

from deduce.datasets import DATASETS, root_of
from deduce.pairs import pair_set

everything = pair_set(DATASETS[snakemake.params.dataset], root_of(snakemake.input.data), **snakemake.params.choice)
part, parts = snakemake.params.share
# Every n-th pair, so that easy and hard targets are spread evenly over the jobs.
pairs = everything.rows(slice(part, None, parts))
pairs.save(snakemake.output[0])
log.info("%d of %d pairs", len(pairs), len(everything))
