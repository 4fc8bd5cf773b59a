# The report. Needs every table and figure, the shards for its gallery, and the manifest; makes one page of them.

from deduce.experiment import CONVICTION_TABLES

CONVICTION = CONVICTION_TABLES if EXPERIMENT.reports_conviction else ()
REPORTED = [
    *CONVICTION[:1],
    *EXPERIMENT.reported_sweeps,
    *EXPERIMENT.reported_comparisons,
    *EXPERIMENT.reported_studies,
]
REPORTED_TABLES = [*REPORTED, *CONVICTION[1:], *(f"{name}_pairs" for name in EXPERIMENT.reported_comparisons)]
REPORTED_TABLES += [f"{name}_differences" for name in EXPERIMENT.reported_studies if name == SAME_CLASSIFIER]


rule write_report:
    """One page that needs nothing else: the answer, the gallery, and how the run was made."""
    input:
        results="<results>/results.csv",
        references="<results>/tables/references.csv",
        tables=[
            *rules.write_tables.output,
            *expand("<results>/tables/{name}.{format}", name=REPORTED_TABLES, format=["csv", "md", "tex", "json"]),
        ],
        figures=[
            *expand("<results>/figures/{item.name}.{format}", item=EXPERIMENT.figures, format=["png", "pdf", "json"]),
            *expand("<results>/figures/{name}.{format}", name=REPORTED, format=["png", "pdf", "json"]),
        ],
        pairs=artifacts("pairs"),
        counterfactuals=artifacts("counterfactuals"),
        records=artifacts("records"),
        timed=artifacts("timed"),
        manifest="<artifacts>/manifest.json",
        sums="<artifacts>/SHA256SUMS",
        template=sorted(
            repository_file(path) for path in (ROOT / "deduce/report").rglob("*.*") if ".py" not in path.suffix
        ),
    output:
        report("<results>/report.html", caption="../report/page.rst", category="Page", labels={"what": "the page"}),
    log:
        "<logs>/write_report.log",
    conda:
        "../envs/core.yaml"
    params:
        source=source("write_report.py"),
        config=TRACKED,
        mode=EXPERIMENT.mode,
    script:
        "../scripts/write_report.py"


rule report:
    """The page that a reader opens first."""
    input:
        rules.write_report.output,
