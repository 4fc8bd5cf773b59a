"""The workflow on a real SLURM, through the profiles that a site would edit. Run by `make test-slurm`."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import pytest
import yaml
from conftest import BIN
from run import Victim, differences, digests, mind_interrupts

sys.path.insert(0, str(Path(__file__).parent))
from cluster import NODES, Cluster, cluster, process_name, processes, wait_for

HERE = Path(__file__).parent
pytestmark = pytest.mark.slurm
FAST = ["--jobs", "4", "--latency-wait", "10"]
FASTER = {
    "slurm": ["--slurm-init-seconds-before-status-checks", "2"],
    "generic": ["--seconds-between-status-checks", "2"],
}


@pytest.fixture
def slurm():
    with cluster() as running:
        yield running


@pytest.fixture
def checkout(clean_checkout, finished, tmp_path):
    """A clone on a login node on which the data has been staged."""
    copy = clean_checkout.copy(tmp_path / "repository")
    shutil.copytree(finished.root / "results" / "data", copy.root / "results" / "data")
    return copy


@pytest.fixture
def faulty(checkout):
    """The same with a method whose jobs go wrong as files in `faults/` say, and an experiment of six of them."""
    shutil.copy(HERE / "faulty" / "faulty.smk", checkout.root / "rules" / "methods")
    shutil.copy(HERE / "faulty" / "faulty.py", checkout.root / "scripts")
    (checkout.root / "faults").mkdir()
    experiment = {"name": "faults", "methods": ["faulty"], "seeds": [1, 2], "images_per_seed": 3, "shards_per_seed": 3}
    (checkout.root / "faults.yaml").write_text(yaml.safe_dump(experiment))
    return checkout


class Run:
    """`snakemake --profile …` on the login node."""

    def __init__(self, slurm: Cluster, root: Path, *arguments: str, config="config/test.yaml", profile="slurm"):
        command = [str(BIN / "snakemake"), *arguments, "--profile", profile, "--configfile", config]
        self.log = root / f"output-{uuid.uuid4().hex}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, *FAST, *FASTER[profile]],
                cwd=root,
                env=slurm.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=mind_interrupts,
            )

    @property
    def stdout(self) -> str:
        return self.log.read_text()

    @property
    def returncode(self) -> int:
        """Of the run, when it has ended."""
        try:
            return self.process.wait(1200)
        finally:
            self.process.kill()


def submit(slurm: Cluster, root: Path, *arguments: str, config: str) -> Run:
    """A run that has ended; the jobs that SLURM has on record since are in `.jobs`."""
    before = {job["JobId"] for job in slurm.jobs()}
    run = Run(slurm, root, *arguments, config=config)
    assert run.returncode is not None
    run.jobs = [job for job in slurm.jobs() if job["JobId"] not in before]
    return run


def shards(root: Path) -> dict[str, int]:
    """When each shard was made."""
    folder = root / "results" / "faults" / "shards" / "faulty"
    return {f"{path.parent.name}-{path.stem}": path.stat().st_mtime_ns for path in folder.glob("*/*.npz")}


def test_no_daemon_outlives_the_process_that_started_it():
    command = [sys.executable, str(HERE / "cluster.py"), "sh", "-c", "dirname $SLURM_CONF; exec sleep 60"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    folder = Path(process.stdout.readline().strip())
    assert folder.name.startswith("slurm-"), "the cluster did not start"  # what follows kills and deletes by this name
    assert len(processes(folder)) >= 2 + len(NODES)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    end = time.monotonic() + 20
    daemons = {"munged", "slurmctld", "slurmd"}
    while alive := [name for name in map(process_name, processes(folder)) if name in daemons]:
        assert time.monotonic() < end, alive
        time.sleep(0.5)
    for leftover in processes(folder):  # the command itself
        os.kill(leftover, signal.SIGKILL)
    shutil.rmtree(folder)


def test_the_whole_workflow_gives_the_same_files_as_a_local_run(slurm, checkout, finished):
    fewer = ["--config", "methods=[deduce,vlk]", "seeds=[1]"]  # every rule, but not once for each method and test set
    run = submit(slurm, checkout.root, "all", *fewer, config="config/test.yaml")
    assert run.returncode == 0, run.stdout[-8000:]
    assert run.jobs and {job["JobState"] for job in run.jobs} == {"COMPLETED"}
    assert {job["NodeList"] for job in run.jobs} == set(NODES), "work was spread over all nodes"

    # Jobs that asked for a GPU ran where there are some, each with one of its own.
    by_id = {job["JobId"]: job for job in run.jobs}
    steps = [task for task in slurm.tasks() if task["step"] and task["job"] in by_id]
    assert len(steps) == len(run.jobs)
    for task in steps:
        assert bool(task["devices"]) == (by_id[task["job"]]["Partition"] == "gpu"), task
    held = [(by_id[task["job"]], task["devices"]) for task in steps if task["devices"]]
    assert {devices for _, devices in held} == {"0", "1"}
    overlapping = [
        (a, b)
        for i, (job, a) in enumerate(held)
        for other, b in held[:i]
        if job["StartTime"] < other["EndTime"] and other["StartTime"] < job["EndTime"]
    ]
    assert overlapping, "two GPU jobs ran at the same time"
    assert all(a != b for a, b in overlapping)

    # Byte for byte what a local run makes, but for what measures time; that run has more methods and test sets.
    local, remote = finished.root / "results" / "test", checkout.root / "results" / "test"
    patterns = ["shards/*/*/*.npz", "counterfactuals/*/*.npz", "realism/*/*.npz", "models/*.safetensors"]
    names = [path.relative_to(remote) for pattern in patterns for path in remote.glob(pattern)]
    names = [name for name in names if "timed" not in (name.stem, name.parent.name)]
    assert len(names) > 12
    different = [str(name) for name in names if (local / name).read_bytes() != (remote / name).read_bytes()]
    assert different == []
    rows = [set((folder / "results.csv").read_text().splitlines()) for folder in (local, remote)]
    assert rows[1] <= rows[0] and len(rows[1]) == 1 + 2 * 3 * 9


def test_jobs_that_fail_are_cancelled_or_run_out_of_time_come_back_with_more(slurm, faulty):
    faults = {"1-000": "fail", "1-001": "hang", "1-002": "slow always", "2-000": "bloat always"}
    for shard, fault in faults.items():
        (faulty.root / "faults" / shard).write_text(fault)
    canceller = threading.Thread(target=cancel, args=(slurm, faulty.root / "faults" / "1-001"), daemon=True)
    canceller.start()
    run = submit(slurm, faulty.root, "counterfactuals", config="faults.yaml")
    assert run.returncode == 0, run.stdout[-8000:]
    states = [job["JobState"] for job in run.jobs]
    assert {"CANCELLED", "FAILED", "TIMEOUT"} < {*states}
    assert states.count("COMPLETED") == 6 and len(states) == 10, "what was done was not done again"
    # The four that came back asked for twice the time and memory; one of them needed the memory.
    again = [job for job in run.jobs if "mem=1000M" in job["Tres"]]
    assert sorted(job["TimeLimit"] for job in again) == ["20"] * 4

    made = digests(faulty.root / "results")
    for folder in ("faults", "results/faults"):
        shutil.rmtree(faulty.root / folder)
    local = faulty.snakemake("counterfactuals", config="faults.yaml")
    assert local.returncode == 0, local.stdout[-4000:]
    assert differences(made, digests(faulty.root / "results")) == []


def cancel(slurm: Cluster, fault: Path) -> None:
    """Cancels the running job of the shard with that fault, once its script has begun to hang."""
    end = time.monotonic() + 900
    while fault.exists() and time.monotonic() < end:
        time.sleep(0.5)
    for line in slurm.run("squeue", "--noheader", "--states=RUNNING", "--format=%i %k").splitlines():
        job, _, comment = line.strip().partition(" ")
        if comment.endswith(fault.name.replace("-", "_")):  # rule and wildcards
            slurm.run("scancel", job)


def test_a_permanent_failure_leaves_the_rest_done_on_a_cluster_without_gpus(slurm, faulty):
    without_gpus(faulty.root, retries=1)
    (faulty.root / "faults" / "2-000").write_text("fail always")
    run = submit(slurm, faulty.root, "counterfactuals", config="faults.yaml")
    assert run.returncode != 0
    assert {job["Partition"] for job in run.jobs} == {"cpu"}
    done = shards(faulty.root)
    assert set(done) == {"1-000", "1-001", "1-002", "2-001", "2-002"}
    assert sorted(job["JobState"] for job in run.jobs) == ["COMPLETED"] * 5 + ["FAILED"] * 2
    summary = run.stdout[run.stdout.index("1 job(s) failed") :]
    assert "faulty: results/faults/shards/faulty/2/000.npz" in summary
    assert "2 attempt(s); see results/faults/logs/faulty/2-000.log" in summary

    (faulty.root / "faults" / "2-000").unlink()
    run = submit(slurm, faulty.root, "counterfactuals", config="faults.yaml")
    assert run.returncode == 0, run.stdout[-8000:]
    assert [job["JobState"] for job in run.jobs] == ["COMPLETED"], "only what was missing"
    now = shards(faulty.root)
    assert set(now) == {*done, "2-000"} and {name: now[name] for name in done} == done


def without_gpus(root: Path, **others: int) -> None:
    """The edit that the profile's comments ask for."""
    profile = root / "slurm" / "config.yaml"
    settings = yaml.safe_load(profile.read_text())
    del settings["partitions"]["gpu"]
    profile.write_text(yaml.safe_dump(settings | {"resources": {"gpu": 0}} | others))


