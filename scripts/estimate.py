"""Rule `estimate`: what the configured experiment will cost, from the benchmark files of past runs."""

from _job import job

log = job(snakemake)

import logging
from pathlib import Path

from snakemake.api import SnakemakeApi
from snakemake.settings.types import ConfigSettings, DAGSettings, OutputSettings, ResourceSettings

from deduce import estimate
from deduce.artifacts import atomic, load_json
from deduce.errors import InputError

config = snakemake.params.config

# The jobs that a run from nothing would have: a dry run in this process.
logging.disable(logging.CRITICAL)
with SnakemakeApi(OutputSettings(dryrun=True)) as api:
    workflow = api.workflow(
        resource_settings=ResourceSettings(cores=1),
        config_settings=ConfigSettings(config=config),
        snakefile=Path(snakemake.params.snakefile),
    )
    workflow.dag(dag_settings=DAGSettings(targets={"all"}, forceall=True)).execute_workflow(executor="dryrun")
    planned = [
        estimate.Job(
            planned.rule.name,
            planned.wildcards_dict,
            gpu=bool(planned.resources.get("gpu")),
            requested_mb=planned.resources.get("mem_mb"),
            requested_minutes=planned.resources.get("runtime"),
        )
        for planned in workflow._workflow.dag.jobs
        if planned.output
    ]
logging.disable(logging.NOTSET)

runs = []
for folder in sorted(Path(name) for name in snakemake.params.runs):
    jobs = [job for path in sorted(folder.glob("benchmarks/**/*.tsv")) for job in estimate.read_benchmark(path)]
    runs.append(estimate.Run(folder.name, load_json(folder / "config.json"), jobs))
if not any(run.jobs for run in runs):
    raise InputError("no past run to learn from: run a small experiment first, e.g. `snakemake --cores 2`.")

measured = estimate.measured(runs)
table = estimate.estimate(planned, config, runs).sort_values("hours", ascending=False)
totals = estimate.totals(table)
unknown = ", ".join(table.loc[table["hours"].isna(), "rule"]) or "none"
page = f"""# What `{config["name"]}` will cost

- {len(planned)} jobs
- **{totals["gpu_hours"]:.2f} hours** of jobs that ask for a GPU
- **{totals["cpu_hours"]:.2f} hours** of the others
- {totals["longest_job_hours"]:.2f} hours for the longest single job
- not known, because no past run has them: {unknown}

{table.to_markdown(index=False, floatfmt=".3g", missingval="?")}

## Assumptions
{estimate.ASSUMPTIONS}

## What was measured
{measured.to_markdown(index=False, floatfmt=".3g")}
"""
for path, text in zip(snakemake.output, (page, table.to_csv(index=False), measured.to_csv(index=False)), strict=True):
    with atomic(path) as temporary:
        temporary.write_text(text)
log.info("\n%s", page)
