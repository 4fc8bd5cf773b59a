# A method that answers at once, and whose jobs go wrong as the files in `faults/` say. The tests copy it into a checkout.


rule faulty:
    """Answer every pair with the original, unless a fault is asked for."""
    input:
        pairs="<results>/pairs/{seed}/{part}.npz",
    output:
        shard("faulty"),
    log:
        "<logs>/{method}/{seed}-{part}.log",
    benchmark:
        "<benchmarks>/{method}/{seed}-{part}.tsv"
    conda:
        "../../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=grows(500),
        runtime=lambda wildcards, attempt: (
            1 if (wildcards.seed, wildcards.part, attempt) == ("1", "002", 1) else 10 * attempt
        ),
        gpu=GPU,
    script:
        "../../scripts/faulty.py"
