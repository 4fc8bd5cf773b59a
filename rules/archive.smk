# What travels: the artefacts of a finished run with their checksums, and one file of it all.


rule pack:
    """Pack the artefacts, their checksums and what made them into one file, the same bytes every time."""
    input:
        sums="<artifacts>/SHA256SUMS",
        manifest="<artifacts>/manifest.json",
        files=stored("*"),
    output:
        f"<results>/archive/{config['name']}.tar.gz",
    log:
        "<logs>/pack.log",
    benchmark:
        "<benchmarks>/pack.tsv"
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=30,
    params:
        source=source("pack.py"),
    script:
        "../scripts/pack.py"


rule archive:
    """One file from which anyone can make the tables and figures again: `--config artifacts=FILE`."""
    input:
        rules.pack.output,
