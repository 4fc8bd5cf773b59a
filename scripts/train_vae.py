"""Rule `vae`: trains the variational autoencoder."""

from pathlib import Path

from _job import job

log = job(snakemake)

from deduce import compute, data
from deduce.models.vae import VAE
from deduce.training import Plan, train
from deduce.training.vae import VariationalAutoencoding

settings, seed = snakemake.params.settings, snakemake.params.seed
root = Path(snakemake.input.data[0]).parents[2]
images, labels = data.load(root, snakemake.params.dataset, "train")
images, labels = images[: settings["training_images"]], labels[: settings["training_images"]]

compute.deterministic(seed)
_, channels, size, _ = images.shape
annealing = round(settings["annealing_epochs"] * len(images) / settings["batch_size"])
task = VariationalAutoencoding(VAE(settings["latent"], channels, size), settings["learning_rate"], annealing)
plan = Plan(settings["epochs"], settings["batch_size"], seed, settings["schedule"])
count = settings["training_images"] // 5  # as many as the paper has for its 50,000
validation = tuple(part[:count] for part in data.load(root, snakemake.params.dataset, "validation"))
train(task, plan, (images, labels), validation, snakemake.output.weights, (settings, snakemake.params.source))
