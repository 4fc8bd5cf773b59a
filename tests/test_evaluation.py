"""The paper's definitions against loops that anyone can read, and the statistics against worked examples."""

import json
import os
import subprocess
import sys
from functools import partial
from operator import lt
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from artefacts import evaluated, make_folder, make_pairs, make_scores, make_shard, make_timed_shard, reseal
from scipy import stats

from deduce.auroc import auroc
from deduce.errors import InputError
from deduce.evaluation import (
    catalogue,
    claims,
    comparison,
    figures,
    intervals,
    metrics,
    paper,
    results,
    sanity,
    statistics,
    summary,
    tables,
    verdicts,
)
from deduce.evaluation.run import Run
from deduce.evaluation.verdicts import FAILS, HOLDS, UNDECIDED, UNTESTED
from deduce.shards import ContractError, Shard

METHODS = ("deduce", "jsma", "other_method")
ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    parts = []
    for seed in (1, 2, 3):
        pairs = make_pairs(seed, images=5)
        for method in METHODS:
            shard = make_shard(method, seed, pairs)
            scores = make_scores(pairs.image, pairs.target, seed + len(method))
            parts.append(results.rows(method, seed, pairs, shard, scores, "shard"))
    return results.order(pd.concat(parts), METHODS)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    """A stored run of three methods with every kind of artefact that needs no model."""
    folder = tmp_path_factory.mktemp("run")
    make_folder(folder / "artefacts", METHODS, images=3)
    for seed, name in enumerate(("mnist", "fashion_mnist")):
        scores = make_scores(np.arange(9), np.full(9, -1), seed)
        scores.save(folder / f"artefacts/sanity/{name}.npz")
    np.savez(folder / "artefacts/pictures.npz", **{
        name: np.zeros((count, 1, 28, 28), np.float32)
        for name, count in {"samples": 40, "originals": 20, "vae": 20, "autoencoder": 20}.items()
    })  # fmt: skip
    reseal(folder / "artefacts")
    return evaluated(folder / "artefacts", folder)


def by_hand(table: pd.DataFrame, metric: str, method: str, seed: int) -> list[float]:
    """The values of the pairs of a test set that every method found, by plain loops."""
    found, value = {}, {}
    for row in table.itertuples():
        found.setdefault((row.seed, row.image, row.target), []).append(row.found)
        value[row.method, row.seed, row.image, row.target] = getattr(row, metric)
    return [value[method, *pair] for pair, all_found in found.items() if pair[0] == seed and all(all_found)]


def test_distances_of_a_picture_worked_out_by_hand():
    original = np.zeros((1, 1, 2, 2), np.float32)
    counterfactual = np.array([[[[0.0, 0.5], [1e-5, 1.0]]]], np.float32)
    found = {name: values[0] for name, values in metrics.distances(original, counterfactual).items()}
    assert (found["l0"], found["l0_above_1e-06"], found["l0_above_0.0001"], found["l0_above_0.1"]) == (3, 3, 2, 2)
    assert found["l1"] == pytest.approx(1.50001)
    assert found["l2"] == pytest.approx(np.sqrt(1.25 + 1e-10))


@pytest.mark.parametrize("metric", ["agan", "l0", "l1"])
def test_table1_is_the_mean_of_the_test_sets_means_over_common_pairs(table, metric):
    frame = summary.table1(table).set_index("method")
    for method in METHODS:
        means = [sum(values) / len(values) for values in (by_hand(table, metric, method, seed) for seed in (1, 2, 3))]
        mean = sum(means) / 3
        assert frame.loc[method, metric] == pytest.approx(mean)
        assert frame.loc[method, f"{metric}_std"] == pytest.approx((sum((m - mean) ** 2 for m in means) / 2) ** 0.5)


def test_failures_are_of_all_pairs_in_per_cent(table):
    frame = summary.table1(table).set_index("method")
    rates = [100 * (~table[(table.method == "jsma") & (table.seed == seed)].found).mean() for seed in (1, 2, 3)]
    assert frame.loc["jsma", "failure"] == pytest.approx(np.mean(rates))
    assert list(frame.reset_index().columns) == [
        "method", "agan", "agan_std", "l0", "l0_std", "l1", "l1_std", "failure", "failure_std",
    ]  # fmt: skip


def test_a_failure_counts_as_the_worst_value_of_any_method(table):
    worst = table[table.found].l1.max()
    own = table[table.method == "deduce"]
    expected = own.l1.where(own.found, worst).groupby(own.seed).mean().mean()
    assert summary.failures_as_worst(table).set_index("method").loc["deduce", "l1"] == pytest.approx(expected)


def test_one_test_set_has_means_but_no_deviation(table):
    frame = summary.table1(table[table.seed == 1])
    assert frame.l0.notna().all() and frame.l0_std.isna().all()
    assert "(" not in tables.metric_table(frame, metrics.PAPER, "c", {name: name for name in METHODS}).markdown()


