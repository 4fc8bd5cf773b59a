"""Rule `manifest`: checksums of a run's artefacts, and what made them."""

import os
from pathlib import Path

from _job import job

log = job(snakemake)

from importlib import metadata

from deduce.evaluation import bundle
from deduce.provenance import versions

installed = {distribution.metadata["Name"].lower() for distribution in metadata.distributions()}
used = [name for name in ("numpy", "pandas", "scipy", "torch", "torchvision", "snakemake") if name in installed]
about = bundle.describe(snakemake.params.config, os.environ.get("DEDUCE_COMMAND", ""), versions(*used))
bundle.seal(Path(snakemake.output.sums).parent, snakemake.params.names, about)
log.info("%d files sealed", len(snakemake.params.names))
