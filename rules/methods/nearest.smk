# The trivial baseline, beyond the paper: needs the training images and the plain classifier.


rule nearest:
    """Answer with the nearest training image of the target class."""
    input:
        pairs="<results>/pairs/{seed}/{part}.npz",
        data=raw_files(config["dataset"]),
        classifier="<results>/models/plain.safetensors",
        architecture="<results>/models/plain.json",
    output:
        shard=shard("nearest"),
    log:
        "<logs>/nearest/{seed}-{part}.log",
    benchmark:
        "<benchmarks>/nearest/{seed}-{part}.tsv"
    conda:
        "../../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=3000,
        runtime=30,
    params:
        source=source("run_nearest.py"),
        settings=settings("nearest"),
        dataset=config["dataset"],
    script:
        "../../scripts/run_nearest.py"


use rule nearest as time_nearest with:
    input:
        pairs=f"<results>/pairs/{SEEDS[0]}.npz",
        data=raw_files(config["dataset"]),
        classifier="<results>/models/plain.safetensors",
        architecture="<results>/models/plain.json",
    output:
        timing="<results>/timing/nearest.csv",
    log:
        "<logs>/timing/nearest.log",
    benchmark:
        "<benchmarks>/timing/nearest.tsv"
    threads: max(1, workflow.cores or 1)  # all of them: nothing may run beside a measurement
    params:
        source=source("run_nearest.py"),
        settings=settings("nearest"),
        dataset=config["dataset"],
        pairs=config["timing"]["pairs"],
        seed=SEEDS[0],
