"""Rule `generative_figures`: samples of the WGAN and reconstructions of the VAE and the autoencoder."""

from pathlib import Path

from _job import job

log = job(snakemake)

import torch

from deduce import data, models
from deduce.artifacts import atomic
from deduce.model_card import wgan_samples
from deduce.model_figures import picture_grid

COLUMNS = 20

images, _ = data.load(Path(snakemake.input.data[0]).parents[2], snakemake.params.dataset, "test")
originals = images[:COLUMNS]
samples = wgan_samples(models.load(snakemake.input.wgan), 8 * COLUMNS)
with torch.no_grad():
    rebuilt = [models.load(snakemake.input[name])(originals) for name in ("vae", "autoencoder")]
figures = {
    "wgan": picture_grid(samples, COLUMNS),
    "vae": picture_grid(torch.cat([originals, *rebuilt]).clamp(0, 1), COLUMNS, ["original", "VAE", "autoencoder"]),
}
for name, figure in figures.items():
    for path in snakemake.output[name]:
        with atomic(path) as temporary:
            figure.savefig(temporary, dpi=150)