def test_no_common_pair_is_an_empty_cell_and_no_crash(run):
    table = run.results
    hopeless = Run(run.experiment, run.artifacts)
    hopeless.results = table.assign(found=table.found & (table.method != "jsma"))
    _, table1, _ = catalogue.items(catalogue.TABLES, hopeless)[0].build(hopeless)
    assert tables.MISSING in table1.markdown()
    assert summary.table1(hopeless.results).set_index("method").loc["jsma", "failure"] == 100


@pytest.fixture(scope="module")
def replicated() -> pd.DataFrame:
    """Three trainings, two test sets of ten images: JSMA's network differs from training to training, DeDUCE's less."""
    random = np.random.default_rng(2)
    keys = pd.MultiIndex.from_product([[1, 2, 7], [1, 2], range(10), range(9)], names=summary.PAIR)
    of_training = pd.Series([0.0, 1.0, 5.0], [1, 2, 7])
    parts = []
    for method, level, scale in (("deduce", 10.0, 0.2), ("jsma", 14.0, 1.0)):
        part = keys.to_frame(index=False).assign(method=method, display_name=method)
        part["l0"] = level + scale * part["training_seed"].map(of_training) + random.normal(0, 1, len(part))
        part["l1"], part["agan"], part["found"] = part["l0"] / 2, np.nan, random.random(len(part)) < 0.95
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def test_table1_of_several_trainings_has_both_standard_deviations(replicated):
    frame = summary.table1(replicated).set_index("method")
    names = ["agan", "l0", "l1", "failure"]
    assert [*frame] == [f"{name}{end}" for name in names for end in ("", "_std", "_training_std")]
    common = replicated[summary.common(replicated)]
    for method in ("deduce", "jsma"):
        sets = common[common["method"] == method].groupby(["training_seed", "seed"])["l0"].mean().unstack("seed")
        assert frame.loc[method, "l0"] == pytest.approx(sets.to_numpy().mean())
        assert frame.loc[method, "l0_std"] == pytest.approx(sets.std(axis=1, ddof=1).mean())
        assert frame.loc[method, "l0_training_std"] == pytest.approx(sets.mean(axis=1).std(ddof=1))
    assert frame.loc["jsma", "l0_training_std"] > 2 > 0.6 > frame.loc["jsma", "l0_std"]
    table = tables.metric_table(frame.reset_index(), metrics.PAPER, "c", {"deduce": "DeDUCE", "jsma": "JSMA"})
    row = frame.loc["jsma"]
    assert f"| {row.l0:.2f} ({row.l0_std:.2f}; {row.l0_training_std:.2f}) |" in table.markdown()


def test_the_tests_of_several_trainings_have_intervals_that_include_them(replicated):
    tests = statistics.tests(replicated)
    row = statistics.row(tests, "deduce", "jsma", "l0", "both")
    wide = replicated.pivot(index=summary.PAIR, columns="method", values=["l0", "found"])
    both = wide["found"].astype(bool).all(axis=1)
    difference = (wide["l0"]["deduce"] - wide["l0"]["jsma"])[both].astype(float)
    estimate = intervals.mean(difference, difference.index.to_frame(index=False))
    assert (row["trainings"], row["images"]) == (3, 20)
    assert (row["low"], row["high"]) == pytest.approx(estimate.interval())
    assert row["p_clustered"] == pytest.approx(estimate.p()) and row["p_clustered_holm"] >= row["p_clustered"]
    assert row["low"] < 0 < row["high"], "JSMA's trainings differ by as much as the methods"
    assert row["ci_high_images"] < -3 and row["p"] < 1e-50, "which neither images nor pairs alone can show"
    turned = statistics.row(tests, "jsma", "deduce", "l0", "both")
    assert (turned["low"], turned["high"]) == pytest.approx((-row["high"], -row["low"]))
    one = statistics.row(statistics.tests(replicated[replicated.training_seed == 1]), "deduce", "jsma", "l0", "both")
    assert one["trainings"] == 1 and one["high"] < -3


def test_methods_that_never_fail_may_still_differ_in_failures(replicated):
    row = statistics.row(statistics.tests(replicated.assign(found=True)), "deduce", "jsma", "failure", "all")
    high = stats.binomtest(0, 20).proportion_ci(method="wilson").high
    assert (row["low"], row["high"]) == pytest.approx((-high, high))


def test_holms_adjustment_of_a_worked_example():
    # 0.005 * 5, 0.01 * 4, 0.03 * 3, 0.04 * 2 (raised to 0.09), 0.5; as R's p.adjust(p, "holm") gives it.
    adjusted = statistics.holm(np.array([0.01, 0.04, 0.03, 0.005, 0.5]))
    np.testing.assert_allclose(adjusted, [0.04, 0.09, 0.09, 0.025, 0.5])


