# Appendix B, figure: what the VAE makes of images. Needs the VAE and the first test set; kept as an artefact, so that
# the figure can be drawn again without the model.


rule reconstructions:
    """Sampled reconstructions of the first images, and the mean of many."""
    input:
        pairs=f"<results>/pairs/{SEEDS[0]}.npz",
        vae="<results>/models/vae.safetensors",
        architecture="<results>/models/vae.json",
    output:
        "<results>/reconstructions.npz",
    log:
        "<logs>/reconstructions.log",
    benchmark:
        "<benchmarks>/reconstructions.tsv"
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=5,
    params:
        source=source("reconstructions.py"),
        images=10,
    script:
        "../scripts/reconstructions.py"
