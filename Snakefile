# DeDUCE: Generating Counterfactual Explanations Efficiently (arXiv 2111.15639), from data to report.
#
#   snakemake --cores 2                                          the small default experiment (config.yaml)
#   snakemake --cores 2 models                                   stop at any stage: the targets below
#   snakemake --profile slurm --configfile config/paper.yaml     the paper's scale, on a cluster

from snakemake.utils import min_version

min_version("9.10")


configfile: "config.yaml"


include: "rules/common.smk"


report: "report/workflow.rst"


pathvars:
    data="results/data",
    results=f"results/{config['name']}",
    logs=f"results/{config['name']}/logs",
    benchmarks=f"results/{config['name']}/benchmarks",
    artifacts=str(ARTIFACT_FOLDER),


wildcard_constraints:
    dataset="[A-Za-z]+",
    seed="|".join(USED_SEEDS),
    part=r"\d{3}",


if config["published"]:

    include: "rules/published.smk"

elif config["artifacts"]:

    include: "rules/artifacts.smk"

else:

    include: "rules/data.smk"
    include: "rules/models.smk"
    include: "rules/counterfactuals.smk"
    include: "rules/realism.smk"
    include: "rules/reconstructions.smk"
    include: "rules/manifest.smk"

    for method in USED_METHODS:

        include: f"rules/methods/{method}.smk"


include: "rules/evaluation.smk"
include: "rules/sweeps.smk"
include: "rules/archive.smk"
include: "rules/estimate.smk"


if config["published"]:

    include: "rules/audit.smk"

else:

    rule published:
        """The authors' stored results, evaluated and audited: needs `--config published=CLONE`."""
        input:
            clone_needed,


include: "rules/report.smk"


onstart:
    save_json(f"results/{config['name']}/config.json", EXPERIMENT)  # what these results are of, from the first minute


onerror:
    print(failures(log), file=sys.stderr)


rule all:
    """Everything: the report and all that it shows."""
    default_target: True
    input:
        rules.tables.input,
        rules.figures.input,
        rules.report.input,
