"""Rule `verified_artifacts`: a copy of the artefacts, made only of files whose SHA-256 is the one listed."""

from _job import log, snakemake

from pathlib import Path

from deduce.evaluation.bundle import Bundle

stored = Bundle(snakemake.params.bundle)
stored.extract(Path(snakemake.output.sums).parent)
log.info("%d files verified", len(stored.sums))
