# The report. Needs every table and figure, the shards for its gallery, and the manifest; makes one page of them.

PAGE_PARTS = {"html", "css", "js", "yaml"}  # what the page is made of besides Python
POINTS = ["l0", "l1"] + (["agan"] if stored("realism/*") else [])
TABLE_FILES = ["<results>/tables/references.csv", *stored("tables/*.csv")]
FIGURE_FILES = []

if STORED and stored("models/*.csv"):

    rule training_figure:
        """Draw the stored training records."""
        input:
            stored("models/*.csv"),
        output:
            report(
                "<results>/figures/training.png",
                caption="../report/models.rst",
                category="Models",
                labels={"what": "training curves"},
            ),
            "<results>/figures/training.pdf",
        log:
            "<logs>/training_figure.log",
        benchmark:
            "<benchmarks>/training_figure.tsv"
        conda:
            "../envs/core.yaml"
        threads: 1
        resources:
            mem_mb=1000,
            runtime=5,
        params:
            source=source("training_figure.py"),
        script:
            "../scripts/training_figure.py"


if config["published"]:
    TABLE_FILES += rules.audit.output
elif not STORED:
    FIGURE_FILES += [*rules.generative_figures.output, *rules.sanity_checks.output.figures]
    PARITY = [Path(file).stem for file in stored("tables/*_parity.csv")]
    FIGURE_FILES += expand("<results>/figures/{name}.{format}", name=PARITY, format=["png", "pdf"])
if stored("models/*.csv"):
    FIGURE_FILES += rules.training_figure.output
TABLE_FILES += expand("<results>/tables/{sweep}.{format}", sweep=MADE_SWEEPS, format=["csv", "md", "tex"])
FIGURE_FILES += expand("<results>/figures/{sweep}.{format}", sweep=MADE_SWEEPS, format=["png", "pdf"])


rule metric_figures:
    """Each metric with all points, the test sets' means and the interval of the mean."""
    input:
        "<results>/results.csv",
    output:
        [
            report(
                f"<results>/figures/points_{metric}.png",
                caption="../report/figures.rst",
                category="Figures",
                labels={"what": f"every point, {metric}"},
            )
            for metric in POINTS
        ],
        expand("<results>/figures/points_{metric}.pdf", metric=POINTS),
    log:
        "<logs>/metric_figures.log",
    benchmark:
        "<benchmarks>/metric_figures.tsv"
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        source=source("metric_figures.py"),
        metrics=POINTS,
    script:
        "../scripts/metric_figures.py"


rule write_report:
    """One page that needs nothing else: the answer, the gallery, and how the run was made."""
    input:
        results="<results>/results.csv",
        tables=[*rules.write_tables.output, *rules.statistical_tests.output, *rules.check_claims.output, *TABLE_FILES],
        figures=[*rules.draw_figures.output, *rules.metric_figures.output, *FIGURE_FILES],
        pairs=stored("pairs/*"),
        shards=stored("counterfactuals/*"),
        records=stored("models/*.csv"),
        timing=stored("timing/*"),
        manifest="<artifacts>/manifest.json",
        sums="<artifacts>/SHA256SUMS",
        template=[path for path in (ROOT / "deduce/report").rglob("*") if path.suffix[1:] in PAGE_PARTS],
    output:
        report("<results>/report.html", caption="../report/page.rst", category="Page", labels={"what": "the page"}),
    log:
        "<logs>/write_report.log",
    benchmark:
        "<benchmarks>/write_report.tsv"
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        source=source("write_report.py"),
        methods=METHODS,
        seeds=SEEDS,
        experiment=EXPERIMENT,
        published=bool(config["published"]),
    script:
        "../scripts/write_report.py"


rule report:
    """The page that a reader opens first."""
    input:
        rules.write_report.output,
