# Tables and figures from stored artefacts (`--config artifacts=FOLDER`, or the packed file). Needs the folder, makes a
# verified copy of it; no rule of this mode can train or generate anything.


rule verified_artifacts:
    """Copy the artefacts in, each file only if its SHA-256 is the one listed."""
    input:
        STORED.files(),
    output:
        expand("<artifacts>/{name}", name=ARTIFACTS),
        manifest="<artifacts>/manifest.json",
        sums="<artifacts>/SHA256SUMS",
    log:
        "<logs>/verified_artifacts.log",
    benchmark:
        "<benchmarks>/verified_artifacts.tsv"
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=30,
    params:
        source=source("verified_artifacts.py"),
        bundle=lambda wildcards: config["artifacts"],
    script:
        "../scripts/verified_artifacts.py"


if stored("tables/*"):

    rule stored_tables:
        """Put the stored tables, which nothing here can make again, beside those that are made."""
        input:
            stored("tables/*"),
        output:
            [file.replace("<artifacts>", "<results>") for file in stored("tables/*")],
        log:
            "<logs>/stored_tables.log",
        benchmark:
            "<benchmarks>/stored_tables.tsv"
        conda:
            "../envs/core.yaml"
        threads: 1
        resources:
            mem_mb=500,
            runtime=5,
        params:
            folder=lambda wildcards, output: Path(output[0]).parent,
        shell:
            "cp {input:q} {params.folder:q} 2> {log:q}"
