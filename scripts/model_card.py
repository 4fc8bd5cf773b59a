"""Rule `model_card`: measures the models."""

from pathlib import Path

from _job import job

log = job(snakemake)

from deduce import compute, data, models
from deduce.artifacts import atomic
from deduce.model_card import Models, model_card

root, device = Path(snakemake.input.data[0]).parents[2], compute.device()
names = ("ddu", "density", "plain", "vae", "autoencoder", "wgan")
loaded = Models(**{name: models.load(snakemake.input[name]).to(device) for name in names})
dataset = snakemake.params.dataset
test, labels = data.load(root, dataset, "test")
train, _ = data.load(root, dataset, "train")
outliers, _ = data.load(root, snakemake.params.outliers, "test")
card = model_card(loaded, (test.to(device), labels), train.to(device), outliers.to(device), dataset == "mnist")
log.info("\n%s", card.to_string(index=False))
with atomic(snakemake.output[0]) as temporary:
    card.to_csv(temporary, index=False)
