"""Rule `audit`: what is found in the authors' stored results, and table 1 without the rows that hold no image."""

from pathlib import Path

from _job import job

log = job(snakemake)

import pandas as pd

from deduce.evaluation import audit, paper_tables, results, tables
from deduce.shards import Shard

table = results.read(snakemake.input.results)
references = pd.read_csv(snakemake.input.references)
defects = pd.concat(
    [audit.defects(Path(path).parent.name, int(Path(path).stem), Shard.load(path)) for path in snakemake.input.shards],
    ignore_index=True,
)
tests = pd.read_csv(snakemake.input.tests, dtype={"scope": str})
found = audit.findings(table, tests, references, defects, pd.read_csv(snakemake.input.summaries))
tables.write_csv(snakemake.output.defects, defects)
tables.write(Path(snakemake.output.audit[0]).with_suffix(""), found, audit.as_table(found))
cleaned = paper_tables.all_tables(audit.cleaned(table, defects), references, None)["table1"]
tables.write(Path(snakemake.output.cleaned[0]).with_suffix(""), *cleaned)
log.info("%d findings, %d defective rows\n%s", len(found), len(defects), cleaned[1].markdown())
