"""All scores of a set of images: what the workflow stores of each."""

from typing import Any, NamedTuple

import numpy as np
from torch import nn

from deduce.density import ClassDensities
from deduce.models.class_autoencoders import ClassAutoencoders
from deduce.models.wgan import WGAN
from deduce.realism.anogan import AnoGAN
from deduce.realism.opinions import interpretability, log_density
from deduce.shards import Scores


class Judges(NamedTuple):
    """The models that the scores stand on, in evaluation mode."""

    wgan: WGAN
    autoencoders: ClassAutoencoders
    classifier: nn.Module
    densities: ClassDensities


def score(
    judges: Judges,
    anogan: AnoGAN,
    images: np.ndarray,
    index: np.ndarray,
    labels: np.ndarray,
    targets: np.ndarray,
    wanted: np.ndarray,
) -> Scores:
    """The scores of the `wanted` (n,) rows of images (n, 1, 28, 28), NaN in the others.

    `index`, `labels` and `targets` (n,) say what the images are: `index` in the dataset, counterfactuals from label to
    target. A row's starting points depend on its index and target alone.
    """
    keys = [(int(i), int(target)) for i, target in zip(index[wanted], targets[wanted], strict=True)]
    im1, im2 = interpretability(judges.autoencoders, images[wanted], labels[wanted], targets[wanted])
    found: dict[str, Any] = {
        "agan": anogan.score(judges.wgan, images[wanted], keys),
        "im1": im1,
        "im2": im2,
        "log_density": log_density(judges.classifier, judges.densities, images[wanted], targets[wanted]),
    }
    whole: dict[str, Any] = {name: np.full(len(images), np.nan) for name in found}
    for name, values in found.items():
        whole[name][wanted] = values
    return Scores(image=index, target=targets, **whole)
