# Measurements of the models, and data for the figures that need models: the model card (section 4.1), pictures by the
# generative models (appendix B) and figure 2. Needs models and the first test set; makes artefacts that are drawn later.

CARD_MODELS = ["ddu", "density", "classifier", "plain", "vae", "autoencoder", "wgan", "oracles"]
CARD_OUTLIERS = EXPERIMENT.judged[1:2]  # the first of the dataset's outliers, if any can be had
FIRST_METHOD, FIRST_SEED = EXPERIMENT.methods[0], EXPERIMENT.seeds[0]
# If the method names no classifier, figure 2 shows the features that the densities describe.
EXPLAINER = FIRST_METHOD if "classifier" in EXPERIMENT.settings(FIRST_METHOD) else "density"


rule model_card:
    """Measure how good the models are, and keep samples and reconstructions by the generative ones."""
    input:
        **model_files(*CARD_MODELS),
        data=raw_data(EXPERIMENT.dataset.name),
        outliers=[raw_data(name) for name in CARD_OUTLIERS],
        pairs=f"<results>/pairs/{FIRST_SEED}.npz",
    output:
        card="<results>/models/card.csv",
        pictures="<results>/pictures.npz",
        reconstructions="<results>/reconstructions.npz",
    log:
        "<logs>/model_card.log",
    benchmark:
        "<benchmarks>/model_card/model_card.tsv"
    conda:
        "../envs/core.yaml"
    resources:
        mem_mb=3000,
        runtime=30,
    params:
        source=source("model_card.py"),
        models=CARD_MODELS,
        dataset=EXPERIMENT.dataset.name,
        outliers=CARD_OUTLIERS,
        reconstructions=10,
    script:
        "../scripts/model_card.py"


rule feature_map:
    """Figure 2's data: two classes in feature space, their Gaussians, and the path of one counterfactual."""
    input:
        classifier=model_file("classifier", EXPLAINER),
        density=model_file("density", EXPLAINER),
        data=raw_data(EXPERIMENT.dataset.name),
        pairs=f"<results>/pairs/{FIRST_SEED}.npz",
        shard=f"<results>/counterfactuals/{FIRST_METHOD}/{FIRST_SEED}.npz",
    output:
        "<results>/features.npz",
    log:
        "<logs>/feature_map.log",
    conda:
        "../envs/core.yaml"
    resources:
        mem_mb=2000,
    params:
        source=source("feature_map.py", *{model.module for model in models.REGISTRY.values() if model.classifies}),
        dataset=EXPERIMENT.dataset.name,
    script:
        "../scripts/feature_map.py"
