# The trivial baseline, beyond the paper: needs the training images and the plain classifier.


rule nearest_image:
    """Answer with the nearest training image of the target class."""
    input:
        pairs="<results>/pairs/{seed}/{part}.npz",
        data=raw_files(config["dataset"]),
        classifier="<results>/models/plain.safetensors",
        architecture="<results>/models/plain.json",
    output:
        shard=shard("nearest_image"),
    log:
        "<logs>/{method}/{seed}-{part}.log",
    benchmark:
        "<benchmarks>/{method}/{seed}-{part}.tsv"
    conda:
        "../../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=grows(3000),
        runtime=grows(30),
        gpu=GPU,
    params:
        source=source("run_nearest_image.py"),
        settings=settings("nearest_image"),
        dataset=config["dataset"],
    script:
        "../../scripts/run_nearest_image.py"


use rule nearest_image as time_nearest_image with:
    input:
        pairs=f"<results>/pairs/{SEEDS[0]}.npz",
        data=raw_files(config["dataset"]),
        classifier="<results>/models/plain.safetensors",
        architecture="<results>/models/plain.json",
    output:
        timing="<results>/timing/nearest_image.csv",
    log:
        "<logs>/timing/nearest_image.log",
    benchmark:
        "<benchmarks>/timing/nearest_image.tsv"
    threads: ALL_CORES  # all of them: nothing may run beside a measurement
    params:
        source=source("run_nearest_image.py"),
        settings=settings("nearest_image"),
        dataset=config["dataset"],
        pairs=config["timing"]["pairs"],
        seed=SEEDS[0],
