"""Sweeps: how they are declared, what their tables say, the authors' own, and one more by editing the config alone."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import yaml
from artefacts import files, make_folder, make_pairs, make_scores, make_shard

from deduce import sweeps, variants
from deduce.config import available_methods, complete, defaults, schema
from deduce.errors import InputError
from deduce.evaluation import bundle, paper
from deduce.evaluation import sweeps as evaluation
from deduce.evaluation.claims import CLAIMS
from deduce.evaluation.run import Run
from deduce.evaluation.verdicts import UNTESTED
from deduce.models import load
from deduce.published import PUBLISHED, validation
from deduce.shards import ContractError, Pairs, Scores, Shard

ROOT = Path(__file__).parent.parent
SCHEMA = schema(ROOT, available_methods(ROOT))
DEFAULT = defaults(ROOT)
CONFIG = {"jsma": {"step_size": 0.2, "pixels_per_step": 1}, "ddu": {"coefficient": 4}}


def declared(**sections):
    return sweeps.declared_sweeps({**CONFIG, "sweeps": sections})


def jsma(**section):
    return {"method": "jsma", "vary": {"step_size": [0.1, 0.2]}} | section


# --- names


def test_a_variant_is_named_by_what_differs_from_the_config():
    settings = {"step_size": 0.00001, "pixels_per_step": 1, "objective": "weighted", "ddu.coefficient": 2, "flag": True}
    name = variants.variant("jsma", settings, CONFIG)
    assert name == "jsma@ddu.coefficient=2,flag=true,objective=weighted,step_size=1e-05"
    assert variants.overrides(name) == {key: settings[key] for key in settings if key != "pixels_per_step"}
    assert variants.variant("jsma", {"step_size": 0.2}, CONFIG) == "jsma"
    assert variants.overrides("jsma") == {}


def test_a_value_that_no_path_can_hold_is_refused():
    with pytest.raises(InputError, match=r"'step_size' is 'a/b'; allowed: a number"):
        variants.variant("jsma", {"step_size": "a/b"}, CONFIG)


# --- declarations


def test_lists_and_labels_are_combined():
    steps = {"small": {"step_size": 0.1, "max_iterations": 9}, "large": {"step_size": 0.4}, "none": None}
    sweep = declared(mine=jsma(vary={"step": steps, "pixels_per_step": [1, 2]}, settings={"batch_size": 7}))["mine"]
    assert [point.label for point in sweep.points] == [
        "small, pixels_per_step = 1", "small, pixels_per_step = 2", "large, pixels_per_step = 1",
        "large, pixels_per_step = 2",
    ]  # fmt: skip
    assert sweep.points[1].settings == {"batch_size": 7, "step_size": 0.1, "max_iterations": 9, "pixels_per_step": 2}
    assert (sweep.on, sweep.compare_on, sweep.reference) == (["validation"], ["mine"], sweep.points[0].label)
    assert sweeps.Sweep.from_dict(sweep.as_dict()) == sweep
    assert declared(mine=None) == {}


@pytest.mark.parametrize("section, message", [
    (jsma(vary={"a": {"x": {"step_size": 1}}, "step_size": [0.1]}), "sweep 'mine': 'step_size' is varied twice"),
    (jsma(vary={"a": {"x": None}}), "sweep 'mine': has no points"),
    (jsma(reference="best"), "sweep 'mine': 'reference' is 'best', which is none of its points: step_size = 0.1; "),
    (jsma(compare_on=["other"]), "sweep 'mine': 'compare_on' names 'other'"),
])  # fmt: skip
def test_a_mistake_names_the_sweep(section, message):
    with pytest.raises(InputError, match=message):
        declared(mine=section)


@pytest.mark.parametrize("vary, message", [
    ({"step_sise": [0.1]}, "sweep 'mine', 'step_sise = 0.1': unknown key 'jsma.step_sise'; did you mean 'step_size'?"),
    ({"step_size": ["big"]}, "sweep 'mine', 'step_size = big': 'jsma.step_size' is 'big'; allowed: a value of type"),
    ({"step_size": [0.1, 7]}, "sweep 'mine', 'step_size = 7': 'jsma.step_size' is 7; allowed: at most 1"),
    ({"vae.latent": [8]}, "sweep 'mine', 'vae.latent = 8': 'vae.latent' cannot be varied for jsma: of models only the"),
    ({"ddu.coefficient": [-1]}, "'ddu.coefficient' is -1; allowed: more than 0"),
])  # fmt: skip
def test_settings_are_checked_against_the_methods_schema(vary, message):
    sweep = sweeps.declared_sweeps(DEFAULT | {"sweeps": {"mine": jsma(vary=vary)}})["mine"]
    with pytest.raises(InputError) as error:
        sweeps.check(sweep, DEFAULT, SCHEMA, {"ddu"})
    assert message in str(error.value)


def scaled(overlay: str):
    return complete(yaml.safe_load((ROOT / "config" / overlay).read_text()), DEFAULT)


def test_the_appendices_of_the_default_config_are_the_papers():
    by_name = sweeps.declared_sweeps(DEFAULT)
    for sweep in by_name.values():
        sweeps.check(sweep, DEFAULT, SCHEMA, {"ddu"})
    for name in ("appendix_a", "appendix_b"):
        settings = {evaluation.key(point.label) for point in by_name[name].points}
        assert set(paper.SWEEPS[name]) <= settings
    assert {point.variant for point in by_name["appendix_a"].points} & {
        p.variant for p in by_name["appendix_a_more"].points
    }
    together = {point.variant for name in by_name["appendix_a"].compare_on for point in by_name[name].points}
    assert len(together) == 24  # the settings of the authors' tuning


def test_appendix_b_at_the_papers_scale_has_its_limits():
    points = sweeps.declared_sweeps(scaled("paper.yaml"))["appendix_b"].points
    limits = {(p.settings["distance_weight"], p.settings["step_size"]): p.settings["max_iterations"] for p in points}
    expected = {1e-3: 5_000, 1e-4: 10_000, 1e-5: 50_000}
    assert limits == {(weight, step): limit for weight in (0.1, 1, 10) for step, limit in expected.items()}


# --- evaluation


def changed_pixels(pairs, method, counts, found, **settings) -> Shard:
    """A shard in which row i has counts[i] pixels changed by exactly 0.5."""
    images = np.full_like(pairs.original, 0.25)
    images.reshape(len(pairs), -1)[np.arange(784) < np.asarray(counts)[:, None]] = 0.75
    confidence = np.where(found, 0.6, 0.2).astype(np.float32)
    metadata = {"method": method, "settings": settings, "target_confidence": 0.5}
    rows = (pairs.image, pairs.label, pairs.target, images, np.asarray(found), confidence, np.ones(len(pairs), int))
    return Shard(*rows, metadata)


@pytest.fixture
def case():
    """Eighteen pairs, three points: with 2 i, 3 i and 4 i changed pixels in row i, the last failing on all but two."""
    pairs = make_pairs(1, images=2)
    pairs.original[:] = 0.25
    i = np.arange(18)
    steps = {"λ = 0": 0.1, "μ = 1": 0.2, "λ = 1": 0.4}
    labels = {label: {"step_size": step} for label, step in steps.items()}
    section = jsma(vary={"step": labels}, reference="μ = 1", leave_out_failing_above=0.75)
    by_name = declared(appendix_a=section, own=section | {"compare_on": "own"})
    shards = {
        ("jsma@step_size=0.1", "validation"): changed_pixels(pairs, "jsma", 3 * i, i != 0, step_size=0.1),
        ("jsma", "validation"): changed_pixels(pairs, "jsma", 2 * i, i != 17, step_size=0.2),
        ("jsma@step_size=0.4", "validation"): changed_pixels(pairs, "jsma", 4 * i, i < 2, step_size=0.4),
    }
    table = evaluation.long_form(list(by_name.values()), {"validation": pairs}, shards)
    return by_name, shards, table


def judged(case, name):
    by_name, shards, table = case
    mask = evaluation.compared(table, by_name[name], by_name)
    frame = evaluation.frame(table, mask, by_name[name], evaluation.changed(by_name[name], shards))
    return mask, frame, evaluation.tests(table, mask, by_name[name])


def test_means_are_over_the_pairs_that_all_points_found_but_those_that_fail_too_often(case):
    _, frame, _ = judged(case, "appendix_a")
    frame = frame.set_index("setting")
    rows = np.arange(1, 17)  # neither 0 nor 17, and whatever the point that fails found
    assert frame.pairs.to_dict() == {"lambda=0": 16, "mu=1": 16, "lambda=1": 0}
    np.testing.assert_allclose(frame.l0[:2], [3 * rows.mean(), 2 * rows.mean()])
    np.testing.assert_allclose(frame.l1[:2], [1.5 * rows.mean(), rows.mean()])
    assert frame.loc["lambda=1", ["l0", "l1"]].isna().all()
    np.testing.assert_allclose(frame.failure, [100 / 18, 100 / 18, 100 * 16 / 18])
    np.testing.assert_allclose(frame.changed, [17 / 18, 0, 17 / 18])  # row 0 has no changed pixel anywhere
    assert frame.loc["mu=1", ["paper_l0", "paper_l1", "paper_failure"]].tolist() == list(paper.APPENDIX_A["mu=1"])


def test_claims_are_decided_by_the_tables_of_their_sweep(case):
    _, frame, tests = judged(case, "appendix_a")
    row = tests[(tests.b == "lambda=0") & (tests.metric == "l0")].iloc[0]
    assert row.low < row.mean_difference == -8.5 < row.high and row.images == 2
    assert row.ratio_low < row.ratio == 1.5 < row.ratio_high
    assert (frame.changed_low <= frame.changed).all() and (frame.changed <= frame.changed_high).all()
    run = Run({}, {})
    run.sweep_tables, run.sweep_tests = {"appendix_a": frame.assign(pairs=100)}, {"appendix_a_tests": tests}
    check = {claim.name: claim.check for claim in CLAIMS}
    best, needed = check["mu_one_best"](run), check["both_terms_needed"](run)
    assert "l0: mu=1 − lambda=0 −8.50" in best.number and "lambda=1 " not in best.number, "which fails too often"
    assert best.estimate in (-8.5, -4.25) and best.low < best.estimate < best.high and best.threshold == 0
    assert "l0, ratio 1.500" in needed.number and needed.threshold == 1.05
    run.sweep_tables = {"appendix_a": frame}
    assert check["mu_one_best"](run).result == UNTESTED, "16 pairs are too few"


def test_a_scored_sweep_has_the_realism_of_its_points_over_the_same_pairs(case):
    _, shards, _ = case
    pairs = make_pairs(1, images=2)
    pairs.original[:] = 0.25
    sweep = declared(mine=jsma(vary={"step_size": [0.1, 0.2]}, scores=["agan", "im1"]))["mine"]
    variants = [point.variant for point in sweep.points]
    wanted = {f"{folder}/{name}/validation.npz" for folder in ("counterfactuals", "realism") for name in variants}
    assert wanted | {"pairs/validation.npz"} == set(sweep.artifacts())
    chosen = {key: shard for key, shard in shards.items() if key[0] in variants}
    scores = {key: make_scores(shard.image, shard.target, seed) for seed, (key, shard) in enumerate(chosen.items())}
    for key, of_point in scores.items():
        for name, values in of_point.values.items():
            of_point.values[name] = np.where(shards[key].found, values, np.nan)
    table = evaluation.long_form([sweep], {"validation": pairs}, chosen, scores)
    mask = evaluation.compared(table, sweep, {"mine": sweep})
    frame = evaluation.frame(table, mask, sweep, evaluation.changed(sweep, chosen))
    rows = np.arange(1, 17)  # found by both
    expected = [scores[name, "validation"].values["agan"][rows].mean() for name in variants]
    np.testing.assert_allclose(frame["agan"], expected, rtol=1e-6)
    markdown = evaluation.as_table(frame, evaluation.tests(table, mask, sweep), sweep).markdown()
    assert "| AGAN |" in markdown.splitlines()[2] and f"{expected[0]:.2f}" in markdown
    with pytest.raises(ContractError):
        wrong = scores[variants[0], "validation"]
        wrong.image[:] = 99
        evaluation.long_form([sweep], {"validation": pairs}, chosen, scores)


def test_means_over_each_points_own_pairs(case):
    _, frame, _ = judged(case, "own")
    assert frame.pairs.tolist() == [17, 17, 0]
    np.testing.assert_allclose(frame.l0[:2], [3 * np.arange(1, 18).mean(), 2 * np.arange(17).mean()])
    assert frame.paper_l0.isna().all()


def test_the_table_says_whether_settings_are_told_apart_as_in_the_paper(case):
    by_name, _, _ = case
    _, frame, tests = judged(case, "appendix_a")
    row = tests[(tests.b == "lambda=0") & (tests.metric == "l0")].iloc[0]
    assert (row.a, row.n, row.mean_difference) == ("mu=1", 16, -8.5) and row.p < 1e-4 and row.p_holm >= row.p
    text = evaluation.as_table(frame, tests, by_name["appendix_a"])
    assert "- μ = 1 against λ = 0: told apart, as the paper reports: L0 17.00 against 25.50" in text.markdown()
    assert "- μ = 1 against λ = 1:" not in text.markdown()  # which fails too often to be compared
    assert "fail on more than 75 %: λ = 1." in text.caption and "over the 16 pairs" in text.caption
    assert "| μ = 1 | **17.00** |" in text.markdown() and r"$\mu$ = 1" in text.tex("appendix_a")
    data = text.data("appendix_a", "sweeps")
    assert data["notes"] == text.notes and len(data["notes"]) == 1
    assert data["rows"][1][1] == {"text": "17.00", "value": 17.0, "mark": "best"}
    assert [column["heading"] for column in data["columns"]][-3:] == ["paper: L0", "paper: L1", "paper: failure in %"]

    def note(**columns):
        return evaluation.verdict(frame, tests.assign(**columns), by_name["appendix_a"])[0]

    assert "told apart, the other way round than in the paper" in note(mean_difference=-tests.mean_difference)
    assert "not told apart" in note(p_holm=0.3)
    assert "told apart in L1 only" in note(p_holm=tests.p_holm.where(tests.metric == "l1", 0.3))
    assert evaluation.verdict(frame.assign(pairs=0), tests, by_name["appendix_a"]) == [
        "μ = 1 fails too often here to be compared (5.6 %; the paper: 0.0 %)."
    ]


def test_scores_are_compared_like_distances_also_of_two_readings_of_one_shard():
    by_name = declared(mine=jsma(vary={"realism.anogan.steps": [1, 2]}, scores=["agan", "log_density"]))
    sweep, pairs = by_name["mine"], make_pairs(1, images=2)
    shards = {("jsma", "validation"): changed_pixels(pairs, "jsma", np.arange(18), np.arange(18) > 0)}
    i = np.arange(18.0)
    scores = {
        (variant, "validation"): Scores(pairs.image, pairs.target, agan=(number + 1) * i, log_density=number * i)
        for number, variant in enumerate(sweep.variants)
    }
    table = evaluation.long_form([sweep], {"validation": pairs}, shards, scores)
    mask = evaluation.compared(table, sweep, by_name)
    frame = evaluation.frame(table, mask, sweep, evaluation.changed(sweep, shards))
    assert frame["agan"].tolist() == [9, 18] and frame["log_density"].tolist() == [0, 9]
    assert set(frame["changed"]) == {0}
    tests = evaluation.tests(table, mask, sweep).set_index("metric")
    assert (tests.loc["agan", "wins"], tests.loc["log_density", "wins"]) == (17, 0), "a high density is good"
    text = evaluation.as_table(frame, tests.reset_index(), sweep).markdown()
    assert "| **9.00** | 0.00 |" in text and "| 18.00 | **9.00** |" in text
    plt.close(evaluation.picture(frame, table, mask, sweep))
    scores[sweep.variants[1], "validation"].image = pairs.image + 1
    with pytest.raises(ContractError, match="scores of other images"):
        evaluation.long_form([sweep], {"validation": pairs}, shards, scores)


def test_the_papers_figures_stand_only_beside_its_dataset(case):
    by_name, _, table = case
    mask = evaluation.compared(table, by_name["appendix_a"], by_name)
    frame = evaluation.frame(table, mask, by_name["appendix_a"], {}, of_paper=False)
    assert frame.paper_l0.isna().all()
    text = evaluation.as_table(frame, evaluation.tests(table, mask, by_name["appendix_a"]), by_name["appendix_a"])
    assert text.notes == [] and "paper" not in text.markdown()


def test_the_same_index_in_two_test_sets_means_two_images():
    """The reference changes more pixels than the other point in test set 2, and fewer in test set 1."""
    by_name = declared(mine=jsma(on=["1", "2"]))
    pairs, shards = {}, {}
    for seed, sign in (("1", 1), ("2", -1)):
        image, target = np.arange(90) // 9, np.tile(np.arange(1, 10), 10)
        pairs[seed] = Pairs(image, np.zeros(90, int), target, np.full((90, 1, 28, 28), 0.25, np.float32), np.array(10))
        for variant, counts in (("jsma@step_size=0.1", np.full(90, 50)), ("jsma", 50 + sign * (40 + image % 3))):
            step = 0.1 if "@" in variant else 0.2
            shards[variant, seed] = changed_pixels(pairs[seed], "jsma", counts, np.ones(90, bool), step_size=step)
    table = evaluation.long_form(list(by_name.values()), pairs, shards)
    mask = evaluation.compared(table, by_name["mine"], by_name)
    row = evaluation.tests(table, mask, by_name["mine"]).set_index("metric").loc["l0"]
    assert row.mean_difference == 0
    assert row.ci_high_images - row.ci_low_images > 20  # merged, the two images of an index would cancel out
    frame = evaluation.frame(table, mask, by_name["mine"], evaluation.changed(by_name["mine"], shards))
    figure = evaluation.picture(frame, table, mask, by_name["mine"])
    bars = [bar.lines[2][0].get_segments()[0] for bar in figure.axes[0].containers]
    assert max(end[0] - start[0] for start, end in bars) > 20  # here too


def test_two_sweeps_are_compared_on_the_pairs_of_both(case):
    _, _, table = case
    first = jsma(vary={"step_size": [0.1, 0.2]}, compare_on=["first", "second"])
    by_name = declared(first=first, second=jsma(vary={"step_size": [0.4]}))
    assert evaluation.compared(table, by_name["first"], by_name).sum() == 2 * 1  # of rows 0 and 1, the first fails on 0
    assert evaluation.compared(table, by_name["second"], by_name).sum() == 2


def test_a_shard_of_other_settings_is_refused(case):
    by_name, shards, _ = case
    shards["jsma", "validation"].metadata["settings"]["step_size"] = 0.3
    with pytest.raises(ContractError, match="was made with step_size = 0.3"):
        evaluation.long_form(list(by_name.values()), {"validation": make_pairs(1, images=2)}, shards)


# --- the authors' tuning


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """Files in the layout of the authors' repository: setting k changes k + 1 pixels; the first nine fail on pair k."""
    torch = pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("clone") / "valset_batch"
    folder.mkdir()
    names = ["c4m0", *(f"c4m0CL{10**power}" for power in range(6)), "c4m0cl0.2", "c4m0cl1(1)", "c4m0cl5.0"]
    names += [
        "c2m0cl1",
        "c3m0cl1",
        "c5m0cl1",
        "c4m0cl1p2",
        "c4m0cl1p3",
        *(f"c4m{tenth}cl1.0" for tenth in range(1, 10)),
    ]
    torch.save(torch.zeros(100, 1, 28, 28), folder / "orig_batch_100v_X.pt")
    torch.save(torch.full((100,), 9), folder / "orig_batch_100v_y.pt")
    for number, name in enumerate([*names, "c4m0cl1", "c4m0cl3.0"]):  # a first run of μ = 1, and a setting of no table
        images, iterations = torch.zeros(100, 10, 784), torch.full((100, 10), 50)
        images[:, :, : number + 1] = 0.5
        iterations[0, number % 9] = 700 if number < 9 or number > 23 else 50
        images[0, number % 9] = 0 if number < 9 or number > 23 else images[0, number % 9]
        torch.save(images, folder / f"arr_vbatch_{name}.pt")
        torch.save(iterations, folder / f"iter_vbatch_{name}.pt")
    return folder.parent


