"""Rule `write_tables`: every table of the run."""

from _job import log, snakemake

from pathlib import Path

from deduce.evaluation import catalogue, tables
from deduce.evaluation.run import Run

run = Run(snakemake.params.config, dict(snakemake.input.items()), snakemake.params.mode)
folder = Path(snakemake.output[0]).parent
for item in catalogue.named(catalogue.TABLES, snakemake.params.names, run.methods):
    tables.write(folder / item.name, *item.build(run), section=item.entry.section, fold=item.entry.fold)
    log.info("%s", item.name)
