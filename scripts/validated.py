"""Rule `validated`: a method's shards, checked against the contract and joined in the order of the test set's pairs."""

from _job import job

log = job(snakemake)

from deduce.shards import Pairs, Shard, merge

shards = []
for path, asked in zip(snakemake.input.shards, snakemake.input.parts, strict=True):
    shard = Shard.load(path)
    shard.answers(Pairs.load(asked), path)
    shards.append(shard)
joined = merge(shards, Pairs.load(snakemake.input.pairs))
joined.save(snakemake.output[0])
log.info("%s: %d of %d found", snakemake.wildcards.method, joined.found.sum(), len(joined))
