"""Rule `calibrate`: how to split and size the searches of a config."""

from _job import log, snakemake

from pathlib import Path

from deduce.artifacts import save_csv, save_text
from deduce.calibration import Measurement, as_settings, proposal
from deduce.shards import Shard

inputs, params, outputs = snakemake.input, snakemake.params, snakemake.output
files = zip(params.settings.items(), inputs, params.logs, params.benchmarks, strict=True)
measured = {
    method: Measurement.of(Shard.load(shard), settings, Path(job_log), Path(benchmark))
    for (method, settings), shard, job_log, benchmark in files
}
table = proposal(measured, params.pairs)
save_csv(outputs.table, table)
save_text(outputs.settings, as_settings(table))
log.info("\n%s", table.to_string(index=False, float_format="{:.3g}".format))
log.info("%s:\n%s", outputs.settings, as_settings(table))
