"""What is measured on the images themselves: ink, stroke thickness and slant, and how connected a change is.

All of it needs numpy and scipy only, so that it can also be measured on stored counterfactuals (docs/metrics.md).
"""

import numpy as np
import pandas as pd
from scipy import ndimage

VISIBLE = 0.1  # a pixel that changes by more than this share of the range is visibly changed
INK_LEVEL = 0.5  # brighter pixels belong to a stroke
ATTRIBUTES = ("ink", "thickness", "slant")
CHANGES = tuple(f"{name}_change" for name in ATTRIBUTES)
EIGHT_NEIGHBOURS = np.ones((3, 3))


def attributes(images: np.ndarray) -> dict[str, np.ndarray]:
    """Ink, thickness and slant of images (n, channels, height, width), the mean over channels; (n,) each.

    ink: the sum of all brightness. thickness: in pixels, four times the mean distance of a stroke's pixels from its
    edge, which is exact for a long straight bar of even width; NaN without a stroke. slant: in degrees, the shear of
    the brightness, positive if the upper part leans to the right; NaN for an image without height or brightness.
    """
    grey = np.clip(images.astype(np.float64), 0, 1).mean(1)
    measured = np.array([(image.sum(), _thickness(image), _slant(image)) for image in grey]).reshape(-1, 3)
    return dict(zip(ATTRIBUTES, measured.T, strict=True))


def _thickness(image: np.ndarray) -> float:
    stroke = np.pad(image > INK_LEVEL, 1)
    return 4 * (ndimage.distance_transform_edt(stroke)[stroke].mean() - 0.5) if stroke.any() else np.nan


def _slant(image: np.ndarray) -> float:
    rows, columns = np.indices(image.shape)
    total = image.sum()
    if total == 0:
        return np.nan
    up, right = (rows * image).sum() / total - rows, columns - (columns * image).sum() / total
    height = (image * up**2).sum()
    return float(np.degrees(np.arctan2((image * up * right).sum(), height))) if height else np.nan


def changes(original: np.ndarray, counterfactual: np.ndarray) -> dict[str, np.ndarray]:
    """The change of each attribute, and the regions of visibly changed pixels; columns of the results table, (n,) each.

    `regions` is the number of 8-connected regions; `largest_region` is the share of the visibly changed pixels that
    the largest of them has, NaN if nothing visibly changed.
    """
    flat = original.reshape(len(original), int(np.prod(original.shape[1:])))
    unique, place = np.unique(flat, axis=0, return_inverse=True)
    before = attributes(unique.reshape(-1, *original.shape[1:]))  # each original is asked for several targets
    after = attributes(counterfactual)
    columns = {f"{name}_change": after[name] - before[name][place.ravel()] for name in ATTRIBUTES}
    changed = (np.abs(counterfactual.astype(np.float64) - original) > VISIBLE).any(1)
    sizes = [_region_sizes(mask) for mask in changed]
    largest = [size.max() / size.sum() if len(size) else np.nan for size in sizes]
    return columns | {"regions": np.array([len(size) for size in sizes], int), "largest_region": np.array(largest)}


def _region_sizes(mask: np.ndarray) -> np.ndarray:
    regions, _ = ndimage.label(mask, EIGHT_NEIGHBOURS)
    return np.bincount(regions.ravel())[1:]


def natural_changes(images: np.ndarray, labels: np.ndarray) -> pd.DataFrame:
    """How images of one class differ from images of another: one row per label, target and attribute.

    images: real images (n, channels, height, width) with labels (n,). `difference` is the difference of the classes'
    means; `size` is the mean absolute difference of an image of one class and an image of the other.
    """
    rows = []
    for name, values in attributes(images).items():
        by_class = {label: values[(labels == label) & np.isfinite(values)] for label in np.unique(labels).tolist()}
        for label, before in by_class.items():
            for target, after in by_class.items():
                if label != target and len(before) and len(after):
                    size = np.abs(after[:, None] - before).mean()
                    rows.append((label, target, name, after.mean() - before.mean(), size))
    return pd.DataFrame(rows, columns=["label", "target", "attribute", "difference", "size"])
