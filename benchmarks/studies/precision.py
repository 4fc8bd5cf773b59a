"""What training in bfloat16 changes: accuracy, AUROC of the density, and DeDUCE's counterfactuals, over several seeds.

`python benchmarks/studies/precision.py [--width 8] [--seeds 1 2 3]` trains the `ddu` network of config.yaml in both
precisions with each seed, and writes results/benchmarks/precision-WIDTH.json. Seeds in that file are not trained again.
Needs results/data.
"""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import torch
from scipy import stats
from sklearn.metrics import roc_auc_score

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from deduce import DeDUCE, compute, models
from deduce.artifacts import load_json, save_json
from deduce.config import defaults
from deduce.datasets import DATASETS, load
from deduce.fold import features_of
from deduce.models.resnet import accuracy
from deduce.training import fit

ROOT = Path(__file__).parent.parent.parent
PRECISIONS = ("float32", "bfloat16")
QUANTITIES = ("accuracy", "auroc", "l0", "found", "training_seconds")


def measured(seed: int, precision: str, width: int, originals: int) -> dict[str, float]:
    """One training, judged on the test images of MNIST and Fashion-MNIST and by DeDUCE on validation images."""
    config, data, dataset = defaults(ROOT), ROOT / "results/data", DATASETS["mnist"]
    settings = config["ddu"] | {"width": width, "precision": precision}
    with TemporaryDirectory() as folder:
        record = fit("ddu", settings, dataset, data, Path(folder, "ddu.safetensors"), seed)
        network = models.load(Path(folder, "ddu.safetensors"))
        fit("density", config["density"], dataset, data, Path(folder, "density.safetensors"), seed, classifier=network)
        densities = models.load(Path(folder, "density.safetensors"))
    (inside, labels), (outside, _) = (load(data, name, "test") for name in ("mnist", "fashion_mnist"))
    features = features_of(network, inside)
    scores = torch.cat([densities(features), densities(features_of(network, outside))])
    images, classes = (tensor[:originals] for tensor in load(data, "mnist", "validation"))
    pairs = [(image, target) for image in range(originals) for target in range(10) if target != classes[image]]
    rows, targets = torch.tensor(pairs).T
    result = DeDUCE().generate(network, densities, images[rows], targets, allow_reached=True)
    changed = (result.counterfactual - images[rows]).abs().flatten(1).gt(1e-6).sum(1).double()
    return {
        "accuracy": accuracy(network, inside, labels, features),
        "auroc": float(roc_auc_score(np.arange(len(scores)) < len(inside), scores)),
        "l0": changed[result.found].mean().item(),
        "found": result.found.double().mean().item(),
        "training_seconds": float(record["seconds"].sum()),
    }


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean of each quantity by precision, and the mean difference within a seed with its 95 % interval."""
    lines = []
    for quantity in QUANTITIES:
        table = rows.pivot(index="seed", columns="precision", values=quantity)
        difference = table["bfloat16"] - table["float32"]
        half = stats.t.ppf(0.975, len(difference) - 1) * difference.sem() if len(difference) > 1 else np.nan
        means = {name: table[name].mean() for name in PRECISIONS}
        lines.append(means | {"quantity": quantity, "difference": difference.mean(), "half_interval": half})
    return pd.DataFrame(lines).set_index("quantity")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--originals", type=int, default=20, help="validation images that DeDUCE explains")
    options = parser.parse_args()
    if not compute.multiplies_bfloat16():
        print("This machine emulates bfloat16: it trains, slowly.")
    file = ROOT / f"results/benchmarks/precision-{options.width}.json"
    rows = load_json(file)["trainings"] if file.exists() else []
    for seed in options.seeds:
        for precision in PRECISIONS:
            if not any((row["seed"], row["precision"]) == (seed, precision) for row in rows):
                values = measured(seed, precision, options.width, options.originals)
                rows.append({"seed": seed, "precision": precision} | values)
                save_json(file, {"width": options.width, "originals": options.originals, "trainings": rows})
    print(summary(pd.DataFrame(rows)).to_string(float_format="{:.5f}".format))


if __name__ == "__main__":
    main()
