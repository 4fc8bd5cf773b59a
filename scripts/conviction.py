"""Rule `conviction_curves`: the curves of the sweeps of `conviction`, and the methods at an equal oracle rate."""

from _job import log, snakemake

from pathlib import Path

from deduce.evaluation import conviction, figures, sweeps, tables
from deduce.shards import Pairs, Scores, Shard
from deduce.sweeps import Sweep

inputs, params, output = snakemake.input, snakemake.params, snakemake.output
declared = [Sweep.from_dict(sweep) for sweep in params.sweeps]
pairs = {Path(path).stem: Pairs.load(path) for path in inputs.pairs}
shards = {(Path(path).parent.name, Path(path).stem): Shard.load(path) for path in inputs.shards}
scores = {(Path(path).parent.name, Path(path).stem): Scores.load(path) for path in inputs.scores}

curves = conviction.curves(sweeps.long_form(declared, pairs, shards, scores), declared)
points = conviction.points(curves)
equal = conviction.at_equal_rates(curves, params.rates)
table, equal_table = conviction.points_table(points, params.description), conviction.equal_table(equal, points)
tables.write(Path(output.equal).with_suffix(""), equal, equal_table, section="conviction")
tables.write(Path(output.table).with_suffix(""), points, table, section="conviction", fold="Every point of the curves")
data = {"name": "conviction", "section": "conviction", "fold": "", "caption": params.description, "images": False}
data["alternative"] = (
    "L1, L0 and AGAN against the oracle rate, a line per method from its lowest setting to its highest."
)
figures.draw(Path(output.figure).with_suffix(""), data, conviction.picture, curves)
for note in equal_table.notes:
    log.info("%s", note)
