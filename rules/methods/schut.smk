# Schut et al. (section 2): explains an ensemble, not the classifier of the other methods. One job trains one member.


rule ensemble_member:
    """Train one member of the ensemble, or of a variant of it."""
    input:
        data=raw_data(config["dataset"]),
    output:
        weights="<results>/models/{model}/{member}.safetensors",
        architecture="<results>/models/{model}/{member}.json",
        record="<results>/models/{model}/{member}.csv",
    log:
        "<logs>/models/{model}/{member}.log",
    benchmark:
        "<benchmarks>/train/{model}/{member}.tsv"
    wildcard_constraints:
        model="ensemble(@[^/]+)?",
        member=r"\d+",
    conda:
        "../../envs/core.yaml"
    resources:
        mem_mb=grows(4000),
        runtime=grows(720),
        gpu=GPU,
    params:
        source=source("train.py", "deduce.models.ensemble"),
        dataset=config["dataset"],
        seed=lambda wildcards: 1000 * EXPERIMENT.training_seed(wildcards.model) + int(wildcards.member),
        settings=lambda wildcards: EXPERIMENT.settings(wildcards.model) | {"members": 1},
        accelerator=config["accelerator"],
    script:
        "../../scripts/train.py"


ruleorder: ensemble > train


rule ensemble:
    """Put the members into one file."""
    input:
        lambda wildcards: expand(
            "<results>/models/{model}/{member}.safetensors",
            model=wildcards.model,
            member=range(1, EXPERIMENT.settings(wildcards.model)["members"] + 1),
        ),
    output:
        weights="<results>/models/{model}.safetensors",
        architecture="<results>/models/{model}.json",
        record="<results>/models/{model}.csv",
    log:
        "<logs>/models/{model}.log",
    wildcard_constraints:
        model="ensemble(@[^/]+)?",
    conda:
        "../../envs/core.yaml"
    resources:
        mem_mb=grows(2000),
    params:
        source=source("ensemble.py"),
    script:
        "../../scripts/ensemble.py"


use rule search as schut with:
    input:
        unpack(confirming),
        pairs="<results>/pairs/{seed}/{part}.npz",
        classifier=model("ensemble"),
    output:
        shard("schut"),
    params:
        source=source("run_method.py", "deduce.methods.schut"),
        settings=settings("schut"),


rule uncertainty:
    """How sure the ensemble is of each method's counterfactuals, and of their originals."""
    input:
        pairs=artifacts("pairs"),
        shards=artifacts("counterfactuals"),
        ensemble="<results>/models/ensemble.safetensors",
    output:
        table="<results>/tables/uncertainty.csv",
        texts=multiext("<results>/tables/uncertainty", ".md", ".tex", ".json"),
    log:
        "<logs>/uncertainty.log",
    conda:
        "../../envs/core.yaml"
    resources:
        mem_mb=grows(2000),
    params:
        source=source("uncertainty.py"),
    script:
        "../../scripts/uncertainty.py"
