"""Rule `pack`: the sealed artefacts as one file."""

from _job import log, snakemake

from pathlib import Path

from deduce.evaluation import bundle

bundle.pack(Path(snakemake.input.sums).parent, snakemake.output[0])
log.info("%s: %d bytes", snakemake.output[0], Path(snakemake.output[0]).stat().st_size)
