"""Rule `sweep_table`: the table, the tests and the figure of one sweep."""

from pathlib import Path

from _job import job

log = job(snakemake)

from deduce.evaluation import figures, sweeps, tables
from deduce.shards import Pairs, Shard
from deduce.sweeps import Sweep

declared = {sweep.name: sweep for sweep in map(Sweep.from_dict, snakemake.params.sweeps)}
sweep = declared[snakemake.wildcards.sweep]
pairs = {Path(path).stem: Pairs.load(path) for path in snakemake.input.pairs}
shards = {(Path(path).parent.name, Path(path).stem): Shard.load(path) for path in snakemake.input.shards}

table = sweeps.long_form(list(declared.values()), pairs, shards)
mask = sweeps.compared(table, sweep, declared)
frame = sweeps.frame(table, mask, sweep, sweeps.changed(sweep, shards))
tests = sweeps.tests(table, mask, sweep)
text = sweeps.as_table(frame, tests, sweep)
tables.write(Path(snakemake.output.table).with_suffix(""), frame, text)
tables.write_csv(snakemake.output.tests, tests)
figures.draw(Path(snakemake.output.figure).with_suffix(""), sweeps.picture, frame, table, mask, sweep)
log.info("%d points over %d pairs", len(frame), frame["pairs"].max())
for note in text.notes:
    log.info("%s", note)
