# The authors' stored results (`--config published=CLONE`, a clone of github.com/benedikthoeltgen/DeDUCE). Needs the
# clone; makes artefacts from it, and asks oracles that are trained here. Nothing in the clone is ever executed.

from deduce.evaluation.metrics import SCORER_MODULES

if EXPERIMENT.mode == PUBLICATION:
    # The files that say what the oracles saw; before they are asked, the authors' own scores lie in `imported`.
    SCORES = EXPERIMENT.artifacts["realism"]
    STORED = [name for name in EXPERIMENT.artifact_names if Path(name).parts[0] not in {"realism", "models"}]
    ORIGIN = "<results>/imported" if EXPERIMENT.judges else "<artifacts>"

    rule import_published:
        """Read the authors' tensors and scores into this project's files, without changing a value."""
        input:
            [
                str(path)
                for folder in ("_testset_results*", "valset_batch")
                for path in sorted(Path(EXPERIMENT.origin).glob(f"{folder}/*"))
            ],
        output:
            expand("<artifacts>/{name}", name=[name for name in STORED if name != "summaries.csv"]),
            summaries="<artifacts>/summaries.csv",
            scores=[f"{ORIGIN}/{name}" for name in SCORES],
        log:
            "<logs>/import_published.log",
        conda:
            "../envs/core.yaml"
        params:
            source=source("import_published.py"),
            clone=lambda wildcards: EXPERIMENT.origin,
            config=TRACKED,
        script:
            "../scripts/import_published.py"

    if EXPERIMENT.judges:

        rule judge_published:
            """Add what oracles see in the authors' counterfactuals to the authors' own scores."""
            input:
                oracles="<results>/models/oracles.safetensors",
                record="<results>/models/oracles.csv",
                data=raw_data(EXPERIMENT.dataset.name),
                pairs=artifacts("pairs"),
                counterfactuals=artifacts("counterfactuals"),
                scores=[f"{ORIGIN}/{name}" for name in SCORES],
            output:
                scores=artifacts("realism"),
                record="<artifacts>/models/oracles.csv",
            log:
                "<logs>/judge_published.log",
            benchmark:
                "<benchmarks>/judge_published/judge_published.tsv"
            conda:
                "../envs/core.yaml"
            resources:
                mem_mb=grows(3000),
                gpu=GPU,
            params:
                source=source("judge_published.py", "deduce.models.oracles", *SCORER_MODULES),
                dataset=EXPERIMENT.dataset.name,
            script:
                "../scripts/judge_published.py"


rule published:
    """The authors' results: every table and figure that they give, with the audit, and the page of it all."""
    input:
        [rules.tables.input, rules.figures.input, rules.report.input]
        if EXPERIMENT.mode == PUBLICATION
        else lambda wildcards: sys.exit(
            "The target 'published' needs a clone: `--config published=CLONE` (docs/results.md)."
        ),
