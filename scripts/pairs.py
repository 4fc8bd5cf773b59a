"""Rule `pairs`: the (image, target) pairs of one test set."""

from pathlib import Path

from _job import job

log = job(snakemake)

from deduce import data

root = Path(snakemake.input.data[0]).parents[2]
images, labels = data.load(root, snakemake.params.dataset, "test")
pairs = data.all_pairs(images, labels, data.test_set(int(snakemake.wildcards.seed), snakemake.params.images))
pairs.save(snakemake.output[0])
log.info("%d pairs of %d images", len(pairs), snakemake.params.images)
