# Section 4.3, the counterfactuals. Needs the pairs and each method's shards (rules/methods/); makes one validated file
# per method and test set, whoever wrote the shards and however the work was split.


rule part:
    """Cut one job's share out of a test set's pairs."""
    input:
        "<results>/pairs/{seed}.npz",
    output:
        "<results>/pairs/{seed}/{part}.npz",
    log:
        "<logs>/part/{seed}-{part}.log",
    benchmark:
        "<benchmarks>/part/{seed}-{part}.tsv"
    localrule: True
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=500,
        runtime=5,
    params:
        source=source("part.py"),
        parts=len(PARTS),
    script:
        "../scripts/part.py"


rule validated:
    """Check a method's shards against the contract and join them: nothing downstream reads an unchecked row."""
    input:
        pairs="<results>/pairs/{seed}.npz",
        parts=expand("<results>/pairs/{{seed}}/{part}.npz", part=PARTS),
        shards=expand("<results>/shards/{{method}}/{{seed}}/{part}.npz", part=PARTS),
    output:
        "<results>/counterfactuals/{method}/{seed}.npz",
    log:
        "<logs>/validated/{method}-{seed}.log",
    benchmark:
        "<benchmarks>/validated/{method}-{seed}.tsv"
    localrule: True
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=5,
    params:
        source=source("validated.py"),
    script:
        "../scripts/validated.py"


rule counterfactuals:
    """Every method's counterfactuals for every test set."""
    input:
        expand("<results>/counterfactuals/{method}/{seed}.npz", method=METHODS, seed=SEEDS),
