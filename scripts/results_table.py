"""Rule `results_table`: one row per method, training, test set, image and target, from checked shards and scores."""

from _job import log, snakemake

from deduce.artifacts import atomic, save_csv
from deduce.evaluation import results

files, output, params = snakemake.input, snakemake.output, snakemake.params
shards = files.pairs, files.counterfactuals, files.realism
table, references = results.collect(*shards, params.settings, params.training_seeds)
save_csv(output.results, table)
save_csv(output.references, references)
for path in output.parquet:  # none where pyarrow is not installed
    with atomic(path) as temporary:
        results.read(output.results).to_parquet(temporary, index=False)
log.info("%d rows; %d found", len(table), table["found"].sum())
