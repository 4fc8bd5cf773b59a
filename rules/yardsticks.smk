# Real images as a yardstick (docs/metrics.md). Needs oracles, the data and all counterfactuals, of a run or stored ones;
# makes the methods' distances to real images of the target class, and how real images of two classes differ.


rule yardsticks:
    """Compare each method's counterfactuals with real images, as sets."""
    input:
        oracles="<results>/models/oracles.safetensors",
        data=raw_data(EXPERIMENT.dataset.name),
        pairs=artifacts("pairs"),
        counterfactuals=artifacts("counterfactuals"),
    output:
        distances="<artifacts>/realism/frechet.csv",
        changes="<artifacts>/realism/natural_changes.csv",
    log:
        "<logs>/yardsticks.log",
    benchmark:
        "<benchmarks>/yardsticks/yardsticks.tsv"
    conda:
        "../envs/core.yaml"
    resources:
        mem_mb=grows(3000),
        runtime=grows(60),
        gpu=GPU,
    params:
        source=source("yardsticks.py", "deduce.models.oracles"),
        dataset=EXPERIMENT.dataset.name,
        trainings=EXPERIMENT.trainings,
    script:
        "../scripts/yardsticks.py"