# --- faults of the cluster, while real searches run on its two nodes without GPUs

LOST = ["deduce/1", "jsma/1", "jsma/2"]
LOGS = ("slurm_logs/", "cluster_logs/")  # of the jobs, by SLURM
ANSWERS = [f"results/test/counterfactuals/{search}.npz" for search in LOST]


@pytest.fixture
def incomplete(finished, tmp_path) -> Victim:
    """A finished run that has lost three answers."""
    victim = Victim(finished, tmp_path / "repository")
    without_gpus(victim.root)
    for search, answer in zip(LOST, ANSWERS, strict=True):
        (victim.root / answer).unlink()
        (victim.results / "shards" / search / "000.npz").unlink()
    return victim


def scripts(slurm: Cluster, node: str) -> list[int]:
    """The processes that run a script of the workflow on a node."""
    return [
        process for process, words in slurm.job_processes(node).items() if "/.snakemake/scripts/" in " ".join(words[:2])
    ]


def wait_for_scripts(slurm: Cluster, run: Run, *nodes: str) -> None:
    """Until each of the nodes runs one."""
    wait_for(
        lambda: all(scripts(slurm, node) for node in nodes) or run.process.poll() is not None,
        f"no scripts on {nodes}",
        slurm.folder,
        seconds=300,
    )
    assert run.process.poll() is None, run.stdout[-8000:]


