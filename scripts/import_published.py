"""Rule `import_published`: the authors' stored results as a sealed folder of artefacts."""

import os
from pathlib import Path

from _job import job

log = job(snakemake)

import numpy as np
import pandas as pd

from deduce.artifacts import atomic
from deduce.evaluation import bundle, published, published_validation, tables
from deduce.provenance import versions
from deduce.sweeps import VALIDATION, Sweep

clone, folder = snakemake.params.clone, Path(snakemake.output.sums).parent
summaries = []
for seed in published.SEEDS:
    pairs, shards, scores = published.import_seed(clone, seed)
    pairs.save(folder / "pairs" / f"{seed}.npz")
    for method, shard in shards.items():
        shard.save(folder / "counterfactuals" / method / f"{seed}.npz")
    for kind, scored in scores.items():
        scored.save(folder / "realism" / kind / f"{seed}.npz")
    own = pd.DataFrame(published.results_file(clone, seed), columns=["agan", "l0", "l1", "failure"])
    summaries.append(own.assign(seed=seed, method=list(published.METHODS)))
    log.info("test set %d: found %s", seed, {method: int(shard.found.sum()) for method, shard in shards.items()})
if snakemake.params.sweeps:
    pairs, shards = published_validation.import_validation(clone, list(map(Sweep.from_dict, snakemake.params.sweeps)))
    pairs.save(folder / "pairs" / f"{VALIDATION}.npz")
    for variant, shard in shards.items():
        shard.save(folder / "counterfactuals" / variant / f"{VALIDATION}.npz")
    log.info("validation batch: %d settings", len(shards))
tables.write_csv(folder / "summaries.csv", pd.concat(summaries))
with atomic(folder / "reconstructions.npz") as temporary:
    np.savez_compressed(temporary, **published.reconstructions(clone, published.SEEDS[0], 10))
manifest = bundle.describe(snakemake.params.config, os.environ.get("DEDUCE_COMMAND", ""), versions("numpy"))
bundle.seal(folder, snakemake.params.names, manifest)
