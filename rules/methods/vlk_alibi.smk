# VLK (section 4.2) by alibi itself, the reference of the batched one: needs the plain classifier, the autoencoder, and an
# environment of its own, which is built on first use. DEDUCE_ALIBI_PYTHON may name the Python of one that exists.

import json

from snakemake.settings.types import DeploymentMethod

VLK_SETTINGS = {key: value for key, value in settings("vlk").items() if key != "backend"}
VLK_INPUTS = {
    "data": raw_files(config["dataset"]),
    "classifier": "<results>/models/plain.safetensors",
    "architecture": "<results>/models/plain.json",
    "autoencoder": "<results>/models/autoencoder.safetensors",
    "autoencoder_architecture": "<results>/models/autoencoder.json",
}
ALIBI_ENVIRONMENT = []
if DeploymentMethod.CONDA in workflow.deployment_settings.deployment_method:
    ALIBI_PYTHON = "python"
elif os.environ.get("DEDUCE_ALIBI_PYTHON"):
    ALIBI_PYTHON = os.environ["DEDUCE_ALIBI_PYTHON"]
else:
    ALIBI_PYTHON = "results/environments/alibi/bin/python"
    ALIBI_ENVIRONMENT = ["results/environments/alibi/installed.txt"]
ALIBI_PARAMS = {
    "source": source("run_vlk_alibi.py"),
    "script": str(ROOT / "scripts/run_vlk_alibi.py"),
    "settings": json.dumps(VLK_SETTINGS),
    "order": settings("vlk_alibi")["order"],
    "timed": f"--timed-pairs {config['timing']['pairs']} --seed {SEEDS[0]}",
}


rule alibi_environment:
    """Install alibi and TensorFlow, about 2 GB, apart from everything else."""
    input:
        "envs/alibi.txt",
    output:
        "results/environments/alibi/installed.txt",
    log:
        "<logs>/alibi_environment.log",
    benchmark:
        "<benchmarks>/alibi_environment.tsv"
    conda:
        "../../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=60,
    script:
        "../../scripts/alibi_environment.py"


rule vlk_alibi:
    """Search one pair after the other with alibi's CounterfactualProto."""
    input:
        ALIBI_ENVIRONMENT,
        **VLK_INPUTS,
        pairs="<results>/pairs/{seed}/{part}.npz",
    output:
        shard=shard("vlk_alibi"),
    log:
        "<logs>/vlk_alibi/{seed}-{part}.log",
    benchmark:
        "<benchmarks>/vlk_alibi/{seed}-{part}.tsv"
    conda:
        "../../envs/alibi.yaml"
    threads: 1
    resources:
        mem_mb=6000,
        runtime=2880,
    params:
        **ALIBI_PARAMS,
        python=ALIBI_PYTHON,
        answer=lambda wildcards, output: f"--method vlk_alibi --display-name 'VLK (alibi)' --shard {output.shard}",
    shell:
        "{params.python} {params.script:q} --pairs {input.pairs:q} --training-images {input.data[0]:q} "
        "--classifier {input.classifier:q} --autoencoder {input.autoencoder:q} --settings {params.settings:q} "
        "--order {params.order} --source {params.source} --threads {threads} {params.answer} > {log:q} 2>&1"


use rule vlk_alibi as time_vlk_alibi with:
    input:
        ALIBI_ENVIRONMENT,
        **VLK_INPUTS,
        pairs=f"<results>/pairs/{SEEDS[0]}.npz",
    output:
        timing="<results>/timing/vlk_alibi.csv",
    log:
        "<logs>/timing/vlk_alibi.log",
    benchmark:
        "<benchmarks>/timing/vlk_alibi.tsv"
    threads: max(1, workflow.cores or 1)  # all of them: nothing may run beside a measurement
    params:
        **ALIBI_PARAMS,
        python=ALIBI_PYTHON,
        answer=lambda wildcards, output, params: f"--method vlk_alibi --timing {output.timing} {params.timed}",
