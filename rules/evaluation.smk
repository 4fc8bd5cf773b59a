# Section 4.3, the evaluation. Needs artefacts only: pairs, counterfactuals and what else was measured, from this run or
# stored; makes the results table, and every table and figure of deduce/evaluation/catalogue.py.

from importlib.util import find_spec


rule results_table:
    """Check every shard and put it into one table: a row per method, training, test set, image and target."""
    input:
        pairs=artifacts("pairs"),
        counterfactuals=artifacts("counterfactuals"),
        realism=artifacts("realism"),
    output:
        results=reported("<results>/results.csv", "metrics", "one row per counterfactual"),
        parquet=["<results>/results.parquet"] if find_spec("pyarrow") else [],
        references="<results>/tables/references.csv",
    log:
        "<logs>/results_table.log",
    conda:
        "../envs/core.yaml"
    params:
        source=source("results_table.py"),
        settings={replicate: EXPERIMENT.settings(replicate) for replicate in EXPERIMENT.replicates},
        training_seeds={replicate: EXPERIMENT.training_seed(replicate) for replicate in EXPERIMENT.replicates},
    script:
        "../scripts/results_table.py"


rule write_tables:
    """Every table as CSV, Markdown and LaTeX, and as JSON for the page."""
    input:
        **{kind: artifacts(kind) for kind in catalogue.needs(EXPERIMENT.tables)},
        results="<results>/results.csv",
        references="<results>/tables/references.csv",
        sweep_tables=expand("<results>/tables/{sweep}.csv", sweep=EXPERIMENT.reported_sweeps),
        sweep_tests=expand("<results>/tables/{sweep}_tests.csv", sweep=EXPERIMENT.reported_sweeps),
    output:
        [reported(f"<results>/tables/{item.name}.csv", item.entry.section, item.name) for item in EXPERIMENT.tables],
        expand("<results>/tables/{item.name}.{format}", item=EXPERIMENT.tables, format=["md", "tex", "json"]),
    log:
        "<logs>/write_tables.log",
    conda:
        "../envs/core.yaml"
    params:
        source=source("write_tables.py", *catalogue.modules(catalogue.TABLES)),
        names=[item.name for item in EXPERIMENT.tables],
        config=TRACKED,
        mode=EXPERIMENT.mode,
    script:
        "../scripts/write_tables.py"


PLOTS = [item for item in EXPERIMENT.figures if not item.entry.images]
PICTURES = [item for item in EXPERIMENT.figures if item.entry.images]


rule draw_plots:
    """Every plot as PNG and PDF, with its description as JSON for the page."""
    input:
        **{kind: artifacts(kind) for kind in catalogue.needs(PLOTS)},
        results="<results>/results.csv",
    output:
        [reported(f"<results>/figures/{item.name}.png", item.entry.section, item.name) for item in PLOTS],
        expand("<results>/figures/{item.name}.{format}", item=PLOTS, format=["pdf", "json"]),
    log:
        "<logs>/draw_plots.log",
    conda:
        "../envs/core.yaml"
    params:
        source=source("draw_figures.py", *catalogue.modules(catalogue.FIGURES)),
        names=[item.name for item in PLOTS],
        config=TRACKED,
        mode=EXPERIMENT.mode,
    script:
        "../scripts/draw_figures.py"


use rule draw_plots as draw_pictures with:
    # The figures that are made of images: a job of their own, because nothing else can run while figures are drawn.
    input:
        **{kind: artifacts(kind) for kind in catalogue.needs(PICTURES)},
        results="<results>/results.csv",
    output:
        [reported(f"<results>/figures/{item.name}.png", item.entry.section, item.name) for item in PICTURES],
        expand("<results>/figures/{item.name}.{format}", item=PICTURES, format=["pdf", "json"]),
    log:
        "<logs>/draw_pictures.log",
    params:
        names=[item.name for item in PICTURES],


rule tables:
    """The results and every table."""
    input:
        rules.results_table.output,
        rules.write_tables.output,


rule figures:
    """Every figure."""
    input:
        rules.draw_plots.output,
        rules.draw_pictures.output,
