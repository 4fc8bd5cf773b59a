"""Rule `pertinent_positives`: the least ink that keeps each image's class, by a method that can find it."""

from _job import log, snakemake

from pathlib import Path

import numpy as np
import pandas as pd
import torch

from deduce import compute, methods, models
from deduce.artifacts import atomic
from deduce.evaluation import tables
from deduce.shards import Pairs

compute.configure(**snakemake.params.accelerator)
method = methods.by_name(snakemake.params.method)(**snakemake.params.settings)
networks = [models.load(snakemake.input[role]).to(compute.device()) for role in ("classifier", "autoencoder")]
pairs = {Path(path).stem: Pairs.load(path) for path in snakemake.input.pairs}
first = {seed: np.unique(part.image, return_index=True)[1] for seed, part in pairs.items()}
images = np.concatenate([part.original[first[seed]] for seed, part in pairs.items()])
result = method.positives(*networks, torch.from_numpy(images), progress=True)
ink, kept = images.reshape(len(images), -1), result.counterfactual.numpy().reshape(len(images), -1)
keys = [{"seed": seed, "image": part.image, "label": part.label} for seed, part in pairs.items()]
parts = [pd.DataFrame(key).iloc[first[key["seed"]]] for key in keys]
frame = pd.concat(parts, ignore_index=True).assign(
    found=result.found.numpy(),
    confidence=result.confidence.numpy(),
    pixels=(kept > 0).sum(1),
    share_of_pixels=(kept > 0).sum(1) / (ink > 0).sum(1),
    share_of_ink=kept.sum(1) / ink.sum(1),
)
caption = f"The least ink that keeps an image's class ({method.display_name}), image by image."
tables.write(Path(snakemake.output.table).with_suffix(""), frame, tables.frame_table(frame, caption))
with atomic(snakemake.output.images) as temporary, open(temporary, "wb") as file:
    np.savez_compressed(file, original=images, positive=result.counterfactual.numpy())
log.info(
    "%d of %d found; %.2f of the ink is enough", frame.found.sum(), len(frame), frame.share_of_ink[frame.found].mean()
)
