"""The scripts run on a device that a vendor's package brings (tests/sim.py), and do there what they do on a CPU."""

import re

import numpy as np
import pandas as pd
import pytest
import sim
from safetensors.numpy import load_file

from deduce.shards import Scores, Shard

RESULTS = "results/test"
MODEL, FEATURES, CARD = "models/class_autoencoders.safetensors", "features.npz", "models/card.csv"
SHARDS = {"deduce": "counterfactuals/deduce/1.npz", "vlk": "counterfactuals/vlk/1.npz"}
SCORES, DISTANCES = "realism/deduce/1.npz", "realism/frechet.csv"
FORCED = [MODEL, FEATURES, CARD, SCORES, DISTANCES, *(f"shards/{method}/1/000.npz" for method in SHARDS)]


@pytest.mark.workflow
def test_the_scripts_do_the_same_on_another_device(finished, tmp_path):
    checkout = finished.copy(tmp_path / "repository")
    targets = [f"{RESULTS}/{name}" for name in (MODEL, FEATURES, CARD, SCORES, DISTANCES, *SHARDS.values())]
    again = ("--rerun-triggers", "mtime", "--forcerun", *(f"{RESULTS}/{name}" for name in FORCED))
    run = checkout.snakemake(*targets, *again, **sim.install(tmp_path / "backend"))
    assert run.returncode == 0, run.stdout[-8000:]
    ran = re.findall(r"^(?:local)?rule (\w+):", run.stdout, re.M)
    made = [
        "train",
        "deduce",
        "vlk",
        "validated",
        "validated",
        "realism_scores",
        "yardsticks",
        "feature_map",
        "model_card",
    ]
    assert sorted(ran) == sorted(made)

    there, here = (folder.root / RESULTS for folder in (checkout, finished))
    weights, expected = load_file(there / MODEL), load_file(here / MODEL)
    assert all((weights[name] == expected[name]).all() for name in weights), "trained by the same operations"
    for method, name in SHARDS.items():
        shard, on_cpu = Shard.load(there / name), Shard.load(here / name)
        np.testing.assert_array_equal(shard.found, on_cpu.found)
        np.testing.assert_array_equal(shard.iterations, on_cpu.iterations)
        apart = np.abs(shard.counterfactual - on_cpu.counterfactual).max((1, 2, 3))
        # VLK leaves a pixel as it is unless its change exceeds a threshold: rounding sends a few searches another way.
        share, tolerance = (0, 0) if method == "deduce" else (0.2, 1e-3)
        assert shard.found.any() and (apart > tolerance).mean() <= share
    scores, on_cpu = Scores.load(there / SCORES), Scores.load(here / SCORES)
    for name, values in scores.values.items():
        np.testing.assert_allclose(values, on_cpu.values[name], rtol=1e-3, err_msg=name)
    with np.load(there / FEATURES) as features, np.load(here / FEATURES) as on_cpu:
        for name in features:
            np.testing.assert_allclose(features[name], on_cpu[name], rtol=1e-3, atol=1e-4, err_msg=name)
    for name in (CARD, DISTANCES):
        pd.testing.assert_frame_equal(pd.read_csv(there / name), pd.read_csv(here / name), rtol=1e-3)
