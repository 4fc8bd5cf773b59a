# DeDUCE: Generating Counterfactual Explanations Efficiently (arXiv 2111.15639), from data to report.
#
#   snakemake --cores 2                                          the small default experiment (config.yaml)
#   snakemake --cores 2 models                                   stop at any stage: the targets below
#   snakemake --profile slurm --configfile config/paper.yaml     the paper's scale, on a cluster

from snakemake.utils import min_version

min_version("9.12")  # pathvars


configfile: f"{workflow.current_basedir}/config.yaml"


include: "rules/common.smk"


report: "report/workflow.rst"


pathvars:
    data="results/data",
    results=f"results/{EXPERIMENT.name}",
    logs=f"results/{EXPERIMENT.name}/logs",
    benchmarks=f"results/{EXPERIMENT.name}/benchmarks",
    artifacts=EXPERIMENT.artifact_folder,


rule all:
    """Everything: the report, and the tables and figures that it shows."""
    input:
        "<results>/report.html",


wildcard_constraints:
    dataset="[A-Za-z]+",
    seed=rf"\d+|{VALIDATION}|{TIMED}|{SAMPLE}\d+",
    part=r"\d{3}",


if EXPERIMENT.mode == RUN:

    include: "rules/data.smk"
    include: "rules/models.smk"
    include: "rules/counterfactuals.smk"
    include: "rules/realism.smk"
    include: "rules/illustrations.smk"
    include: "rules/estimate.smk"
    include: "rules/methods/_search.smk"

    for method in EXPERIMENT.used_methods:

        include: f"rules/methods/{method}.smk"
    include: "rules/calibrate.smk"

elif EXPERIMENT.mode != PUBLICATION:

    include: "rules/artifacts.smk"

elif EXPERIMENT.judges:

    include: "rules/data.smk"
    include: "rules/models.smk"


if EXPERIMENT.judges:

    include: "rules/yardsticks.smk"


include: "rules/sweeps.smk"
include: "rules/studies.smk"
include: "rules/evaluation.smk"
include: "rules/archive.smk"
include: "rules/report.smk"
include: "rules/published.smk"


onstart:
    begin(EXPERIMENT, config, workflow.workdir_init)


onerror:
    print(failures(log), file=sys.stderr)
