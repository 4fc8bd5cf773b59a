# Section 4.1, the models. Needs the data; makes the weights of any model of the registry (deduce/models/__init__.py), or of
# a variant of one, with its architecture and its training record beside them.


rule train:
    """Train a model: `ddu` as the config has it, `ddu@width=16` with another width."""
    input:
        unpack(needed_models),
        data=raw_data(config["dataset"]),
    output:
        weights="<results>/models/{model}.safetensors",
        architecture="<results>/models/{model}.json",
        record="<results>/models/{model}.csv",
    log:
        "<logs>/models/{model}.log",
    benchmark:
        "<benchmarks>/train/{model}.tsv"
    wildcard_constraints:
        model=rf"({'|'.join(models.REGISTRY)})(@[^/]+)?",
    conda:
        "../envs/core.yaml"
    resources:
        mem_mb=grows(4000),
        runtime=grows(720),
        gpu=GPU,
    params:
        source=lambda wildcards: source("train.py", models.REGISTRY[base(wildcards.model)].module),
        dataset=config["dataset"],
        seed=lambda wildcards: EXPERIMENT.training_seed(wildcards.model),
        settings=lambda wildcards: EXPERIMENT.settings(wildcards.model),
        accelerator=config["accelerator"],
    script:
        "../scripts/train.py"


rule models:
    """Every model, and how good it is."""
    input:
        expand("<results>/models/{model}.safetensors", model=models.of_every_run()),
        "<results>/models/card.csv",
