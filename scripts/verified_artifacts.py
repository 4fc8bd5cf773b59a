"""Rule `verified_artifacts`: a copy of the artefacts, made only of files whose SHA-256 is the one listed."""

from _job import log, snakemake

from pathlib import Path

from deduce.evaluation.merge import stored

bundle = stored(snakemake.params.bundle)
bundle.extract(Path(snakemake.output.sums).parent)
log.info("%d files verified", len(bundle.sums))
for about in bundle.manifest.get("merged", [])[1:]:
    if not about["same_judges"]:
        log.warning("the realism of training seeds %s was judged by other models", about["training_seeds"])
