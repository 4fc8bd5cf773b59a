# What an experiment will cost before it is run. Needs the benchmark files of any past run; makes a page and its tables.

PAST_RUNS = sorted(str(path.parent) for path in Path("results").glob("*/config.json"))


rule estimate:
    """Estimate the CPU and GPU hours of this config from past runs: `snakemake estimate --configfile config/paper.yaml`."""
    output:
        "<results>/estimate.md",
        "<results>/estimate.csv",
        "<results>/estimate_measured.csv",
    log:
        "<logs>/estimate.log",
    benchmark:
        "<benchmarks>/estimate.tsv"
    localrule: True
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        source=source("estimate.py"),
        config=config,
        snakefile=str(ROOT / "Snakefile"),
        runs=PAST_RUNS,
        benchmarks=f"results/{config['name']}/benchmarks",
        # A run that has gone on since the last estimate makes a new one.
        newest=max((path.stat().st_mtime for run in PAST_RUNS for path in Path(run).glob("benchmarks/**")), default=0),
    script:
        "../scripts/estimate.py"
