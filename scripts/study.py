"""Rules `same_classifier_tables` and `dependence_table`: the tables and the figure of one study of networks."""

from _job import log, snakemake

from pathlib import Path

from deduce.datasets import DATASETS
from deduce.evaluation import figures, studies, tables
from deduce.shards import Pairs, Shard
from deduce.studies import SAME_CLASSIFIER, Study

study = Study.from_dict(snakemake.params.study)
pairs = {Path(path).stem: Pairs.load(path) for path in snakemake.input.pairs}
shards = {(Path(path).parent.name, Path(path).stem): Shard.load(path) for path in snakemake.input.shards}
of_paper = DATASETS[snakemake.params.dataset].paper

rows = studies.long_form(study, pairs, shards)
names = studies.names_of(rows)
stem = Path(snakemake.output.table).with_suffix("")
if study.name == SAME_CLASSIFIER:
    frame, differences = studies.same_classifier(study, rows)
    table, every, page = studies.same_classifier_tables(frame, differences, names)
    tables.write(f"{stem}_differences", differences, every, page, section=study.name)
    drawn = studies.same_classifier_figure, frame, names
    alternative = "L0, L1 and failures of every algorithm on each network, as points with intervals."
else:
    frame = studies.dependence(study, rows)
    table = studies.dependence_table(frame, names, of_paper)
    drawn = studies.dependence_figure, study, frame, rows, names, of_paper
    alternative = "L0, L1 and failures as curves over settings of the networks, with intervals and the paper’s values."
tables.write(stem, frame, table, section=study.name)
data = {
    "name": study.name,
    "section": study.name,
    "fold": "",
    "caption": "",
    "images": False,
    "alternative": alternative,
}
figures.draw(Path(snakemake.output.figure).with_suffix(""), data, *drawn)
for note in table.notes:
    log.info("%s", note)
