"""Sweeps: how they are declared, what their tables say, the authors' own, and one more by editing the config alone."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from artefacts import files, make_folder, make_pairs, make_shard

from deduce import sweeps
from deduce.config import in_order, schema
from deduce.errors import InputError
from deduce.evaluation import bundle, paper, published_validation
from deduce.evaluation import sweeps as evaluation
from deduce.shards import ContractError, Shard

ROOT = Path(__file__).parent.parent
SCHEMA = schema(ROOT / "schemas", [path.stem for path in (ROOT / "rules" / "methods").glob("*.smk")])
DEFAULT = yaml.safe_load((ROOT / "config.yaml").read_text())
CONFIG = {"jsma": {"step_size": 0.2, "pixels_per_step": 1}, "ddu": {"coefficient": 4}}


def declared(**sections):
    return sweeps.declared({**CONFIG, "sweeps": sections})


def jsma(**section):
    return {"method": "jsma", "vary": {"step_size": [0.1, 0.2]}} | section


# --- names


def test_a_variant_is_named_by_what_differs_from_the_config():
    settings = {"step_size": 0.00001, "pixels_per_step": 1, "objective": "weighted", "ddu.coefficient": 2, "flag": True}
    name = sweeps.variant("jsma", settings, CONFIG)
    assert name == "jsma@ddu.coefficient=2,flag=true,objective=weighted,step_size=1e-05"
    assert sweeps.overrides(name) == {key: settings[key] for key in settings if key != "pixels_per_step"}
    assert sweeps.variant("jsma", {"step_size": 0.2}, CONFIG) == "jsma"
    assert sweeps.overrides("jsma") == {}


def test_a_value_that_no_path_can_hold_is_refused():
    with pytest.raises(InputError, match=r"'step_size' is 'a/b'; allowed: a number"):
        sweeps.variant("jsma", {"step_size": "a/b"}, CONFIG)


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
    ({"vae.latent": [8]}, "sweep 'mine', 'vae.latent = 8': 'vae.latent' cannot be varied; of models only: ddu."),
    ({"ddu.coefficient": [-1]}, "'ddu.coefficient' is -1; allowed: more than 0"),
])  # fmt: skip
def test_settings_are_checked_against_the_methods_schema(vary, message):
    sweep = sweeps.declared(DEFAULT | {"sweeps": {"mine": jsma(vary=vary)}})["mine"]
    with pytest.raises(InputError) as error:
        sweeps.check(sweep, DEFAULT, SCHEMA, {"ddu.coefficient"})
    assert message in str(error.value)


def scaled(overlay: str):
    def merge(base, changes):
        return base | {k: merge(base.get(k) or {}, v) if isinstance(v, dict) else v for k, v in changes.items()}

    return merge(DEFAULT, yaml.safe_load((ROOT / "config" / overlay).read_text()))


def test_the_appendices_of_the_default_config_are_the_papers():
    made = sweeps.declared(DEFAULT)
    for sweep in made.values():
        sweeps.check(sweep, DEFAULT, SCHEMA, {"ddu.coefficient"})
    for name in ("appendix_a", "appendix_b"):
        settings = {evaluation.key(point.label) for point in made[name].points}
        assert set(paper.SWEEPS[name]) <= settings
    assert {point.variant for point in made["appendix_a"].points} & {p.variant for p in made["appendix_a_more"].points}
    together = {point.variant for name in made["appendix_a"].compare_on for point in made[name].points}
    assert len(together) == 24  # the settings of the authors' tuning


def test_appendix_b_at_the_papers_scale_has_its_limits():
    points = sweeps.declared(scaled("paper.yaml"))["appendix_b"].points
    limits = {(p.settings["distance_weight"], p.settings["step_size"]): p.settings["max_iterations"] for p in points}
    expected = {1e-3: 5_000, 1e-4: 10_000, 1e-5: 50_000}
    assert limits == {(weight, step): limit for weight in (0.1, 1, 10) for step, limit in expected.items()}


def test_keys_keep_the_default_configs_order_whatever_overlays_did():
    assert list(in_order({"b": {"y": 1, "x": 2}, "new": 0, "a": 1}, {"a": 0, "b": {"x": 0, "y": 0}})) == [
        "a",
        "b",
        "new",
    ]
    assert list(in_order({"b": {"y": 1, "x": 2}}, {"b": {"x": 0, "y": 0}})["b"]) == ["x", "y"]


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
    made = declared(appendix_a=section, own=section | {"compare_on": "own"})
    shards = {
        ("jsma@step_size=0.1", "validation"): changed_pixels(pairs, "jsma", 3 * i, i != 0, step_size=0.1),
        ("jsma", "validation"): changed_pixels(pairs, "jsma", 2 * i, i != 17, step_size=0.2),
        ("jsma@step_size=0.4", "validation"): changed_pixels(pairs, "jsma", 4 * i, i < 2, step_size=0.4),
    }
    table = evaluation.long_form(list(made.values()), {"validation": pairs}, shards)
    return made, shards, table


def judged(case, name):
    made, shards, table = case
    mask = evaluation.compared(table, made[name], made)
    frame = evaluation.frame(table, mask, made[name], evaluation.changed(made[name], shards))
    return mask, frame, evaluation.tests(table, mask, made[name])


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


def test_means_over_each_points_own_pairs(case):
    _, frame, _ = judged(case, "own")
    assert frame.pairs.tolist() == [17, 17, 0]
    np.testing.assert_allclose(frame.l0[:2], [3 * np.arange(1, 18).mean(), 2 * np.arange(17).mean()])
    assert frame.paper_l0.isna().all()


def test_the_table_says_whether_settings_are_told_apart_as_in_the_paper(case):
    made, _, _ = case
    _, frame, tests = judged(case, "appendix_a")
    row = tests[(tests.b == "lambda=0") & (tests.metric == "l0")].iloc[0]
    assert (row.a, row.n, row.mean_difference) == ("mu=1", 16, -8.5) and row.p < 1e-4 and row.p_holm >= row.p
    text = evaluation.as_table(frame, tests, made["appendix_a"])
    assert "- μ = 1 against λ = 0: told apart, as the paper reports: L0 17.00 against 25.50" in text.markdown()
    assert "- μ = 1 against λ = 1:" not in text.markdown()  # which fails too often to be compared
    assert "fail on more than 75 %: λ = 1." in text.caption and "over the 16 pairs" in text.caption
    assert "| μ = 1 | **17.00** |" in text.markdown() and r"$\mu$ = 1" in text.tex("appendix_a")

    def said(**columns):
        return evaluation.verdict(frame, tests.assign(**columns), made["appendix_a"])[0]

    assert "told apart, the other way round than in the paper" in said(mean_difference=-tests.mean_difference)
    assert "not told apart" in said(p_holm=0.3)
    assert "told apart in L1 only" in said(p_holm=tests.p_holm.where(tests.metric == "l1", 0.3))
    assert evaluation.verdict(frame.assign(pairs=0), tests, made["appendix_a"]) == [
        "μ = 1 fails too often here to be compared (5.6 %; the paper: 0.0 %)."
    ]


def test_two_sweeps_are_compared_on_the_pairs_of_both(case):
    _, _, table = case
    first = jsma(vary={"step_size": [0.1, 0.2]}, compare_on=["first", "second"])
    made = declared(first=first, second=jsma(vary={"step_size": [0.4]}))
    assert evaluation.compared(table, made["first"], made).sum() == 2 * 1  # of rows 0 and 1, the first fails on 0
    assert evaluation.compared(table, made["second"], made).sum() == 2


def test_a_shard_of_other_settings_is_refused(case):
    made, shards, _ = case
    shards["jsma", "validation"].metadata["settings"]["step_size"] = 0.3
    with pytest.raises(ContractError, match="was made with step_size = 0.3"):
        evaluation.long_form(list(made.values()), {"validation": make_pairs(1, images=2)}, shards)


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
    config = paper.EXPERIMENT | {"sweeps": published_validation.sweeps(clone)}
    made = sweeps.declared(config)
    pairs, shards = published_validation.import_validation(clone, list(made.values()))
    assert len(pairs) == 900 and len(shards) == 24
    for name, shard in shards.items():
        shard.check(name)
    keyed = {(variant, "validation"): shard for variant, shard in shards.items()}
    table = evaluation.long_form(list(made.values()), {"validation": pairs}, keyed)
    mask = evaluation.compared(table, made["appendix_a"], made)
    frame = evaluation.frame(table, mask, made["appendix_a"], evaluation.changed(made["appendix_a"], keyed))
    assert frame.setting.tolist() == list(paper.APPENDIX_A)
    assert set(frame.pairs) == {
        900 - 9
    }  # nine settings fail once each, all on other pairs; μ = 3 and a first run say nothing
    assert frame.l0.tolist() == [number + 1 for number in range(10)]  # μ = 1 is the repeated run, number 8
    np.testing.assert_allclose(frame.failure, [100 / 900] * 9 + [0])
    more = evaluation.frame(table, mask, made["appendix_a_more"], {})
    assert more.failure.tolist()[0] == pytest.approx(100 / 900) and set(more.failure[1:]) == {0}


def test_a_clone_without_the_batch_has_no_sweeps_and_one_without_a_setting_says_which(clone, tmp_path):
    assert published_validation.sweeps(tmp_path) == {}
    made = sweeps.declared(paper.EXPERIMENT | {"sweeps": published_validation.sweeps(clone)})
    folder = tmp_path / "valset_batch"
    folder.mkdir()
    for path in (clone / "valset_batch").iterdir():
        if "c3m0" not in path.name:
            (folder / path.name).symlink_to(path)
    with pytest.raises(InputError, match="has no file arr_vbatch_… of 'c = 3'"):
        published_validation.import_validation(tmp_path, list(made.values()))


# --- in the report


def test_the_report_shows_the_sweeps_that_were_made_and_what_they_say(case):
    from report_case import make_run

    from deduce.report import page

    made, _, _ = case
    _, frame, tests = judged(case, "appendix_a")
    run = make_run()
    assert 'id="sweeps"' not in page.render(run)
    run.experiment["sweeps"] = {"appendix_a": {}, "not_made": {}}
    run.tables["appendix_a"] = frame
    text = evaluation.as_table(frame, tests, made["appendix_a"])
    run.texts["appendix_a"] = {"csv": "", "md": text.markdown(), "tex": text.tex("appendix_a")}
    html = page.render(run)
    assert 'id="table-appendix_a"' in html and "not_made" not in html.split('id="made"')[0]
    assert "told apart, as the paper reports" in html and "paper: L0" in html


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
    assert "rule classifier" not in run.stdout, "the models are those of the experiment"
    table = pd.read_csv(results / "tables/jsma_steps.csv")
    assert table.step_size.tolist() == [0.1, 0.2] and table.found.gt(0).any()
    shards = [Shard.load(results / f"counterfactuals/{name}/validation.npz") for name in ("jsma@step_size=0.1", "jsma")]
    assert [shard.metadata["settings"]["step_size"] for shard in shards] == [0.1, 0.2]
    assert (results / "figures/jsma_steps.png").exists() and (results / "tables/jsma_steps.tex").exists()

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
