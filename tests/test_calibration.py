"""`calibrate`: what a few iterations cost becomes parts that take an hour at most, and what each job asks for."""

import numpy as np
import pandas as pd
import pytest
import yaml

from deduce.calibration import LEAST_MINUTES, MARGIN, PART_SECONDS, Measurement, as_settings, proposal
from deduce.shards import Shard

PAIRS = 900


def measurement(iteration: float = 0.01, iterations: float = 400, **changes) -> Measurement:
    return Measurement(
        **{"machine": "a node", "start": 30, "memory": 1200} | changes, iteration=iteration, iterations=iterations
    )


def shard(found: list[bool], counts: list[int], seconds: float) -> Shard:
    rows = np.arange(len(found))
    images = np.zeros((len(rows), 1, 2, 2), np.float32)
    arrays = (rows, rows * 0, rows * 0 + 1, images, np.array(found), rows * 0.5, np.array(counts))
    metadata = {"method": "revise", "machine": "a node", "settings": {"max_iterations": 40, "step_size": 0.1}}
    return Shard(*arrays, seconds=np.full(len(rows), seconds / len(rows)), metadata=metadata)


def test_a_measurement_takes_what_was_not_found_to_the_limit(tmp_path):
    log, benchmark = tmp_path / "job.log", tmp_path / "job.tsv"
    log.write_text("INFO 9.0 s of CPU time, at most 700 MB\nINFO 12.0 s of CPU time, at most 801 MB\n")  # two attempts
    benchmark.write_text("s\th:m:s\n17.5\t0:00:17\n")
    measured = Measurement.of(
        shard([True, False], [19, 40], seconds=6.1), {"max_iterations": 5000, "step_size": 0.1}, log, benchmark
    )
    assert measured.memory == 801
    assert measured.start == pytest.approx(17.5 - 6.1)
    assert measured.iteration == pytest.approx(6.1 / (20 + 41))
    assert measured.iterations == pytest.approx(1 + (19 + 5000) / 2)


def test_the_slowest_method_decides_on_the_parts_and_each_part_fits_into_its_time():
    measured = {"fast": measurement(0.001, 100), "slow": measurement(0.01, 2000)}
    table = proposal(measured, PAIRS).set_index("method")
    parts = set(table["shards_per_seed"])
    assert parts == {5}, "900 pairs × 2000 iterations × 10 ms are five hours"
    slow = 30 + 180 * 2000 * 0.01
    assert slow - 30 <= PART_SECONDS < 225 * 2000 * 0.01, "with one part fewer, it would be more than an hour"
    assert table.loc["slow", "runtime"] == np.ceil(MARGIN * slow / 60)
    assert table.loc["fast", "runtime"] == LEAST_MINUTES
    assert table.loc["slow", "mem_mb"] == 2500, "twice 1200 MB, in steps of 500"


def test_a_part_has_at_least_one_pair():
    assert set(proposal({"slow": measurement(1, 10_000)}, pairs=27)["shards_per_seed"]) == {27}
    assert set(proposal({"fast": measurement(1e-6, 10)}, pairs=27)["shards_per_seed"]) == {1}


def test_the_settings_grow_with_each_attempt():
    settings = yaml.safe_load(as_settings(proposal({"slow": measurement(0.01, 2000)}, PAIRS)))
    assert settings == {
        "shards_per_seed": 5,
        "set-resources": {"slow": {"runtime": "121 * attempt", "mem_mb": "2500 * attempt"}},
    }


@pytest.mark.workflow
def test_the_target_measures_each_method_and_its_proposal_is_accepted(finished, tmp_path):
    checkout = finished.copy(tmp_path / "repository")
    fewer = ("--config", "methods=[jsma,revise]")
    run = checkout.snakemake("calibrate", *fewer, cores=1)
    assert run.returncode == 0, run.stdout[-5000:]
    results = checkout.root / "results/test"
    table = pd.read_csv(results / "calibration.csv").set_index("method")
    assert list(table.index) == ["jsma", "revise"] and (table["milliseconds_per_iteration"] > 0).all()
    settings = yaml.safe_load((checkout.root / "config/test.yaml").read_text())
    # No pair has more iterations than the config allows, and the measured searches had fewer.
    for method, row in table.iterrows():
        (searched,) = (results / "shards").glob(f"{method}@max_iterations=*/sample*/000.npz")
        limit = settings[method]["max_iterations"]
        assert Shard.load(searched).iterations.max() < row["iterations_per_pair"] <= limit + 1
    proposed = yaml.safe_load((results / "calibration.yaml").read_text())
    asked = [
        f"{method}:{name}={value}"
        for method, values in proposed["set-resources"].items()
        for name, value in values.items()
    ]
    jobs = checkout.jobs("counterfactuals", "--forcerun", "jsma", *fewer, "--set-resources", *asked)
    (searches,) = {job.details["resources"] for job in jobs if job.rule == "jsma"}
    assert f"runtime={table.loc['jsma', 'runtime']}" in searches and f"mem_mb={table.loc['jsma', 'mem_mb']}" in searches
