"""Rule `fetch`: the raw files of one dataset."""

from pathlib import Path

from _job import job

log = job(snakemake)

from deduce.datasets import DATASETS
from deduce.fetch import fetch

destination = Path(snakemake.output[0]).parent
dataset = next(name for name, facts in DATASETS.items() if facts.folder == destination.parent.name)
log.info("%s came from %s", dataset, fetch(dataset, snakemake.params.sources, destination))
