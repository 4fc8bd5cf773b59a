"""Rule `import_published`: the authors' stored results as artefacts."""

from _job import log, snakemake

from pathlib import Path

from deduce.artifacts import save_arrays, save_csv
from deduce.pairs import VALIDATION
from deduce.published import importer
from deduce.published.validation import import_validation
from deduce.sweeps import declared_sweeps

clone, folder = snakemake.params.clone, Path(snakemake.output.summaries).parent
score_files = {(Path(file).parent.name, Path(file).stem): file for file in snakemake.output.scores}


def save(seed, pairs, shards):
    pairs.save(folder / "pairs" / f"{seed}.npz")
    for method, shard in shards.items():
        shard.save(folder / "counterfactuals" / method / f"{seed}.npz")


for seed in importer.SEEDS:
    pairs, shards, scores = importer.import_seed(clone, seed)
    save(seed, pairs, shards)
    for kind, values in scores.items():
        values.save(score_files[kind, str(seed)])
    log.info("test set %d: found %s", seed, {method: int(shard.found.sum()) for method, shard in shards.items()})
if sweeps := declared_sweeps(snakemake.params.config):
    pairs, shards = import_validation(clone, list(sweeps.values()))
    save(VALIDATION, pairs, shards)
    log.info("validation batch: %d settings", len(shards))
save_csv(snakemake.output.summaries, importer.summaries(clone))
save_arrays(folder / "reconstructions.npz", importer.reconstructions(clone, importer.SEEDS[0], count=10))
