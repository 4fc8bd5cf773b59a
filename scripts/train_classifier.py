"""Rule `classifier`: trains one of the two networks."""

from pathlib import Path

from _job import job

log = job(snakemake)

from deduce import compute, data
from deduce.models.resnet import PlainResNet, SpectralResNet
from deduce.training import Plan, train
from deduce.training.classifier import Classification

settings, seed = snakemake.params.settings, snakemake.params.seed
root = Path(snakemake.input.data[0]).parents[2]
images, labels = data.load(root, snakemake.params.dataset, "train")
images, labels = images[: settings["training_images"]], labels[: settings["training_images"]]

compute.deterministic(seed)
_, channels, size, _ = images.shape
if "coefficient" in settings:
    network = SpectralResNet(settings["width"], channels, data.CLASSES, size, settings["coefficient"])
else:
    network = PlainResNet(settings["width"], channels, data.CLASSES)
task = Classification(network, settings["learning_rate"])
plan = Plan(settings["epochs"], settings["batch_size"], seed, settings["schedule"])
count = settings["training_images"] // 5  # as many as the paper has for its 50,000
validation = tuple(part[:count] for part in data.load(root, snakemake.params.dataset, "validation"))
train(task, plan, (images, labels), validation, snakemake.output.weights, (settings, snakemake.params.source))