def test_the_authors_tuning_gives_appendix_a_by_the_mask_of_all_24_settings(clone):
    config = PUBLISHED | {"sweeps": validation.sweeps(clone)}
    by_name = sweeps.declared_sweeps(config)
    pairs, shards = validation.import_validation(clone, list(by_name.values()))
    assert len(pairs) == 900 and len(shards) == 24
    for name, shard in shards.items():
        shard.check(name)
    keyed = {(variant, "validation"): shard for variant, shard in shards.items()}
    table = evaluation.long_form(list(by_name.values()), {"validation": pairs}, keyed)
    mask = evaluation.compared(table, by_name["appendix_a"], by_name)
    frame = evaluation.frame(table, mask, by_name["appendix_a"], evaluation.changed(by_name["appendix_a"], keyed))
    assert frame.setting.tolist() == list(paper.APPENDIX_A)
    assert set(frame.pairs) == {
        900 - 9
    }  # nine settings fail once each, all on other pairs; μ = 3 and a first run say nothing
    assert frame.l0.tolist() == [number + 1 for number in range(10)]  # μ = 1 is the repeated run, number 8
    np.testing.assert_allclose(frame.failure, [100 / 900] * 9 + [0])
    more = evaluation.frame(table, mask, by_name["appendix_a_more"], {})
    assert more.failure.tolist()[0] == pytest.approx(100 / 900) and set(more.failure[1:]) == {0}