def test_mcnemars_exact_test_is_a_sign_test_of_the_discordant_pairs():
    # 2 * (C(17,0) + C(17,1) + C(17,2) + C(17,3)) / 2**17
    assert statistics.mcnemar(3, 14) == pytest.approx(2 * (1 + 17 + 136 + 680) / 2**17)
    assert statistics.mcnemar(0, 0) == 1


def test_wilsons_interval_solves_its_quadratic():
    keys = {"training_seed": 1, "seed": 1, "image": np.arange(20), "target": 0}
    frame = pd.DataFrame({"method": "m", "found": [True] * 17 + [False] * 3} | keys)
    z, n, share = stats.norm.ppf(0.975), 20, 0.85
    centre, half = share + z**2 / (2 * n), z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    expected = [(centre - half) / (1 + z**2 / n), (centre + half) / (1 + z**2 / n)]
    assert summary.success(frame).iloc[-1][["wilson_low", "wilson_high"]].tolist() == pytest.approx(expected)


def test_missing_p_values_are_not_members_of_a_family():
    np.testing.assert_allclose(statistics.holm(np.array([0.02, np.nan, 0.01])), [0.02, np.nan, 0.02])


@pytest.mark.parametrize("count", [2, 5, 9, 13, 14])
@pytest.mark.parametrize("decimals", [0, 1, 8], ids=["zeros and ties", "ties", "all different"])
def test_the_signed_rank_test_is_scipys(count, decimals):
    difference = np.random.default_rng(count).normal(0.3, 1, count).round(decimals)
    assert statistics.signed_rank(difference) == stats.wilcoxon(difference).pvalue


def test_the_t_test_is_scipys_on_the_pairs_that_both_found(table):
    tests = statistics.tests(table)
    wide = table.pivot(index=["seed", "image", "target"], columns="method", values=["l1", "found"])
    both = wide["found"]["deduce"].astype(bool) & wide["found"]["jsma"].astype(bool)
    a, b = (wide["l1"][method][both].astype(float) for method in ("deduce", "jsma"))
    row = statistics.row(tests, "deduce", "jsma", "l1", "both")
    assert row["n"] == both.sum()
    assert row["p"] == pytest.approx(stats.ttest_rel(a, b).pvalue)
    assert row["wilcoxon_p"] == pytest.approx(stats.wilcoxon(a - b).pvalue)
    assert row["cohen_dz"] == pytest.approx((a - b).mean() / (a - b).std(ddof=1))
    assert (row["wins"], row["ties"], row["losses"]) == ((a < b).sum(), (a == b).sum(), (a > b).sum())
    assert row["p_holm"] >= row["p"]
    turned = statistics.row(tests, "jsma", "deduce", "l1", "both")
    assert turned["mean_difference"] == -row["mean_difference"]


def test_the_bootstrap_interval_is_scipys_and_is_wider_over_images():
    rng = np.random.default_rng(1)
    image = np.repeat(np.arange(60), 9)
    difference = rng.normal(0.5, 1, 60)[image] + rng.normal(0, 0.3, len(image))  # an image's pairs are alike
    low, high = statistics.bootstrap(difference)
    reference = stats.bootstrap(
        (difference,), np.mean, n_resamples=2000, method="percentile", rng=2
    ).confidence_interval
    assert (low, high) == pytest.approx((reference.low, reference.high), abs=0.02)
    low_image, high_image = statistics.bootstrap(difference, image)
    assert high_image - low_image > 2 * (high - low)


def test_the_same_index_in_two_test_sets_means_two_images():
    pairs = pd.DataFrame({"seed": ["1", "1", "2", "2"], "image": [7, 7, 7, 3]})
    assert statistics.images(pairs).tolist() == [1, 1, 2, 0]
    assert statistics.images(pairs.set_index(["seed", "image"])).tolist() == [1, 1, 2, 0]
    rng = np.random.default_rng(0)
    rows = [
        {"training_seed": 1, "seed": seed, "image": image, "target": target}
        | {"method": method, "found": True, "l0": value, "l1": value}
        for seed in (1, 2)
        for image in range(20)
        for difference in [(1 if seed == 1 else -1) * rng.normal(5, 1)]
        for target in range(9)
        for method, value in (("a", difference), ("b", 0.0))
    ]
    # Merged, the two images of an index would cancel out, and the interval would be far too narrow.
    test = statistics.row(statistics.tests(pd.DataFrame(rows)), "a", "b", "l1", "both")
    assert test["ci_high_images"] - test["ci_low_images"] > 2


def test_every_comparison_has_a_row_and_is_in_a_family(table):
    tests = statistics.tests(table)
    assert set(zip(tests.a, tests.b, strict=True)) == {
        ("deduce", "jsma"), ("deduce", "other_method"), ("jsma", "other_method"),
    }  # fmt: skip
    assert set(tests.scope) == {"all", "1", "2", "3", "means"}
    assert tests[tests.metric == "failure"].query("scope != 'means'").mcnemar_p.notna().all()
    assert not tests.duplicated(["a", "b", "metric", "mask", "scope"]).any()


