"""Rule `class_autoencoders`: trains the autoencoders of the scores IM1 and IM2."""

from pathlib import Path

from _job import job

log = job(snakemake)

from deduce import compute, data
from deduce.models.class_autoencoders import ClassAutoencoders
from deduce.training import Plan, train
from deduce.training.class_autoencoders import ClassAutoencoding, side_by_side

settings, seed = snakemake.params.settings, snakemake.params.seed
root = Path(snakemake.input.data[0]).parents[2]
images, labels = data.load(root, snakemake.params.dataset, "train")
images, labels = images[: settings["training_images"]], labels[: settings["training_images"]]
training = side_by_side(images, labels, data.CLASSES)
validation = side_by_side(*data.load(root, snakemake.params.dataset, "validation"), data.CLASSES)

compute.deterministic(seed)
pixels = images[0].numel()
task = ClassAutoencoding(
    ClassAutoencoders(data.CLASSES, pixels, settings["hidden"], settings["latent"]), settings["learning_rate"]
)
plan = Plan(settings["epochs"], settings["batch_size"], seed, settings["schedule"])
rows = [(some, some.new_zeros(len(some)).long()) for some in (training, validation)]  # the classes are the columns
train(task, plan, *rows, snakemake.output.weights, (settings, snakemake.params.source))
