# Section 4.1, the data. Needs nothing; makes the raw files of each dataset and the pairs that every method answers.

from deduce.pairs import pair_choice


rule fetch:
    """Fetch the files of a dataset that are missing or damaged, and verify every file by SHA-256.

    The raw files are not declared as output, because Snakemake would delete them before each run of this rule. Their
    checksums identify them: neither other sources nor other code fetch them again.
    """
    output:
        local("<data>/{dataset}/SHA256SUMS"),
    log:
        "<logs>/fetch/{dataset}.log",
    localrule: True
    conda:
        "../envs/core.yaml"
    script:
        "../scripts/fetch.py"


rule pairs:
    """List (image, target) pairs: each image with every class but its own as target.

    `{seed}` is the number of a test set, `validation` (the batch of validation images that the paper tuned its settings
    on), `timed` or `sampleN` (some pairs of the first test set). The rule `part` lists one job's share of them.
    """
    input:
        data=raw_data(config["dataset"]),
    output:
        "<results>/pairs/{seed}.npz",
    log:
        "<logs>/pairs/{seed}.log",
    localrule: True
    conda:
        "../envs/core.yaml"
    params:
        source=source("pairs.py"),
        dataset=config["dataset"],
        choice=lambda wildcards: pair_choice(wildcards.seed, config),
        share=(0, 1),
    script:
        "../scripts/pairs.py"


use rule pairs as part with:
    output:
        "<results>/pairs/{seed}/{part}.npz",
    log:
        "<logs>/part/{seed}-{part}.log",
    localrule: True
    params:
        share=lambda wildcards: (int(wildcards.part), len(EXPERIMENT.parts_of(wildcards.seed))),


rule data:
    """Everything that is fetched rather than computed."""
    input:
        [raw_data(name) for name in EXPERIMENT.judged],
