"""Rule `validated`: a method's shards, checked against the contract and joined in the order of the test set's pairs."""

from _job import log, snakemake

from deduce.shards import ContractError, Pairs, Shard, merge

shards = []
for path, part in zip(snakemake.input.shards, snakemake.input.parts, strict=True):
    shard = Shard.load(path)
    if shard.metadata["method"] != snakemake.wildcards.method.split("@")[0] or "as_published" in shard.metadata:
        raise ContractError(f"{path}: its metadata says that {shard.metadata['method']!r} made it, not this method")
    shard.answers(Pairs.load(part), path)
    shards.append(shard)
joined = merge(shards, Pairs.load(snakemake.input.pairs))
joined.save(snakemake.output[0])
log.info("%s: %d of %d found", snakemake.wildcards.method, joined.found.sum(), len(joined))
