"""Rule `sanity_checks`: how well the AnoGAN score tells images of the dataset from others."""

from pathlib import Path

from _job import job

log = job(snakemake)

from deduce.artifacts import atomic
from deduce.realism import sanity
from deduce.shards import Scores

scores = {Path(path).stem: Scores.load(path).agan.astype(float) for path in snakemake.input}
table = sanity.table(snakemake.params.dataset, scores, snakemake.params.absent, snakemake.params.samples)
for name in snakemake.params.absent:
    log.warning("%s is not checked: its files are not here; realism.emnist_folder in the config names a folder", name)
log.info("\n%s", table.to_string(index=False))
with atomic(snakemake.output.csv) as temporary:
    table.to_csv(temporary, index=False)
with atomic(snakemake.output.markdown) as temporary:
    rounded = table.round(3).astype(object).where(table.notna(), "")
    lines = [table.columns, ["---"] * len(table.columns), *rounded.itertuples(index=False)]
    temporary.write_text("\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n")
figure = sanity.roc_figure(snakemake.params.dataset, scores, table)
for path in snakemake.output.figures:
    with atomic(path) as temporary:
        figure.savefig(temporary, dpi=150)
