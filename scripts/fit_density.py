"""Rule `density`: fits the class-conditional Gaussians on the features of the training images."""

from pathlib import Path

from _job import job

log = job(snakemake)

import torch

from deduce import compute, data, models
from deduce.density import ClassDensities
from deduce.models.resnet import all_features

root = Path(snakemake.input.data[0]).parents[2]
images, labels = data.load(root, snakemake.params.dataset, "train")
count = snakemake.params.settings["training_images"]
network = models.load(snakemake.input.classifier).to(compute.device())
features = all_features(network, images[:count])
densities = ClassDensities.fit(features, labels[:count].to(features.device), data.CLASSES)
models.save(snakemake.output.weights, densities)
inside = densities.log_density(features, labels[:count].to(features.device))
log.info("%d features of %d images; jitter %g", features.shape[1], len(features), densities.jitter)
log.info(
    "log-density of the training images, quartiles: %s",
    torch.quantile(inside, inside.new_tensor([0.25, 0.5, 0.75])).tolist(),
)
