"""Counterfactuals beside their originals, as one figure."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure

from deduce.errors import InputError

# What was removed is orange and what was added blue, as on the page.
CHANGE = LinearSegmentedColormap.from_list("change", ["#f0a202", "white", "#56b4e9"])


def show(images: Any, results: Any, targets: Sequence[int] | None = None) -> Figure:
    """A column for each image: the original and, for each result, the change and the counterfactual.

    images: (n, channels, height, width) in [0, 1], as given to `generate`.
    results: what `generate` returned, or several of them by the name of the method.
    targets: (n,), for the titles.
    """
    named = results if isinstance(results, Mapping) else {"": results}
    originals = np.asarray(images, dtype=np.float32)
    figure, axes = plt.subplots(
        1 + 2 * len(named),
        len(originals),
        figsize=(1.2 * len(originals) + 0.6, 1.25 * (1 + 2 * len(named))),
        layout="constrained",
        squeeze=False,
    )
    _draw(axes[0], originals, "original")
    for (name, result), changes, found in zip(named.items(), axes[1::2], axes[2::2], strict=True):
        counterfactuals = np.asarray(result.counterfactual)
        if counterfactuals.shape != originals.shape:
            plt.close(figure)
            raise InputError(f"images: have shape {originals.shape}, but the counterfactuals {counterfactuals.shape}.")
        difference = (counterfactuals - originals).mean(1, keepdims=True)
        _draw(changes, difference, f"{name}\nchange".strip(), cmap=CHANGE, vmin=-1)
        _draw(found, counterfactuals, f"{name}\ncounterfactual".strip())
        for column, axis in enumerate(found):
            if not result.found[column]:
                axis.set_title("not found", fontsize=8)
            elif targets is not None:
                axis.set_title(f"→ {int(targets[column])}", fontsize=8)
    return figure


def _draw(axes: Sequence[Axes], images: np.ndarray, label: str, cmap: str | Colormap = "gray", vmin: float = 0) -> None:
    """A row of images with a label on its left; of other numbers of channels than 3, their mean."""
    for axis, image in zip(axes, images, strict=True):
        pixels = np.moveaxis(image, 0, -1) if len(image) == 3 else image.mean(0)
        axis.imshow(pixels, cmap=cmap, vmin=vmin, vmax=1, interpolation="nearest")
        axis.set_xticks([])
        axis.set_yticks([])
    axes[0].set_ylabel(label, fontsize=8)
