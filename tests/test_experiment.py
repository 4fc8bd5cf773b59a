"""The experiment: one object that answers the rules' questions, from the config alone."""

import shutil
from pathlib import Path

import pytest
from artefacts import files, make_folder

from deduce.config import complete, defaults
from deduce.errors import InputError
from deduce.evaluation.bundle import Bundle, BundleError, seal
from deduce.experiment import ARTIFACTS, PUBLICATION, RUN, Experiment
from deduce.models import of_every_run

ROOT = Path(__file__).parent.parent
DEFAULT = defaults(ROOT)


def load(name=None, /, **config) -> Experiment:
    return Experiment.load(config, ROOT, name)


def contents(experiment: Experiment) -> tuple:
    """All that decides which jobs there are."""
    tables, figures = ([item.name for item in items] for items in (experiment.tables, experiment.figures))
    reported = experiment.reported_sweeps, experiment.reported_comparisons
    return experiment.name, experiment.artifacts, experiment.artifact_names, tables, figures, reported


EXPERIMENT = load()

# --- models of variants


@pytest.mark.parametrize(
    "user, role, expected",
    [
        ("deduce", "classifier", "ddu"),
        ("deduce", "density", "density"),
        ("density", "classifier", "ddu"),
        ("jsma", "classifier", "plain"),
        ("jsma@step_size=0.1", "classifier", "plain"),
        ("revise", "vae", "vae"),
        # a setting of the classifier changes the classifier, and the densities of its features
        ("deduce@ddu.coefficient=3", "classifier", "ddu@coefficient=3"),
        ("deduce@ddu.coefficient=3", "density", "density@ddu.coefficient=3"),
        ("density@ddu.coefficient=3", "classifier", "ddu@coefficient=3"),
        ("deduce@ddu.epochs=9,ddu.width=32,momentum=0", "density", "density@ddu.epochs=9,ddu.width=32"),
        ("deduce@density.training_images=1000", "density", "density@training_images=1000"),
        ("deduce@density.training_images=1000", "classifier", "ddu"),
        ("revise@vae.latent=8", "vae", "vae@latent=8"),
        ("revise@vae.latent=8", "classifier", "plain"),
        ("revise@plain.width=4,vae.latent=8", "classifier", "plain@width=4"),
        # which classifier is explained is a setting of the method
        ("jsma@classifier=ddu", "classifier", "ddu"),
        ("jsma@classifier=ddu,ddu.width=32", "classifier", "ddu@width=32"),
        ("deduce@classifier=plain", "density", "density@classifier=plain"),
        ("density@classifier=plain", "classifier", "plain"),
        ("deduce@classifier=plain,plain.width=4", "density", "density@classifier=plain,plain.width=4"),
        ("density@classifier=plain,plain.width=4", "classifier", "plain@width=4"),
        # several trainings of one model
        ("jsma@plain.training_seed=2", "classifier", "plain@training_seed=2"),
        ("deduce@ddu.training_seed=2", "density", "density@ddu.training_seed=2"),
        ("density@ddu.training_seed=2", "classifier", "ddu@training_seed=2"),
        # a second opinion has its own name
        ("jsma@confirm_by=ddu", "confirming", "ddu"),
        ("deduce@confirm_by=ddu@training_seed=2", "confirming", "ddu@training_seed=2"),
        ("deduce@confirm_by=ddu@training_seed=2", "classifier", "ddu"),
        ("deduce@confirm_by=ddu,ddu.width=32", "confirming", "ddu"),
    ],
)
def test_a_variant_uses_the_variants_of_its_models(user, role, expected):
    assert EXPERIMENT.model(user, role) == expected


def test_the_config_decides_which_classifier_is_explained():
    experiment = load(jsma={"classifier": "ddu"}, density={"classifier": "plain"})
    assert experiment.model("jsma", "classifier") == "ddu" and experiment.model("density", "classifier") == "plain"
    # The densities are configured to be of another classifier than DeDUCE explains: it needs its own.
    assert experiment.model("deduce", "density") == "density@classifier=ddu"


