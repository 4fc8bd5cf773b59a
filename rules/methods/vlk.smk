# VLK (section 4.2): needs the classifier that it explains, the autoencoder, and the training images for its prototypes. It
# runs in batches by torch. The method `vlk_alibi` is the reference: alibi itself, pair by pair (docs/vlk.md).
# alibi has an environment of its own, built on first use, unless DEDUCE_ALIBI_PYTHON names the Python of one that exists.

import json

from snakemake.settings.types import DeploymentMethod

VLK_INPUTS = {
    "data": raw_data(config["dataset"]),
    "classifier": model("classifier", method="vlk"),
    "autoencoder": model("autoencoder", method="vlk"),
    "pairs": "<results>/pairs/{seed}/{part}.npz",
}
BY_CONDA = DeploymentMethod.CONDA in workflow.deployment_settings.deployment_method
ALIBI_PYTHON = "python" if BY_CONDA else os.environ.get("DEDUCE_ALIBI_PYTHON")
ALIBI_ENVIRONMENT = [] if ALIBI_PYTHON else ["results/environments/alibi/installed.txt"]


rule alibi_environment:
    """Install alibi and TensorFlow, about 2 GB, apart from everything else; not on a node, which may have no network."""
    input:
        repository_file("envs/alibi.txt"),
    output:
        "results/environments/alibi/installed.txt",
    log:
        "<logs>/alibi_environment.log",
    localrule: True
    conda:
        "../../envs/core.yaml"
    params:
        source=source("alibi_environment.py"),
    script:
        "../../scripts/alibi_environment.py"


rule vlk_alibi:
    """Search one pair after the other with alibi's CounterfactualProto."""
    input:
        ALIBI_ENVIRONMENT,
        **VLK_INPUTS,
    output:
        shard("vlk_alibi"),
    log:
        "<logs>/{method}/{seed}-{part}.log",
    benchmark:
        "<benchmarks>/{method}/{seed}-{part}.tsv"
    conda:
        "../../envs/alibi.yaml"
    threads: alone
    resources:
        mem_mb=grows(6000),
        runtime=grows(2880),
    params:
        source=source("run_vlk_alibi.py"),
        python=ALIBI_PYTHON or "results/environments/alibi/bin/python",
        script=repository_file("scripts/run_vlk_alibi.py"),
        dataset=config["dataset"],
        settings=lambda wildcards: json.dumps(settings("vlk")(wildcards)),
        models=used_models,
        order=lambda wildcards: EXPERIMENT.settings(wildcards.method)["order"],
    shell:
        "{params.python} {params.script:q} --pair-set {wildcards.seed} --pairs {input.pairs:q} "
        "--dataset {params.dataset} --data {input.data:q} --classifier {input.classifier:q} "
        "--autoencoder {input.autoencoder:q} --settings {params.settings:q} --order {params.order} "
        "--source {params.source} --threads {threads} --shard {output:q} > {log:q} 2>&1"


use rule search as vlk with:
    input:
        **VLK_INPUTS,
    output:
        shard("vlk"),
    params:
        source=source("run_method.py", "deduce.methods.vlk"),
        settings=settings("vlk"),


rule parity:
    """How closely the batched VLK follows alibi. Installs alibi on first use; no other target needs it."""
    input:
        "<results>/tables/vlk_parity.csv",
