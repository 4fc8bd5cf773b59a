"""Rule `results_table`: one row per method, test set, image and target, from checked shards and scores."""

from pathlib import Path

from _job import job

log = job(snakemake)

import pandas as pd

from deduce.evaluation import results, tables
from deduce.shards import Pairs, Scores, Shard

pairs = {int(Path(path).stem): Pairs.load(path) for path in snakemake.input.pairs}
scores = {(Path(path).parent.name, int(Path(path).stem)): path for path in snakemake.input.scores}
parts, references = [], []
for method in snakemake.params.methods:
    paths = [path for path in snakemake.input.shards if Path(path).parent.name == method]
    shards = {path: Shard.load(path) for path in paths}
    results.check_settings(shards, snakemake.params.settings[method])
    for path, shard in shards.items():
        seed = int(Path(path).stem)
        scored = None
        if (method, seed) in scores:
            scored = Scores.load(scores[method, seed])
            scored.scores(shard, scores[method, seed])
        parts.append(results.rows(method, seed, pairs[seed], shard, scored, path))
for (kind, seed), path in scores.items():
    if kind not in snakemake.params.methods:
        references.append(results.references(kind, seed, Scores.load(path)))
table = results.order(pd.concat(parts), snakemake.params.methods)
tables.write_csv(snakemake.output.results, table)
columns = ["kind", "seed", "image", "agan"]
tables.write_csv(snakemake.output.references, pd.concat(references) if references else pd.DataFrame(columns=columns))
log.info("%d rows; %d found", len(table), table["found"].sum())
