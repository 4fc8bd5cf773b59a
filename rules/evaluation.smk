# Section 4.3, the evaluation. Needs pairs, counterfactuals and, where they were measured, realism scores and run times:
# files only, from this run or stored ones (<artifacts>); makes the results table, statistics, tables, claims and figures.

TABLES = ["table1", "table1_paper", "table1_failures_worst", "table1_own_pairs", "table1_all_metrics", "l0_thresholds"]
TABLES += ["by_target", "table3", "table3_paper"]
FIGURES = ["counterfactual_grid", "distributions", "success_rates", "l0_thresholds", "targets"]
FIGURES += [f"examples_{method}" for method in METHODS]

if stored("timing/*"):
    TABLES += ["table2", "table2_paper"]
    FIGURES.append("run_times")
if set(METHODS) & set(paper.TABLE1):
    FIGURES.append("paper_comparison")
if stored("features.npz"):
    FIGURES.append("feature_map")
if stored("reconstructions.npz"):
    FIGURES.append("vae_reconstructions")


rule results_table:
    """Check every shard and put it into one table: a row per method, test set, image and target."""
    input:
        pairs=stored("pairs/*"),
        shards=stored("counterfactuals/*"),
        scores=stored("realism/*"),
    output:
        results=report(
            "<results>/results.csv",
            caption="../report/results.rst",
            category="Results",
            labels={"what": "one row per counterfactual"},
        ),
        references="<results>/tables/references.csv",
    log:
        "<logs>/results_table.log",
    benchmark:
        "<benchmarks>/results_table.tsv"
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        source=source("results_table.py"),
        methods=METHODS,
        settings={method: section(method) for method in METHODS},
    script:
        "../scripts/results_table.py"


rule results_parquet:
    """The results table for those who load it often."""
    input:
        "<results>/results.csv",
    output:
        "<results>/results.parquet",
    log:
        "<logs>/results_parquet.log",
    benchmark:
        "<benchmarks>/results_parquet.tsv"
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=5,
    params:
        source=source("results_parquet.py"),
    script:
        "../scripts/results_parquet.py"


rule statistical_tests:
    """Success rates with intervals, and paired tests of every two methods on every metric."""
    input:
        "<results>/results.csv",
    output:
        tests=report(
            "<results>/tables/tests.csv",
            caption="../report/tests.rst",
            category="Tables",
            labels={"what": "paired tests"},
        ),
        success=report(
            "<results>/tables/success.csv",
            caption="../report/tests.rst",
            category="Tables",
            labels={"what": "success rates"},
        ),
    log:
        "<logs>/statistical_tests.log",
    benchmark:
        "<benchmarks>/statistical_tests.tsv"
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        source=source("statistical_tests.py"),
    script:
        "../scripts/statistical_tests.py"


rule write_tables:
    """Tables 1 to 3 as CSV, Markdown and LaTeX, beside the paper's figures, and table 1 read in other ways."""
    input:
        results="<results>/results.csv",
        references="<results>/tables/references.csv",
        timing=stored("timing/*"),
    output:
        [
            report(
                f"<results>/tables/{table}.csv",
                caption="../report/tables.rst",
                category="Tables",
                labels={"what": table.replace("_", " ")},
            )
            for table in TABLES
        ],
        expand("<results>/tables/{table}.{format}", table=TABLES, format=["md", "tex"]),
    log:
        "<logs>/write_tables.log",
    benchmark:
        "<benchmarks>/write_tables.tsv"
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        source=source("write_tables.py"),
    script:
        "../scripts/write_tables.py"


rule check_claims:
    """Each sentence of the paper that states a result, and whether it holds in this run."""
    input:
        results="<results>/results.csv",
        references="<results>/tables/references.csv",
        tests="<results>/tables/tests.csv",
        timing=stored("timing/*"),
        sanity=stored("tables/sanity.csv"),
        sweeps=expand("<results>/tables/{sweep}.csv", sweep=MADE_SWEEPS),
    output:
        report(
            "<results>/tables/claims.csv",
            caption="../report/claims.rst",
            category="Claims",
            labels={"what": "the paper's claims"},
        ),
        "<results>/tables/claims.md",
        "<results>/tables/claims.tex",
    log:
        "<logs>/check_claims.log",
    benchmark:
        "<benchmarks>/check_claims.tsv"
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        source=source("check_claims.py"),
        methods=METHODS,
    script:
        "../scripts/check_claims.py"


rule draw_figures:
    """The paper's figures and the distributions behind its tables, as PNG and PDF."""
    input:
        results="<results>/results.csv",
        pairs=f"<artifacts>/pairs/{SEEDS[0]}.npz",
        shards=expand("<artifacts>/counterfactuals/{method}/{seed}.npz", method=METHODS, seed=SEEDS[0]),
        timing=stored("timing/*"),
        stored=stored("features.npz") + stored("reconstructions.npz"),
    output:
        [
            report(
                f"<results>/figures/{figure}.png",
                caption="../report/figures.rst",
                category="Figures",
                labels={"what": figure.replace("_", " ")},
            )
            for figure in FIGURES
        ],
        expand("<results>/figures/{figure}.pdf", figure=FIGURES),
    log:
        "<logs>/draw_figures.log",
    benchmark:
        "<benchmarks>/draw_figures.tsv"
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=20,
    params:
        source=source("draw_figures.py"),
    script:
        "../scripts/draw_figures.py"


rule tables:
    """Results, statistics, the paper's tables, and its claims."""
    input:
        "<results>/results.csv",
        PARQUET,
        rules.statistical_tests.output,
        rules.write_tables.output,
        rules.check_claims.output,
        rules.stored_tables.output if STORED and stored("tables/*") else [],


rule figures:
    """Every figure."""
    input:
        rules.draw_figures.output,
