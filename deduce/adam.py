"""Adam (Kingma and Ba) for the rows of one batch: each has its own averages and its own number of steps."""

from dataclasses import dataclass

import torch
from torch import Tensor

from deduce.search import Rows

DECAY, SQUARE_DECAY, EPSILON = 0.9, 0.999, 1e-8  # β1, β2 and ε, as everywhere


@dataclass
class AdamRows(Rows):
    average: Tensor  # of the gradients, in the shape of the searched tensor
    square_average: Tensor
    steps: Tensor  # (n,) since the averages began


def beginning(rows: Rows, variable: Tensor) -> dict[str, Tensor]:
    """The fields of fresh `AdamRows` that search `variable`, (n, …)."""
    nothing = torch.zeros_like(variable)
    return vars(rows) | {"average": nothing, "square_average": nothing, "steps": torch.zeros_like(rows.iterations)}


def begin_again(rows: AdamRows, mask: Tensor) -> None:
    """Forgets the averages of the rows that a mask, (n,) bool, selects."""
    wide = like(mask, rows.average)
    rows.average = rows.average.masked_fill(wide, 0)
    rows.square_average = rows.square_average.masked_fill(wide, 0)
    rows.steps = rows.steps.masked_fill(mask, 0)


def change(rows: AdamRows, gradient: Tensor, rate: float | Tensor) -> Tensor:
    """What to add to the searched tensor in the next step; the rate is one number, or one per row, (n,)."""
    rows.steps = rows.steps + 1
    rows.average = DECAY * rows.average + (1 - DECAY) * gradient
    rows.square_average = SQUARE_DECAY * rows.square_average + (1 - SQUARE_DECAY) * gradient.square()
    average = rows.average / like(1 - DECAY**rows.steps, gradient)
    root = (rows.square_average / like(1 - SQUARE_DECAY**rows.steps, gradient)).sqrt()
    return -(like(rate, gradient) if isinstance(rate, Tensor) else rate) * average / (root + EPSILON)


def like(values: Tensor, tensor: Tensor) -> Tensor:
    """Values per row, (n,), in a shape that broadcasts against a tensor (n, …)."""
    return values.view(-1, *[1] * (tensor.ndim - 1))
