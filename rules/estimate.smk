# What a run of this config would cost. Needs the records of a finished run, of this config or another; makes no file.


rule estimate:
    """Estimate the core hours of this config on this machine, from the records of the finished run `estimate_from`.

    It has no output, so it always runs: the table goes to the console and to the log.
    """
    log:
        "<logs>/estimate.log",
    localrule: True
    conda:
        "../envs/core.yaml"
    params:
        source=source("estimate.py"),
        run=f"results/{config['estimate_from']}",
    script:
        "../scripts/estimate.py"
