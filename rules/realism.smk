# Section 4.1, realism. Needs counterfactuals and models; makes the scores of every counterfactual, of the originals and of
# their reconstructions, and AnoGAN scores (equation 7) of whole datasets, with which the evaluation checks that score.

from deduce.evaluation.metrics import JUDGES, METRICS, SCORER_MODULES
from deduce.experiment import REFERENCES
from deduce.variants import searched

JUDGE_MODULES = {model.module for name, model in models.REGISTRY.items() if name in JUDGES or model.classifies}


rule realism_scores:
    """Score the realism of a method's counterfactuals for one test set.

    Judges that are replicated are those of the replicate's own training: each replicate stands for a whole experiment.
    """
    input:
        unpack(
            lambda wildcards: {
                role: f"<results>/models/{name}.safetensors"
                for role, name in EXPERIMENT.judges_of(wildcards.method, wildcards.seed).items()
            }
        ),
        data=raw_data(config["dataset"]),
        pairs="<results>/pairs/{seed}.npz",
        shard=lambda wildcards: f"<results>/counterfactuals/{searched(wildcards.method)}/{wildcards.seed}.npz",
    output:
        "<results>/realism/{method}/{seed}.npz",
    log:
        "<logs>/realism_scores/{method}-{seed}.log",
    benchmark:
        "<benchmarks>/realism_scores/{method}-{seed}.tsv"
    wildcard_constraints:
        method=rf"({'|'.join(EXPERIMENT.used_methods)})(@[^/]+)?",
    conda:
        "../envs/core.yaml"
    resources:
        mem_mb=grows(2000),
        runtime=grows(240),
        gpu=GPU,
    params:
        source=source("score_realism.py", *SCORER_MODULES, *JUDGE_MODULES),
        dataset=config["dataset"],
        scores=lambda wildcards: EXPERIMENT.scores(wildcards.method, wildcards.seed),
        settings=lambda wildcards: EXPERIMENT.scorer_settings(wildcards.method),
        accelerator=config["accelerator"],
    script:
        "../scripts/score_realism.py"


use rule realism_scores as reference_scores with:
    # The originals and their reconstructions share a job and its blocks of descents: there are few of them.
    input:
        **model_files(*JUDGES, "vae"),
        data=raw_data(config["dataset"]),
        pairs="<results>/pairs/{seed}.npz",
    output:
        expand("<results>/realism/{kind}/{{seed}}.npz", kind=REFERENCES),
    log:
        "<logs>/reference_scores/{seed}.log",
    benchmark:
        "<benchmarks>/reference_scores/{seed}.tsv"
    params:
        source=source("score_realism.py", *SCORER_MODULES, *JUDGE_MODULES),
        dataset=config["dataset"],
        scores=[name for name, metric in METRICS.items() if metric.scorer],
        settings=EXPERIMENT.scorer_settings(),
        accelerator=config["accelerator"],


rule sanity_scores:
    """Score images of the experiment's dataset, or of a dataset whose images surely do not belong to it."""
    input:
        **model_files("wgan"),
        data=lambda wildcards: raw_data(wildcards.judged),
    output:
        "<results>/sanity/{judged}.npz",
    log:
        "<logs>/sanity_scores/{judged}.log",
    benchmark:
        "<benchmarks>/sanity_scores/{judged}.tsv"
    conda:
        "../envs/core.yaml"
    resources:
        mem_mb=grows(2000),
        runtime=grows(1440),
        gpu=GPU,
    params:
        source=source("score_dataset.py"),
        settings=EXPERIMENT.scorer_settings(),
        accelerator=config["accelerator"],
        images=config["realism"]["sanity_images"],
    script:
        "../scripts/score_dataset.py"


rule realism:
    """The scores of all images, and of the datasets that the AnoGAN score is checked with."""
    input:
        artifacts("realism", "sanity"),
