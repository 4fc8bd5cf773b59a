"""Rule `draw_figures`: every figure that needs no model."""

from pathlib import Path

from _job import job

log = job(snakemake)

import numpy as np
import pandas as pd

from deduce.evaluation import figures, paper, results, summary, tables
from deduce.shards import Pairs, Shard

folder = Path(snakemake.output[0]).parent
table = results.read(snakemake.input.results)
names = results.display_names(table)
pairs = Pairs.load(snakemake.input.pairs)
shards = {Path(path).parent.name: Shard.load(path) for path in snakemake.input.shards}
pictures = figures.Pictures(pairs, {method: shards[method] for method in names})

shown = tables.choose_pairs(table, paper.draws(paper.TABLE3_PAIRS), len(paper.TABLE3_PAIRS))
figures.draw(folder / "counterfactual_grid", figures.grid, pictures, shown, names)
more = tables.choose_pairs(table, paper.draws(paper.ADDITIONAL_PAIRS), len(paper.ADDITIONAL_PAIRS))
for method, name in names.items():
    figures.draw(folder / f"examples_{method}", figures.examples, pictures, more, method, name)
figures.draw(folder / "distributions", figures.distributions, table, names)
figures.draw(folder / "success_rates", figures.success_rates, summary.success(table), names)
figures.draw(folder / "l0_thresholds", figures.thresholds, table, names)
figures.draw(folder / "targets", figures.targets, summary.by_target(table), names)
compared = tables.beside_paper(summary.table1(table), paper.TABLE1)
if len(compared):
    figures.draw(folder / "paper_comparison", figures.beside_paper, compared, names)
if snakemake.input.timing:
    figures.draw(folder / "run_times", figures.times, pd.concat(map(pd.read_csv, snakemake.input.timing)), names)
for path in snakemake.input.stored:  # what a model gave, drawn without it
    make = {"features": figures.feature_map, "reconstructions": figures.reconstructions}[Path(path).stem]
    figures.draw(folder / figures.STORED[Path(path).stem], make, dict(np.load(path, allow_pickle=False)))
