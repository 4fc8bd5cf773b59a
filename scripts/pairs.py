"""Rule `pairs`: the (image, target) pairs of one test set, or of the paper's validation batch."""

from pathlib import Path

from _job import job

log = job(snakemake)

from deduce import data, pairs

root = Path(snakemake.input.data[0]).parents[2]
seed, count = snakemake.wildcards.seed, snakemake.params.images
if seed == "validation":
    split, chosen = "validation", pairs.validation_batch(count)
else:
    split, chosen = "test", pairs.test_set(int(seed), count)
asked = pairs.all_pairs(*data.load(root, snakemake.params.dataset, split), chosen)
asked.save(snakemake.output[0])
log.info("%d pairs of %d images", len(asked), count)
