"""Rule `model_card`: measures the models, and keeps what the generative ones draw."""

from _job import log, snakemake

import numpy as np
import torch

from deduce import compute, models
from deduce.artifacts import save_arrays, save_csv
from deduce.datasets import DATASETS, load, root_of
from deduce.model_card import SAMPLES, Models, model_card, pictures, reconstructions
from deduce.shards import Pairs

device, inputs, dataset = compute.device(), snakemake.input, DATASETS[snakemake.params.dataset]
files = {role: inputs[role] for role in snakemake.params.models}  # the densities' classifier is usually `ddu`
by_file = {file: models.load(file).to(device, memory_format=torch.channels_last) for file in set(files.values())}
loaded = Models(**{role: by_file[file] for role, file in files.items()})
root = root_of(inputs.data)
images, labels = load(root, dataset.name, "test")
test, train = images.to(device), load(root, dataset.name, "train", SAMPLES)[0].to(device)
outliers = [load(root, name, "test")[0].to(device) for name in snakemake.params.outliers]
card = model_card(loaded, (test, labels), train, outliers, dataset.paper)
log.info("\n%s", card.to_string(index=False))
save_csv(snakemake.output.card, card)

pairs = Pairs.load(inputs.pairs)
rows = np.unique(pairs.image, return_index=True)[1][: snakemake.params.reconstructions]
rebuilt = reconstructions(loaded.vae, torch.from_numpy(pairs.original[rows]).to(device))
save_arrays(snakemake.output.pictures, pictures(loaded, test))
save_arrays(snakemake.output.reconstructions, rebuilt)
