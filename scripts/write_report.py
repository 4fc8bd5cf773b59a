"""Rule `write_report`: the page of the run."""

from _job import log, snakemake

from pathlib import Path

from deduce.artifacts import load_json, save_text
from deduce.evaluation.run import Run
from deduce.report import page

files, output = snakemake.input, Path(snakemake.output[0])
data = page.PageData(
    run=Run(snakemake.params.config, dict(files.items()), snakemake.params.mode),
    tables=page.by_name(files.tables),
    figures=page.by_name(files.figures),
    manifest=load_json(files.manifest),
    sums=Path(files.sums).read_text(),
    benchmarks=page.durations(output.parent / "benchmarks"),
)
save_text(output, page.render(data))
log.info("%s: %.1f MB", output, output.stat().st_size / 1e6)
