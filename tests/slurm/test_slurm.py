"""The workflow on a real SLURM, through the profile that a site would edit. Run by `make test-slurm`."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))
from cluster import NODES, Cluster, cluster, processes

HERE = Path(__file__).parent
pytestmark = pytest.mark.slurm
FAST = ["--jobs", "4", "--slurm-init-seconds-before-status-checks", "2", "--latency-wait", "10"]


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


def submit(slurm: Cluster, root: Path, *arguments: str, config: str):
    """Runs `snakemake --profile slurm`; the jobs that SLURM has on record since are in `.jobs`."""
    before = {job["JobId"] for job in slurm.jobs()}
    command = [str(Path(sys.executable).parent / "snakemake"), *arguments, "--profile", "slurm", "--configfile", config]
    run = subprocess.run(
        [*command, *FAST],
        cwd=root,
        env=slurm.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1200,
    )
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


def process_name(process: int) -> str:
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        return ""


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
    for shard, fault in {"1-000": "fail", "1-001": "hang", "1-002": "hang"}.items():
        (faulty.root / "faults" / shard).write_text(fault)
    canceller = threading.Thread(target=cancel, args=(slurm, faulty.root / "faults" / "1-001"), daemon=True)
    canceller.start()
    run = submit(slurm, faulty.root, "counterfactuals", config="faults.yaml")
    assert run.returncode == 0, run.stdout[-8000:]
    states = [job["JobState"] for job in run.jobs]
    assert sorted(set(states)) == ["CANCELLED", "COMPLETED", "FAILED", "TIMEOUT"]
    assert states.count("COMPLETED") == 6 and len(states) == 9, "what was done was not done again"
    # The three that came back asked for twice the time and memory.
    again = [job for job in run.jobs if job["TimeLimit"] == "2"]
    assert len(again) == 3 and all("mem=600M" in job["Tres"] for job in again)


def cancel(slurm: Cluster, fault: Path) -> None:
    """Cancels the running job of the shard with that fault, once its script has begun to hang."""
    end = time.monotonic() + 300
    while fault.exists() and time.monotonic() < end:
        time.sleep(0.5)
    for line in slurm.run("squeue", "--noheader", "--states=RUNNING", "--format=%i %k").splitlines():
        job, _, comment = line.strip().partition(" ")
        if comment.endswith(fault.name.replace("-", "_")):  # rule and wildcards
            slurm.run("scancel", job)


def test_a_permanent_failure_leaves_the_rest_done_on_a_cluster_without_gpus(slurm, faulty):
    # The edit that the profile's comments ask for.
    profile = faulty.root / "slurm" / "config.yaml"
    settings = yaml.safe_load(profile.read_text())
    del settings["partitions"]["gpu"]
    profile.write_text(yaml.safe_dump(settings | {"resources": {"gpu": 0}, "retries": 1}))

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


def test_planning_the_papers_scale_takes_little_longer_than_planning_a_small_run(clean_checkout):
    seconds = {}
    for config in ("config/test.yaml", "config/paper.yaml"):
        started = time.monotonic()
        run = clean_checkout.snakemake("--dry-run", "--quiet", "--profile", "slurm", config=config)
        assert run.returncode == 0, run.stdout[-4000:]
        seconds[config] = time.monotonic() - started
    assert seconds["config/paper.yaml"] < 5 * seconds["config/test.yaml"]
