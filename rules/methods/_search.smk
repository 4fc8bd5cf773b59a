# What the rules of all library methods share. A method's own file names only its inputs and its settings.


rule search:
    """Answer one job's pairs by a method of the library. A template for the rules in this folder."""
    input:
        pairs="<results>/pairs/{seed}/{part}.npz",
    output:
        shard("search"),
    log:
        "<logs>/{method}/{seed}-{part}.log",
    benchmark:
        "<benchmarks>/{method}/{seed}-{part}.tsv"
    conda:
        "../../envs/core.yaml"
    threads: alone
    resources:
        mem_mb=grows(4000),
        runtime=grows(1440),
        gpu=GPU,
    params:
        models=used_models,
        dataset=config["dataset"],
        accelerator=config["accelerator"],
    script:
        "../../scripts/run_method.py"
