# Section 4.1, the models. Needs the data; makes the weights, with architecture and training record beside them, the
# table that says how good they are, and the pictures that show it.


wildcard_constraints:
    classifier=r"ddu(-c\d+(\.\d+)?)?|plain",
    coefficient=r"(-c\d+(\.\d+)?)?",


rule classifier:
    """Train a classifier: `ddu` is spectrally normalised, `plain` is for the baselines, `ddu-c3` has c = 3."""
    input:
        data=raw_files(config["dataset"]),
    output:
        weights="<results>/models/{classifier}.safetensors",
        architecture="<results>/models/{classifier}.json",
        record="<results>/models/{classifier}.csv",
    log:
        "<logs>/models/{classifier}.log",
    benchmark:
        "<benchmarks>/models/{classifier}.tsv"
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=grows(3000),
        runtime=grows(720),
        gpu=GPU,
    params:
        source=source("train_classifier.py"),
        dataset=config["dataset"],
        seed=config["training_seed"],
        settings=lambda wildcards: classifier_settings(wildcards.classifier),
    script:
        "../scripts/train_classifier.py"


rule density:
    """Fit one Gaussian per class on the features of the training images."""
    input:
        data=raw_files(config["dataset"]),
        classifier="<results>/models/ddu{coefficient}.safetensors",
        architecture="<results>/models/ddu{coefficient}.json",
    output:
        weights="<results>/models/density{coefficient}.safetensors",
        architecture="<results>/models/density{coefficient}.json",
    log:
        "<logs>/models/density{coefficient}.log",
    benchmark:
        "<benchmarks>/models/density{coefficient}.tsv"
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=grows(3000),
        runtime=grows(60),
        gpu=GPU,
    params:
        source=source("fit_density.py"),
        dataset=config["dataset"],
        settings=config["density"],
    script:
        "../scripts/fit_density.py"


rule vae:
    """Train the variational autoencoder in whose latent space REVISE searches."""
    input:
        data=raw_files(config["dataset"]),
    output:
        weights="<results>/models/vae.safetensors",
        architecture="<results>/models/vae.json",
        record="<results>/models/vae.csv",
    log:
        "<logs>/models/vae.log",
    benchmark:
        "<benchmarks>/models/vae.tsv"
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=grows(4000),
        runtime=grows(240),
        gpu=GPU,
    params:
        source=source("train_vae.py"),
        dataset=config["dataset"],
        seed=config["training_seed"],
        settings=config["vae"],
    script:
        "../scripts/train_vae.py"


rule autoencoder:
    """Train the autoencoder of VLK."""
    input:
        data=raw_files(config["dataset"]),
    output:
        weights="<results>/models/autoencoder.safetensors",
        architecture="<results>/models/autoencoder.json",
        record="<results>/models/autoencoder.csv",
    log:
        "<logs>/models/autoencoder.log",
    benchmark:
        "<benchmarks>/models/autoencoder.tsv"
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=grows(3000),
        runtime=grows(240),
        gpu=GPU,
    params:
        source=source("train_autoencoder.py"),
        dataset=config["dataset"],
        seed=config["training_seed"],
        settings=config["autoencoder"],
    script:
        "../scripts/train_autoencoder.py"


rule wgan:
    """Train the generator and the critic of the AnoGAN score."""
    input:
        data=raw_files(config["dataset"]),
    output:
        weights="<results>/models/wgan.safetensors",
        architecture="<results>/models/wgan.json",
        record="<results>/models/wgan.csv",
    log:
        "<logs>/models/wgan.log",
    benchmark:
        "<benchmarks>/models/wgan.tsv"
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=grows(3000),
        runtime=grows(720),
        gpu=GPU,
    params:
        source=source("train_wgan.py"),
        dataset=config["dataset"],
        seed=config["training_seed"],
        settings=config["wgan"],
    script:
        "../scripts/train_wgan.py"


rule model_card:
    """Measure the models: accuracy, outlier detection, spectral norms, reconstruction errors, sample statistics."""
    input:
        data=raw_files(config["dataset"]),
        outliers=raw_files(OUTLIERS),
        ddu="<results>/models/ddu.safetensors",
        density="<results>/models/density.safetensors",
        plain="<results>/models/plain.safetensors",
        vae="<results>/models/vae.safetensors",
        autoencoder="<results>/models/autoencoder.safetensors",
        wgan="<results>/models/wgan.safetensors",
    output:
        report(
            "<results>/tables/model_card.csv",
            caption="../report/models.rst",
            category="Models",
            labels={"what": "model card"},
        ),
    log:
        "<logs>/model_card.log",
    benchmark:
        "<benchmarks>/model_card.tsv"
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=3000,
        runtime=30,
    params:
        source=source("model_card.py"),
        dataset=config["dataset"],
        outliers=OUTLIERS,
    script:
        "../scripts/model_card.py"


rule training_figure:
    """Draw the training records."""
    input:
        expand("<results>/models/{model}.csv", model=["ddu", "plain", "vae", "autoencoder", "wgan"]),
    output:
        report(
            "<results>/figures/training.png",
            caption="../report/models.rst",
            category="Models",
            labels={"what": "training curves"},
        ),
        "<results>/figures/training.pdf",
    log:
        "<logs>/training_figure.log",
    benchmark:
        "<benchmarks>/training_figure.tsv"
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=5,
    params:
        source=source("training_figure.py"),
    script:
        "../scripts/training_figure.py"


rule generative_figures:
    """Show samples of the WGAN, and what the VAE and the autoencoder make of test images."""
    input:
        data=raw_files(config["dataset"]),
        vae="<results>/models/vae.safetensors",
        autoencoder="<results>/models/autoencoder.safetensors",
        wgan="<results>/models/wgan.safetensors",
    output:
        wgan=[
            report(
                "<results>/figures/wgan_samples.png",
                caption="../report/models.rst",
                category="Models",
                labels={"what": "WGAN samples"},
            ),
            "<results>/figures/wgan_samples.pdf",
        ],
        vae=[
            report(
                "<results>/figures/reconstructions.png",
                caption="../report/models.rst",
                category="Models",
                labels={"what": "reconstructions"},
            ),
            "<results>/figures/reconstructions.pdf",
        ],
    log:
        "<logs>/generative_figures.log",
    benchmark:
        "<benchmarks>/generative_figures.tsv"
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        source=source("generative_figures.py"),
        dataset=config["dataset"],
    script:
        "../scripts/generative_figures.py"


rule models:
    """Every model, and how good it is."""
    input:
        expand("<results>/models/{model}.safetensors", model=["ddu", "plain", "density", "vae", "autoencoder", "wgan"]),
        rules.model_card.output,
        rules.training_figure.output,
        rules.generative_figures.output,
