"""Rule `wgan`: trains generator and critic."""

from pathlib import Path

from _job import job

log = job(snakemake)

from deduce import compute, data
from deduce.models.wgan import WGAN
from deduce.training import Plan, train
from deduce.training.wgan import AdversarialGeneration

settings, seed = snakemake.params.settings, snakemake.params.seed
root = Path(snakemake.input.data[0]).parents[2]
images, labels = data.load(root, snakemake.params.dataset, "train")
images, labels = images[: settings["training_images"]], labels[: settings["training_images"]]

compute.deterministic(seed)
network = WGAN(settings["latent"], images.shape[1], settings["width"], settings["critic_width"])
rates = settings["learning_rate"], settings["critic_learning_rate"]
task = AdversarialGeneration(network, *rates, settings["critic_steps"], settings["averaging"])
plan = Plan(settings["epochs"], settings["batch_size"], seed, settings["schedule"])
count = settings["training_images"] // 5  # as many as the paper has for its 50,000
validation = tuple(part[:count] for part in data.load(root, snakemake.params.dataset, "validation"))
train(task, plan, (images, labels), validation, snakemake.output.weights, (settings, snakemake.params.source))