def test_the_best_value_is_bold_and_awkward_names_survive_latex(table):
    frame = summary.table1(table)
    table = tables.metric_table(
        frame, metrics.PAPER, "50 % & more_", dict(zip(METHODS, ("a", "b", "my_method"), strict=True))
    )
    best = frame.loc[frame.l1.idxmin()]
    assert f"**{best.l1:.2f}** ({best.l1_std:.2f})" in table.markdown()
    assert rf"\textbf{{{best.l1:.2f}}} ({best.l1_std:.2f})" in table.tex("x")
    assert r"my\_method" in table.tex("x") and r"50 \% \& more\_" in table.tex("x")


def test_a_frame_becomes_a_table_with_sort_values_and_readable_numbers():
    frame = pd.DataFrame(
        {"method": ["a", "b"], "seed": ["1", "all"], "n": [3, 4], "x": [0.00012, np.nan], "p": [1e-9, 0.2]}
    )
    table = tables.frame_table(frame, "c", {"method": "who", "seed": "seed", "n": "n", "x": "x", "p": "p", "no": "no"},
                               {"a": "A"}, p=("p",), notes=["read this"])  # fmt: skip
    assert table.markdown() == (
        "c\n\n| who | seed | n | x | p |\n| :-- | :-- | --: | --: | --: |\n"
        "| A | 1 | 3 | 0.00012 | 1.0e-09 |\n| b | all | 4 | N/A | 0.2 |\n\n- read this\n"
    )
    data = table.data("name", "metrics", "more")
    assert (data["name"], data["section"], data["fold"], data["notes"]) == ("name", "metrics", "more", ["read this"])
    assert data["columns"][2] == {"heading": "n", "group": "", "numeric": True}
    assert data["rows"][0][3] == {"text": "0.00012", "value": 0.00012, "mark": ""}
    assert data["rows"][1][3] == {"text": "–", "value": "", "mark": ""}


def test_every_table_and_figure_of_the_catalogue_is_written(run, tmp_path):
    for item in catalogue.items(catalogue.TABLES, run):
        tables.write(tmp_path / item.name, *item.build(run), section=item.entry.section, fold=item.entry.fold)
        data = json.loads((tmp_path / f"{item.name}.json").read_text())
        assert data["name"] == item.name and data["section"] in catalogue.TITLES
        assert all(len(row) == len(data["columns"]) for row in data["rows"])
        assert all((tmp_path / f"{item.name}.{suffix}").stat().st_size for suffix in ("csv", "md", "tex"))
    names = [item.name for item in catalogue.items(catalogue.FIGURES, run)]
    assert {"points_agan", "examples_other_method", "training", "wgan_samples", "sanity_roc", "run_times"} <= set(names)
    assert not {"feature_map", "vae_reconstructions"} & set(names)  # which this folder has no artefacts for
    for item in catalogue.items(catalogue.FIGURES, run):
        figures.draw(tmp_path / item.name, item.figure_data(run), item.build, run)
        data = json.loads((tmp_path / f"{item.name}.json").read_text())
        assert data["caption"] and data["alternative"] and "{" not in data["caption"] + data["alternative"]
        assert all((tmp_path / f"{item.name}.{suffix}").stat().st_size for suffix in ("png", "pdf"))


def test_a_script_makes_the_items_that_its_rule_chose(run):
    for entries in (catalogue.TABLES, catalogue.FIGURES):
        chosen = catalogue.items(entries, run)
        assert catalogue.named(entries, [item.name for item in chosen], run.methods) == chosen
        unscored = {kind: files for kind, files in run.artifacts.items() if kind != "realism"}
        names = {item.name for item in catalogue.items(entries, Run(run.experiment, unscored))}
        assert {item.name for item in chosen} - names == {item.name for item in chosen if "realism" in item.needs}
        assert "realism" in catalogue.needs(chosen) or entries is catalogue.TABLES


def test_the_papers_figures_stand_only_beside_its_dataset(run):
    fashion = Run({**run.experiment, "dataset": "fashion_mnist"}, run.artifacts)
    here, there = ({item.name for item in catalogue.items(catalogue.TABLES, where)} for where in (run, fashion))
    assert here - there == {"table1_paper", "table2_paper", "table3_paper", "claims"}
    table1 = catalogue.items(catalogue.TABLES, fashion)[0].build(fashion)[2]
    assert "paper" not in {column.heading for column in table1.columns}
    frame, _, page = sanity.sanity(fashion)
    assert "paper" in frame and "paper" not in {column.heading for column in page.columns}
    assert "MNIST" in {row[0].text for row in page.rows}
    texts = [item.figure_data(fashion)["caption"] for item in catalogue.items(catalogue.FIGURES, fashion)]
    texts += [section.lead_of(fashion.dataset) for section in catalogue.SECTIONS if section.id in ("times", "metrics")]
    assert not [text for text in texts if "paper" in text or "Figure" in text]
    bars = [[line.get_marker() for line in figures.times(where).axes[0].lines].count("|") for where in (run, fashion)]
    assert bars == [2, 0], "the paper's mean times of two of the methods"
    others = Run({**run.experiment, "methods": ["other_method"]}, run.artifacts)
    assert "claims" not in {item.name for item in catalogue.items(catalogue.TABLES, others)}


