"""Rule `comparison`: two implementations of a method on the same pairs."""

from _job import log, snakemake

from pathlib import Path

from deduce.evaluation import comparison, figures, tables
from deduce.shards import Pairs, Shard

a, b = (Shard.load(path) for path in snakemake.input.shards)
names = comparison.display_names(a, b)
rows = comparison.measured(Pairs.load(snakemake.input.pairs), a, b)
frame = comparison.compared(rows, names)
table = comparison.as_table(frame, names, snakemake.params.title)
stem = Path(snakemake.output.table).with_suffix("")
tables.write(stem, frame, table, section="comparisons")
by_pair = tables.frame_table(rows, "Every pair of that comparison.", decimals=3)
tables.write(stem.with_name(f"{stem.name}_pairs"), rows, by_pair, section="comparisons", fold="Pair by pair")
data = {"name": stem.name, "section": "comparisons", "fold": "", "images": False}
data |= {"caption": comparison.CAPTION, "alternative": comparison.ALTERNATIVE}
figures.draw(Path(snakemake.output.figure).with_suffix(""), data, comparison.picture, rows, frame, names)
log.info("%s", table.lead)
