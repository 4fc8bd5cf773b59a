# Studies of the explained networks: one classifier for all methods, and how the results depend on the networks. They need the
# counterfactuals of methods with other networks or more trainings, made by the methods' rules; they make tables and figures.

from deduce.studies import DEPENDENCE, SAME_CLASSIFIER


def study_files(folder, study):
    """A study's artefacts in one folder; for a study that the config does not declare, a sentence when it is needed."""

    def files(wildcards):
        if study not in EXPERIMENT.studies:
            sys.exit(f"config: '{study}' is not declared, so that there is nothing to compare.")
        return extra_files(folder, EXPERIMENT.studies[study])

    return files


rule same_classifier_tables:
    """Every method on the same networks: means, and paired differences of algorithms and of networks."""
    input:
        pairs=study_files("pairs", SAME_CLASSIFIER),
        shards=study_files("counterfactuals", SAME_CLASSIFIER),
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
        pairs=study_files("pairs", DEPENDENCE),
        shards=study_files("counterfactuals", DEPENDENCE),
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
        rules.same_classifier_tables.output,


rule dependence:
    """How the results depend on the width, the training and the bound of the networks. Not part of the default target."""
    input:
        rules.dependence_table.output,
