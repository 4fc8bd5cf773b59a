"""The paper's definitions against loops that anyone can read, and the statistics against another library."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from artefacts import make_pairs, make_scores, make_shard
from scipy import stats

from deduce.evaluation import claims, metrics, paper, paper_tables, results, statistics, summary, tables
from deduce.shards import ContractError

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


def by_hand(table: pd.DataFrame, metric: str, method: str, seed: int) -> list[float]:
    """The values of the pairs of a test set that every method found, by plain loops."""
    found, value = {}, {}
    for row in table.itertuples():
        found.setdefault((row.seed, row.image, row.target), []).append(row.found)
        value[row.method, row.seed, row.image, row.target] = getattr(row, metric)
    return [value[method, *pair] for pair, all_found in found.items() if pair[0] == seed and all(all_found)]


def test_distances_of_a_picture_worked_out_by_hand():
    original = np.zeros((1, 1, 2, 2), np.float32)
    made = np.array([[[[0.0, 0.5], [1e-5, 1.0]]]], np.float32)
    found = {name: values[0] for name, values in metrics.distances(original, made).items()}
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
    assert "(" not in tables.metric_table(frame, {"method": "a"}, metrics.PAPER, "c").markdown()


def test_no_common_pair_is_an_empty_cell_and_no_crash(table):
    hopeless = table.assign(found=table.found & (table.method != "jsma"))
    made = paper_tables.all_tables(hopeless, pd.DataFrame(columns=["kind", "seed", "agan"]), None)
    assert tables.MISSING in made["table1"][1].markdown()
    assert summary.table1(hopeless).set_index("method").loc["jsma", "failure"] == 100


def test_corrections_and_tests_agree_with_statsmodels():
    contingency = pytest.importorskip("statsmodels.stats.contingency_tables")
    from statsmodels.stats.multitest import multipletests
    from statsmodels.stats.proportion import proportion_confint

    p = np.array([0.01, 0.04, 0.03, 0.005, 0.5])
    np.testing.assert_allclose(statistics.holm(p), multipletests(p, method="holm")[1])
    assert statistics.mcnemar(3, 14) == pytest.approx(contingency.mcnemar([[50, 3], [14, 9]], exact=True).pvalue)
    frame = pd.DataFrame({"method": "m", "seed": 1, "found": [True] * 17 + [False] * 3})
    low, high = proportion_confint(17, 20, method="wilson")
    assert summary.success(frame).iloc[-1][["wilson_low", "wilson_high"]].tolist() == pytest.approx([low, high])


def test_missing_p_values_are_no_members_of_a_family():
    np.testing.assert_allclose(statistics.holm(np.array([0.02, np.nan, 0.01])), [0.02, np.nan, 0.02])


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
    made = tables.metric_table(
        frame, {"method": "algorithm"}, metrics.PAPER, "50 % & more_", {"other_method": "my_method"}
    )
    best = frame.loc[frame.l1.idxmin()]
    assert f"**{best.l1:.2f}** ({best.l1_std:.2f})" in made.markdown()
    assert rf"\textbf{{{best.l1:.2f}}} ({best.l1_std:.2f})" in made.tex("x")
    assert r"my\_method" in made.tex("x") and r"50 \% \& more\_" in made.tex("x")


def test_table3_shows_the_papers_draws_where_the_run_has_them(table):
    drawn = tables.choose_pairs(table, paper.draws(paper.TABLE3_PAIRS), 6)
    have = [pair for pair in paper.draws(paper.TABLE3_PAIRS) if pair[0] < 5 and pair[0] % 10 != pair[1]]
    assert drawn[: len(have)] == have and len(set(drawn)) == 6
    frame = tables.table3(table, drawn)
    assert len(frame) == 6 * len(METHODS)
    assert frame[~frame.found][["agan", "l0", "l1"]].isna().all().all()


def evidence(table: pd.DataFrame, **changes) -> claims.Evidence:
    needed = ["method", "seed", "image", "target", "found", "agan", "l0", "l1"]
    given = {
        "table1": summary.table1(table).set_index("method"),
        "tests": statistics.tests(table[needed]),
        "results": table,
        "by_target": summary.by_target(table),
        "references": pd.DataFrame({"agan": [15.0, 14.0]}, index=["original", "reconstruction"]),
        "timing": pd.DataFrame(),
    }
    return claims.Evidence(**(given | changes))


def verdict(found: pd.DataFrame, name: str) -> str:
    return found.set_index("id").loc[name, "result"]


def test_a_claim_can_hold_fail_and_go_untested(table):
    first = claims.check_all(evidence(table))
    assert verdict(first, "reconstructions_realistic") == claims.HOLDS
    assert verdict(first, "vlk_like_deduce") == claims.UNTESTED  # this run has no VLK
    assert verdict(first, "jsma_faster") == claims.UNTESTED
    turned = pd.DataFrame({"agan": [13.0, 14.0]}, index=["original", "reconstruction"])
    times = pd.DataFrame({"seconds": [1.0, 2.0], "seconds_std": [0.1, 0.1]}, index=["deduce", "jsma"])
    second = claims.check_all(evidence(table, references=turned, timing=times))
    assert verdict(second, "reconstructions_realistic") == claims.FAILS
    assert verdict(second, "jsma_faster") == claims.FAILS


def test_the_claim_of_distance_follows_the_data(table):
    others = table.method != "deduce"
    near = table.assign(l0=table.l0.where(others, 1), l1=table.l1.where(others, 0.1))
    far = table.assign(l0=table.l0.where(others, 784))
    assert verdict(claims.check_all(evidence(near)), "closest") == claims.HOLDS
    assert verdict(claims.check_all(evidence(far)), "closest") == claims.FAILS


def test_a_handful_of_pairs_decides_nothing(table):
    few = table[table.image < 1]
    found = claims.check_all(evidence(few)).set_index("id")
    assert found.loc["closest", "result"] == claims.UNTESTED
    assert found.loc["comparable_realism", "result"] == claims.UNTESTED
    assert verdict(claims.check_all(evidence(table.assign(found=True))), "fewest_failures") == claims.HOLDS


def test_appendix_claims_are_tested_once_the_appendices_are_there(table):
    a = pd.DataFrame(paper.APPENDIX_A, index=["l0", "l1", "failure"]).T
    b = pd.DataFrame(paper.APPENDIX_B, index=["l0", "l1", "failure"]).T
    found = claims.check_all(evidence(table, appendix_a=a, appendix_b=b))
    for name in ("mu_one_best", "both_terms_needed", "small_lambda_far"):
        assert verdict(found, name) == claims.HOLDS
    a.loc["lambda=1000", "l0"] = 1.0
    assert verdict(claims.check_all(evidence(table, appendix_a=a)), "mu_one_best") == claims.FAILS


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
    blocked = ["torch", "torchvision", "sklearn", "statsmodels", "pyarrow", "safetensors", "tqdm"]
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
