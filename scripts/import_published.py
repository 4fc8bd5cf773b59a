"""Rule `import_published`: the authors' stored results as a sealed folder of artefacts."""

from _job import log, snakemake

from pathlib import Path

from deduce.artifacts import save_arrays, save_csv
from deduce.evaluation import bundle
from deduce.pairs import VALIDATION
from deduce.published import importer
from deduce.published.validation import import_validation
from deduce.sweeps import declared_sweeps

clone, folder = snakemake.params.clone, Path(snakemake.output.sums).parent


def save(seed, pairs, shards):
    pairs.save(folder / "pairs" / f"{seed}.npz")
    for method, shard in shards.items():
        shard.save(folder / "counterfactuals" / method / f"{seed}.npz")


for seed in importer.SEEDS:
    pairs, shards, scores = importer.import_seed(clone, seed)
    save(seed, pairs, shards)
    for kind, values in scores.items():
        values.save(folder / "realism" / kind / f"{seed}.npz")
    log.info("test set %d: found %s", seed, {method: int(shard.found.sum()) for method, shard in shards.items()})
if sweeps := declared_sweeps(snakemake.params.config):
    pairs, shards = import_validation(clone, list(sweeps.values()))
    save(VALIDATION, pairs, shards)
    log.info("validation batch: %d settings", len(shards))
save_csv(folder / "summaries.csv", importer.summaries(clone))
save_arrays(folder / "reconstructions.npz", importer.reconstructions(clone, importer.SEEDS[0], count=10))
bundle.seal(folder, snakemake.params.names, bundle.describe(snakemake.params.config, "numpy"))
