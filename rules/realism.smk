# Section 4.1, realism. Needs counterfactuals and models; makes the scores of every counterfactual, of the originals and of
# their reconstructions, and AnoGAN scores (equation 7) of whole datasets, with which the evaluation checks that score.

import re

from deduce.evaluation.metrics import EXPLAINED, JUDGES, RETRAINED, SCORER_MODULES
from deduce.experiment import REFERENCES

JUDGE_MODULES = {model.module for name, model in models.REGISTRY.items() if name in JUDGES or model.classifies}
SCORED = [point.variant for sweep in EXPERIMENT.sweeps.values() if sweep.scored for point in sweep.points]
SCORER_SETTINGS = {name: value for name, value in config["realism"].items() if isinstance(value, dict)}


def judges_of(wildcards):
    """The weights of the models that judge a method, by role: those of all methods, and the classifier it explains."""
    of_training = wildcards.method in EXPERIMENT.replicates  # the points of a sweep all have the same judges
    files = model_files(*JUDGES, user=variant_of("density", wildcards) if of_training else "density")
    if "classifier" in EXPERIMENT.settings(wildcards.method):
        files[EXPLAINED] = model_file("classifier", wildcards.method)
        if other := EXPERIMENT.retrained(wildcards.method):
            files[RETRAINED] = f"<results>/models/{other}.safetensors"
    return files


rule realism_scores:
    """Score the realism of a method's counterfactuals for one test set.

    Judges that are replicated are those of the replicate's own training: each replicate stands for a whole experiment.
    """
    input:
        unpack(judges_of),
        data=raw_data(config["dataset"]),
        pairs="<results>/pairs/{seed}.npz",
        shard="<results>/counterfactuals/{method}/{seed}.npz",
    output:
        "<results>/realism/{method}/{seed}.npz",
    log:
        "<logs>/realism_scores/{method}-{seed}.log",
    benchmark:
        "<benchmarks>/realism_scores/{method}-{seed}.tsv"
    wildcard_constraints:
        method="|".join(map(re.escape, [*EXPERIMENT.replicates, *SCORED])),
    conda:
        "../envs/core.yaml"
    resources:
        mem_mb=grows(2000),
        runtime=grows(240),
        gpu=GPU,
    params:
        source=source("score_realism.py", *SCORER_MODULES, *JUDGE_MODULES),
        dataset=config["dataset"],
        settings=SCORER_SETTINGS,
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
        settings=SCORER_SETTINGS,
        images=config["realism"]["sanity_images"],
    script:
        "../scripts/score_dataset.py"


rule realism:
    """The scores of all images, and of the datasets that the AnoGAN score is checked with."""
    input:
        artifacts("realism", "sanity"),
