"""The lock of a working directory: one run at a time, jobs that outlive it are waited for, and late jobs give up."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from deduce import lock
from deduce.errors import InputError

ROOT = Path(__file__).parent.parent


class Process:
    """A process that works in `folder` with the lock, and holds it until its input ends."""

    def __init__(self, folder: Path, action: str, signature: str = "") -> None:
        code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\nfrom deduce import lock\n{action}\n"
        code += "import os; print('ready', os.environ.get(lock.SIGNATURE), flush=True)\nsys.stdin.read()\n"
        environment = {"DEDUCE_RUN": signature} if signature else {}
        self.process = subprocess.Popen(
            [sys.executable, "-c", code], cwd=folder, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def ready(self) -> str:
        """Waits until it has the lock; the run's signature."""
        word, signature = self.process.stdout.readline().split()
        assert word == "ready"
        return signature

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()


@pytest.fixture
def started():
    """Starts processes, and ends them after the test."""
    processes = []

    def start(*arguments: str) -> Process:
        processes.append(Process(*arguments))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()


RUN, JOB = "lock.start()", "lock.join()"


def test_a_second_run_is_refused_while_the_first_lives_and_only_then(started, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = started(tmp_path, RUN)
    first.ready()
    with pytest.raises(InputError, match=f"another run works in {tmp_path} .process {first.process.pid} on "):
        lock.start()
    first.kill()
    started(tmp_path, f"assert not {RUN}").ready()


def test_a_run_waits_for_jobs_that_outlived_theirs(started, tmp_path):
    first = started(tmp_path, RUN)
    job = started(tmp_path, JOB, first.ready())
    job.ready()
    first.kill()
    second = started(tmp_path, f"import logging; logging.basicConfig(format='%(message)s')\nassert {RUN}")
    message = second.process.stderr.readline()
    assert message.startswith(f"waiting for jobs of an earlier run, which was killed: process {job.process.pid} ")
    time.sleep(0.3)
    assert second.process.poll() is None
    job.kill()
    started(tmp_path, JOB, second.ready()).ready()


def test_a_late_job_of_a_killed_run_gives_up(started, tmp_path):
    first = started(tmp_path, RUN)
    signature = first.ready()
    first.kill()
    second = started(tmp_path, RUN)
    assert second.ready() != signature
    late = started(tmp_path, JOB, signature)
    assert late.process.wait(30) != 0
    assert "the job is left to that one" in late.process.stderr.read()


def test_a_job_that_was_started_by_hand_needs_no_lock(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(lock.SIGNATURE, raising=False)
    lock.join()
    monkeypatch.setenv(lock.SIGNATURE, "of a run elsewhere")
    lock.join()
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_locks_is_named_not_refused(tmp_path, monkeypatch, caplog):
    def unsupported(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lock.fcntl, "flock", unsupported)
    monkeypatch.setenv(lock.SIGNATURE, "before")
    lock.start()
    assert "this file system has no locks" in caplog.text


def test_a_folder_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    (tmp_path / ".snakemake").write_text("a file")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"\.snakemake/run\.lock: cannot be written"):
        lock.start()
