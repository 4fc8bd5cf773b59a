"""The oracles and what is said of their votes."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from deduce import compute, models
from deduce.evaluation import oracles, statistics
from deduce.evaluation.metrics import ORACLE_COLUMNS
from deduce.models.oracles import Oracles, OracleTraining
from deduce.training import Plan, train


def voted(votes: dict[str, np.ndarray], images: int, names=ORACLE_COLUMNS) -> pd.DataFrame:
    """A results table of methods whose votes (pairs, oracles) are given; the pairs are those of `images` images."""
    parts = []
    for method, array in votes.items():
        image, target = np.divmod(np.arange(len(array)), len(array) // images)
        columns = {
            "method": method,
            "training_seed": 1,
            "seed": 1,
            "image": image,
            "target": target,
            "label": -1,
            "found": True,
        }
        parts.append(pd.DataFrame(columns | dict(zip(names, array.T.astype(float), strict=True))))
    table = pd.concat(parts, ignore_index=True)
    return table.assign(oracle=table[[*names]].mean(axis=1))


def test_the_oracles_learn_as_if_each_were_alone_and_have_densities(tmp_path):
    """Bright above or below: every oracle tells them apart; an image of neither class has a low density."""
    compute.deterministic(0)
    labels = torch.arange(600) % 2
    images = 0.3 * torch.rand(600, 1, 12, 12)
    images[labels == 0, :, :6] += 0.6
    images[labels == 1, :, 6:] += 0.6
    task = OracleTraining(Oracles(1, 2, 12), {"learning_rate": 0.004})
    data = task.arranged(images, labels)
    record = train(task, Plan(3, 30, 0), data, task.arranged(images[:100], labels[:100]), tmp_path / "o.safetensors")
    assert record["validation_accuracy"].iloc[-1] > 0.99
    network = models.load(tmp_path / "o.safetensors")
    assert network.seen(images).shape == (len(models.ORACLES), 600)
    assert (network.seen(images) == labels).double().mean(1).min() > 0.98
    noise = torch.rand(100, 1, 12, 12, generator=torch.Generator().manual_seed(1))
    for number, density in enumerate(network.densities):
        inside, outside = density(network.all_features(images)[number]), density(network.all_features(noise)[number])
        assert inside.median() > outside.median() + 5, models.ORACLES[number]


def test_rates_are_counts_and_their_intervals_wilsons():
    votes = np.zeros((40, len(ORACLE_COLUMNS)))
    votes[:10] = 1
    votes[10:20, 0] = 1
    frame = oracles.rates(voted({"deduce": votes}, 20)).set_index("oracle")
    assert frame.loc["all", "rate"] == pytest.approx(votes.mean())
    assert frame.loc[models.ORACLES[0], "rate"] == 0.5 and frame.loc["majority", "rate"] == 0.25
    expected = stats.binomtest(10, 40).proportion_ci(method="wilson")
    assert frame.loc["majority", ["low", "high"]].tolist() == pytest.approx([expected.low, expected.high])


def test_the_interval_is_wider_where_the_oracles_disagree():
    """The same share of votes: either every oracle believes half of the images, or half of the oracles believe all."""
    random = np.random.default_rng(0)
    count = len(ORACLE_COLUMNS)
    believers = np.tile(np.arange(count) < 2, (400, 1))
    alike = np.repeat((random.random((400, 1)) < 2 / count), count, axis=1)
    width = {}
    for name, votes in (("oracles", believers), ("images", alike)):
        row = oracles.rates(voted({"deduce": votes}, 400)).iloc[0]
        width[name] = row["high"] - row["low"]
    assert width["oracles"] > 4 * width["images"] > 0


def test_the_sentence_says_who_convinces_more_and_what_is_undecided():
    random = np.random.default_rng(0)
    shape = (180, len(ORACLE_COLUMNS))
    own = random.random(shape) < 0.1
    table = voted({"deduce": own, "jsma": random.random(shape) < 0.1, "vlk": random.random(shape) < 0.5}, 20)
    names = {"deduce": "DeDUCE", "jsma": "JSMA", "vlk": "VLK"}
    text = oracles.sentence(table, names)
    assert f"see the target in {100 * own.mean():.1f} % of what DeDUCE found" in text
    assert "; on the pairs that both found, less often than in VLK’s (−" in text.replace("-", "−")
    assert "neither less nor more often, as far as this run can tell, than in JSMA’s (" in text
    assert oracles.sentence(table.drop(columns=list(ORACLE_COLUMNS)), names) == ""


def test_methods_are_compared_by_the_pairs_that_convince_most_oracles():
    votes = np.zeros((40, len(ORACLE_COLUMNS)))
    others = votes.copy()
    votes[:3], others[10:24] = 1, 1
    table = voted({"deduce": votes, "jsma": others}, 20).assign(agan=1.0, l0=1, l1=1.0)
    row = statistics.row(statistics.tests(table), "deduce", "jsma", "oracle", "both")
    assert row["mcnemar_p"] == pytest.approx(statistics.mcnemar(3, 14))
