# Tables and figures from stored artefacts (`--config artifacts=FOLDER`, or the packed file, or several as `artifacts=[A,B]`).
# Needs the folder, makes a verified copy of it; no rule of this mode can train or generate anything.

from deduce.evaluation.merge import stored


rule verified_artifacts:
    """Copy the artefacts, each file only if its SHA-256 is the one listed."""
    input:
        stored(EXPERIMENT.origin).files(),
    output:
        expand("<artifacts>/{name}", name=EXPERIMENT.artifact_names),
        manifest="<artifacts>/manifest.json",
        sums="<artifacts>/SHA256SUMS",
    log:
        "<logs>/verified_artifacts.log",
    conda:
        "../envs/core.yaml"
    params:
        source=source("verified_artifacts.py"),
        bundle=lambda wildcards: EXPERIMENT.origin,
    script:
        "../scripts/verified_artifacts.py"
