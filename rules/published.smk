# The authors' stored results (`--config published=CLONE`, a clone of github.com/benedikthoeltgen/DeDUCE). Needs the
# clone; makes a folder of artefacts from it. Nothing in the clone is ever executed.

if EXPERIMENT.mode == PUBLICATION:

    rule import_published:
        """Read the authors' tensors and scores into this project's files, without changing a value."""
        input:
            [
                str(path)
                for folder in ("_testset_results*", "valset_batch")
                for path in sorted(Path(EXPERIMENT.origin).glob(f"{folder}/*"))
            ],
        output:
            expand("<artifacts>/{name}", name=EXPERIMENT.artifact_names),
            manifest="<artifacts>/manifest.json",
            sums="<artifacts>/SHA256SUMS",
        log:
            "<logs>/import_published.log",
        conda:
            "../envs/core.yaml"
        params:
            source=source("import_published.py"),
            clone=lambda wildcards: EXPERIMENT.origin,
            config=EXPERIMENT.config,
            names=EXPERIMENT.artifact_names,
        script:
            "../scripts/import_published.py"


rule published:
    """The authors' results: every table and figure that they give, with the audit, and the page of it all."""
    input:
        [rules.tables.input, rules.figures.input, rules.report.input]
        if EXPERIMENT.mode == PUBLICATION
        else lambda wildcards: sys.exit(
            "The target 'published' needs a clone: `--config published=CLONE` (docs/results.md)."
        ),
