# Studies of the explained networks: one classifier for all methods, and how the results depend on the networks. They need the
# counterfactuals of methods with other networks or more trainings, made by the methods' rules; they make tables and figures.

from deduce.studies import DEPENDENCE, SAME_CLASSIFIER

# Each as a list that is empty where the config does not declare the study.
SAME, DEPENDING = (
    [EXPERIMENT.studies[name]] if name in EXPERIMENT.studies else [] for name in (SAME_CLASSIFIER, DEPENDENCE)
)
UNDECLARED = "config: '{}' is not declared, so that there is nothing to compare."


rule same_classifier_tables:
    """Every method on the same networks: means, and paired differences of algorithms and of networks."""
    input:
        pairs=extra_files("pairs", *SAME),
        shards=extra_files("counterfactuals", *SAME),
    output:
        table=reported("<results>/tables/same_classifier.csv", SAME_CLASSIFIER, "means"),
        texts=multiext("<results>/tables/same_classifier", ".md", ".tex", ".json"),
        differences=multiext("<results>/tables/same_classifier_differences", ".csv", ".md", ".tex", ".json"),
        figure=reported("<results>/figures/same_classifier.png", SAME_CLASSIFIER, "figure"),
        others=multiext("<results>/figures/same_classifier", ".pdf", ".json"),
    log:
        "<logs>/same_classifier_tables.log",
    conda:
        "../envs/core.yaml"
    params:
        source=source("study.py"),
        study=lambda wildcards: EXPERIMENT.studies[SAME_CLASSIFIER].as_dict(),
        dataset=EXPERIMENT.dataset.name,
    script:
        "../scripts/study.py"


use rule same_classifier_tables as dependence_table with:
    input:
        pairs=extra_files("pairs", *DEPENDING),
        shards=extra_files("counterfactuals", *DEPENDING),
    output:
        table=reported("<results>/tables/dependence.csv", DEPENDENCE, "table"),
        texts=multiext("<results>/tables/dependence", ".md", ".tex", ".json"),
        figure=reported("<results>/figures/dependence.png", DEPENDENCE, "figure"),
        others=multiext("<results>/figures/dependence", ".pdf", ".json"),
    log:
        "<logs>/dependence_table.log",
    params:
        study=lambda wildcards: EXPERIMENT.studies[DEPENDENCE].as_dict(),


rule same_classifier:
    """Every method on the same networks. Not part of the default target."""
    input:
        rules.same_classifier_tables.output if SAME else lambda wildcards: sys.exit(UNDECLARED.format(SAME_CLASSIFIER)),


rule dependence:
    """How the results depend on the width, the training and the bound of the networks. Not part of the default target."""
    input:
        rules.dependence_table.output if DEPENDING else lambda wildcards: sys.exit(UNDECLARED.format(DEPENDENCE)),