def searches(slurm: Cluster, *options: str) -> dict[str, str]:
    """What each SLURM job does: `jsma/1` by the ID of the job."""
    lines = slurm.run("squeue", "--noheader", "--format=%i %k", *options).splitlines()
    return {job: "/".join(comment.split("_")[-3:-1]) for job, comment in map(str.split, lines)}


def ends(slurm: Cluster) -> dict[str, list[str]]:
    """How each search ended, each time that a job ran it."""
    names, found = searches(slurm, "--states=all"), {}
    for job in slurm.jobs():
        found.setdefault(names[job["JobId"]], []).append(job["JobState"])
    return found


def assert_whole(victim: Victim, run: Run) -> None:
    """The run has made the same bytes as the local run that nothing disturbed."""
    assert run.returncode == 0, run.stdout[-8000:]
    made = {name: digest for name, digest in victim.digests().items() if not name.startswith(LOGS)}
    assert differences(victim.whole, made) == []
    assert not victim.unfinished()


def test_a_node_that_dies_loses_only_its_own_job(incomplete):
    with cluster(patience=20) as slurm:
        run = Run(slurm, incomplete.root, *ANSWERS)
        wait_for_scripts(slurm, run, "n1")
        (lost,) = searches(slurm, "--nodelist=n1", "--states=RUNNING").values()
        slurm.cut_power("n1")
        assert_whole(incomplete, run)
        assert ends(slurm) == {name: ["COMPLETED"] for name in LOST} | {lost: ["NODE_FAIL", "COMPLETED"]}


def test_jobs_go_on_while_the_controller_is_restarted(slurm, incomplete):
    queries = count_queries(slurm)
    run = Run(slurm, incomplete.root, *ANSWERS)
    wait_for_scripts(slurm, run, "n1", "n2")
    slurm.stop("slurmctld")
    wait_for(lambda: queries.read_text().count("failed") > 5, "Snakemake gave up", slurm.folder, seconds=300)
    wait_for(lambda: not scripts(slurm, "n1") + scripts(slurm, "n2"), "jobs do not end", slurm.folder, seconds=300)
    slurm.start("slurmctld")
    assert_whole(incomplete, run)
    assert ends(slurm) == {name: ["COMPLETED"] for name in LOST}


def count_queries(slurm: Cluster) -> Path:
    """The file in which each query of Snakemake that fails leaves a line."""
    queries, squeue = slurm.folder / "log" / "queries", slurm.folder / "bin" / "squeue"
    queries.touch()
    squeue.write_text(f'#!/bin/sh\n{shutil.which("squeue")} "$@" || {{ echo failed >> {queries}; exit 1; }}\n')
    squeue.chmod(0o755)
    return queries


