"""Rule `ensemble`: members that were trained one by one, as one model."""

from _job import log, snakemake

from pathlib import Path

import pandas as pd

from deduce import models
from deduce.artifacts import save_csv
from deduce.models.ensemble import Ensemble

paths = [Path(path) for path in snakemake.input]
models.save(snakemake.output.weights, Ensemble.joined([models.load(path) for path in paths]))
records = [pd.read_csv(path.with_suffix(".csv")).assign(member=path.stem) for path in paths]
save_csv(snakemake.output.record, pd.concat(records))
log.info("%d members", len(paths))
