"""Would anyone else be convinced? Scores of counterfactuals by networks that no method explains (docs/metrics.md)."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from deduce.evaluation.metrics import ORACLE_COLUMNS
from deduce.realism.score import Images


def votes(images: Images, models: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Tensor]:
    """The share of oracles to whom the target is the most probable class, and the vote of each oracle (0 or 1)."""
    agree = (models["oracles"].seen(images.pixels) == images.targets).double()
    return {"oracle": agree.mean(0)} | dict(zip(ORACLE_COLUMNS, agree, strict=True))