def test_a_method_without_seconds_has_no_numbers_in_table_2(run, tmp_path):
    path = next(path for path in run.artifacts["timed"] if "/jsma/" in path)
    shard = Shard.load(path)
    shard.seconds = None
    shard.save(tmp_path / "counterfactuals/jsma/timed.npz")
    timed = [file for file in run.artifacts["timed"] if file != path]
    partly = Run(run.experiment, {**run.artifacts, "timed": [*timed, str(tmp_path / "counterfactuals/jsma/timed.npz")]})
    item = next(item for item in catalogue.items(catalogue.TABLES, partly) if item.name == "table2")
    frame, table, page = item.build(partly)
    assert [column.heading for column in page.columns][2:] == ["median in sec", "mean iterations", "found", "pairs"]
    assert [cell.data()["text"] for cell in page.rows[1]] == ["JSMA", *["–"] * 5]
    assert frame.set_index("method").seconds.isna().to_dict() == {"deduce": False, "jsma": True, "other_method": False}
    assert "| JSMA | N/A |" in table.markdown()
    assert verdict(claims.check_all(partly), "jsma_faster") == UNTESTED


def test_two_implementations_are_compared_on_the_pairs_that_both_found(tmp_path):
    pairs = make_pairs(1, images=2)
    a, b = make_timed_shard("slow", pairs), make_timed_shard("new", pairs)
    a.metadata["display_name"], a.seconds, b.seconds = "Slow", np.full(18, 5.0), np.full(18, 0.2)
    names = comparison.display_names(a, b)
    rows = comparison.measured(pairs, a, b)
    frame = comparison.compared(rows, names).set_index("measure")
    both = a.found & b.found
    l1 = [np.abs(shard.counterfactual - pairs.original).sum((1, 2, 3), dtype=float)[both] for shard in (a, b)]
    assert frame.loc["l1", "pairs"] == both.sum() and frame.loc["l1", "difference"] == pytest.approx(
        (l1[1] - l1[0]).mean()
    )
    assert frame.loc["l1", "p"] == pytest.approx(stats.ttest_rel(*l1).pvalue)
    assert frame.loc["found", "a"] == a.found.mean() and frame.loc["speed_up", "b"] == pytest.approx(25)
    table = comparison.as_table(frame.reset_index(), names, "Are they the same?")
    assert "Slow took 5 s for a pair, new 0.2 s: 25 times as fast." in table.lead
    assert table.data("x", "comparisons")["title"] == "Are they the same?"
    figures.draw(tmp_path / "x", {}, comparison.picture, rows, frame.reset_index(), names)
    assert (tmp_path / "x.png").stat().st_size > 10_000
    same = comparison.compared(comparison.measured(pairs, a, a), ["Slow", "Slow"]).set_index("measure")
    assert same.p[["l0", "l1", "confidence", "found"]].eq(1).all()
    a.found[:] = False
    with pytest.raises(InputError, match="Slow and new have 0 counterfactuals in common"):
        comparison.compared(comparison.measured(pairs, a, b), names)
    a.seconds = None
    with pytest.raises(InputError, match="slow does not record 'seconds'"):
        comparison.measured(pairs, a, b)


def test_auroc_is_the_share_of_pairs_that_the_score_ranks_rightly():
    rng = np.random.default_rng(0)
    inside, outside = rng.normal(0, 1, 40).round(1), rng.normal(1, 1, 30).round(1)
    pairs = (outside[:, None] > inside) + 0.5 * (outside[:, None] == inside)
    assert auroc(inside, outside) == pytest.approx(pairs.mean())
    low, high = sanity.bootstrap(inside, outside, 300, 0)
    assert low < pairs.mean() < high and sanity.bootstrap(inside, outside, 300, 0) == (low, high)
    scores = {"mnist": inside, "fashion_mnist": np.append(outside, np.nan)}
    table = sanity.table("mnist", scores, 50).set_index("against")
    assert table.loc["fashion_mnist", ["outliers", "paper"]].tolist() == [30, 0.998]
    assert np.isnan(table.loc["emnist_letters", "auroc"]) and "not measured" in table.loc["emnist_letters", "note"]
    assert sanity.table("fashion_mnist", scores, 50).against.tolist() == ["mnist"]


def test_table3_shows_the_papers_draws_where_the_run_has_them(table):
    drawn = tables.choose_pairs(table, paper.TABLE3_PAIRS)
    have = [pair for pair in paper.TABLE3_PAIRS if pair[0] < 5 and pair[0] % 10 != pair[1]]
    assert drawn[: len(have)] == have and len(set(drawn)) == 6
    frame = tables.table3(table, drawn)
    assert len(frame) == 6 * len(METHODS)
    assert frame[~frame.found][["agan", "l0", "l1"]].isna().all().all()


