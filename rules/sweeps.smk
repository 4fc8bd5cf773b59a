# Appendices A and B and any other sweep that the config declares, and comparisons of two implementations of a method.
# Needs their counterfactuals, made by the methods' rules; makes a table and a figure of each, and the tests of a sweep.


wildcard_constraints:
    sweep="|".join(EXPERIMENT.sweeps) or "none",
    comparison="|".join(EXPERIMENT.comparisons) or "none",


rule sweep_table:
    """Compare the settings of a sweep on the same pairs, with the paper's figures beside where it has any."""
    input:
        pairs=lambda wildcards: extra_files("pairs", *EXPERIMENT.compared_sweeps(wildcards.sweep)),
        shards=lambda wildcards: extra_files("counterfactuals", *EXPERIMENT.compared_sweeps(wildcards.sweep)),
        scores=lambda wildcards: extra_files("realism", *EXPERIMENT.compared_sweeps(wildcards.sweep)),
    output:
        table=reported("<results>/tables/{sweep}.csv", "sweeps", "{sweep}, table"),
        texts=multiext("<results>/tables/{sweep}", ".md", ".tex", ".json"),
        tests="<results>/tables/{sweep}_tests.csv",
        figure=reported("<results>/figures/{sweep}.png", "sweeps", "{sweep}, figure"),
        others=multiext("<results>/figures/{sweep}", ".pdf", ".json"),
    log:
        "<logs>/sweep_table/{sweep}.log",
    conda:
        "../envs/core.yaml"
    params:
        source=source("sweep_table.py"),
        sweeps=lambda wildcards: [sweep.as_dict() for sweep in EXPERIMENT.compared_sweeps(wildcards.sweep)],
        dataset=EXPERIMENT.dataset.name,
    script:
        "../scripts/sweep_table.py"


rule comparison:
    """Compare two implementations of a method: distances, confidence and success on the same pairs, and seconds."""
    input:
        pairs=lambda wildcards: extra_files("pairs", EXPERIMENT.comparisons[wildcards.comparison])[0],
        shards=lambda wildcards: extra_files("counterfactuals", EXPERIMENT.comparisons[wildcards.comparison]),
    output:
        table=reported("<results>/tables/{comparison}.csv", "comparisons", "{comparison}, table"),
        texts=multiext("<results>/tables/{comparison}", ".md", ".tex", ".json"),
        pairs=multiext("<results>/tables/{comparison}_pairs", ".csv", ".md", ".tex", ".json"),
        figure=reported("<results>/figures/{comparison}.png", "comparisons", "{comparison}, figure"),
        others=multiext("<results>/figures/{comparison}", ".pdf", ".json"),
    log:
        "<logs>/comparison/{comparison}.log",
    conda:
        "../envs/core.yaml"
    params:
        source=source("comparison.py"),
        title=lambda wildcards: EXPERIMENT.comparisons[wildcards.comparison].description,
    script:
        "../scripts/comparison.py"


rule conviction_curves:
    """Draw what each method pays for convincing other networks, and compare the methods at an equal oracle rate."""
    input:
        pairs=extra_files("pairs", *EXPERIMENT.conviction),
        shards=extra_files("counterfactuals", *EXPERIMENT.conviction),
        scores=extra_files("realism", *EXPERIMENT.conviction),
    output:
        table=reported("<results>/tables/conviction.csv", "conviction", "every point of the curves"),
        texts=multiext("<results>/tables/conviction", ".md", ".tex", ".json"),
        equal=reported("<results>/tables/conviction_equal.csv", "conviction", "at an equal oracle rate"),
        equal_texts=multiext("<results>/tables/conviction_equal", ".md", ".tex", ".json"),
        figure=reported("<results>/figures/conviction.png", "conviction", "the curves"),
        others=multiext("<results>/figures/conviction", ".pdf", ".json"),
    log:
        "<logs>/conviction_curves.log",
    conda:
        "../envs/core.yaml"
    params:
        **{key: value for key, value in EXPERIMENT.config.get("conviction", {}).items() if key != "sweeps"},
        source=source("conviction.py"),
        sweeps=[sweep.as_dict() for sweep in EXPERIMENT.conviction],
    script:
        "../scripts/conviction.py"


rule appendices:
    """Appendices A and B, and every other sweep of the config. Not part of the default target."""
    input:
        expand(
            ["<results>/tables/{sweep}.csv", "<results>/figures/{sweep}.png"],
            sweep=EXPERIMENT.appendices if EXPERIMENT.mode == RUN else EXPERIMENT.reported_sweeps,
        ),


rule conviction:
    """What conviction costs each method: the sweeps of `conviction`, as curves. Not part of the default target."""
    input:
        rules.conviction_curves.output,


rule comparisons:
    """Every comparison of two implementations that the config declares. Not part of the default target."""
    input:
        expand(
            ["<results>/tables/{comparison}.csv", "<results>/figures/{comparison}.png"],
            comparison=EXPERIMENT.comparisons if EXPERIMENT.mode == RUN else EXPERIMENT.reported_comparisons,
        ),
