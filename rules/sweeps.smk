# Appendices A and B, and any other sweep that the config declares: variants of a method, made by the method's own rule,
# on the validation batch or test sets. Needs their counterfactuals; makes a table, tests and a figure of each sweep.


wildcard_constraints:
    sweep="|".join(SWEEPS) or "none",


rule sweep_table:
    """Compare the settings of a sweep on the same pairs, with the paper's figures beside where it has any."""
    input:
        pairs=sweep_inputs("pairs"),
        shards=sweep_inputs("counterfactuals"),
    output:
        table=report(
            "<results>/tables/{sweep}.csv",
            caption="../report/sweeps.rst",
            category="Sweeps",
            labels={"what": "{sweep}, table"},
        ),
        texts=multiext("<results>/tables/{sweep}", ".md", ".tex"),
        tests="<results>/tables/{sweep}_tests.csv",
        figure=report(
            "<results>/figures/{sweep}.png",
            caption="../report/sweeps.rst",
            category="Sweeps",
            labels={"what": "{sweep}, figure"},
        ),
        pdf="<results>/figures/{sweep}.pdf",
    log:
        "<logs>/sweep_table/{sweep}.log",
    benchmark:
        "<benchmarks>/sweep_table/{sweep}.tsv"
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        source=source("sweep_table.py"),
        sweeps=lambda wildcards: [sweep.as_dict() for sweep in compared_sweeps(wildcards.sweep).values()],
    script:
        "../scripts/sweep_table.py"


rule appendices:
    """Appendices A and B, and every other sweep of the config. No part of the default target."""
    input:
        expand(
            ["<results>/tables/{sweep}.csv", "<results>/figures/{sweep}.png"],
            sweep=MADE_SWEEPS if STORED or config["published"] else SWEEPS,
        ),
