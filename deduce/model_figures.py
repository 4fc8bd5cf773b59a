"""Pictures of the models: how they learnt, and what the generative ones make."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

if TYPE_CHECKING:  # training curves are drawn from stored records, where there is no torch
    from torch import Tensor

NOT_CURVES = ("epoch", "seconds")


def training_curves(records: dict[str, pd.DataFrame]) -> Figure:
    """One row per model, one panel per recorded quantity; training and validation values of one share a panel."""
    panels = {model: _panels(record) for model, record in records.items()}
    columns = max(map(len, panels.values()))
    figure, axes = plt.subplots(
        len(panels), columns, figsize=(3 * columns, 2.1 * len(panels)), squeeze=False, layout="constrained"
    )
    for line, (model, quantities) in zip(axes, panels.items(), strict=True):
        for axis in line[len(quantities) :]:
            axis.set_axis_off()
        for axis, (quantity, names) in zip(line, quantities.items(), strict=False):
            for name in names:
                label = "validation" if name.startswith("validation_") else "training"
                axis.plot(records[model]["epoch"], records[model][name], marker=".", label=label)
            axis.set_xlim(0.5, records[model]["epoch"].max() + 0.5)
            axis.set_title(f"{model}: {quantity.replace('_', ' ')}", fontsize=9)
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
            axis.tick_params(labelsize=8)
            if len(names) > 1:
                axis.legend(fontsize=7)
        line[0].set_xlabel("epoch", fontsize=8)
    return figure


def _panels(record: pd.DataFrame) -> dict[str, list[str]]:
    panels: dict[str, list[str]] = {}
    for name in record.columns:
        if name not in NOT_CURVES:
            panels.setdefault(name.removeprefix("validation_"), []).append(name)
    return panels


def picture_grid(images: Tensor, columns: int, row_labels: list[str] | None = None) -> Figure:
    """Images (n, channels, height, width) in [0, 1], row by row; n is a multiple of `columns`."""
    count, channels, height, width = images.shape
    rows = count // columns
    table = images.cpu().reshape(rows, columns, channels, height, width).permute(0, 3, 1, 4, 2)
    picture = table.reshape(rows * height, columns * width, channels).numpy()
    figure, axis = plt.subplots(figsize=(columns * 0.5 + 1, rows * 0.5), layout="constrained")
    axis.imshow(picture if channels == 3 else picture[..., 0], cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axis.set_xticks([])
    axis.set_yticks([(row + 0.5) * height for row in range(rows)] if row_labels else [], row_labels or [])
    return figure
