"""Rule `training_figure`: the training records as curves."""

from pathlib import Path

from _job import job

log = job(snakemake)

import pandas as pd

from deduce.artifacts import atomic
from deduce.model_figures import training_curves

figure = training_curves({Path(path).stem: pd.read_csv(path) for path in sorted(snakemake.input)})
for path in snakemake.output:
    with atomic(path) as temporary:
        figure.savefig(temporary, dpi=150)
