"""Rule `results_parquet`: the results table as Parquet."""

from _job import job

log = job(snakemake)

from deduce.artifacts import atomic
from deduce.evaluation import results

with atomic(snakemake.output[0]) as temporary:
    results.read(snakemake.input[0]).to_parquet(temporary, index=False)
