# DeDUCE (section 3, algorithm 1): needs the spectrally normalised classifier and its class densities.


rule deduce:
    """Change the pixels that matter most for the target's class and its density."""
    input:
        pairs="<results>/pairs/{seed}/{part}.npz",
        classifier=model("ddu", ".safetensors"),
        architecture=model("ddu", ".json"),
        densities=model("density", ".safetensors"),
        densities_architecture=model("density", ".json"),
    output:
        shard=shard("deduce"),
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
        source=source("run_deduce.py"),
        settings=settings("deduce"),
    script:
        "../../scripts/run_deduce.py"


use rule deduce as time_deduce with:
    input:
        pairs=f"<results>/pairs/{SEEDS[0]}.npz",
        classifier="<results>/models/ddu.safetensors",
        architecture="<results>/models/ddu.json",
        densities="<results>/models/density.safetensors",
        densities_architecture="<results>/models/density.json",
    output:
        timing="<results>/timing/deduce.csv",
    log:
        "<logs>/timing/deduce.log",
    benchmark:
        "<benchmarks>/timing/deduce.tsv"
    threads: ALL_CORES  # all of them: nothing may run beside a measurement
    params:
        source=source("run_deduce.py"),
        settings=settings("deduce"),
        pairs=config["timing"]["pairs"],
        seed=SEEDS[0],


rule feature_map:
    """Figure 2's data: two classes in feature space, their Gaussians, and the path of one counterfactual."""
    input:
        data=raw_files(config["dataset"]),
        pairs=f"<results>/pairs/{SEEDS[0]}.npz",
        shard=f"<results>/counterfactuals/deduce/{SEEDS[0]}.npz",
        classifier="<results>/models/ddu.safetensors",
        architecture="<results>/models/ddu.json",
        densities="<results>/models/density.safetensors",
        densities_architecture="<results>/models/density.json",
    output:
        "<results>/features.npz",
    log:
        "<logs>/feature_map.log",
    benchmark:
        "<benchmarks>/feature_map.tsv"
    conda:
        "../../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        source=source("feature_map.py"),
        dataset=config["dataset"],
    script:
        "../../scripts/feature_map.py"