def test_a_user_without_a_classifier_is_one_sentence():
    with pytest.raises(InputError, match="config: 'wgan' names no classifier; known: ddu, plain"):
        load().model("wgan", "classifier")


def test_a_misspelt_setting_of_a_model_is_an_error():
    with pytest.raises(InputError, match="'ddu@widht=16': unknown setting 'widht'; known: .*width"):
        EXPERIMENT.settings("ddu@widht=16")
    assert EXPERIMENT.settings("ddu@training_seed=2,width=32")["width"] == 32


def test_settings_are_the_section_with_what_the_variant_changes():
    experiment = load(jsma={"batch_size": 7})
    assert experiment.settings("jsma@step_size=0.1,plain.width=4") == DEFAULT["jsma"] | {
        "batch_size": 7,
        "step_size": 0.1,
    }
    assert experiment.settings("ddu@width=32") == DEFAULT["ddu"] | {"width": 32}


def test_replicated_models_have_the_first_training_seed_and_shared_ones_their_own():
    experiment = load(training_seeds=[5, 6], vae={"training_seed": 3})
    assert experiment.training_seed("ddu") == 5 and experiment.training_seed("ddu@training_seed=2") == 2
    assert experiment.training_seed("vae") == 3 and experiment.training_seed("vae@latent=8") == 3
    # Whatever the seeds of the replicates: two runs with different ones share these models.
    assert experiment.training_seed("wgan") == load(training_seeds=[1]).training_seed("wgan") == 1


# --- replicates


@pytest.mark.parametrize(
    "user, role, expected",
    [
        ("deduce@training_seed=2", "classifier", "ddu@training_seed=2"),
        ("deduce@training_seed=2", "density", "density@training_seed=2"),
        ("density@training_seed=2", "classifier", "ddu@training_seed=2"),
        ("jsma@training_seed=2", "classifier", "plain@training_seed=2"),
        ("jsma@classifier=ddu,training_seed=2", "classifier", "ddu@training_seed=2"),
        ("deduce@classifier=plain,training_seed=2", "density", "density@classifier=plain,training_seed=2"),
        ("density@classifier=plain,training_seed=2", "classifier", "plain@training_seed=2"),
        ("deduce@ddu.width=32,training_seed=2", "density", "density@ddu.width=32,training_seed=2"),
        ("density@ddu.width=32,training_seed=2", "classifier", "ddu@training_seed=2,width=32"),
        # shared models
        ("revise@training_seed=2", "vae", "vae"),
        ("vlk@training_seed=2", "autoencoder", "autoencoder"),
        ("density@training_seed=2", "wgan", "wgan"),
    ],
)
def test_a_replicate_of_a_method_uses_one_training_of_each_replicated_model(user, role, expected):
    assert load(training_seeds=[1, 2, 3]).model(user, role) == expected


def test_which_models_are_replicated_is_a_setting():
    experiment = load(training_seeds=[1, 2], replicated=["ddu", "density", "vae"])
    assert experiment.model("revise@training_seed=2", "classifier") == "plain"
    assert experiment.model("revise@training_seed=2", "vae") == "vae@training_seed=2"
    assert experiment.trained == [
        *of_every_run(),
        "ddu@training_seed=2",
        "density@training_seed=2",
        "vae@training_seed=2",
    ]


def test_each_replicate_has_its_answers_and_scores_and_everything_else_is_there_once():
    single, double = load(methods=["deduce", "jsma"]), load(methods=["deduce", "jsma"], training_seeds=[1, 2])
    assert double.replicates == ["deduce", "jsma", "deduce@training_seed=2", "jsma@training_seed=2"]
    more = set(double.artifact_names) - set(single.artifact_names)
    assert set(single.artifact_names) < set(double.artifact_names)
    assert more == {
        f"{kind}/{method}@training_seed=2/{seed}.npz"
        for kind in ("counterfactuals", "realism")
        for method in ("deduce", "jsma")
        for seed in (1, 2)
    } | {f"models/{model}@training_seed=2.csv" for model in ("ddu", "plain", "density")}
    # One training has the names of the config, whatever its seed.
    assert contents(load(training_seeds=[7])) == contents(EXPERIMENT)


