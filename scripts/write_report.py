"""Rule `write_report`: the page of the run."""

from pathlib import Path

from _job import job

log = job(snakemake)

import pandas as pd

from deduce.artifacts import atomic, load_json
from deduce.evaluation import results
from deduce.report import page
from deduce.report.gallery import TestSet
from deduce.shards import Pairs, Shard

asked = snakemake.input
table = results.read(asked.results)
output = Path(snakemake.output[0])


def test_sets():
    for seed in snakemake.params.seeds:
        shards = {Path(path).parent.name: path for path in asked.shards if Path(path).stem == seed}
        answers = {method: Shard.load(shards[method]) for method in snakemake.params.methods}
        pairs = next(path for path in asked.pairs if Path(path).stem == seed)
        yield TestSet(int(seed), Pairs.load(pairs), answers, table[table["seed"] == int(seed)])


def by_name(paths, read=Path.read_text):
    named = {}
    for path in map(Path, paths):
        named.setdefault(path.stem, {})[path.suffix[1:]] = read(path)
    return named


run = page.Run(
    experiment=snakemake.params.experiment,
    results=table,
    sets=test_sets(),
    tables={Path(path).stem: pd.read_csv(path) for path in asked.tables if path.endswith(".csv")},
    texts=by_name(asked.tables),
    figures=by_name(asked.figures, Path.read_bytes),
    records={Path(path).stem: pd.read_csv(path) for path in asked.records},
    timing=pd.concat(map(pd.read_csv, asked.timing)) if asked.timing else pd.DataFrame(),
    manifest=load_json(asked.manifest),
    sums=Path(asked.sums).read_text(),
    benchmarks=page.durations(output.parent / "benchmarks"),
    published=snakemake.params.published,
)
with atomic(output) as temporary:
    temporary.write_text(page.render(run), encoding="utf-8")
log.info("%s: %.1f MB", output, output.stat().st_size / 1e6)
