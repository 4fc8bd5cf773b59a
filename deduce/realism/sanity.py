"""Does the score tell images of the dataset from others? AUROC, its uncertainty, and the curve (end of section 4.1)."""

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import rankdata

from deduce.errors import InputError

PAPER = {("mnist", "emnist_letters"): 0.913, ("mnist", "fashion_mnist"): 0.998}
EMNIST_FILE = "emnist-letters-test-images-idx3-ubyte"


def choice(dataset: str, available: int, wanted: int) -> np.ndarray:
    """Which of a dataset's images are scored: `wanted` at random, but always the same; all, if there are fewer."""
    import torch  # only where images are scored: the table is made without it

    from deduce import compute

    order = torch.randperm(available, generator=compute.generator("sanity", dataset))
    return np.sort(order[:wanted].numpy())


def emnist_letters(folder: str | Path) -> np.ndarray:
    """The letters of EMNIST's test split, (n, 1, 28, 28) in [0, 1], from its IDX file in `folder`, gzipped or not.

    They lie on their side, as in the file: so they were scored for the paper.
    """
    for path, opened in ((Path(folder, EMNIST_FILE), open), (Path(folder, EMNIST_FILE + ".gz"), gzip.open)):
        if path.exists():
            with opened(path, "rb") as file:
                content = file.read()
            break
    else:
        raise InputError(f"{folder}: has no {EMNIST_FILE} (.gz); set realism.emnist_folder to the folder that has it.")
    header = np.frombuffer(content[:16], ">i4")
    if len(content) < 16 or header[0] != 2051 or len(content) != 16 + header[1:].prod():
        raise InputError(f"{path}: is not a whole IDX file of images.")
    pixels = np.frombuffer(content, np.uint8, offset=16).reshape(header[1], 1, header[2], header[3])
    return (pixels / np.float32(255)).astype(np.float32)


def auroc(inside: np.ndarray, outside: np.ndarray) -> float:
    """The probability that an outlier scores higher than an image of the dataset, ties counting half."""
    ranks = rankdata(np.concatenate([inside, outside]))[len(inside) :]
    return float((ranks.mean() - (len(outside) + 1) / 2) / len(inside))


def bootstrap(inside: np.ndarray, outside: np.ndarray, samples: int, seed: int) -> tuple[float, float]:
    """The 95 % percentile interval of the AUROC, both sets of images being resampled."""
    random = np.random.default_rng(seed)
    values = [
        auroc(random.choice(inside, len(inside)), random.choice(outside, len(outside))) for _ in range(max(samples, 1))
    ]
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)


def table(dataset: str, scores: dict[str, np.ndarray], absent: list[str], samples: int, seed: int = 0) -> pd.DataFrame:
    """One row per other dataset: against, images, outliers, auroc, auroc_low, auroc_high, paper, note.

    `scores` has those of `dataset` and of the others; NaN scores are left out. `absent` ones get a row that says so.
    """
    finite = {name: values[np.isfinite(values)] for name, values in scores.items()}
    rows = []
    for name in [*(other for other in scores if other != dataset), *absent]:
        row = {"against": name, "images": len(finite[dataset]), "outliers": len(finite.get(name, []))}
        row |= {"auroc": np.nan, "auroc_low": np.nan, "auroc_high": np.nan, "paper": PAPER.get((dataset, name))}
        if row["images"] and row["outliers"]:
            low, high = bootstrap(finite[dataset], finite[name], samples, seed)
            row |= {"auroc": auroc(finite[dataset], finite[name]), "auroc_low": low, "auroc_high": high, "note": ""}
        else:
            row["note"] = (
                "not measured: the files are not here (realism.emnist_folder)" if name in absent else "no scores"
            )
        rows.append(row)
    columns = ["against", "images", "outliers", "auroc", "auroc_low", "auroc_high", "paper", "note"]
    return pd.DataFrame(rows, columns=columns)


def roc_figure(dataset: str, scores: dict[str, np.ndarray], results: pd.DataFrame) -> Figure:
    """The curves, and the distributions that they come from."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    curve, histogram = figure.subplots(1, 2)
    inside = scores[dataset][np.isfinite(scores[dataset])]
    bins = np.linspace(0, max(np.nanquantile(values, 0.99) for values in scores.values() if len(values)), 40)
    histogram.hist(inside, bins, density=True, alpha=0.6, color="black", label=dataset)
    for position, row in enumerate(results[results["auroc"].notna()].itertuples()):
        outside = scores[row.against][np.isfinite(scores[row.against])]
        thresholds = np.concatenate([[np.inf], np.sort(np.concatenate([inside, outside]))[::-1]])
        rates = [1 - np.searchsorted(np.sort(some), thresholds) / len(some) for some in (inside, outside)]
        name = f"{row.against}: {row.auroc:.3f} ({row.auroc_low:.3f}–{row.auroc_high:.3f})"
        curve.plot(*rates, color=f"C{position}", label=name)
        histogram.hist(outside, bins, density=True, alpha=0.5, color=f"C{position}", label=row.against)
    curve.plot([0, 1], [0, 1], ":", color="grey")
    curve.set(xlabel=f"share of {dataset} taken for outliers", ylabel="share of outliers detected", title="AUROC")
    curve.legend(loc="lower right", fontsize="small")
    histogram.set(xlabel="AnoGAN score", ylabel="density", yticks=[])
    histogram.legend(fontsize="small")
    return figure
