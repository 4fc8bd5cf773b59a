"""Killed runs resume: every rule, the master, its job or both, by three signals, at seeded moments.

The outputs of one job are deleted from a finished run. The run is started again and killed, several times, and started
once more. It must finish without being unlocked, make the same bytes as before, lose nothing else, and never have two
processes at one job.
"""

import contextlib
import os
import random
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml
from conftest import Checkout, shared
from run import LIMIT, SEED, Victim, differences, wait_until
from snakemake.utils import update_config
from tally import count

from deduce import lock

pytestmark = pytest.mark.workflow
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
TARGETS = ("master", "job", "group")
KILLS = 3  # of each rule
PARTS = 12  # into which the rules are divided, for as many processes

# Over config/test.yaml: the rules beyond the default target have jobs, few and small.
BEYOND = {
    "seeds": [1],
    "methods": ["jsma", "schut", "cem"],
    "conviction": {"sweeps": ["conviction_jsma"]},
    "same_classifier": {"methods": ["jsma", "nearest_image"]},
    "dependence": {"training_seeds": [1], "curves": {"width": {"deduce": None, "jsma": {"plain.width": [2, 4]}}}},
    "comparisons": {
        "vlk_parity": None,
        "searches": {"methods": ["jsma", "nearest_image"], "pairs": 2},
        "others": {"methods": ["wachter", "piece"], "pairs": 2},
    },
}
CONFIG = "config/beyond.yaml"
STUDIES = ("conviction", "same_classifier", "dependence", "uncertainty", "pertinent_positives")
FILES = (
    "tables/conviction_jsma.csv",
    "tables/searches.csv",
    "shards/wachter/sample2/000.npz",
    "shards/piece/sample2/000.npz",
)


@dataclass(frozen=True)
class Targets:
    """What a run of the workflow makes, with which config."""

    names: tuple[str, ...]
    config: str = "config/test.yaml"
    settings: tuple[str, ...] = ()

    @property
    def options(self) -> list[str]:
        return ["--config", *self.settings] if self.settings else []


ESTIMATE = Targets(("estimate",), settings=("estimate_from=test",))
MADE = (  # every rule, but for those of alibi and of the authors' clone, has a job for one of them
    Targets(("all", "archive")),
    ESTIMATE,  # of the run above, which has every record
    Targets((*STUDIES, *(f"results/test/{name}" for name in FILES)), CONFIG),
    Targets(("results/stored/artifacts/manifest.json",), settings=("artifacts=results/test", "name=stored")),
)


@pytest.fixture(scope="module")
def every_rule(finished, tmp_path_factory) -> Checkout:
    """The finished run, and what the rules beyond the default target make."""

    def make(root: Path) -> None:
        checkout = finished.copy(root)
        config = yaml.safe_load((root / "config/test.yaml").read_text())
        update_config(config, BEYOND)
        (root / CONFIG).write_text(yaml.safe_dump(config))
        for made in MADE:
            run = checkout.snakemake(*made.names, *made.options, config=made.config, cores=2)
            assert run.returncode == 0, run.stdout[-8000:]

    return shared(tmp_path_factory, "every_rule", make)


@pytest.fixture(scope="module")
def victim(every_rule, tmp_path_factory) -> Victim:
    return Victim(every_rule, tmp_path_factory.mktemp("victim") / "repository")


@pytest.fixture(scope="module")
def jobs(every_rule) -> dict[str, Targets]:
    """The output of one job of every rule, chosen by the seed."""
    found: dict[str, list[Targets]] = {"estimate": [ESTIMATE]}  # which has no output
    for made in MADE:
        for job in every_rule.jobs(*made.names, "--forceall", *made.options, config=made.config):
            if outputs := tuple(name for name in job.details.get("output", "").split(", ") if name):
                found.setdefault(job.rule, []).append(replace(made, names=outputs))
    chooser = random.Random(SEED)
    return {rule: chooser.choice(sorted(found[rule], key=lambda job: job.names)) for rule in sorted(found)}


