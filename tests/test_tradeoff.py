"""Who is on the front of nearness, conviction and realism, and which scores say the same, with known answers."""

import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from artefacts import evaluated, make_folder

from deduce.evaluation import tradeoff
from deduce.evaluation.tradeoff import BEHIND, FRONT, PERHAPS


def table(noise: float = 0.1, images: int = 20, **methods: tuple[float, float]) -> pd.DataFrame:
    """Results of methods with these means of L1 and oracle rate; AGAN is L1 by another name."""
    random, parts = np.random.default_rng(0), []
    for method, (l1, oracle) in methods.items():
        grid = np.indices((images, 3)).reshape(2, -1)
        frame = pd.DataFrame(grid.T, columns=["image", "target"]).assign(
            seed=1, training_seed=1, method=method, found=True
        )
        frame["l1"] = l1 + random.normal(0, noise, len(frame))
        parts.append(frame.assign(oracle=oracle + random.normal(0, noise / 10, len(frame)), agan=2 * frame["l1"]))
    return pd.concat(parts, ignore_index=True)


def test_a_method_is_on_the_front_unless_another_is_better_in_both():
    found, which = tradeoff.estimates(table(near=(10, 0.1), far=(30, 0.9), worse=(31, 0.5), between=(20, 0.5)))
    assert which == "every method found"
    places = tradeoff.standing(found, "oracle")
    assert {method: place for method, (place, _) in places.items()} == {
        "near": FRONT, "far": FRONT, "worse": BEHIND, "between": FRONT,
    }  # fmt: skip
    assert places["worse"][1] == ["far"], "between convinces no more beyond doubt"


def test_what_only_the_means_say_is_said_with_perhaps():
    found, _ = tradeoff.estimates(table(noise=5, images=4, good=(10, 0.55), worse=(10.5, 0.45)))
    worse = tradeoff.standing(found, "oracle")
    assert {place for place, _ in worse.values()} == {FRONT, PERHAPS}


def test_a_score_that_few_have_and_pairs_that_nobody_shares():
    results = table(a=(10, 0.1), b=(20, 0.9))
    results.loc[results["method"] == "b", "agan"] = np.nan
    results["found"] = (results["target"] == 0) == (results["method"] == "a")
    found, which = tradeoff.estimates(results)
    assert "none was found by all" in which and set(found["a"]) == {"l1", "oracle", "agan"}
    assert set(found["b"]) == {"l1", "oracle"} and set(tradeoff.standing(found, "agan")) == {"a"}


def test_correlations_within_and_over_methods_can_differ():
    """Within each method, far counterfactuals convince more; over all, it is the near method that convinces."""
    results = table(noise=0, a=(10, 0.9), b=(30, 0.1))
    results["l1"] += results["image"]
    results["oracle"] += 0.01 * results["image"]
    results["agan"] = 2 * results["l1"]
    frame = tradeoff.correlations(results).set_index(["a", "b"])
    assert frame.loc[("agan", "l1")].tolist() == pytest.approx([1, 1])
    # Turned so that lower is better, a distance that rises with conviction runs against it.
    assert frame.loc[("l1", "oracle"), "within"] == pytest.approx(-1) and frame.loc[("l1", "oracle"), "pooled"] > 0


@pytest.mark.parametrize("nothing", [False, True])
def test_tables_and_figures_of_a_run(tmp_path, nothing):
    run = evaluated(make_folder(tmp_path / "artefacts"), tmp_path)
    if nothing:
        run.results["found"] = False
    for build in (tradeoff.tradeoff, tradeoff.correlations_table):
        for text in build(run)[1:]:
            json.dumps(text.data("x", "metrics"), allow_nan=False)
            assert text.markdown() and text.tex("x")
    for draw in (tradeoff.tradeoff_figure, tradeoff.correlations_figure):
        figure = draw(run)
        figure.canvas.draw()
        plt.close(figure)
