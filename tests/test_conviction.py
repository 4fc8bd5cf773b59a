"""The price of conviction: curves with known answers, what is never extrapolated, and what the intervals cover."""

import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch

from deduce import models
from deduce.evaluation import conviction
from deduce.evaluation.metrics import ORACLE_COLUMNS
from deduce.shards import Scores, Shard
from deduce.sweeps import Point, Sweep

TARGETS = 3


def sweep(name: str, settings: int, method: str = "jsma", **shared) -> Sweep:
    points = [Point(f"γ = {i}", f"{name}@{i}", {"target_confidence": i} | shared) for i in range(settings)]
    return Sweep(name, method, ["1"], points, [name], 1.0, points[0].label)


def rows(name: str, rates, costs, images: int = 4, found=None, effect=None, trainings: int = 1) -> pd.DataFrame:
    """Every pair of point i costs costs[i] and convinces the share rates[i] of the oracles, unless it was not found.

    effect: (trainings, images, 2), added to the cost and to the rate of all points.
    """
    parts = []
    effect = np.zeros((trainings, images, 2)) if effect is None else effect
    for i, (rate, cost) in enumerate(zip(rates, costs, strict=True)):
        grid = np.indices((trainings, images, TARGETS)).reshape(3, -1)
        frame = pd.DataFrame(grid.T, columns=["training_seed", "image", "target"]).assign(seed=1)
        added = effect[frame["training_seed"], frame["image"]]
        frame = frame.assign(method=f"{name}@{i}", display_name=name.upper(), found=True, l0=3 * cost, agan=50 - cost)
        frame = frame.assign(l1=cost + added[:, 0], oracle=rate + added[:, 1])
        if found is not None:
            frame["found"] = frame.index < found[i]
        parts.append(frame)
    return pd.concat(parts, ignore_index=True)


def drawn(**curves) -> dict[str, conviction.Curve]:
    """Curves by their name, each of the arguments of `rows`."""
    table = pd.concat([rows(name, **arguments) for name, arguments in curves.items()], ignore_index=True)
    return conviction.curves(table, [sweep(name, len(curves[name]["rates"])) for name in curves])


def test_between_two_points_a_curve_is_a_straight_line():
    curve = drawn(a={"rates": [0.1, 0.5, 0.7], "costs": [10, 20, 40]})["a"]
    for rate, cost in ((0.3, 15), (0.5, 20), (0.6, 30), (0.7, 40)):
        state, estimate = conviction.at_rate(curve, "l1", rate)
        assert state == conviction.REACHED and estimate.value == pytest.approx(cost)
    assert conviction.at_rate(curve, "l0", 0.3)[1].value == pytest.approx(45)


def test_nothing_is_extrapolated():
    curve = drawn(a={"rates": [0.2, 0.6], "costs": [10, 20]})["a"]
    assert conviction.at_rate(curve, "l1", 0.61) == (conviction.NEVER, None)
    state, estimate = conviction.at_rate(curve, "l1", 0.1)
    assert state == conviction.AT_LOWEST and estimate.value == 10, "an upper bound, not a point of the line"


def test_the_first_crossing_counts_where_a_curve_turns_back():
    curve = drawn(a={"rates": [0.2, 0.6, 0.3, 0.9], "costs": [10, 20, 60, 80]})["a"]
    assert conviction.at_rate(curve, "l1", 0.4)[1].value == pytest.approx(15)


def test_a_pair_that_was_not_found_convinces_nobody():
    """Half of the pairs are found, and all of these convince everybody: the oracle rate is a half."""
    table = conviction.points(drawn(a={"rates": [1.0], "costs": [10], "found": [6]}))
    line = table.iloc[0]
    assert (line.pairs, line.found, line.failure) == (12, 6, 50)
    assert (line.oracle, line.l1) == pytest.approx((0.5, 10))
    assert 0 < line.oracle_low < 0.5 < line.oracle_high < 1


def test_a_point_without_counterfactuals_takes_no_part():
    curves = drawn(a={"rates": [0.2, 0.8, 0.9], "costs": [10, 20, 30], "found": [12, 12, 0]}, b=NOTHING)
    assert conviction.at_rate(curves["a"], "l1", 0.5)[1].value == pytest.approx(15)
    assert conviction.at_rate(curves["b"], "l1", 0.5) == (conviction.NEVER, None)
    points = conviction.points(curves)
    assert points["l1"].isna().tolist() == [False, False, True, True] and points["oracle"].tolist()[2:] == [0, 0]
    check_files(curves)


NOTHING = {"rates": [0.5], "costs": [10], "found": [0]}


@pytest.mark.parametrize("change", [{"oracle": 0.0}, {"oracle": 1.0}, {"agan": np.nan}, {"l1": 7.0}])
def test_tables_and_figure_survive(change):
    """No oracle or every oracle convinced, no AGAN, no difference between images."""
    table = pd.concat([rows(name, [0.2, 0.8], [10, 20]) for name in "ab"]).assign(**change)
    check_files(conviction.curves(table, [sweep(name, 2) for name in "ab"]))


def check_files(curves) -> None:
    points, equal = conviction.points(curves), conviction.at_equal_rates(curves, [0.25, 0.75])
    for table in (conviction.points_table(points, "What it costs."), conviction.equal_table(equal, points)):
        json.dumps(table.data("x", "conviction"), allow_nan=False)
        assert table.markdown() and table.tex("x")
    plt.close(conviction.picture(curves))