@pytest.mark.parametrize(
    "config, message",
    [
        ({"replicated": ["ddu"]}, "'replicated' has ddu, so it needs density, which is made from it"),
        ({"ddu": {"training_seed": 2}}, "'ddu.training_seed' cannot be set: 'training_seeds' has its seeds"),
        ({"schut": {"training_seed": 2}, "methods": ["schut"]}, "'schut.training_seed'"),
        ({"replicated": ["dud"]}, "'replicated.*' is 'dud'; allowed: .*did you mean 'ddu'"),
        ({"training_seeds": []}, "'training_seeds' is .*a list that is not empty"),
        ({"training_seeds": [1, 1]}, "'training_seeds' is .*a list without repetitions"),
        ({"training_seed": 2}, "unknown key 'training_seed'; did you mean 'training_seeds'"),
    ],
)
def test_a_mistake_about_replicates_is_one_sentence(config, message):
    with pytest.raises(InputError, match=message):
        load(**config)


def test_artefacts_that_are_older_than_replicates_are_of_one_training(tmp_path):
    folder = make_folder(tmp_path / "stored")
    manifest = Bundle(folder).manifest
    for key in ("training_seeds", "replicated"):
        del manifest["config"][key]
    seal(folder, files(folder), manifest | {"config": manifest["config"] | {"training_seed": 4}})
    experiment = load(artifacts=str(folder))
    assert experiment.config["training_seeds"] == [4] and experiment.replicates == ["deduce", "jsma", "revise"]


# --- sweeps and comparisons


@pytest.mark.parametrize(
    "method, vary, role, variants",
    [
        ("deduce", {"ddu.width": [16, 32]}, "density", ["density", "density@ddu.width=32"]),
        ("jsma", {"plain.epochs": [1, 3]}, "classifier", ["plain@epochs=1", "plain"]),
        ("revise", {"vae.latent": [8, 32]}, "vae", ["vae@latent=8", "vae"]),
        ("jsma", {"plain.training_seed": [1, 2]}, "classifier", ["plain", "plain@training_seed=2"]),
    ],
)
def test_a_sweep_over_any_setting_of_a_model_is_a_config_edit(method, vary, role, variants):
    experiment = load(sweeps={"mine": {"method": method, "vary": vary}})
    points = experiment.sweeps["mine"].points
    assert [experiment.model(point.variant, role) for point in points] == variants


@pytest.mark.parametrize(
    "config, message",
    [
        ({"sweeps": {"mine": {"method": "jsam", "vary": {"a": [1]}}}}, "sweep 'mine': there is no method 'jsam'"),
        (
            {"comparisons": {"mine": {"methods": ["vlk", "vkl"], "pairs": 3}}},
            "comparison 'mine': there is no method 'vkl'",
        ),
        ({"sweeps": {"table1": {"method": "jsma", "vary": {"step_size": [0.1]}}}}, "'table1': choose another name"),
        (
            {"comparisons": {"appendix_a": {"methods": ["vlk", "jsma"], "pairs": 3}}},
            "'appendix_a': choose another name",
        ),
        ({"published": "nowhere"}, "must name a clone of the authors' repository"),
        ({"sweeps": {"mine": {"method": "jsma", "vary": {"gan.width": [1]}}}}, "'gan.width' cannot be varied for jsma"),
        ({"sweeps": {"mine": {"method": "jsma", "vary": {"plain.widht": [1]}}}}, "unknown key 'plain.widht'"),
        ({"sweeps": {"mine": {"method": "jsma", "vary": {"plain.width": ["a"]}}}}, "'plain.width' is 'a'; allowed"),
        ({"sweeps": {"Mine": {"method": "jsma", "vary": {"step_size": [1]}}}}, "sweep 'Mine': the name of a sweep has"),
        ({"methods": ["jsam"]}, "did you mean 'jsma'"),
        ({"jsma": {"classifier": "wgan"}}, "'jsma.classifier' is 'wgan'; allowed: ddu, plain"),
        (
            {"sweeps": {"mine": {"method": "jsma", "vary": {"step_size": [1]}, "scores": ["l1"]}}},
            "'scores' names 'l1'; known",
        ),
        ({"sweeps": {"mine": {"method": "jsma", "vary": {"realism.anogan.steps": [9]}}}}, "cannot be varied for jsma"),
        (
            {"sweeps": {"mine": {"method": "jsma", "vary": {"realism.anogan.stesp": [9]}, "scores": ["agan"]}}},
            "unknown key 'realism.anogan.stesp'; did you mean 'steps'?",
        ),
        ({"conviction": {"sweeps": ["nothing"]}}, "'conviction.sweeps' names 'nothing', which is not among the sweeps"),
        ({"conviction": {"sweeps": ["jsma_pixels"]}}, "sweep 'jsma_pixels' in 'conviction' needs the score 'agan'"),
        ({"jsma": {"confirm_by": "wgan"}}, "'jsma.confirm_by' is 'wgan'; allowed: ddu, plain"),
        ({"jsma": {"confirm_by": "ddu@widht=4"}}, "'ddu@widht=4': unknown setting 'widht'"),
        ({"extras": ["everything"]}, "'extras\\[0\\]' is 'everything'; allowed: appendices, comparisons, conviction"),
    ],
)
def test_a_mistake_is_one_sentence(config, message):
    with pytest.raises(InputError, match=message) as error:
        load(**config)
    assert "\n" not in str(error.value)