def test_a_clone_without_the_batch_has_no_sweeps_and_one_without_a_setting_says_which(clone, tmp_path):
    assert validation.sweeps(tmp_path) == {}
    by_name = sweeps.declared_sweeps(PUBLISHED | {"sweeps": validation.sweeps(clone)})
    folder = tmp_path / "valset_batch"
    folder.mkdir()
    for path in (clone / "valset_batch").iterdir():
        if "c3m0" not in path.name:
            (folder / path.name).symlink_to(path)
    with pytest.raises(InputError, match="has no file arr_vbatch_… of 'c = 3'"):
        validation.import_validation(tmp_path, list(by_name.values()))


# --- in the workflow


def add_sweep(root: Path, name: str, section: dict) -> None:
    """A config edit, and nothing else."""
    config = yaml.safe_load((root / "config.yaml").read_text())
    config["sweeps"][name] = section
    (root / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))


@pytest.mark.workflow
def test_a_sweep_over_another_parameter_by_editing_the_config_alone(finished, tmp_path):
    checkout = finished.copy(tmp_path / "repository")
    add_sweep(checkout.root, "jsma_steps", {"method": "jsma", "vary": {"step_size": [0.1, 0.2]}})
    results = checkout.root / "results/test"
    run = checkout.snakemake("results/test/tables/jsma_steps.csv")
    assert run.returncode == 0, run.stdout[-5000:]
    assert "rule train" not in run.stdout, "the models are those of the experiment"
    table = pd.read_csv(results / "tables/jsma_steps.csv")
    assert table.step_size.tolist() == [0.1, 0.2] and table.found.gt(0).any()
    shards = [Shard.load(results / f"counterfactuals/{name}/validation.npz") for name in ("jsma@step_size=0.1", "jsma")]
    assert [shard.metadata["settings"]["step_size"] for shard in shards] == [0.1, 0.2]
    assert (results / "figures/jsma_steps.json").exists() and (results / "tables/jsma_steps.json").exists()

    add_sweep(checkout.root, "jsma_steps", {"method": "jsma", "vary": {"step_size": [0.1, 0.2, 0.4]}})
    run = checkout.snakemake("results/test/tables/jsma_steps.csv")
    assert run.returncode == 0, run.stdout[-5000:]
    assert len(pd.read_csv(results / "tables/jsma_steps.csv")) == 3
    assert run.stdout.count("rule jsma:") == 1, "only the new value runs"

    add_sweep(checkout.root, "jsma_steps", {"method": "jsma", "vary": {"step_sise": [0.1]}})
    run = checkout.snakemake("appendices")
    assert run.returncode != 0 and "sweep 'jsma_steps'" in run.stdout and "did you mean 'step_size'?" in run.stdout
    assert "Traceback" not in run.stdout


