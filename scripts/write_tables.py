"""Rule `write_tables`: the paper's tables and those that go with them."""

from pathlib import Path

from _job import job

log = job(snakemake)

import pandas as pd

from deduce.evaluation import paper_tables, results, tables

folder = Path(snakemake.output[0]).parent
timing = [pd.read_csv(path) for path in snakemake.input.timing]
made = paper_tables.all_tables(
    results.read(snakemake.input.results),
    pd.read_csv(snakemake.input.references),
    pd.concat(timing) if timing else None,
)
for name, (frame, table) in made.items():
    tables.write(folder / name, frame, table)
log.info("%s\n%s", ", ".join(made), made["table1"][1].markdown())
