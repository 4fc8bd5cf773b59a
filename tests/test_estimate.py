"""`estimate`: a finished run's own cost comes out, and what changes the work changes the estimate in proportion."""

import re
from pathlib import Path

import numpy as np
import pytest

from deduce import estimate as estimates
from deduce import models
from deduce.artifacts import save_json
from deduce.config import complete, defaults
from deduce.errors import InputError
from deduce.estimate import FinishedRun, estimate, iterations
from deduce.experiment import RUN, Experiment
from deduce.shards import Shard

ROOT = Path(__file__).parent.parent
START, WORK = 2.0, 9.0  # CPU seconds of the fastest job of each kind, and what every other job needs besides


def experiment(**changes) -> Experiment:
    config = complete(
        {"methods": ["deduce", "revise"], "seeds": [1, 2], "images_per_seed": 2} | changes, defaults(ROOT)
    )
    return Experiment(config, RUN, config["name"])


def shard(method: str, found: list[bool], counts: list[int]) -> Shard:
    rows = np.arange(len(found))
    images = np.zeros((len(rows), 1, 2, 2), np.float32)
    used = (
        {"classifier": "ddu", "densities": "density"} if method == "deduce" else {"classifier": "plain", "vae": "vae"}
    )
    arrays = (rows, rows * 0, rows * 0 + 1, images, np.array(found), rows * 0.5, np.array(counts))
    return Shard(*arrays, metadata={"method": method, "models": used})


@pytest.fixture
def run(tmp_path, monkeypatch) -> FinishedRun:
    """A finished run, and a machine on which every unit of work costs the same."""
    for cost in ("training_cost", "gradient_cost", "descent_cost"):
        monkeypatch.setattr(estimates, cost, lambda *arguments: 1.0)
    recorded = experiment()
    save_json(tmp_path / "config.json", recorded.config)
    jobs = {f"models/{name}": START + WORK for name in models.of_every_run()} | {"models/density": START}
    jobs |= {f"reference_scores/{seed}": START + WORK for seed in recorded.seeds}
    for method in recorded.methods:
        jobs |= {f"realism_scores/{method}-{seed}": START + WORK for seed in recorded.seeds}
        jobs |= {f"{method}/{name}-000": START + WORK for name in (*recorded.seeds, "timed")}
        for name in (*recorded.seeds, "timed"):
            path = tmp_path / f"counterfactuals/{method}/{name}.npz"
            path.parent.mkdir(parents=True, exist_ok=True)
            shard(method, [True, True, False], [10, 30, 20]).save(path)
    jobs |= {f"sanity_scores/{name}": START + WORK for name in recorded.judged}
    jobs |= {"revise/timed-000": START, "reference_scores/2": START}
    for job, seconds in jobs.items():
        log = tmp_path / f"logs/{job}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(
            f"10:00:00 INFO 99.9 s of CPU time, of an attempt before\n10:01:00 INFO {seconds:.1f} s of CPU time\n"
        )
    return FinishedRun.load(tmp_path)


def by_kind(run: FinishedRun, **changes) -> dict[str, float]:
    table = estimate(experiment(**changes), run)
    return dict(zip(table["kind"], 3600 * table["hours"], strict=True))


def test_a_runs_own_config_costs_what_it_cost(run):
    table = estimate(experiment(), run)
    of_work = table[~table["kind"].isin(["training of density", "revise (timed)"])]  # these only start
    np.testing.assert_allclose(3600 * of_work["hours"], of_work["recorded_seconds"])
    assert (table["units"] == 1).all() and len(table) == len(models.of_every_run()) + 2 * 2 + 3


def test_more_work_costs_more_in_proportion(run):
    before = by_kind(run)
    epochs = by_kind(run, vae=experiment().config["vae"] | {"epochs": 20})
    factor = 20 / experiment().config["vae"]["epochs"]
    assert epochs["training of vae"] == pytest.approx(START + WORK * factor)
    assert {kind for kind in before if before[kind] != epochs[kind]} == {"training of vae"}
    images = by_kind(run, images_per_seed=6)
    for kind, jobs in {"deduce": 2, "realism scores": 4, "reference scores": 2}.items():
        assert images[kind] == pytest.approx(jobs * START + 3 * (before[kind] - jobs * START))
    assert images["deduce (timed)"] == pytest.approx(before["deduce (timed)"])
    anogan = experiment().config["realism"]["anogan"]
    steps = by_kind(run, realism=experiment().config["realism"] | {"anogan": anogan | {"steps": 4 * anogan["steps"]}})
    assert steps["sanity scores"] == pytest.approx(2 * (START + 4 * WORK))
    twice = by_kind(run, training_seeds=[1, 2])
    assert twice["training of ddu"] == pytest.approx(2 * (START + WORK)) and twice["training of vae"] == START + WORK
    assert twice["deduce"] == pytest.approx(2 * before["deduce"])


