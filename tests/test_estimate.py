"""Estimates are arithmetic on records: made-up records have estimates that can be worked out by hand."""

import math
from pathlib import Path

import pytest
import yaml

from deduce.config import defaults, schema
from deduce.estimate import PROPORTIONAL, STARTUP, Job, Run, estimate, measured, read_benchmark, totals, work

ROOT = Path(__file__).parent.parent

SMALL = {
    "methods": ["deduce", "new"],
    "images_per_seed": 10,
    "shards_per_seed": 1,
    "ddu": {"width": 8, "epochs": 2, "training_images": 100},
}
LARGE = SMALL | {
    "images_per_seed": 100,
    "shards_per_seed": 5,
    "ddu": {"width": 16, "epochs": 20, "training_images": 100},
}


def test_work_is_proportional_to_what_the_config_says():
    part = {"seed": "1", "part": "000"}
    assert work(Job("deduce", part, classifier="ddu"), LARGE, SMALL) == pytest.approx(10 / 5 * 4)
    longer = LARGE | {"timing": {"pairs": 20}, "new": {"max_iterations": 300}}
    shorter = SMALL | {"timing": {"pairs": 10}, "new": {"max_iterations": 100}}
    assert work(Job("time_new", {}), longer, shorter) == pytest.approx(2 * 3)
    assert work(Job("new", part), LARGE, SMALL) == pytest.approx(10 / 5), "nothing else to go by: its pairs"
    assert work(Job("classifier", {"classifier": "ddu-c3"}), LARGE, SMALL) == pytest.approx(10 * 4)
    assert work(Job("write_tables", {}), LARGE, SMALL) == 1


def test_the_most_similar_past_run_is_scaled_after_the_start():
    tiny = SMALL | {"images_per_seed": 1}
    past = [
        Run("tiny", tiny, [Job("new", {}, seconds=STARTUP + 1, memory_mb=300)]),
        Run("small", SMALL, [Job("new", {}, STARTUP + 40, 400), Job("new", {}, STARTUP + 60, 500)]),
    ]
    planned = [Job("new", {}, gpu=True, requested_mb=2000, requested_minutes=60)] * 25 + [Job("unknown", {})]
    table = estimate(planned, LARGE, past).set_index("rule")
    row = table.loc["new"]
    assert (row["like"], row["jobs"], row["factor"], row["peak_mb"]) == ("small", 25, 2, 500)
    assert row["hours"] == pytest.approx(25 * (STARTUP + 2 * 50) / 3600)
    assert math.isnan(table.loc["unknown", "hours"])
    assert totals(table)["gpu_hours"] == pytest.approx(row["hours"])
    assert totals(table)["cpu_hours"] == 0
    far = LARGE | {"images_per_seed": 100_000}
    guess = totals(estimate(planned, far, past))
    assert totals(table)["guessed_hours"] == 0 and guess["guessed_hours"] == guess["gpu_hours"] > row["hours"]
    assert measured(past).query("run == 'small'")["mean_seconds"].item() == STARTUP + 50


def test_benchmark_files_of_snakemake_are_read(tmp_path):
    file = tmp_path / "1.tsv"
    file.write_text("s\th:m:s\tmax_rss\n12.5\t0:00:12\t341.4\n0.1\t0:00:00\t-\n")
    first, second = read_benchmark(file, "deduce", {"seed": "1"})
    assert (first.rule, first.wildcards, first.seconds, first.memory_mb) == ("deduce", {"seed": "1"}, 12.5, 341.4)
    assert math.isnan(second.memory_mb), "too short to be sampled"


def test_every_key_that_time_is_proportional_to_is_in_the_config():
    config = defaults(schema(ROOT / "schemas", [path.stem for path in (ROOT / "rules" / "methods").glob("*.smk")]))
    config |= yaml.safe_load((ROOT / "config.yaml").read_text())
    for rule, powers in PROPORTIONAL.items():
        for key in powers:
            value = config
            for part in key.format(classifier="ddu").split("."):
                assert part in value, f"{rule}: {key}"
                value = value[part]
