"""The studies of networks: one classifier for all, and dependence on the network, on made data with known effects."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from artefacts import make_pairs, make_shard

from deduce.config import defaults
from deduce.errors import InputError
from deduce.evaluation import figures, paper, studies, tables
from deduce.experiment import Experiment
from deduce.shards import Shard
from deduce.studies import DEPENDENCE, SAME_CLASSIFIER, Study, declared_studies

ROOT = Path(__file__).parent.parent
DEFAULT = defaults(ROOT)
SMALL = {"methods": ["deduce", "jsma"], "classifiers": ["ddu", "plain"]}
CURVES = {"width": {"deduce": {"ddu.width": [8, 16]}, "jsma": {"plain.width": [16]}}}
# Pixels that a method changes, and how many more it changes on the network `ddu`.
PIXELS, ON_DDU = {"deduce": 30, "jsma": 40}, -6
TRAINING = {1: -2, 2: 0, 3: 2}  # how many more it changes with each training


def load(**config) -> Experiment:
    return Experiment.load(config, ROOT)


def shard_of(case, seed: int, pairs):
    """A shard with an exact number of changed pixels, by the method, the network and the training of a case."""
    shard = make_shard(case.method, seed, pairs)
    classifier = case.settings.get("classifier", DEFAULT[case.method]["classifier"])
    width = next((value for key, value in case.settings.items() if "width" in key), 8)
    count = PIXELS[case.method] + ON_DDU * (classifier == "ddu") + TRAINING[case.training_seed] + (8 - width)
    images = pairs.original.copy().reshape(len(pairs), -1)
    images[:, :count] = np.where(images[:, :count] > 0.5, 0, 1)
    shard.counterfactual = images.reshape(pairs.original.shape)
    return shard


def rows_of(study: Study) -> pd.DataFrame:
    pairs = {seed: make_pairs(int(seed)) for seed in study.on}
    shards = {(case.variant, seed): shard_of(case, int(seed), pairs[seed]) for case in study.cases for seed in study.on}
    return studies.long_form(study, pairs, shards)


@pytest.fixture(scope="module")
def same() -> tuple[Study, pd.DataFrame]:
    study = load(training_seeds=[1, 2, 3], same_classifier=SMALL).studies[SAME_CLASSIFIER]
    return study, rows_of(study)


def test_every_method_explains_each_classifier_with_every_training():
    study = load(training_seeds=[1, 2], same_classifier=SMALL).studies[SAME_CLASSIFIER]
    assert [case.variant for case in study.cases] == [
        "deduce", "deduce@classifier=plain", "jsma@classifier=ddu", "jsma",
        "deduce@training_seed=2", "deduce@classifier=plain,training_seed=2",
        "jsma@classifier=ddu,training_seed=2", "jsma@training_seed=2",
    ]  # fmt: skip
    assert Study.from_dict(study.as_dict()) == study


def test_a_point_of_the_dependence_that_equals_the_config_is_the_configured_method():
    study = load(dependence={"training_seeds": [1, 2], "curves": CURVES}).studies[DEPENDENCE]
    points = [case.variant for case in study.cases if case.curve == "width"]
    assert {"deduce", "deduce@ddu.width=8", "deduce@training_seed=2", "jsma"} <= set(points)


def test_an_expensive_point_has_as_many_trainings_as_the_config_allows_it():
    dependence = {"training_seeds": [1, 2, 3], "curves": CURVES, "fewer_trainings": {"ddu.width=16": 1}}
    cases = load(dependence=dependence).studies[DEPENDENCE].cases

    def trainings(width):
        return [case.training_seed for case in cases if case.settings == {"ddu.width": width}]

    assert trainings(8) == [1, 2, 3] and trainings(16) == [1]


def test_the_studies_belong_to_the_archive_and_the_page_if_the_config_says_so():
    without, both = load(), load(extras=[SAME_CLASSIFIER, DEPENDENCE])
    assert without.reported_studies == [] and both.reported_studies == [SAME_CLASSIFIER, DEPENDENCE]
    more = set(both.artifact_names) - set(without.artifact_names)
    assert (
        "counterfactuals/jsma@classifier=ddu/1.npz" in more and "counterfactuals/deduce@ddu.coefficient=2/1.npz" in more
    )
    assert load(extras=[DEPENDENCE], same_classifier=None).reported_studies == [DEPENDENCE]


@pytest.mark.parametrize(
    "config, message",
    [
        ({"same_classifier": {"methods": ["deduce", "jmsa"]}}, "'same_classifier': there is no method 'jmsa'"),
        (
            {"same_classifier": {"classifiers": ["ddu", "wgan"]}},
            "'same_classifier': '.*classifier' is 'wgan'; allowed: ddu",
        ),
        (
            {"dependence": {"curves": {"width": {"deduce": {"ddu.widht": [8]}}}}},
            "'dependence': unknown key 'ddu.widht'",
        ),
        ({"dependence": {"curves": {"width": {"deduce": {"ddu.width": [0]}}}}}, "'dependence': 'ddu.width' is 0"),
    ],
)
def test_a_mistake_in_a_study_is_one_sentence(config, message):
    with pytest.raises(InputError, match=message):
        load(**config)


def test_the_same_network_compares_algorithms_and_the_same_algorithm_networks(same):
    frame, differences = studies.same_classifier(*same)
    means = frame.set_index(["method", "classifier"])
    assert means.loc[("jsma", "ddu"), "l0"] == pytest.approx(PIXELS["jsma"] + ON_DDU, abs=0.3)
    assert means.loc[("deduce", "plain"), "trainings"] == 3
    assert means.loc[("deduce", "plain"), "l0_training_std"] == pytest.approx(2, abs=0.1)
    of_l0 = differences[differences["metric"] == "l0"].set_index(["comparison", "on"])
    for key in (("algorithms", "ddu"), ("algorithms", "plain")):
        line = of_l0.loc[key]
        assert line["difference"] == pytest.approx(-10) and line["low"] <= -10 <= line["high"]
    for method in SMALL["methods"]:
        assert of_l0.loc[("networks", method), "difference"] == pytest.approx(ON_DDU)
    both = same[1].pivot_table(index=["training_seed", "seed", "image", "target"], columns="case", values="found")
    failures = differences.set_index(["comparison", "on", "metric"]).loc[("algorithms", "ddu", "failure")]
    assert failures["pairs"] == len(both)  # failures are of all pairs


def test_the_interval_of_a_mean_holds_for_another_training(same):
    """The networks differ by ±2 pixels and images hardly at all: an interval over images alone would have no width."""
    frame, _ = studies.same_classifier(*same)
    line = frame.iloc[0]
    assert line["l0_high"] - line["l0_low"] > 4


def test_the_tables_and_the_figure_of_the_same_classifier_are_written(same, tmp_path):
    frame, differences = studies.same_classifier(*same)
    names = studies.names_of(same[1])
    means, every, page = studies.same_classifier_tables(frame, differences, names)
    assert len(every.rows) == len(differences) and len(page.rows) == len(
        differences
    )  # two methods: all are the subject's
    assert "DeDUCE − JSMA: on ddu -10.00 [" in means.notes[0] and "ddu − plain under JSMA -6.00 [" in means.notes[0]
    tables.write(tmp_path / "means", frame, means, section=SAME_CLASSIFIER)
    figures.draw(tmp_path / "figure", {"name": "x"}, studies.same_classifier_figure, frame, names)
    assert (tmp_path / "figure.png").stat().st_size > 5000


def test_with_one_training_the_notes_say_that_the_networks_are_not_tested():
    study = load(same_classifier=SMALL).studies[SAME_CLASSIFIER]
    frame, differences = studies.same_classifier(study, rows := rows_of(study))
    means, _, _ = studies.same_classifier_tables(frame, differences, studies.names_of(rows))
    assert "not for other networks" in means.notes[-1]


def test_curves_have_a_mean_and_an_interval_at_each_value_and_the_papers_lines(tmp_path):
    study = load(
        dependence={"training_seeds": [1, 2, 3], "curves": CURVES | {"epochs": None, "coefficient": None}}
    ).studies[DEPENDENCE]
    rows = rows_of(study)
    frame = studies.dependence(study, rows)
    points = frame[frame["curve"] == "width"].set_index(["method", "value"])
    assert points.loc[("deduce", 16), "l0"] - points.loc[("deduce", 8), "l0"] == pytest.approx(-8, abs=0.3)
    assert (points["trainings"] == 3).all() and (points["l0_low"] < points["l0"]).all()
    names = studies.names_of(rows)
    # The paper's 21.16 lies between the intervals of both widths or in one: the note follows the interval.
    notes = studies.dependence_table(frame, names, True).notes
    printed = paper.TABLE1["deduce"]["l0"][0]
    inside = frame[(frame.method == "deduce") & (frame.l0_low <= printed) & (frame.l0_high >= printed)]
    assert all(f"ddu.width = {value:g}" in notes[0] for value in inside.value) and (
        len(inside) or "no interval" in notes[0]
    )
    assert studies.dependence_table(frame, names, False).notes == []
    figures.draw(tmp_path / "figure", {"name": "x"}, studies.dependence_figure, study, frame, rows, names, True)
    assert (tmp_path / "figure.png").stat().st_size > 5000


def test_stored_results_of_others_have_no_studies():
    assert declared_studies({"seeds": [1], "training_seeds": [1]}) == {}


@pytest.mark.workflow
def test_the_same_networks_are_explained_by_every_method_in_a_run(finished, tmp_path):
    checkout = finished.copy(tmp_path / "checkout")
    chosen = "same_classifier={methods: [deduce, jsma]}"
    run = checkout.snakemake("same_classifier", "--config", chosen)
    assert run.returncode == 0, run.stdout[-5000:]
    results = checkout.root / "results/test"
    frame = pd.read_csv(results / "tables/same_classifier.csv").set_index(["method", "classifier"])
    assert (frame["pairs"] == 54).all() and len(frame) == 4
    for method, own, other in (("deduce", "ddu", "plain"), ("jsma", "plain", "ddu")):
        shards = [results / f"counterfactuals/{name}/1.npz" for name in (method, f"{method}@classifier={other}")]
        assert [Shard.load(path).metadata["models"]["classifier"] for path in shards] == [own, other]
    densities = Shard.load(results / "counterfactuals/deduce@classifier=plain/1.npz").metadata["models"]["densities"]
    assert densities == "density@classifier=plain"
    differences = pd.read_csv(results / "tables/same_classifier_differences.csv")
    found = pd.read_csv(results / "results.csv")
    failures = 100 * (1 - found.groupby("method")["found"].mean())
    assert frame.loc[("jsma", "plain"), "failure"] == pytest.approx(failures["jsma"])
    assert set(differences["comparison"]) == {"algorithms", "networks"}
    # What belongs to the page stands on it.
    run = checkout.snakemake("--config", chosen, "extras=[same_classifier]")
    assert run.returncode == 0, run.stdout[-5000:]
    assert "One classifier for all" in (results / "report.html").read_text()
