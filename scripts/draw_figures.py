"""Rules `draw_plots` and `draw_pictures`: figures of the run."""

from _job import log, snakemake

from pathlib import Path

from deduce.evaluation import catalogue, figures
from deduce.evaluation.run import Run

run = Run(snakemake.params.config, dict(snakemake.input.items()), snakemake.params.mode)
folder = Path(snakemake.output[0]).parent
for item in catalogue.named(catalogue.FIGURES, snakemake.params.names, run.methods):
    figures.draw(folder / item.name, item.figure_data(run), item.build, run)
    log.info("%s", item.name)
