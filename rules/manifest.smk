# The checksums of this run's own artefacts. They make results/NAME itself a folder for `--config artifacts=FOLDER`.


rule manifest:
    """Seal the artefacts: SHA256SUMS, and a manifest of the config, versions, host and command."""
    input:
        stored("*"),
    output:
        sums="<results>/SHA256SUMS",
        manifest="<results>/manifest.json",
    log:
        "<logs>/manifest.log",
    benchmark:
        "<benchmarks>/manifest.tsv"
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        source=source("manifest.py"),
        config=EXPERIMENT,
        names=ARTIFACTS,
    script:
        "../scripts/manifest.py"