def test_extras_decide_what_is_reported_besides_the_main_experiment():
    plain, extras = load(), load(extras=["appendices", "comparisons"])
    assert plain.reported_sweeps == plain.reported_comparisons == plain.artifacts["extras"] == []
    curves = DEFAULT["conviction"]["sweeps"]
    assert extras.reported_sweeps == [name for name in DEFAULT["sweeps"] if name not in curves]
    assert extras.reported_comparisons == ["vlk_parity"]
    added = set(extras.artifact_names) - set(plain.artifact_names)
    assert added == set(extras.artifacts["extras"])
    assert {"pairs/validation.npz", "pairs/sample30.npz", "counterfactuals/vlk_alibi/sample30.npz"} <= added
    assert "counterfactuals/deduce@ddu.coefficient=2,momentum=0/validation.npz" in added
    assert load(extras=["comparisons"]).reported_sweeps == []
    assert not plain.reports_conviction and not extras.reports_conviction
    conviction = load(extras=["conviction"])
    assert conviction.reports_conviction and conviction.reported_sweeps == []
    assert "realism/jsma@target_confidence=0.99/1.npz" in conviction.artifacts["extras"]
    # Sweeps and comparisons can be made on request, reported or not, so that their methods' rules are needed.
    assert plain.used_methods == [*DEFAULT["methods"], "vlk_alibi"]


READING = "deduce@realism.anogan.reset_step_per_restart=true"


def test_a_sweep_can_vary_how_the_same_images_are_scored():
    sweep = EXPERIMENT.sweeps["anogan_readings"]
    assert sweep.variants == ["deduce", READING]
    files = ["pairs/1.npz", "counterfactuals/deduce/1.npz", "realism/deduce/1.npz", f"realism/{READING}/1.npz"]
    assert sweep.artifacts() == files
    assert EXPERIMENT.scorer_settings(READING)["anogan"] == DEFAULT["realism"]["anogan"] | {
        "reset_step_per_restart": True
    }
    assert EXPERIMENT.scorer_settings("deduce")["anogan"] == DEFAULT["realism"]["anogan"]
    assert EXPERIMENT.settings(READING) == DEFAULT["deduce"]


def test_curves_have_every_training_and_other_sweeps_the_first():
    experiment = load(training_seeds=[1, 2])
    point = experiment.sweeps["conviction_jsma"].points[1]
    second = "jsma@target_confidence=0.9,training_seed=2"
    assert point.replicates == {"jsma@target_confidence=0.9": 1, second: 2}
    assert experiment.model(second, "classifier") == "plain@training_seed=2"
    assert experiment.scores(second, "1") == ["agan", "oracle"]
    assert {f"{folder}/{second}/1.npz" for folder in ("counterfactuals", "realism")} <= set(
        experiment.sweeps["conviction_jsma"].artifacts()
    )
    assert experiment.sweeps["jsma_pixels"].points[1].replicates == {"jsma@pixels_per_step=2": 1}


