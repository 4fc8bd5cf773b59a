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
    planned = {
        # By the path of its record in a run's folder, which is the same in all runs.
        str(Path(job.benchmark).relative_to(snakemake.params.benchmarks)): estimate.Job(
            job.rule.name,
            job.wildcards_dict,
            gpu=bool(job.resources.get("gpu")),
            classifier=Path(getattr(job.input, "classifier", "")).stem,
            requested_mb=job.resources.get("mem_mb"),
            requested_minutes=job.resources.get("runtime"),
        )
        for job in workflow._workflow.dag.jobs
        if job.benchmark
    }
logging.disable(logging.NOTSET)

runs = []
for folder in sorted(Path(name) for name in snakemake.params.runs):
    records = {path: folder / "benchmarks" / path for path in planned if (folder / "benchmarks" / path).exists()}
    jobs = [
        measured
        for path, record in records.items()
        for measured in estimate.read_benchmark(record, planned[path].rule, planned[path].wildcards)
    ]
    runs.append(estimate.Run(folder.name, load_json(folder / "config.json"), jobs))
if not any(run.jobs for run in runs):
    raise InputError("no past run to learn from: run a small experiment first, e.g. `snakemake --cores 2`.")

measured = estimate.measured(runs)
table = estimate.estimate(planned.values(), config, runs).sort_values("hours", ascending=False)
totals = estimate.totals(table)
unknown = ", ".join(table.loc[table["hours"].isna(), "rule"]) or "none"
guessed = ", ".join(table.loc[table["factor"] > estimate.TRUSTED, "rule"]) or "none"
page = f"""# What `{config["name"]}` will cost

- {len(planned)} jobs
- **{totals["gpu_hours"]:.2f} hours** of jobs that ask for a GPU
- **{totals["cpu_hours"]:.2f} hours** of the others
- {totals["longest_job_hours"]:.2f} hours for the longest single job
- **{totals["guessed_hours"]:.2f} of these hours are a guess**, over {estimate.TRUSTED} × a past job's work: {guessed}
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