def kill(victim: Victim, process, target: str, number: int) -> str:
    """Wait for a moment of the run, mostly while its job works, and kill; returns what was killed."""
    if target == "job" or victim.chance.random() < 0.8:
        wait_until(lambda: victim.scripts() or process.poll() is not None)
        time.sleep(victim.chance.random() * victim.chance.choice([0.05, 0.2, 0.6, 1.5]))
    else:
        time.sleep(4 * victim.chance.random())
    scripts = victim.scripts()
    if process.poll() is not None or (target == "job" and not scripts):
        return ""
    with contextlib.suppress(ProcessLookupError):
        if target == "group":
            os.killpg(process.pid, number)
        else:
            os.kill(process.pid if target == "master" else scripts[0], number)
    return target


def kill_and_resume(victim: Victim, rule: str, job: Targets, first: int) -> None:
    killed, attempts = 0, 0
    before = victim.digests()
    while killed < KILLS and attempts < 4 * KILLS:
        for name in job.names:  # the run before may have been faster than its end
            (victim.root / name).unlink(missing_ok=True)
        number = first + attempts
        attempts += 1
        process = victim.start(job.names[0], config=job.config, settings=job.settings)
        signal_sent = SIGNALS[number // 3 % 3]
        what = kill(victim, process, TARGETS[number % 3], signal_sent)
        process.wait(LIMIT)
        if what:
            killed += 1
            count("kills", rule, f"{signal_sent.name} to {what}")
    assert killed == KILLS
    survivors = victim.scripts()
    process = victim.start(job.names[0], config=job.config, settings=job.settings)
    twice = 0
    while process.poll() is None:
        twice = max(twice, len(victim.scripts()))
        time.sleep(0.1)
    output = victim.output()
    assert process.returncode == 0, output[-3000:]
    assert "unlock" not in output and "Traceback" not in output, output[-3000:]
    assert twice <= 1, "two processes at once where one core was given"
    if survivors and "waiting for jobs" in output:
        count("kills", "jobs that outlived their run", "waited for")
    assert not victim.unfinished()
    after = victim.digests()
    assert [name for name in before if name not in after] == [], "lost"
    assert differences(victim.whole, after) == []


@pytest.mark.faults
@pytest.mark.parametrize("part", range(PARTS))
def test_a_killed_run_resumes_and_makes_the_same_files(victim, jobs, part):
    for position, (rule, job) in enumerate(jobs.items()):
        if position % PARTS == part:
            victim.restore()
            kill_and_resume(victim, rule, job, first=position * KILLS + SEED)


def test_a_run_waits_for_a_job_that_outlived_its_run_and_a_second_run_is_refused(finished, tmp_path):
    victim = Victim(finished, tmp_path / "repository")
    target = "results/test/models/autoencoder.safetensors"
    (victim.root / target).unlink()
    killed = victim.start(target)
    locks = victim.root / lock.JOBS
    assert wait_until(lambda: victim.scripts() and locks.exists() and "process" in holders_of(locks))
    (job,) = victim.scripts()
    os.kill(job, signal.SIGSTOP)  # so that it surely outlives its run
    try:
        killed.kill()
        killed.wait()
        first = victim.start(target)
        assert wait_until(lambda: f"which was killed: process {job} " in victim.output()), victim.output()
        status, output = victim.finish(target)
        assert status != 0 and "another run works in" in output and f"process {first.pid} on" in output
        assert "Traceback" not in output
        assert victim.scripts() == [job] and first.poll() is None
    finally:
        os.kill(job, signal.SIGCONT)
    assert first.wait(LIMIT) == 0
    assert "These jobs have ended: planning again." in (victim.root / f"output-{victim.runs - 1}.log").read_text()
    assert differences(victim.whole, victim.digests()) == []
    count("kills", "a job that outlived its run", "waited for")
    count("kills", "a second run beside a live one", "refused")


def holders_of(path) -> str:
    with path.open() as file:
        return " ".join(lock.holders(file)).replace("processes on another machine", "")
