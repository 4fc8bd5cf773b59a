"""Rule `vlk_parity`: the batched VLK beside alibi."""

from pathlib import Path

from _job import job

log = job(snakemake)

from deduce.artifacts import atomic, load_json
from deduce.evaluation import figures, vlk_parity
from deduce.shards import Pairs, Shard

shards = [Shard.load(snakemake.input[backend]) for backend in ("alibi", "torch")]
rows = vlk_parity.measured(Pairs.load(snakemake.input.pairs), *shards)
seconds = {backend: load_json(snakemake.input[f"{backend}_seconds"]) for backend in ("alibi", "torch")}
table = vlk_parity.table(rows, seconds)
for frame, path in ((rows, snakemake.output.pairs), (table, snakemake.output.table)):
    with atomic(path) as temporary:
        frame.to_csv(temporary, index=False)
figures.draw(Path(snakemake.output.figures[0]).with_suffix(""), vlk_parity.figure, rows, table)
log.info("%s", table.to_string(index=False))
