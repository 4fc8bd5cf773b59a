"""Rule `sweep_table`: the table, the tests and the figure of one sweep."""

from _job import log, snakemake

from pathlib import Path

from deduce.artifacts import save_csv
from deduce.datasets import DATASETS
from deduce.evaluation import figures, sweeps, tables
from deduce.shards import Pairs, Scores, Shard
from deduce.sweeps import Sweep

declared = {sweep.name: sweep for sweep in map(Sweep.from_dict, snakemake.params.sweeps)}
sweep = declared[snakemake.wildcards.sweep]
pairs = {Path(path).stem: Pairs.load(path) for path in snakemake.input.pairs}
shards = {(Path(path).parent.name, Path(path).stem): Shard.load(path) for path in snakemake.input.shards}
scores = {(Path(path).parent.name, Path(path).stem): Scores.load(path) for path in snakemake.input.scores}

rows = sweeps.long_form(list(declared.values()), pairs, shards, scores)
mask = sweeps.compared(rows, sweep, declared)
of_paper = DATASETS[snakemake.params.dataset].paper
frame = sweeps.frame(rows, mask, sweep, sweeps.changed(sweep, shards), of_paper)
tests = sweeps.tests(rows, mask, sweep)
table = sweeps.as_table(frame, tests, sweep)
tables.write(Path(snakemake.output.table).with_suffix(""), frame, table, section="sweeps")
save_csv(snakemake.output.tests, tests)
data = {"name": sweep.name, "section": "sweeps", "fold": "", "caption": table.caption, "images": False}
data["alternative"] = f"{table.caption} As points with their intervals."
figures.draw(Path(snakemake.output.figure).with_suffix(""), data, sweeps.picture, frame, rows, mask, sweep)
log.info("%d points over %d pairs", len(frame), frame["pairs"].max())
for note in table.notes:
    log.info("%s", note)
