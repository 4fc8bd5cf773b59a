# How to split and size the searches of a config on a cluster. Needs the models that the methods use; makes a table, and
# settings to copy.

from deduce.pairs import SAMPLE

CALIBRATED = [f"{EXPERIMENT.brief(method)}/{SAMPLE}{EXPERIMENT.brief_pairs}" for method in EXPERIMENT.methods]


rule calibrate:
    """Propose the parts of a test set, and the time and memory of each method's job.

    Each method runs for a few iterations, by its own rule: on the nodes on which its jobs will run.
    """
    input:
        expand("<results>/shards/{search}/000.npz", search=CALIBRATED),
    output:
        table="<results>/calibration.csv",
        settings="<results>/calibration.yaml",
    log:
        "<logs>/calibrate.log",
    localrule: True
    conda:
        "../envs/core.yaml"
    params:
        source=source("calibrate.py"),
        settings={method: EXPERIMENT.settings(method) for method in EXPERIMENT.methods},
        pairs=EXPERIMENT.pairs_per_seed,
        logs=expand(f"results/{EXPERIMENT.name}/logs/{{search}}-000.log", search=CALIBRATED),
        benchmarks=expand(f"results/{EXPERIMENT.name}/benchmarks/{{search}}-000.tsv", search=CALIBRATED),
    script:
        "../scripts/calibrate.py"