@pytest.mark.workflow
def test_a_sweep_over_a_setting_of_a_model_trains_its_networks(finished, tmp_path):
    checkout = finished.copy(tmp_path / "repository")
    results = checkout.root / "results/test"
    sweep = "sweeps={widths: {method: jsma, vary: {plain.width: [3, 4, 5]}}}"
    run = checkout.snakemake("results/test/tables/widths.csv", "--config", sweep)
    assert run.returncode == 0, run.stdout[-5000:]
    assert run.stdout.count("rule train:") == 2, "4 is the configured width"
    table = pd.read_csv(results / "tables/widths.csv")
    assert table["plain.width"].tolist() == [3, 4, 5] and table.found.gt(0).all()
    for width in (3, 5):
        assert load(results / f"models/plain@width={width}.safetensors").arguments["width"] == width
        shard = Shard.load(results / f"counterfactuals/jsma@plain.width={width}/validation.npz")
        assert shard.metadata["models"] == {"classifier": f"plain@width={width}"}


@pytest.mark.workflow
def test_which_classifier_a_method_explains_is_a_setting(finished, tmp_path):
    checkout = finished.copy(tmp_path / "repository")
    name = "results/test/counterfactuals/jsma/1.npz"
    run = checkout.snakemake(name, "--config", "jsma={classifier: ddu}")
    assert run.returncode == 0, run.stdout[-5000:]
    assert "rule train:" not in run.stdout
    before, after = Shard.load(finished.root / name), Shard.load(checkout.root / name)
    assert (before.metadata["models"], after.metadata["models"]) == ({"classifier": "plain"}, {"classifier": "ddu"})
    assert not np.array_equal(before.counterfactual, after.counterfactual)
    both = "sweeps={both: {method: jsma, vary: {classifier: [plain, ddu]}}}"
    jobs = checkout.jobs("results/test/tables/both.csv", "--config", both)
    inputs = [job.details["input"] for job in jobs if job.rule == "jsma"]
    assert len(inputs) == 2 and any("models/ddu.safetensors" in files for files in inputs)