def evidence(table: pd.DataFrame, one_network: bool = True, **changes) -> Run:
    """A run of which nothing but the results, the references and the changes was measured.

    All methods explain one network, or each method one of its own; every network was trained for each training seed.
    """
    methods = list(table["method"].unique())
    classifiers = {method: "ddu" if one_network else f"of_{method}" for method in methods}
    config = {method: {"classifier": classifier} for method, classifier in classifiers.items()}
    config |= {"dataset": "mnist", "methods": methods, "seeds": [1, 2, 3], "replicated": [*classifiers.values()]}
    run = Run(config, {})
    run.results, run.references = table, references(15.0, 14.0)
    run.tests = statistics.tests(table[["method", *summary.PAIR, "found", "agan", "l0", "l1"]])
    for name, value in changes.items():
        setattr(run, name, value)
    return run


def references(original: float, reconstruction: float) -> pd.DataFrame:
    """The scores of ten images, which vary a little."""
    images, spread = np.tile(np.arange(10), 2), np.tile(np.linspace(-0.2, 0.2, 10), 2)
    frame = pd.DataFrame({"kind": np.repeat(["original", "reconstruction"], 10), "seed": 1, "image": images})
    return frame.assign(agan=np.repeat([original, reconstruction], 10) + spread * np.repeat([1, -1], 10))


def verdict(found: pd.DataFrame, name: str) -> str:
    return found.set_index("id").loc[name, "result"]


def times(seconds: dict[str, float]) -> pd.DataFrame:
    """Six timed pairs of each method."""
    parts = [
        pd.DataFrame({"method": method, "seed": 1, "image": np.arange(6)}).assign(
            seconds=mean * np.roll(np.linspace(0.9, 1.1, 6), len(method))
        )
        for method, mean in seconds.items()
    ]
    return pd.concat(parts)


def test_a_claim_can_hold_fail_and_go_untested(table):
    first = claims.check_all(evidence(table, timing=times({"deduce": 1.0})))
    assert verdict(first, "reconstructions_realistic") == HOLDS
    assert verdict(first, "vlk_like_deduce") == UNTESTED  # this run has no VLK
    assert verdict(first, "jsma_faster") == UNTESTED
    timing = times({"deduce": 1.0, "jsma": 2.0})
    second = claims.check_all(evidence(table, references=references(13.0, 14.0), timing=timing))
    assert verdict(second, "reconstructions_realistic") == FAILS
    assert verdict(second, "jsma_faster") == FAILS
    row = second.set_index("id").loc["jsma_faster"]
    assert row["estimate"] == pytest.approx(2) and row["threshold"] == 1 < row["low"] < 2 < row["high"]
    alike = claims.check_all(evidence(table, references=references(14.01, 14.0), timing=timing))
    assert verdict(alike, "reconstructions_realistic") == UNDECIDED


def test_the_claim_of_distance_follows_the_data(table):
    others = table.method != "deduce"
    near = table.assign(l0=table.l0.where(others, 1), l1=table.l1.where(others, 0.1))
    far = table.assign(l0=table.l0.where(others, 784))
    assert verdict(claims.check_all(evidence(near)), "closest") == HOLDS
    assert verdict(claims.check_all(evidence(far)), "closest") == FAILS
    assert verdict(claims.check_all(evidence(table)), "closest") == UNDECIDED, "the made methods are alike"


def test_one_training_of_each_network_decides_nothing_about_the_methods(table):
    others = table.method != "deduce"
    near = table.assign(l0=table.l0.where(others, 1), l1=table.l1.where(others, 0.1))
    found = claims.check_all(evidence(near, one_network=False)).set_index("id").loc["closest"]
    assert found["result"] == UNDECIDED and found["number"].endswith("for these networks: holds")
    assert found["low"] < found["estimate"] < found["high"] < found["threshold"] == 0
    random = np.random.default_rng(0)
    trainings = pd.concat(
        near.assign(training_seed=seed, l0=near.l0 + random.normal(0, 0.2), l1=near.l1 + random.normal(0, 0.02))
        for seed in (1, 2, 3)
    )
    several = evidence(trainings, one_network=False)
    assert verdict(claims.check_all(several), "closest") == HOLDS
    one_of_jsma = evidence(trainings, one_network=False)
    one_of_jsma.experiment["replicated"].remove("of_jsma")
    assert verdict(claims.check_all(one_of_jsma), "closest") == UNDECIDED


