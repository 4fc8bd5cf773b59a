# REVISE (section 4.2): needs the plain classifier and the variational autoencoder.


rule revise:
    """Walk through the latent space until the decoded image is of the target's class."""
    input:
        pairs="<results>/pairs/{seed}/{part}.npz",
        classifier="<results>/models/plain.safetensors",
        architecture="<results>/models/plain.json",
        vae="<results>/models/vae.safetensors",
        vae_architecture="<results>/models/vae.json",
    output:
        shard=shard("revise"),
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
        source=source("run_revise.py"),
        settings=settings("revise"),
    script:
        "../../scripts/run_revise.py"


use rule revise as time_revise with:
    input:
        pairs=f"<results>/pairs/{SEEDS[0]}.npz",
        classifier="<results>/models/plain.safetensors",
        architecture="<results>/models/plain.json",
        vae="<results>/models/vae.safetensors",
        vae_architecture="<results>/models/vae.json",
    output:
        timing="<results>/timing/revise.csv",
    log:
        "<logs>/timing/revise.log",
    benchmark:
        "<benchmarks>/timing/revise.tsv"
    threads: ALL_CORES  # all of them: nothing may run beside a measurement
    params:
        source=source("run_revise.py"),
        settings=settings("revise"),
        pairs=config["timing"]["pairs"],
        seed=SEEDS[0],