@pytest.mark.workflow
def test_a_sweep_over_a_model_that_the_method_does_not_use_is_one_sentence(clean_checkout):
    sweep = "sweeps={mine: {method: jsma, vary: {vae.latent: [8]}}}"
    run = clean_checkout.snakemake("--dry-run", "appendices", "--config", sweep)
    assert run.returncode != 0 and "Traceback" not in run.stdout
    assert run.stdout.count("sweep 'mine': 'vae.latent' cannot be varied, because jsma uses plain.") == 1, run.stdout


@pytest.mark.workflow
def test_sweeps_are_evaluated_from_stored_artefacts(clean_checkout, tmp_path):
    folder = make_folder(tmp_path / "artefacts", images=3)
    pairs = make_pairs(1, images=3)
    pairs.save(folder / "pairs/validation.npz")
    for step in (0.1, 0.2):
        name = "jsma" if step == 0.2 else f"jsma@step={step}"
        make_shard("jsma", int(10 * step), pairs, step=step).save(folder / f"counterfactuals/{name}/validation.npz")
    labels = {"μ = 2": {"step": 0.2}, "λ = 1": {"step": 0.1}}
    about = bundle.Bundle(folder).manifest
    about["config"]["sweeps"] = {"steps": {"method": "jsma", "vary": {"step": labels}}, "absent": jsma()}
    bundle.seal(folder, files(folder), about)
    checkout = clean_checkout.copy(tmp_path / "repository")
    run = checkout.snakemake(
        "tables", "appendices", "--config", f"artifacts={folder}", "name=stored", config="config.yaml"
    )
    assert run.returncode == 0, run.stdout[-5000:]
    results = checkout.root / "results/stored"
    assert pd.read_csv(results / "tables/steps.csv").label.tolist() == ["μ = 2", "λ = 1"]
    assert set(pd.read_csv(results / "results.csv").seed) == {1, 2}, "the validation batch is no test set"
    assert not (results / "tables/absent.csv").exists()
