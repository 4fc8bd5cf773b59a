"""Rule `manifest`: checksums of a run's artefacts, and what made them."""

from _job import log, snakemake

from pathlib import Path

from deduce.evaluation import bundle

packages = ("numpy", "pandas", "scipy", "torch", "torchvision", "snakemake")
manifest = bundle.describe(snakemake.params.config, *packages)
bundle.seal(Path(snakemake.output.sums).parent, snakemake.params.names, manifest)
log.info("%d files sealed", len(snakemake.params.names))
