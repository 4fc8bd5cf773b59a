"""Rule `check_claims`: the paper's sentences against this run."""

from pathlib import Path

from _job import job

log = job(snakemake)

import pandas as pd

from deduce.evaluation import claims, results, summary, tables

table = results.read(snakemake.input.results)
timing = [pd.read_csv(path) for path in snakemake.input.timing]
sanity = [pd.read_csv(path).dropna(subset=["auroc"]).set_index("against")["auroc"] for path in snakemake.input.sanity]
sweeps = {Path(path).stem: pd.read_csv(path) for path in snakemake.input.sweeps}
evidence = claims.Evidence(
    table1=summary.table1(table).set_index("method"),
    tests=pd.read_csv(snakemake.input.tests, dtype={"scope": str}),
    results=table,
    by_target=summary.by_target(table),
    references=summary.reference_scores(pd.read_csv(snakemake.input.references)).set_index("kind"),
    timing=tables.table2(pd.concat(timing), snakemake.params.methods).set_index("method") if timing else pd.DataFrame(),
    auroc=sanity[0].to_dict() if sanity else {},
    **{name: sweeps[name].set_index(index) for name, index in claims.SWEEPS.items() if name in sweeps},
)
checked = claims.check_all(evidence)
tables.write(Path(snakemake.output[0]).with_suffix(""), checked, claims.as_table(checked))
log.info("%s", checked["result"].value_counts().to_dict())