def test_trainings_that_disagree_leave_a_claim_undecided(replicated):
    """Of the single trainings, one could be read as either result; the interval over all of them includes 0."""
    turned = replicated.assign(l0=replicated.l0.where(replicated.method == "deduce", replicated.l0 - 4))
    several = claims.check_all(evidence(turned, one_network=False)).set_index("id").loc["closest"]
    assert several["result"] == UNDECIDED and several["low"] < 0 < several["high"]
    single = {
        seed: claims.check_all(evidence(rows, one_network=False)).set_index("id").loc["closest", "result"]
        for seed, rows in turned.groupby("training_seed")
    }
    assert set(single.values()) == {UNDECIDED}, "no single training holds or fails where another one does the opposite"


def test_the_claims_of_each_training_stand_beside_those_of_all(replicated):
    """On one network, DeDUCE is farther than JSMA with trainings 1 and 2 and closer with training 7."""
    jsma = replicated.method == "jsma"
    turned = replicated.assign(l0=replicated.l0 - 6 * jsma, l1=replicated.l1 - 3 * jsma)
    run = evidence(turned)
    run.experiment["training_seeds"] = [1, 2, 7]
    frame, table = claims.by_training(run)
    line = frame.set_index("id").loc["closest"]
    assert line[["training_seed_1", "training_seed_2", "training_seed_7"]].tolist() == [FAILS, FAILS, HOLDS]
    assert line["opposite"] and line["result"] == UNDECIDED and "closest" in table.notes[0]
    run.results = replicated  # training 1 to 7 alike
    frame, table = claims.by_training(run)
    assert not frame["opposite"].any() and table.notes[0].startswith("On no claim")


def test_claims_of_small_p_values_stay_as_the_paper_states_them(replicated):
    random = np.random.default_rng(1)
    measured = replicated.assign(agan=replicated.l0 + random.normal(0, 1, len(replicated)))
    measured["found"] = (measured["method"] == "deduce") | (random.random(len(measured)) < 0.6)
    found = claims.check_all(evidence(measured, one_network=False)).set_index("id").loc["significance"]
    assert found["result"] == HOLDS and found["estimate"] < found["threshold"] == 1e-7
    assert "the paper's test, the largest of 3 trainings" in found["number"]
    assert "with trainings and images" in found["number"]
    one = claims.check_all(evidence(measured[measured.training_seed == 1], one_network=False))
    assert verdict(one, "significance") == UNDECIDED
    noise = measured.assign(l0=random.normal(0, 1, len(measured)))
    assert verdict(claims.check_all(evidence(noise, one_network=False)), "significance") != HOLDS


@pytest.mark.parametrize("values, some, expected", [
    ((-3, -2), False, HOLDS), ((-3, 0.5), False, UNDECIDED), ((-3, 2), False, FAILS), ((-3, 2), True, HOLDS),
    ((0.5, 2), True, UNDECIDED), ((3, 2), True, FAILS), ((-3, 1.1), False, UNDECIDED), ((1.1, 1.1), True, FAILS),
    ((-1.1, -1.1), False, HOLDS), ((-1.1, 2), True, UNDECIDED), ((-3, np.nan), False, UNTESTED),
])  # fmt: skip
def test_a_claim_of_several_parts_is_decided_by_all_or_by_some(values, some, expected):
    """Every part has the interval ± 1, and ± 1.2 at the level of two parts together."""

    def interval(value: float, coverage: float) -> tuple[float, float]:
        half = 1 if coverage == 0.95 else 1.2
        return value - half, value + half

    parts = [verdicts.Part(f"part {value}", np.float64(value), partial(interval, value)) for value in values]
    finding = verdicts.decide(Run({}, {}), parts, lt, 0, some)
    assert finding.result == expected
    if expected != UNTESTED:
        assert finding.low < finding.estimate < finding.high and finding.estimate in values


def test_a_handful_of_pairs_decides_nothing(table):
    few = table[table.image < 1]
    found = claims.check_all(evidence(few)).set_index("id")
    assert found.loc["closest", "result"] == UNTESTED
    assert found.loc["comparable_realism", "result"] == UNTESTED
    alike = claims.check_all(evidence(table.assign(found=True))).set_index("id").loc["fewest_failures"]
    assert alike["result"] == UNDECIDED and alike["low"] < -5 < 5 < alike["high"], "none failed, on few images"


def test_one_pair_is_decided_by_the_trainings(table):
    image, target = paper.TABLE3_PAIRS[3]
    pair = table[table.image == 1].head(1).assign(method="revise", image=image, target=target, found=False)
    several = [pair.assign(training_seed=seed) for seed in range(1, 7)]
    for trainings, expected in ((1, UNDECIDED), (3, UNDECIDED), (6, HOLDS)):
        rows = pd.concat([table, *several[:trainings]])
        run = evidence(table, results=rows, table1=pd.DataFrame({"method": ["revise"]}))
        assert claims._failed_column(run).result == expected