def test_a_sweeps_points_are_scored_only_as_it_asks():
    assert EXPERIMENT.scores(READING, "1") == ["agan"]
    assert EXPERIMENT.scores("deduce", "1")[:3] == ["agan", "im1", "im2"], "of a test set by every metric"
    section = {"method": "jsma", "vary": {"step_size": [0.1, 0.2]}}
    experiment = load(sweeps={"mine": section | {"scores": ["im1"]}, "other": section})
    assert experiment.scores("jsma@step_size=0.1", "validation") == experiment.scores("jsma", "validation") == ["im1"]
    assert not any(name.startswith("realism/") for name in experiment.sweeps["other"].artifacts())


# --- artefacts, by mode


def test_a_run_has_all_kinds_of_artefacts():
    experiment = load(methods=["jsma"], seeds=[1, 3], name="mine")
    assert (experiment.mode, experiment.name, experiment.seeds) == (RUN, "mine", ["1", "3"])
    artifacts = experiment.artifacts
    assert artifacts["pairs"] == ["pairs/1.npz", "pairs/3.npz"]
    assert artifacts["counterfactuals"] == ["counterfactuals/jsma/1.npz", "counterfactuals/jsma/3.npz"]
    assert artifacts["timed"] == ["pairs/timed.npz", "counterfactuals/jsma/timed.npz"]
    assert artifacts["records"] == [f"models/{name}.csv" for name in of_every_run()]
    assert artifacts["sanity"] == ["sanity/mnist.npz", "sanity/fashion_mnist.npz"]
    assert {f"realism/{kind}/3.npz" for kind in ("jsma", "original", "reconstruction")} <= set(artifacts["realism"])
    assert load(realism={"emnist_folder": "somewhere"}).artifacts["sanity"][-1] == "sanity/emnist_letters.npz"
    assert "examples_jsma" in [item.name for item in experiment.figures]
    assert "claims" in [item.name for item in experiment.tables]
    fashion = load(methods=["jsma"], dataset="fashion_mnist")
    assert "claims" not in [item.name for item in fashion.tables], "the paper's claims are about MNIST"


def test_only_test_sets_and_the_validation_batch_are_split_into_parts():
    experiment = load(shards_per_seed=3)
    assert experiment.parts_of("1") == experiment.parts_of("validation") == ["000", "001", "002"]
    assert experiment.parts_of("timed") == experiment.parts_of("sample30") == ["000"], (
        "what is measured runs as one job"
    )


@pytest.fixture
def empty_and_full(tmp_path):
    """An empty folder, and one in which every file of an experiment exists."""
    whole = load(extras=["appendices", "comparisons"])
    names = [*whole.artifact_names, *(f"tables/{item.name}.csv" for item in whole.tables), "tables/vlk_parity.csv"]
    for name in [*names, *(f"tables/{sweep}.csv" for sweep in whole.sweeps), "shards/jsma/1/000.npz"]:
        path = tmp_path / "full/results" / DEFAULT["name"] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "empty").mkdir()
    return tmp_path / "empty", tmp_path / "full"


@pytest.mark.parametrize("extras", [[], ["appendices", "comparisons"]])
def test_a_run_is_a_function_of_the_config_alone(extras, empty_and_full, monkeypatch):
    here = contents(load(extras=extras))
    for folder in empty_and_full:
        monkeypatch.chdir(folder)
        assert contents(load(extras=extras)) == here
    assert contents(load()) != contents(load(methods=["jsma"]))


