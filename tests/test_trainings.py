"""Several trainings: the sources of variance in made data of known variances, and what the page shows of them."""

import numpy as np
import pandas as pd
import pytest
from artefacts import evaluated, make_folder

from deduce.evaluation import catalogue, figures, summary, tables, trainings

SDS = {"test_set": 4.0, "image": 3.0, "target": 2.0, "training": 2.5, "training_image": 1.5, "rest": 1.0}
KEYS = {
    "test_set": ["seed"], "image": ["seed", "image"], "target": summary.QUESTION, "training": ["training_seed"],
    "training_image": ["training_seed", "seed", "image"], "rest": summary.PAIR,
}  # fmt: skip


def made(random, trainings_: int = 12, sets: int = 15, images: int = 12, targets: int = 9) -> pd.DataFrame:
    """Values with an effect of each source."""
    levels = range(trainings_), range(sets), range(images), range(targets)
    rows = pd.MultiIndex.from_product(levels, names=summary.PAIR).to_frame(index=False)
    rows["value"] = 20.0
    for source, keys in KEYS.items():
        number = rows.groupby(keys).ngroup()
        rows["value"] += SDS[source] * random.standard_normal(number.max() + 1)[number]
    return rows


def test_the_sources_of_variance_are_found_again():
    random = np.random.default_rng(4)
    found = pd.DataFrame([trainings.components(made(random)) for _ in range(4)])
    variances = (found**2).mean().rename(lambda name: name.removesuffix("_sd"))
    for source, sd in SDS.items():
        assert np.sqrt(variances[source]) == pytest.approx(sd, rel=0.25), source


def test_a_source_without_variance_has_none_and_pairs_may_be_missing():
    random = np.random.default_rng(5)
    rows = made(random)
    mean = rows.groupby(summary.QUESTION)["value"].transform("mean")
    same = trainings.components(rows.assign(value=mean)[random.random(len(rows)) < 0.98])
    assert max(same[name] for name in ("training_sd", "training_image_sd", "rest_sd")) < 1e-6 < 1 < same["image_sd"]
    assert np.isnan(list(trainings.components(rows[rows.training_seed == 0]).values())).all()


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict:
    """Runs with one training and with three, of made artefacts."""
    made_runs = {}
    for seeds in ((1,), (1, 2, 5)):
        folder = tmp_path_factory.mktemp("run")
        make_folder(folder / "artefacts", ("deduce", "jsma"), images=6, training_seeds=seeds)
        made_runs[len(seeds)] = evaluated(folder / "artefacts", folder)
    return made_runs


def test_the_table_and_the_figure_are_of_several_trainings_only(runs, tmp_path):
    for count, expected in ((1, set()), (3, {"variance", "trainings"})):
        entries = [*catalogue.TABLES, *catalogue.FIGURES]
        assert {item.name for item in catalogue.items(entries, runs[count])} & {"variance", "trainings"} == expected
    frame, table = trainings.variance(runs[3])
    assert len(frame) == 2 * 4 and {"mean", "low", "high", *trainings.SOURCES} <= set(frame)
    assert (frame["low"] < frame["mean"]).all() and (frame["mean"] < frame["high"]).all()
    tables.write(tmp_path / "variance", frame, table)
    item = next(item for item in catalogue.items(catalogue.FIGURES, runs[3]) if item.name == "trainings")
    figures.draw(tmp_path / "trainings", item.figure_data(runs[3]), item.build, runs[3])
    assert (tmp_path / "trainings.png").stat().st_size > 10_000


def test_the_figure_has_each_training_and_test_set(runs):
    figure = trainings.picture(runs[3])
    common = runs[3].common
    for axis, metric in zip(figure.axes, ["agan", "l0", "l1"], strict=False):
        shown = [line.get_xdata() for line in axis.lines if line.get_marker() == "o"]
        part = common[common["method"] == "deduce"].groupby(["training_seed", "seed"])[metric].mean().unstack("seed")
        np.testing.assert_allclose(np.sort(np.ravel(shown)), np.sort(part.mean(axis=1)))
        ticks = [line.get_xdata() for line in axis.lines if line.get_marker() == "|"]
        assert np.isin(np.round(part.to_numpy().ravel(), 9), np.round(np.ravel(ticks), 9)).all()
