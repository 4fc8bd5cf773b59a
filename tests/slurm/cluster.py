#!/usr/bin/env python3
"""A real SLURM on this machine, for as long as a command runs: two CPU nodes and one node with two stand-in GPUs.

    python tests/slurm/cluster.py bash                   # look around: sinfo, squeue, snakemake --profile slurm
    python tests/slurm/cluster.py sinfo                  # or any other command

Debian's packages are enough: no systemd, no database, no accounting, nothing outside of a temporary folder,
and listeners on 127.0.0.1 only. The daemons are children of this process in the foreground, and ask the kernel for a
signal should it die: they end with it, whatever ends it.
"""

import contextlib
import csv
import ctypes
import fcntl
import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PACKAGES = ["slurm-wlm", "munge", "rsync"]
NODES = ("n1", "n2", "g1")
PORT = 26817  # of the controller; the nodes have the next ones

# The stand-in devices are schedulable and give jobs their CUDA_VISIBLE_DEVICES, which a CPU build of torch ignores.
GRES = "NodeName=g1 Name=gpu File=/dev/zero\nNodeName=g1 Name=gpu File=/dev/null\n"

# Few CPUs: the real machine runs at most four jobs at once. MinJobAge lets squeue answer for jobs that have ended. Jobs
# that use more memory than they asked for are killed; a node is lost when it has been silent for SlurmdTimeout.
CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmctldPort={port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
TaskProlog={folder}/bin/record-task
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/log/jobs.log
MinJobAge=900
SlurmdTimeout={patience}
KillWait=2
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={port_n1} CPUs=1 RealMemory=16000 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={port_n2} CPUs=1 RealMemory=16000 State=UNKNOWN
NodeName=g1 NodeHostname={host} NodeAddr=127.0.0.1 Port={port_g1} CPUs=2 RealMemory=16000 Gres=gpu:2 State=UNKNOWN
PartitionName=cpu Nodes=n[1-2] Default=YES MaxTime=INFINITE State=UP
PartitionName=gpu Nodes=g1 MaxTime=INFINITE State=UP
"""

# Snakemake's plugin strips SLURM_CONF before it calls srun inside a job; a site has its configuration in /etc/slurm.
SRUN = '#!/bin/sh\nSLURM_CONF="{folder}/slurm.conf" exec {srun} "$@"\n'

RECORD_TASK = """#!/bin/sh
echo "$SLURM_JOB_ID,$SLURM_STEP_ID,$SLURMD_NODENAME,$CUDA_VISIBLE_DEVICES" >> {folder}/log/tasks.csv
"""


@dataclass
class Cluster:
    folder: Path
    daemons: dict[str, subprocess.Popen] = field(default_factory=dict)  # munged, slurmctld, and each node's slurmd

    @property
    def environment(self) -> dict[str, str]:
        """For any process that is to use this cluster, and for it alone."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "SBATCH_"))}
        path = f"{self.folder}/bin{os.pathsep}{os.environ['PATH']}"
        return {**inherited, "SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": path}

    def run(self, *command: str) -> str:
        """The output of a SLURM command."""
        result = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60)
        if result.returncode:
            raise RuntimeError(f"{' '.join(command)}: {result.stderr}")
        return result.stdout

    def jobs(self) -> list[dict[str, str]]:
        """SLURM's own records of the jobs that ended: JobId, JobState, Partition, NodeList, StartTime, …"""
        file = self.folder / "log" / "jobs.log"
        lines = file.read_text().splitlines() if file.exists() else []
        return [dict(field.split("=", 1) for field in line.split() if "=" in field) for line in lines]

    def tasks(self) -> list[dict[str, str]]:
        """What the jobs saw when they began: job, step, node, devices."""
        with (self.folder / "log" / "tasks.csv").open() as file:
            return list(csv.DictReader(file, fieldnames=["job", "step", "node", "devices"]))

    def job_processes(self, node: str) -> dict[int, list[str]]:
        """The processes of the jobs on a node, with their command lines."""
        found = {}
        for process in processes(self.folder):
            with contextlib.suppress(OSError):
                if f"SLURMD_NODENAME={node}".encode() in Path(f"/proc/{process}/environ").read_bytes().split(b"\0"):
                    found[process] = Path(f"/proc/{process}/cmdline").read_text().split("\0")
        return found

    def start(self, daemon: str) -> None:
        configuration = f"{self.folder}/slurm.conf"
        if daemon == "munged":
            command = [daemon, "--foreground", f"--key-file={self.folder}/munge.key"]
            command += [f"--socket={self.folder}/munge.sock"]
            command += [f"--{kind}-file={self.folder}/munge.{kind}" for kind in ("pid", "log", "seed")]
        elif daemon == "slurmctld":
            command = [daemon, "-D", "-f", configuration]
        else:
            command = ["slurmd", "-D", "-f", configuration, "-N", daemon]
        with (self.folder / "log" / f"{command[0]}.out").open("a") as output:
            self.daemons[daemon] = subprocess.Popen(
                [str(shutil.which(command[0], path=daemon_path())), *command[1:]],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C is for the tests; the daemons are still needed to cancel jobs
                preexec_fn=die_with_parent,
            )

    def stop(self, daemon: str) -> None:
        """End a daemon as `systemctl stop` does; running jobs continue."""
        self.daemons[daemon].terminate()
        self.daemons[daemon].wait()

    def cut_power(self, node: str) -> None:
        """End a node at once, with all processes of its jobs."""
        self.daemons[node].kill()
        self.daemons[node].wait()
        while doomed := [*self.job_processes(node)]:
            parents = {parent for process in doomed if process_name(parent := parent_of(process)) == "slurmstepd"}
            for process in [*parents, *doomed]:  # a slurmstepd has no environment by which it would be found
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)


