# Section 4.1, realism. Needs counterfactuals and models; makes AnoGAN scores (equation 7) of every counterfactual, of
# the originals and of their reconstructions, second opinions beside them, and the check that the score works.

JUDGES = {
    "wgan": "<results>/models/wgan.safetensors",
    "class_autoencoders": "<results>/models/class_autoencoders.safetensors",
    "ddu": "<results>/models/ddu.safetensors",
    "density": "<results>/models/density.safetensors",
}
REFERENCES = ["original", "reconstruction"]  # no method may be called so
EMNIST = config["realism"]["emnist_folder"]
JUDGED = [config["dataset"], OUTLIERS, *(["emnist_letters"] if EMNIST else [])]


rule class_autoencoders:
    """Train one small autoencoder per class and one of all, for the scores IM1 and IM2 (beyond the paper)."""
    input:
        data=raw_files(config["dataset"]),
    output:
        weights="<results>/models/class_autoencoders.safetensors",
        architecture="<results>/models/class_autoencoders.json",
        record="<results>/models/class_autoencoders.csv",
    log:
        "<logs>/models/class_autoencoders.log",
    benchmark:
        "<benchmarks>/models/class_autoencoders.tsv"
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=grows(3000),
        runtime=grows(60),
        gpu=GPU,
    params:
        source=source("train_class_autoencoders.py"),
        dataset=config["dataset"],
        seed=config["training_seed"],
        settings=config["class_autoencoders"],
    script:
        "../scripts/train_class_autoencoders.py"


rule realism_scores:
    """Score the realism of a method's counterfactuals for one test set."""
    input:
        **JUDGES,
        shard="<results>/counterfactuals/{method}/{seed}.npz",
    output:
        "<results>/realism/{method}/{seed}.npz",
    log:
        "<logs>/realism/{method}-{seed}.log",
    benchmark:
        "<benchmarks>/realism/{method}-{seed}.tsv"
    wildcard_constraints:
        method="|".join(METHODS),
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=grows(2000),
        runtime=grows(240),
        gpu=GPU,
    params:
        source=source("score_realism.py"),
        settings=config["realism"]["anogan"],
    script:
        "../scripts/score_realism.py"


rule reference_scores:
    """Score the realism of the original images of one test set, or of what the VAE makes of them."""
    input:
        **JUDGES,
        pairs="<results>/pairs/{seed}.npz",
        vae="<results>/models/vae.safetensors",
    output:
        "<results>/realism/{kind}/{seed}.npz",
    log:
        "<logs>/realism/{kind}-{seed}.log",
    benchmark:
        "<benchmarks>/realism/{kind}-{seed}.tsv"
    wildcard_constraints:
        kind="|".join(REFERENCES),
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=grows(2000),
        runtime=grows(60),
        gpu=GPU,
    params:
        source=source("score_realism.py"),
        settings=config["realism"]["anogan"],
    script:
        "../scripts/score_realism.py"


rule sanity_scores:
    """Score images of the dataset, or of one that is surely different."""
    input:
        data=lambda wildcards: raw_files(wildcards.judged) if wildcards.judged in (config["dataset"], OUTLIERS) else [],
        wgan=JUDGES["wgan"],
    output:
        "<results>/sanity/{judged}.npz",
    log:
        "<logs>/sanity/{judged}.log",
    benchmark:
        "<benchmarks>/sanity/{judged}.tsv"
    wildcard_constraints:
        judged="|".join(JUDGED),
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=grows(2000),
        runtime=grows(1440),
        gpu=GPU,
    params:
        source=source("score_dataset.py"),
        settings=config["realism"]["anogan"],
        images=config["realism"]["sanity_images"],
        folder=EMNIST,
    script:
        "../scripts/score_dataset.py"


rule sanity_checks:
    """Tabulate and draw how well the AnoGAN score tells the dataset from others."""
    input:
        expand("<results>/sanity/{judged}.npz", judged=JUDGED),
    output:
        csv=report(
            "<results>/tables/sanity.csv",
            caption="../report/realism.rst",
            category="Realism",
            labels={"what": "sanity checks"},
        ),
        markdown="<results>/tables/sanity.md",
        figures=[
            report(
                "<results>/figures/sanity_roc.png",
                caption="../report/realism.rst",
                category="Realism",
                labels={"what": "sanity checks, ROC"},
            ),
            "<results>/figures/sanity_roc.pdf",
        ],
    log:
        "<logs>/sanity_checks.log",
    benchmark:
        "<benchmarks>/sanity_checks.tsv"
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=5,
    params:
        source=source("sanity_checks.py"),
        dataset=config["dataset"],
        absent=[] if EMNIST else ["emnist_letters"],
        samples=config["realism"]["bootstrap_samples"],
    script:
        "../scripts/sanity_checks.py"


rule realism:
    """Scores of everything, and the check of the score."""
    input:
        expand("<results>/realism/{scored}/{seed}.npz", scored=[*METHODS, *REFERENCES], seed=SEEDS),
        rules.sanity_checks.output,