def test_the_first_method_is_compared_with_the_others_at_an_equal_rate():
    random = np.random.default_rng(0)
    effects = {name: np.stack([random.normal(0, 0.5, (1, 30)), np.zeros((1, 30))], -1) for name in "abcd"}
    lines = {"a": [10, 30], "b": [20, 60], "c": [10, 30.1], "d": [2, 6]}
    curves = drawn(**{n: {"rates": [0, 1], "costs": lines[n], "images": 30, "effect": effects[n]} for n in lines})
    equal = conviction.at_equal_rates(curves, [0.5]).query("metric == 'l1'").set_index("sweep")
    assert equal["verdict"].tolist()[1:] == [conviction.CLOSER, conviction.UNDECIDED, conviction.FARTHER]
    np.testing.assert_allclose(equal["mean"], [20, 40, 20, 4], atol=0.3)
    assert (equal.low < equal["mean"]).all() and (equal["mean"] < equal.high).all()
    table = conviction.equal_table(conviction.at_equal_rates(curves, [0.5]), conviction.points(curves))
    note = table.notes[0]
    assert note.startswith("At 50 %, A has an L1 of ") and "closer than B" in note and "not told apart from C" in note


def test_an_upper_bound_is_no_evidence_that_another_method_is_closer():
    """B's lowest setting convinces more oracles than a half, at a lower cost: A is farther. Of C, nobody knows."""
    below = {"rates": [0.6, 0.9], "costs": [5, 8]}
    curves = drawn(a={"rates": [0.1, 0.9], "costs": [20, 30]}, b=below, c=below | {"costs": [90, 99]})
    equal = conviction.at_equal_rates(curves, [0.5]).query("metric == 'l1'").set_index("sweep")
    assert equal.loc["b", "state"] == conviction.AT_LOWEST
    assert equal["verdict"].tolist()[1:] == [conviction.FARTHER, conviction.OPEN]
    text = conviction.equal_table(equal.reset_index(), conviction.points(curves)).markdown()
    assert "≤ 5.0" in text and "nothing known beside C (at most 90.0)" in text


def test_what_all_points_of_a_sweep_share_is_in_its_name():
    table = rows("a", [0.1, 0.2], [1, 2])
    assert conviction.curves(table, [sweep("a", 2, confirm_by="plain")])["a"].name == "A, confirm_by = plain"


@pytest.mark.parametrize("trainings, images", [(1, 20), (3, 20)])
def test_intervals_at_an_equal_rate_cover_another_training_and_other_images(trainings, images):
    """A world whose images and trainings move both the cost and the rate: the truth at a rate of a half is 20."""
    random, covered, repetitions = np.random.default_rng(trainings), 0, 150
    for _ in range(repetitions):
        by_training = random.normal(0, [1.0, 0.03], (trainings, 1, 2)) * (trainings > 1)
        effect = (
            by_training + random.normal(0, [4.0, 0.15], (1, images, 2)) + random.normal(0, 0.02, (trainings, images, 2))
        )
        arguments = {"rates": [0.2, 0.8], "costs": [10, 30], "images": images}
        curve = drawn(a=arguments | {"trainings": trainings, "effect": effect})["a"]
        low, high = conviction.at_rate(curve, "l1", 0.5)[1].interval()
        covered += low <= 20 <= high
    assert 0.9 <= covered / repetitions <= 0.99


# --- in the workflow


@pytest.mark.workflow
def test_conviction_needs_no_training_and_only_the_scores_that_it_asks_for(finished, tmp_path):
    checkout = finished.copy(tmp_path / "repository")
    results = checkout.root / "results/test"
    run = checkout.snakemake("conviction")
    assert run.returncode == 0, run.stdout[-5000:]
    assert "rule train" not in run.stdout, "the models are those of the experiment"
    assert run.stdout.count("rule realism_scores:") == 3, "the lowest settings are the experiment's own"
    points = pd.read_csv(results / "tables/conviction.csv")
    confirmed = ["conviction_confirmed"]
    assert points["sweep"].tolist() == ["conviction_deduce"] * 2 + ["conviction_jsma"] * 2 + confirmed
    assert points["oracle"].between(0, 1).all() and (points["images"] == 3).all()
    equal = pd.read_csv(results / "tables/conviction_equal.csv")
    assert set(equal["state"]) <= {conviction.REACHED, conviction.AT_LOWEST, conviction.NEVER}
    scores = Scores.load(results / "realism/deduce@target_confidence=0.9/1.npz")
    assert set(scores.values) == {"agan", "oracle", *ORACLE_COLUMNS}
    shard = Shard.load(results / "counterfactuals/deduce@confirm_by=plain/1.npz")
    assert shard.metadata["models"]["confirming"] == "plain"
    confirming = models.load(results / "models/plain.safetensors")
    with torch.no_grad():
        seen = confirming(torch.as_tensor(shard.counterfactual)).argmax(1).numpy()
    assert (seen == shard.target)[shard.found].all()
    planned = checkout.planned("report", "archive", "--config", "extras=[conviction]")
    assert {"manifest", "write_report", "pack"} <= planned and "realism_scores" not in planned
