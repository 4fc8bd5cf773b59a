# The authors' own stored results (`--config published=CLONE`, a clone of github.com/benedikthoeltgen/DeDUCE). Needs the
# clone, makes a folder of artefacts of it. Nothing in the clone is ever executed.


rule import_published:
    """Read the authors' tensors and scores into shards of our own format, as they are."""
    input:
        [str(path) for path in sorted(Path(config["published"]).glob("_testset_results*/*"))],
        [str(path) for path in sorted(Path(config["published"]).glob("valset_batch/*"))],
    output:
        expand("<artifacts>/{name}", name=ARTIFACTS),
        manifest="<artifacts>/manifest.json",
        sums="<artifacts>/SHA256SUMS",
    log:
        "<logs>/import_published.log",
    benchmark:
        "<benchmarks>/import_published.tsv"
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        source=source("import_published.py"),
        clone=lambda wildcards: config["published"],
        config=EXPERIMENT,
        names=ARTIFACTS,
        sweeps=[sweep.as_dict() for sweep in SWEEPS.values()],
    script:
        "../scripts/import_published.py"
