# JSMA (section 4.2): needs the plain classifier.


rule jsma:
    """Change the pixels that matter most for the target's class."""
    input:
        pairs="<results>/pairs/{seed}/{part}.npz",
        classifier="<results>/models/plain.safetensors",
        architecture="<results>/models/plain.json",
    output:
        shard=shard("jsma"),
    log:
        "<logs>/{method}/{seed}-{part}.log",
    benchmark:
        "<benchmarks>/{method}/{seed}-{part}.tsv"
    conda:
        "../../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=grows(4000),
        runtime=grows(240),
        gpu=GPU,
    params:
        source=source("run_jsma.py"),
        settings=settings("jsma"),
    script:
        "../../scripts/run_jsma.py"


use rule jsma as time_jsma with:
    input:
        pairs=f"<results>/pairs/{SEEDS[0]}.npz",
        classifier="<results>/models/plain.safetensors",
        architecture="<results>/models/plain.json",
    output:
        timing="<results>/timing/jsma.csv",
    log:
        "<logs>/timing/jsma.log",
    benchmark:
        "<benchmarks>/timing/jsma.tsv"
    threads: ALL_CORES  # all of them: nothing may run beside a measurement
    params:
        source=source("run_jsma.py"),
        settings=settings("jsma"),
        pairs=config["timing"]["pairs"],
        seed=SEEDS[0],
