"""Rule `statistics`: success rates, and every paired comparison."""

from _job import job

log = job(snakemake)

from deduce.evaluation import results, statistics, summary, tables

table = results.read(snakemake.input[0])
tables.write_csv(snakemake.output.success, summary.success(table))
comparisons = statistics.tests(table)
tables.write_csv(snakemake.output.tests, comparisons)
log.info("%d comparisons", len(comparisons))
