"""Rule `fetch`: the raw files of one dataset, and their SHA256SUMS."""

from _job import log, snakemake

from deduce.datasets import DATASETS, root_of
from deduce.fetch import fetch

dataset = next(dataset for dataset in DATASETS.values() if dataset.folder == snakemake.wildcards.dataset)
# Sources come from the config, not from params: where the files come from must not decide whether models are retrained.
fetch(dataset, dataset.sources(snakemake.config), root_of(snakemake.output[0]))
log.info("all files of %s have the right SHA-256", dataset.title)