def test_a_run_that_was_killed_starts_again_and_waits_for_its_jobs(slurm, incomplete):
    killed = Run(slurm, incomplete.root, *ANSWERS)
    wait_for_scripts(slurm, killed, "n1", "n2")
    held = scripts(slurm, "n1") + scripts(slurm, "n2")
    try:
        for script in held:  # so that they surely outlive their run
            os.kill(script, signal.SIGSTOP)
        outlived = {*searches(slurm, "--states=RUNNING").values()}
        killed.process.kill()
        killed.process.wait()
        run = Run(slurm, incomplete.root, *ANSWERS)
        wait_for(lambda: "waiting for jobs of an earlier run" in run.stdout, "no wait", slurm.folder, seconds=300)
    finally:
        for script in held:
            with contextlib.suppress(ProcessLookupError):
                os.kill(script, signal.SIGCONT)
    assert_whole(incomplete, run)
    assert "planning again" in run.stdout
    ended = ends(slurm)
    assert len(outlived) == 2 and all(ended.pop(name) == ["COMPLETED"] for name in outlived), "these ran once"
    # The others were in the queue: they ran before the new run began, or gave up their place to it.
    assert sorted(ended) == sorted({*LOST} - outlived)
    assert all(states in (["COMPLETED"], ["FAILED", "COMPLETED"]) for states in ended.values()), ended


# --- another scheduler: the profile that needs three commands only


def test_any_scheduler_with_commands_to_submit_query_and_cancel(slurm, incomplete):
    interrupted = Run(slurm, incomplete.root, *ANSWERS, profile="generic")
    wait_for_scripts(slurm, interrupted, "g1")
    interrupted.process.send_signal(signal.SIGINT)
    assert interrupted.returncode != 0
    wait_for(lambda: not slurm.run("squeue", "--noheader"), "not cancelled", slurm.folder, seconds=300)
    assert {job["JobState"] for job in slurm.jobs()} == {"CANCELLED"}

    before = len(slurm.jobs())
    run = Run(slurm, incomplete.root, *ANSWERS, profile="generic")
    wait_for_scripts(slurm, run, "g1")
    slurm.run("scancel", slurm.run("squeue", "--noheader", "--states=RUNNING", "--format=%i").split()[0])
    assert_whole(incomplete, run)
    jobs = slurm.jobs()[before:]
    assert sorted(job["JobState"] for job in jobs) == ["CANCELLED", *["COMPLETED"] * 3]
    assert sorted(job["Name"] for job in jobs if job["JobState"] == "COMPLETED") == ["deduce", "jsma", "jsma"]
    assert {job["Partition"] for job in jobs} == {"gpu"}
    assert sum("mem=8000M" in job["Tres"] for job in jobs) == 1, "it came back with more"


def test_without_shared_results_files_are_in_a_storage(slurm, checkout, finished, tmp_path):
    answer, store = "results/test/counterfactuals/jsma/1.npz", tmp_path / "store"
    storage = ["--default-storage-provider", "fs", "--default-storage-prefix", str(store)]
    storage += ["--shared-fs-usage", "sources", "source-cache", "software-deployment", "persistence"]
    storage += [
        "--remote-job-local-storage-prefix",
        f"{tmp_path}/disk-of-job-$SLURM_JOB_ID",
    ]  # no job sees another's files
    run = Run(slurm, checkout.root, answer, *storage, profile="generic")
    assert run.returncode == 0, run.stdout[-8000:]
    assert [job["Name"] for job in slurm.jobs()] == ["jsma"], "a training reads raw data, which only this machine has"
    assert not list((checkout.root / "results").rglob("*.npz")), "nothing was left in the repository"
    made, whole = digests(store / "results"), digests(finished.root / "results")
    assert {"test/counterfactuals/jsma/1.npz", "test/models/plain.safetensors"} < made.keys()
    assert differences(made, {name: whole[name] for name in made}) == []


def test_planning_the_papers_scale_takes_little_longer_than_planning_a_small_run(clean_checkout):
    seconds = {}
    for config in ("config/test.yaml", "config/paper.yaml"):
        started = time.monotonic()
        run = clean_checkout.snakemake("--dry-run", "--quiet", "--profile", "slurm", config=config)
        assert run.returncode == 0, run.stdout[-4000:]
        seconds[config] = time.monotonic() - started
    assert seconds["config/paper.yaml"] < 5 * seconds["config/test.yaml"]