def sweep(name: str, figures: dict, reference: str, settings: pd.DataFrame | None = None) -> dict[str, dict]:
    """The tables of a sweep with the paper's figures, as if each had been measured on 20 images with little spread."""
    points = pd.DataFrame(figures, index=["l0", "l1", "failure"]).T.rename_axis("setting").reset_index()
    points = points if settings is None else points.join(settings)
    by_setting, rows = points.set_index("setting"), []
    for other in by_setting.index.drop(reference):
        for metric in ("l0", "l1", "failure"):
            a, b = by_setting.loc[[reference, other], metric]
            row = {"a": reference, "b": other, "metric": metric, "mean_difference": a - b, "images": 20}
            row |= {"low": a - b - 0.05, "high": a - b + 0.05}
            if a:
                row |= {"ratio": b / a, "ratio_low": b / a - 0.01, "ratio_high": b / a + 0.01}
            rows.append(row)
    return {"sweep_tables": {name: points}, "sweep_tests": {f"{name}_tests": pd.DataFrame(rows)}}


def test_claims_about_sweeps_are_tested_once_the_sweeps_belong_to_the_run(table):
    settings = pd.DataFrame({"distance_weight": [0.1] * 3 + [1.0] * 3, "step_size": [1e-3, 1e-4, 1e-5] * 2})
    a = sweep("appendix_a", paper.APPENDIX_A, "mu=1")
    b = sweep("appendix_b", paper.APPENDIX_B, "lambda=1,delta=1e-5", settings)
    first, second = (claims.check_all(evidence(table, **tables)) for tables in (a, b))
    assert verdict(first, "mu_one_best") == HOLDS and verdict(first, "both_terms_needed") == HOLDS
    assert verdict(second, "small_lambda_far") == HOLDS and verdict(second, "small_step_best") == HOLDS
    assert verdict(first, "one_pixel_better") == UNTESTED
    changed = dict(paper.APPENDIX_A) | {"lambda=1000": (1.0, 12.38, 0.0)}
    assert verdict(claims.check_all(evidence(table, **sweep("appendix_a", changed, "mu=1"))), "mu_one_best") == FAILS
    near = dict(paper.APPENDIX_A) | {"lambda=1000": (24.49, 12.38, 0.0)}
    assert verdict(claims.check_all(evidence(table, **sweep("appendix_a", near, "mu=1"))), "mu_one_best") == UNDECIDED
    other = sweep("appendix_a", paper.APPENDIX_A, "mu=5")
    assert verdict(claims.check_all(evidence(table, **other)), "mu_one_best") == UNTESTED


@pytest.mark.parametrize("auroc, expected", [
    ({}, UNTESTED),
    ({"fashion_mnist": 0.99}, UNTESTED),
    ({"emnist_letters": 0.5}, UNTESTED),
    ({"fashion_mnist": 0.99, "emnist_letters": 0.98}, HOLDS),
    ({"fashion_mnist": 0.99, "emnist_letters": 0.91}, UNDECIDED),
    ({"fashion_mnist": 0.99, "emnist_letters": 0.75}, FAILS),
])  # fmt: skip
def test_the_claim_about_two_datasets_needs_both(table, auroc, expected):
    scores = {name: np.where(np.arange(100) < 100 * share, 1.0, -1.0) for name, share in auroc.items()}
    checked = claims.check_all(evidence(table, sanity={"mnist": np.zeros(100), **scores}))
    assert verdict(checked, "metric_sanity") == expected


@pytest.mark.parametrize("change, message", [
    ({"method": "jsma"}, "is a shard of method 'jsma'"),
    ({"target": 1}, "was asked"),
])  # fmt: skip
def test_a_shard_of_something_else_is_refused(change, message):
    pairs = make_pairs(1)
    shard = make_shard("deduce", 1, pairs)
    if "method" in change:
        shard.metadata["method"] = change["method"]
    else:
        shard.target = (shard.target + 1) % 10
    with pytest.raises(ContractError, match=f"x.npz: .*{message}"):
        results.rows("deduce", 1, pairs, shard, None, "x.npz")


def test_shards_of_another_config_are_refused():
    pairs = make_pairs(1)
    shards = {f"{step}.npz": make_shard("deduce", 1, pairs, step=step) for step in (0.2, 0.3)}
    with pytest.raises(ContractError, match=r"0.3.npz: was made with step = 0.3, but this experiment has 0.2"):
        results.check_settings(shards, {"step": 0.2})
    with pytest.raises(ContractError, match=r"0.3.npz: was made with other settings than 0.2.npz"):
        results.check_settings(shards, {})


def test_evaluating_needs_neither_torch_nor_anything_but_pandas_scipy_and_matplotlib():
    modules = [path.stem for path in (ROOT / "deduce/evaluation").glob("*.py") if path.stem != "__init__"]
    blocked = ["torch", "torchvision", "sklearn", "pyarrow", "safetensors", "tqdm"]
    code = f"""
import sys
class Blocked:
    def find_spec(self, name, *_):
        if name.split(".")[0] in {blocked}:
            raise ImportError(name + " is not there")
sys.meta_path.insert(0, Blocked())
"""
    code += "\n".join(f"import deduce.evaluation.{name}" for name in modules)
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"})
