# VLK (section 4.2): needs the plain classifier, the autoencoder, and the training images for its prototypes. By torch in
# batches, and by alibi as the reference, which is the method `vlk_alibi` and, with the backend `alibi`, the method `vlk`; the
# target `parity` compares the two. alibi has an environment of its own, built on first use, unless DEDUCE_ALIBI_PYTHON
# names the Python of one that exists.

import json

from snakemake.settings.types import DeploymentMethod

VLK_SETTINGS = settings("vlk", leave_out=["backend"])
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
elif given := os.environ.get("DEDUCE_ALIBI_PYTHON"):
    ALIBI_PYTHON = given
else:
    ALIBI_PYTHON = "results/environments/alibi/bin/python"
    ALIBI_ENVIRONMENT = ["results/environments/alibi/installed.txt"]
ALIBI_PARAMS = {
    "source": source("run_vlk_alibi.py"),
    "script": str(ROOT / "scripts/run_vlk_alibi.py"),
    "settings": lambda wildcards: json.dumps(VLK_SETTINGS(wildcards)),
    "order": lambda wildcards: settings("vlk_alibi")(wildcards)["order"],
}
ALIBI_TIMED = f"--timed-pairs {config['timing']['pairs']} --seed {SEEDS[0]}"


rule alibi_environment:
    """Install alibi and TensorFlow, about 2 GB, apart from everything else; not on a node, which may have no network."""
    input:
        "envs/alibi.txt",
    output:
        "results/environments/alibi/installed.txt",
    log:
        "<logs>/alibi_environment.log",
    benchmark:
        "<benchmarks>/alibi_environment.tsv"
    localrule: True
    conda:
        "../../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        source=source("alibi_environment.py"),
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
        "<logs>/{method}/{seed}-{part}.log",
    benchmark:
        "<benchmarks>/{method}/{seed}-{part}.tsv"
    conda:
        "../../envs/alibi.yaml"
    threads: 1
    resources:
        mem_mb=grows(6000),
        runtime=grows(2880),
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
    threads: ALL_CORES  # all of them: nothing may run beside a measurement
    params:
        **ALIBI_PARAMS,
        python=ALIBI_PYTHON,
        answer=lambda wildcards, output: f"--method vlk_alibi --timing {output.timing} {ALIBI_TIMED}",


if config["vlk"]["backend"] == "alibi":

    use rule vlk_alibi as vlk with:
        output:
            shard=shard("vlk"),
        log:
            "<logs>/{method}/{seed}-{part}.log",
        benchmark:
            "<benchmarks>/{method}/{seed}-{part}.tsv"
        params:
            **ALIBI_PARAMS,
            python=ALIBI_PYTHON,
            answer=lambda wildcards, output: f"--method vlk --display-name VLK --shard {output.shard}",

    use rule time_vlk_alibi as time_vlk with:
        output:
            timing="<results>/timing/vlk.csv",
        log:
            "<logs>/timing/vlk.log",
        benchmark:
            "<benchmarks>/timing/vlk.tsv"
        params:
            **ALIBI_PARAMS,
            python=ALIBI_PYTHON,
            answer=lambda wildcards, output: f"--method vlk --timing {output.timing} {ALIBI_TIMED}",

else:

    rule vlk:
        """Descend sparsely towards the target's prototype, on the manifold of the autoencoder, all pairs at a time."""
        input:
            **VLK_INPUTS,
            pairs="<results>/pairs/{seed}/{part}.npz",
        output:
            shard=shard("vlk"),
        log:
            "<logs>/{method}/{seed}-{part}.log",
        benchmark:
            "<benchmarks>/{method}/{seed}-{part}.tsv"
        conda:
            "../../envs/core.yaml"
        threads: 1
        resources:
            mem_mb=grows(4000),
            runtime=grows(1440),
            gpu=GPU,
        params:
            source=source("run_vlk.py"),
            settings=VLK_SETTINGS,
            dataset=config["dataset"],
        script:
            "../../scripts/run_vlk.py"

    use rule vlk as time_vlk with:
        input:
            **VLK_INPUTS,
            pairs=f"<results>/pairs/{SEEDS[0]}.npz",
        output:
            timing="<results>/timing/vlk.csv",
        log:
            "<logs>/timing/vlk.log",
        benchmark:
            "<benchmarks>/timing/vlk.tsv"
        threads: ALL_CORES  # all of them: nothing may run beside a measurement
        params:
            source=source("run_vlk.py"),
            settings=VLK_SETTINGS,
            dataset=config["dataset"],
            pairs=config["timing"]["pairs"],
            seed=SEEDS[0],

    rule vlk_parity_pairs:
        """Choose the pairs on which the batched VLK and alibi are compared."""
        input:
            f"<results>/pairs/{SEEDS[0]}.npz",
        output:
            "<results>/parity/pairs.npz",
        log:
            "<logs>/parity/pairs.log",
        benchmark:
            "<benchmarks>/parity/pairs.tsv"
        conda:
            "../../envs/core.yaml"
        threads: 1
        resources:
            mem_mb=500,
            runtime=5,
        params:
            source=source("vlk_parity_pairs.py"),
            pairs=config["vlk_alibi"]["parity_pairs"],
        script:
            "../../scripts/vlk_parity_pairs.py"

    use rule vlk as vlk_parity_torch with:
        input:
            **VLK_INPUTS,
            pairs="<results>/parity/pairs.npz",
        output:
            shard="<results>/parity/torch.npz",
            seconds="<results>/parity/torch.json",
        log:
            "<logs>/parity/torch.log",
        benchmark:
            "<benchmarks>/parity/torch.tsv"
        threads: ALL_CORES  # as the other, so that neither is measured beside anything

    use rule vlk_alibi as vlk_parity_alibi with:
        input:
            ALIBI_ENVIRONMENT,
            **VLK_INPUTS,
            pairs="<results>/parity/pairs.npz",
        output:
            shard="<results>/parity/alibi.npz",
            seconds="<results>/parity/alibi.json",
        log:
            "<logs>/parity/alibi.log",
        benchmark:
            "<benchmarks>/parity/alibi.tsv"
        threads: ALL_CORES
        params:
            **ALIBI_PARAMS,
            python=ALIBI_PYTHON,
            answer=lambda wildcards, output: f"--method vlk_alibi --shard {output.shard} --seconds {output.seconds}",

    rule vlk_parity:
        """Compare the batched VLK with alibi: distances, confidence and success of the same pairs, and seconds."""
        input:
            pairs="<results>/parity/pairs.npz",
            alibi="<results>/parity/alibi.npz",
            alibi_seconds="<results>/parity/alibi.json",
            torch="<results>/parity/torch.npz",
            torch_seconds="<results>/parity/torch.json",
        output:
            table=report("<results>/tables/vlk_parity.csv", category="VLK and alibi", labels={"what": "summary"}),
            pairs=report("<results>/tables/vlk_parity_pairs.csv", category="VLK and alibi", labels={"what": "by pair"}),
            figures=report(
                multiext("<results>/figures/vlk_parity", ".png", ".pdf"),
                category="VLK and alibi",
                labels={"what": "comparison"},
            ),
        log:
            "<logs>/parity/parity.log",
        benchmark:
            "<benchmarks>/parity/parity.tsv"
        conda:
            "../../envs/core.yaml"
        threads: 1
        resources:
            mem_mb=1000,
            runtime=5,
        params:
            source=source("vlk_parity.py"),
        script:
            "../../scripts/vlk_parity.py"

    rule parity:
        """How closely the batched VLK follows alibi. Installs alibi on first use; no other target needs it."""
        input:
            rules.vlk_parity.output,
