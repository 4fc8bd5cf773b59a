"""Would anyone else be convinced? Scores of counterfactuals by networks that no method explains (docs/metrics.md)."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from deduce.evaluation.metrics import ORACLE_COLUMNS
from deduce.realism.score import Images


def votes(images: Images, models: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Tensor]:
    """The share of oracles to whom the target is the most probable class, and the vote of each oracle (0 or 1)."""
    agree = (models["oracles"].seen(images.pixels) == images.targets).double()
    return {"oracle": agree.mean(0)} | dict(zip(ORACLE_COLUMNS, agree, strict=True))


def log_density(images: Images, models: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Tensor]:
    """The oracles' mean of log p(features | target), each with the class densities of its own features."""
    return _densities(
        "oracle_log_density", images, models, lambda density, rows: density.log_density(rows, images.targets)
    )


def log_mixture(images: Images, models: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Tensor]:
    """The oracles' mean of log p(features) under the mixture of these densities."""
    return _densities("oracle_log_mixture", images, models, lambda density, rows: density(rows))


def _densities(
    name: str, images: Images, models: Mapping[str, Any], of: Callable[[Any, Tensor], Tensor]
) -> dict[str, Tensor]:
    """The means over the oracles for the counterfactuals, and for their originals."""
    oracles, columns = models["oracles"], {}
    for column, pixels in ((name, images.pixels), (f"{name}_before", images.originals)):
        features = oracles.all_features(pixels)
        values = [of(density, rows) for density, rows in zip(oracles.densities, features, strict=True)]
        columns[column] = torch.stack(values).mean(0)
    return columns
