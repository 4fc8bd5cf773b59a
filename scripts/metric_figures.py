"""Rule `metric_figures`: what table 1 averages, point by point."""

from pathlib import Path

from _job import job

log = job(snakemake)

from deduce.evaluation import figures, results
from deduce.evaluation.metrics import METRICS
from deduce.report.plots import points

table = results.read(snakemake.input[0])
for metric in snakemake.params.metrics:
    stem = Path(snakemake.output[0]).with_name(f"points_{metric}")
    figures.draw(stem, points, table, results.display_names(table), METRICS[metric])
