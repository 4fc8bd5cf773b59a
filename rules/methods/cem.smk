# CEM (section 2): pertinent negatives as counterfactuals, and a table of pertinent positives, which are none.


use rule search as cem with:
    input:
        pairs="<results>/pairs/{seed}/{part}.npz",
        classifier=model("classifier"),
        autoencoder=model("autoencoder"),
    output:
        shard("cem"),
    params:
        source=source("run_method.py", "deduce.methods.cem"),
        settings=settings("cem"),


rule pertinent_positives:
    """How much of each image's ink is enough for its class."""
    input:
        pairs=artifacts("pairs"),
        classifier=model_file("classifier", "cem"),
        autoencoder=model_file("autoencoder", "cem"),
    output:
        table="<results>/tables/pertinent_positives.csv",
        texts=multiext("<results>/tables/pertinent_positives", ".md", ".tex", ".json"),
        images="<results>/pertinent_positives.npz",
    log:
        "<logs>/pertinent_positives.log",
    benchmark:
        "<benchmarks>/pertinent_positives.tsv"
    conda:
        "../../envs/core.yaml"
    resources:
        mem_mb=grows(4000),
        runtime=grows(720),
        gpu=GPU,
    params:
        source=source("pertinent_positives.py", "deduce.methods.cem"),
        method="cem",
        settings={key: value for key, value in EXPERIMENT.settings("cem").items() if key != "classifier"},
        accelerator=config["accelerator"],
    script:
        "../../scripts/pertinent_positives.py"