def test_the_measured_cost_of_a_larger_network_counts(run, monkeypatch):
    monkeypatch.setattr(estimates, "training_cost", lambda experiment, name: experiment.config["ddu"]["width"])
    wider = by_kind(run, ddu=experiment().config["ddu"] | {"width": 5 * experiment().config["ddu"]["width"]})
    assert wider["training of ddu"] == pytest.approx(START + 5 * WORK)


def test_a_record_of_hardly_any_work_is_replaced_by_what_a_unit_costs_now(run, monkeypatch):
    monkeypatch.setattr(estimates, "training_cost", lambda experiment, name: 1e-4)
    images = experiment().config["density"]["training_images"]
    assert by_kind(run)["training of density"] == pytest.approx(START + 1e-4 * images)


def test_iterations_follow_the_limit_and_the_step_size():
    shards = [shard("revise", [True, True, False], [10, 20, 50])]
    settings = {"max_iterations": 50, "step_size": 0.1}
    assert iterations(settings, settings, shards) == pytest.approx(1 + (10 + 20 + 50) / 3)
    # None was found in the second half of the limit, so none is to be expected beyond it.
    assert iterations(settings | {"max_iterations": 500}, settings, shards) == pytest.approx(1 + (10 + 20 + 500) / 3)
    smaller = settings | {"max_iterations": 200, "step_size": 0.01}
    assert iterations(smaller, settings, shards) == pytest.approx(1 + (100 + 200 + 200) / 3)
    # A method that always goes to its limit, in two rounds.
    vlk = {"max_iterations": 25, "loss_weight_steps": 2}
    assert iterations(vlk | {"max_iterations": 100}, vlk, [shard("vlk", [True] * 2, [50, 50])]) == 201


def test_a_short_limit_foretells_the_iterations_under_a_long_one():
    needed = np.random.default_rng(0).geometric(0.01, size=2000)  # every iteration finds one pair in a hundred

    def searched(limit: int) -> list[Shard]:
        return [shard("jsma", list(needed <= limit), list(needed.clip(max=limit)))]

    short, long = ({"max_iterations": limit, "step_size": 0.1} for limit in (80, 700))
    foretold, seen = iterations(long, short, searched(80)), iterations(long, long, searched(700))
    assert foretold == pytest.approx(seen, rel=0.1)
    finer = long | {"max_iterations": 1400, "step_size": 0.05}
    assert iterations(finer, short, searched(80)) == pytest.approx(2 * seen, rel=0.1)


def test_an_unfinished_or_missing_run_is_an_error_that_says_so(run, tmp_path):
    with pytest.raises(InputError, match="no records of a run"):
        FinishedRun.load(tmp_path / "nothing")
    with pytest.raises(InputError, match="no answers of jsma"):
        estimate(experiment(methods=["jsma"]), run)
    for log in (tmp_path / "logs/models").glob("vae*"):
        log.unlink()
    with pytest.raises(InputError, match="no record of training of vae"):
        estimate(experiment(), run)


def test_costs_are_measured_on_networks_of_the_configs_size():
    narrow, wide = (experiment(ddu=experiment().config["ddu"] | {"width": width}) for width in (2, 16))
    for cost in (estimates.training_cost, lambda e, name: estimates.gradient_cost(e, [name], 10)):
        assert cost(wide, "ddu") > 2 * cost(narrow, "ddu") > 0
    for name in models.of_every_run():
        assert estimates.training_cost(narrow, name) > 0
    assert estimates.descent_cost(narrow) > 0


def test_the_target_prints_the_hours_of_a_finished_run(finished, tmp_path):
    checkout = finished.copy(tmp_path / "repository")
    run = checkout.snakemake("estimate", "--config", "estimate_from=test")
    assert run.returncode == 0, run.stdout[-3000:]
    (hours,) = re.findall(r"test: ([\d.]+) core hours", run.stdout)
    methods = defaults(ROOT)["methods"]
    logs = (finished.root / "results/test/logs").glob("*/*.log")
    counted = [log for log in logs if log.parent.name in ("models", *methods) or log.parent.name.endswith("_scores")]
    recorded = sum(float(re.findall(r"([\d.]+) s of CPU time", log.read_text())[-1]) for log in counted)
    assert recorded / 2 < 3600 * float(hours) < 2 * recorded