@contextlib.contextmanager
def cluster(port: int = PORT, patience: int = 300) -> Iterator[Cluster]:
    """A cluster whose nodes are idle, and of which nothing is left afterwards. It waits for another on these ports.

    patience: the seconds after which a silent node is lost.
    """
    install()
    with Path(tempfile.gettempdir(), f"deduce-slurm-{port}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with started(port, patience) as running:
            yield running


@contextlib.contextmanager
def started(port: int, patience: int) -> Iterator[Cluster]:
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))  # a short path: the name of a socket has at most 107 characters
    running = Cluster(folder)
    try:
        write_configuration(folder, port, patience)
        running.start("munged")
        wait_for((folder / "munge.sock").exists, "munged did not start", folder)
        for daemon in ("slurmctld", *NODES):
            running.start(daemon)
        wait_for(lambda: idle_nodes(running) == set(NODES), "the nodes did not become idle", folder)
        yield running
    finally:
        with contextlib.suppress(Exception):
            running.run("scancel", "--user", getpass.getuser())
            wait_for(lambda: not running.run("squeue", "--noheader"), "jobs did not end", folder, seconds=10)
        for daemon in reversed(running.daemons.values()):
            daemon.terminate()
        for daemon in running.daemons.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(10)
        for process in processes(folder):
            os.kill(process, signal.SIGKILL)
        if "KEEP_SLURM_LOGS" not in os.environ:
            shutil.rmtree(folder, ignore_errors=True)


def install() -> None:
    if all(shutil.which(program, path=daemon_path()) for program in ("slurmctld", "munged", "rsync")):
        return
    if os.geteuid() or not shutil.which("apt-get"):
        sys.exit(f"SLURM is not installed: apt-get install {' '.join(PACKAGES)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-qq"], check=True, env=environment)
    command = ["apt-get", "install", "-qq", "-y", "--no-install-recommends", *PACKAGES]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)


def daemon_path() -> str:
    return f"{os.environ['PATH']}{os.pathsep}/usr/sbin"


def write_configuration(folder: Path, port: int, patience: int) -> None:
    for name in ("state", "spool", "log", "bin"):
        (folder / name).mkdir()
    names = {"folder": folder, "host": socket.gethostname().split(".")[0], "user": getpass.getuser(), "port": port}
    names["patience"] = patience
    names |= {f"port_{node}": port + number for number, node in enumerate(NODES, start=1)}
    (folder / "slurm.conf").write_text(CONFIGURATION.format(**names))
    (folder / "gres.conf").write_text(GRES)
    (folder / "munge.key").write_bytes(secrets.token_bytes(128))
    (folder / "munge.key").chmod(0o600)
    folder.chmod(0o755)  # munge refuses a socket that others cannot reach
    for name, script in {"srun": SRUN, "record-task": RECORD_TASK}.items():
        (folder / "bin" / name).write_text(script.format(srun=shutil.which("srun"), **names))
        (folder / "bin" / name).chmod(0o755)


def die_with_parent() -> None:
    set_parent_death_signal = 1  # PR_SET_PDEATHSIG of linux/prctl.h
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)


def idle_nodes(running: Cluster) -> set[str]:
    with contextlib.suppress(RuntimeError):  # slurmctld is not listening yet
        return set(running.run("sinfo", "--noheader", "--Node", "--states=idle", "--format=%N").split())
    return set()


def wait_for(condition, complaint: str, folder: Path, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            logs = "\n".join(f"--- {log.name}\n{log.read_text()[-2000:]}" for log in (folder / "log").iterdir())
            raise RuntimeError(f"{complaint} within {seconds} s\n{logs}")
        time.sleep(0.2)


def processes(folder: Path) -> list[int]:
    """Every process that belongs to the cluster in this folder: its daemons, its job steps and their children."""
    assert folder.is_absolute() and folder.name.startswith("slurm-"), folder  # callers kill what this returns
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            traces = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
            if str(folder).encode() in traces and int(process.name) != os.getpid():
                found.append(int(process.name))
    return found


def process_name(process: int) -> str:
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        return ""


def parent_of(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that `finally` is reached
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    with cluster(PORT + 10) as here:  # beside the cluster of the tests
        sys.exit(subprocess.run(sys.argv[1:], env=here.environment).returncode)
