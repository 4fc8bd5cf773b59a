"""How a method's script ends: `respond(...)` writes what its rule asks for, a shard or times."""


def respond(snakemake, log, method, generate, classifier=None) -> None:
    """generate(images, targets, progress=...) is the method with its models; see docs/contract.md for the files.

    With the classifier that is explained, the shard also says how sure it is of each target before any change.
    """
    import numpy as np

    from deduce.artifacts import atomic
    from deduce.methods.common import answered, timed
    from deduce.shards import Pairs

    pairs = Pairs.load(snakemake.input.pairs)
    if hasattr(snakemake.output, "timing"):
        spread = np.unique(np.linspace(0, len(pairs) - 1, snakemake.params.pairs).round().astype(int))
        times = timed(method, generate, pairs.rows(spread), snakemake.params.seed)
        with atomic(snakemake.output.timing) as temporary:
            times.to_csv(temporary, index=False)
        log.info("%.2f s per counterfactual, median of %d", times.seconds.median(), len(times))
    else:
        shard = answered(method, generate, pairs, snakemake.params.source, classifier)
        shard.save(snakemake.output.shard)
        log.info("%d of %d found, %.0f iterations each", shard.found.sum(), len(shard), shard.iterations.mean())
