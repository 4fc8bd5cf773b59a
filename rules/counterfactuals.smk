# Section 4.3, the counterfactuals. Needs the pairs and each method's shards (rules/methods/); makes one validated file per
# method and set of pairs, whoever wrote the shards and however the work was split.


rule validated:
    """Check a method's shards against the contract and join them: nothing downstream reads an unchecked row."""
    input:
        pairs="<results>/pairs/{seed}.npz",
        parts=each_part("<results>/pairs/{job.seed}/{part}.npz"),
        shards=each_part("<results>/shards/{job.method}/{job.seed}/{part}.npz"),
    output:
        "<results>/counterfactuals/{method}/{seed}.npz",
    log:
        "<logs>/validated/{method}-{seed}.log",
    localrule: True
    conda:
        "../envs/core.yaml"
    params:
        source=source("validated.py"),
    script:
        "../scripts/validated.py"


rule counterfactuals:
    """Every method's counterfactuals for every test set."""
    input:
        artifacts("counterfactuals"),