def test_stored_artefacts_are_those_of_their_folder(tmp_path, empty_and_full, monkeypatch):
    folder = make_folder(tmp_path / "stored")
    experiment = load(artifacts=str(folder))
    assert (experiment.mode, experiment.name, experiment.origin) == (ARTIFACTS, "stored", str(folder))
    assert experiment.methods == ["deduce", "jsma", "revise"] and experiment.seeds == ["1", "2"]
    listed = [line.split("  ")[1] for line in (folder / "SHA256SUMS").read_text().splitlines()]
    assert experiment.artifact_names == sorted(set(listed) - {"manifest.json"})
    timed = ["pairs/timed.npz", *(f"counterfactuals/{method}/timed.npz" for method in experiment.methods)]
    assert sorted(experiment.artifacts["timed"]) == sorted(timed)
    assert experiment.artifacts["records"] == ["models/ddu.csv", "models/oracles.csv"]
    assert experiment.artifacts["card"] == ["models/card.csv"]
    assert experiment.artifacts.get("realism") and not experiment.artifacts.get("sanity")
    tables = [item.name for item in experiment.tables]
    assert "table2" in tables and "sanity" not in tables
    for elsewhere in empty_and_full:
        monkeypatch.chdir(elsewhere)
        assert contents(load(artifacts=str(folder))) == contents(experiment)


def test_stored_artefacts_without_times_or_realism_have_fewer_tables(tmp_path):
    experiment = load(artifacts=str(make_folder(tmp_path / "stored", realism=False, timed=False)))
    assert not experiment.artifacts.get("realism") and not experiment.artifacts.get("timed")
    assert "table2" not in [item.name for item in experiment.tables]
    assert "points_agan" not in [item.name for item in experiment.figures]


def test_stored_artefacts_without_an_answer_are_refused(tmp_path):
    folder = make_folder(tmp_path / "stored")
    sums = folder / "SHA256SUMS"
    sums.write_text("".join(line for line in sums.open() if "counterfactuals/jsma/2.npz" not in line))
    with pytest.raises(BundleError, match="counterfactuals/jsma/2.npz: is missing"):
        load(artifacts=str(folder))


def test_what_is_made_from_a_runs_own_artefacts_goes_beside_the_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = make_folder(Path("results/stored"))
    (run / "shards").mkdir()
    for path in (run, run.absolute()):
        assert load(artifacts=str(path)).name == "stored-artifacts"
    assert load("other", artifacts=str(run)).name == "other"
    with pytest.raises(InputError, match="results/stored is a run of its own: choose another name"):
        load("stored", artifacts=str(run))
    # A folder from elsewhere whose name is that of a run here is refused too, rather than written over the run.
    elsewhere = make_folder(tmp_path / "elsewhere/stored")
    with pytest.raises(InputError, match="results/stored is a run of its own"):
        load(artifacts=str(elsewhere))
    shutil.rmtree(run)
    (run / "artifacts").mkdir(parents=True)  # made from artefacts earlier
    (run / "tables").mkdir()
    assert load(artifacts=str(elsewhere)).name == "stored"
    (run / "artifacts").rmdir()  # the tables of a run, whatever else of it was deleted
    with pytest.raises(InputError, match="results/stored is a run of its own"):
        load(artifacts=str(elsewhere))


def test_published_results_are_the_authors(tmp_path):
    (tmp_path / "_testset_results").mkdir()
    experiment = load(published=str(tmp_path))
    assert (experiment.mode, experiment.name, experiment.origin) == (PUBLICATION, "published", str(tmp_path))
    assert experiment.methods == ["deduce", "jsma", "vlk", "revise"] and experiment.seeds == ["1", "2", "3", "4", "5"]
    assert len(experiment.artifacts["counterfactuals"]) == 20 and experiment.artifacts["summaries"] == ["summaries.csv"]
    assert (
        not experiment.artifacts.get("timed")
        and not experiment.artifacts.get("records")
        and experiment.reported_comparisons == []
    )
    assert experiment.reported_sweeps == [], "this clone lacks the authors' tuning"
    assert {"audit", "table1_cleaned", "defects"} <= {item.name for item in experiment.tables}


def test_a_new_methods_name_may_not_be_that_of_reference_images(tmp_path):
    (tmp_path / "rules/methods").mkdir(parents=True)
    (tmp_path / "rules/methods/original.smk").touch()
    with pytest.raises(InputError, match="no method can be called 'original'"):
        Experiment.load({}, tmp_path)


def test_an_experiment_leaves_its_config_as_it_is():
    config = {"jsma": {"step_size": 0.1}}
    experiment = Experiment.load(config, ROOT)
    assert config == {"jsma": {"step_size": 0.1}} and experiment.config == complete(config, DEFAULT)
