# Section 4.1, the data. Needs nothing; makes the raw files of each dataset and the pairs that every method is asked.


rule fetch:
    """Fetch a dataset from the first source that has it, and verify every file by SHA-256."""
    output:
        raw_files("{dataset}"),
    log:
        "<logs>/fetch/{dataset}.log",
    benchmark:
        "<benchmarks>/fetch/{dataset}.tsv"
    localrule: True
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=500,
        runtime=10,
    params:
        source=source("fetch.py"),
        sources=config["sources"],
    script:
        "../scripts/fetch.py"


rule pairs:
    """List a test set's (image, target) pairs: each image with every class but its own as target.

    In place of a test set, `validation` is the batch of validation images that the paper tuned its settings on.
    """
    input:
        data=raw_files(config["dataset"]),
    output:
        "<results>/pairs/{seed}.npz",
    log:
        "<logs>/pairs/{seed}.log",
    benchmark:
        "<benchmarks>/pairs/{seed}.tsv"
    localrule: True
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=1500,
        runtime=5,
    params:
        source=source("pairs.py"),
        dataset=config["dataset"],
        images=lambda wildcards: config[
            "validation_images" if wildcards.seed == sweeps.VALIDATION else "images_per_seed"
        ],
    script:
        "../scripts/pairs.py"


rule data:
    """Everything that is fetched rather than computed."""
    input:
        raw_files(config["dataset"]),
        raw_files(OUTLIERS),
