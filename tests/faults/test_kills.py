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

import pytest
from run import SEED, Victim, differences, digests, wait_until
from tally import count

from deduce import lock

pytestmark = pytest.mark.workflow
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
TARGETS = ("master", "job", "group")
KILLS = 104  # of all rules together


@pytest.fixture(scope="module")
def victim(finished, tmp_path_factory) -> Victim:
    return Victim(finished, tmp_path_factory.mktemp("victim") / "repository")


@pytest.fixture(scope="module")
def jobs(finished) -> dict[str, list[str]]:
    """The outputs of one job of every rule of the default target and the archive, chosen by the seed."""
    found: dict[str, list[list[str]]] = {}
    for job in finished.jobs("all", "archive", "--forceall"):
        if outputs := [name for name in job.details.get("output", "").split(", ") if name]:
            found.setdefault(job.rule, []).append(outputs)
    chooser = random.Random(SEED)
    return {rule: chooser.choice(sorted(outputs)) for rule, outputs in sorted(found.items())}


def kill(victim: Victim, process, target: str, number: int) -> str:
    """Wait for a moment of the run, mostly while its job works, and kill; returns what was killed."""
    if target == "job" or victim.chance.random() < 0.8:
        wait_until(lambda: victim.scripts() or process.poll() is not None, 60)
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


def kill_and_resume(victim: Victim, rule: str, outputs: list[str], kills: int, first: int) -> None:
    chosen = outputs if rule != "fetch" else outputs[:1]
    target, killed, attempts = chosen[0], 0, 0
    before = digests(victim.results)
    while killed < kills and attempts < 4 * kills:
        for name in chosen:  # the run before may have been faster than its end
            (victim.root / name).unlink(missing_ok=True)
        number = first + attempts
        attempts += 1
        process = victim.start(target)
        signal_sent = SIGNALS[number // 3 % 3]
        what = kill(victim, process, TARGETS[number % 3], signal_sent)
        process.wait(120)
        if what:
            killed += 1
            count("kills", rule, f"{signal_sent.name} to {what}")
    assert killed == kills
    survivors = victim.scripts()
    process = victim.start(target)
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
    after = digests(victim.results)
    assert [name for name in before if name not in after] == [], "lost"
    assert differences(victim.whole, after) == []


@pytest.mark.faults
@pytest.mark.parametrize("part", range(4))
def test_a_killed_run_resumes_and_makes_the_same_files(victim, jobs, part):
    rules = sorted(jobs)
    per_rule = -(-KILLS // len(rules))
    for position, rule in enumerate(rules):
        if position % 4 == part:
            victim.restore()
            kill_and_resume(victim, rule, jobs[rule], per_rule, first=position * per_rule + SEED)


def test_a_run_waits_for_a_job_that_outlived_its_run_and_a_second_run_is_refused(victim):
    victim.restore()
    target = "results/test/models/autoencoder.safetensors"
    (victim.root / target).unlink()
    killed = victim.start(target)
    locks = victim.root / lock.JOBS
    assert wait_until(lambda: victim.scripts() and locks.exists() and "process" in holders_of(locks), 60)
    (job,) = victim.scripts()
    os.kill(job, signal.SIGSTOP)  # so that it surely outlives its run
    try:
        killed.kill()
        killed.wait()
        first = victim.start(target)
        assert wait_until(lambda: f"which was killed: process {job} " in victim.output(), 120), victim.output()
        status, output = victim.finish(target)
        assert status != 0 and "another run works in" in output and f"process {first.pid} on" in output
        assert "Traceback" not in output
        assert victim.scripts() == [job] and first.poll() is None
    finally:
        os.kill(job, signal.SIGCONT)
    assert first.wait(300) == 0
    assert differences(victim.whole, digests(victim.results)) == []
    count("kills", "a job that outlived its run", "waited for")
    count("kills", "a second run beside a live one", "refused")


def holders_of(path) -> str:
    with path.open() as file:
        return " ".join(lock.holders(file)).replace("processes on another machine", "")
