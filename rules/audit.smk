# What is found in the authors' stored results. Needs them imported and evaluated; makes the audit.


rule audit:
    """Rows that hold no image, printed figures that the data does not give, and table 1 without those rows."""
    input:
        results="<results>/results.csv",
        references="<results>/tables/references.csv",
        tests="<results>/tables/tests.csv",
        summaries="<artifacts>/summaries.csv",
        shards=stored("counterfactuals/*"),
    output:
        audit=multiext("<results>/tables/audit", ".csv", ".md", ".tex"),
        cleaned=multiext("<results>/tables/table1_cleaned", ".csv", ".md", ".tex"),
        defects="<results>/tables/defects.csv",
    log:
        "<logs>/audit.log",
    benchmark:
        "<benchmarks>/audit.tsv"
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        source=source("audit.py"),
    script:
        "../scripts/audit.py"


rule published:
    """The authors' results: every table and figure that they give, the audit, and the page of it all."""
    input:
        rules.tables.input,
        rules.figures.input,
        rules.audit.output,
        rules.appendices.input,
        "<results>/report.html",
