"""The related work's methods in the workflow: one run with all of them, at test scale, beside what is finished."""

import re
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import BIN

from deduce import models
from deduce.shards import Pairs, Shard

METHODS = ["jsma", "wachter", "schut", "cem", "piece"]
PAGE = (Path(__file__).parent.parent / "docs/methods.md").read_text()


@pytest.mark.workflow
def test_the_related_work_is_in_every_table(finished, tmp_path):
    checkout = finished.copy(tmp_path / "repository")
    targets = ("tables", "uncertainty", "pertinent_positives")
    run = checkout.snakemake(*targets, "--config", f"methods=[{','.join(METHODS)}]", "seeds=[1]")
    assert run.returncode == 0, run.stdout[-5000:]
    ran = re.findall(r"^(?:local)?rule (\w+):", run.stdout, re.M)
    assert ran.count("ensemble_member") == 2 and "train" not in ran
    results = checkout.root / "results/test"
    assert pd.read_csv(results / "tables/table1.csv")["method"].tolist() == METHODS
    assert (pd.read_csv(results / "tables/table2.csv")["seconds"] > 0).all()
    frame, pairs = pd.read_csv(results / "results.csv"), Pairs.load(results / "pairs/1.npz")
    assert frame.groupby("method").size().to_dict() == dict.fromkeys(METHODS, len(pairs))
    found = frame[frame["found"]]
    assert {"jsma", "wachter", "schut", "cem"} <= set(found["method"])
    assert found[["agan", "im1", "im2", "log_density"]].notna().all(axis=None)

    added = Shard.load(results / "counterfactuals/cem/1.npz")
    assert (added.counterfactual >= pairs.original - 1e-6).all() and added.found.any()
    sure = Shard.load(results / "counterfactuals/schut/1.npz")
    assert sure.metadata["models"] == {"classifier": "ensemble"} and sure.found.any()
    assert (sure.confidence[sure.found] >= 0.99).all()
    assert len(models.load(results / "models/ensemble.safetensors").weights[0]) == 2
    uncertainty = pd.read_csv(results / "tables/uncertainty.csv").set_index("method")
    assert uncertainty.loc["schut", "found"] == sure.found.sum()
    assert uncertainty.loc["schut", "confidence_after"] >= 0.99
    assert uncertainty.loc["schut", "entropy_after"] < uncertainty.loc["jsma", "entropy_after"]
    positives = pd.read_csv(results / "tables/pertinent_positives.csv")
    assert len(positives) == len(np.unique(pairs.image)) and positives["share_of_ink"].between(0, 1).all()


COMMANDS = {
    " all ": {*METHODS, "ensemble", "sweep_table", "uncertainty", "pertinent_positives", "write_report"},
    "test.yaml": {"jsma", "schut", "ensemble", "write_report"},
    "densities.csv": {"deduce", "sweep_table"},
}


@pytest.mark.workflow
@pytest.mark.parametrize("part", COMMANDS)
def test_the_pages_commands_plan_what_they_say(clean_checkout, part):
    (command,) = (line for line in re.findall(r"^snakemake (.*)", PAGE, re.M) if part in line)
    words = [BIN / "snakemake", "--dry-run", *shlex.split(command, comments=True)]
    run = subprocess.run(words, cwd=clean_checkout.root, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    planned = set(re.findall(r"^(?:local)?rule (\w+):", run.stdout, re.M))
    assert COMMANDS[part] <= planned and planned & set(METHODS) == COMMANDS[part] & set(METHODS)
    assert "sweep=appendix" not in run.stdout, "the default experiment's sweeps are not this page's"
