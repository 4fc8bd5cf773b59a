"""One run at a time in a working directory, by locks that the kernel frees when their holders end, however they end.

A run holds RUN. Each of its jobs holds JOBS together with the other jobs. A new run therefore finds out two things:
whether another run is alive, and then it is refused; and whether jobs of a killed run still work, and then it waits for
them. It signs JOBS afterwards, and a late job of the killed run that finds another signature there ends at once.

This takes the place of Snakemake's own lock (`nolock` in profiles/default), which a killed run leaves behind. On a
cluster it needs a shared file system with locks; docs/cluster.md says what to do where there are none.
"""

import errno
import fcntl
import logging
import os
import uuid
from pathlib import Path
from typing import IO

from deduce.errors import InputError

RUN, JOBS = Path(".snakemake/run.lock"), Path(".snakemake/jobs.lock")
SIGNATURE = "DEDUCE_RUN"  # the environment variable by which a job knows its run
UNSUPPORTED = {errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL}

log = logging.getLogger(__name__)
_held: list[IO[str]] = []  # until the process ends


def start() -> bool:
    """Begin a run: an `InputError` if another one is alive, and a wait for jobs that outlived theirs.

    True if there were such jobs: they have made files since this run looked at what exists.
    """
    run = _open(RUN)
    _held.append(run)
    if not _lock(run, fcntl.LOCK_EX | fcntl.LOCK_NB):
        raise InputError(f"another run works in {Path.cwd()} ({_process(run)}): wait until it has finished.")
    run.seek(0)
    run.truncate()
    print(f"process {os.getpid()} on {os.uname().nodename}", file=run, flush=True)
    with _open(JOBS) as jobs:
        if waited := not _lock(jobs, fcntl.LOCK_EX | fcntl.LOCK_NB):
            log.warning("waiting for jobs of an earlier run, which was killed: %s", ", ".join(holders(jobs)))
            _lock(jobs, fcntl.LOCK_EX)
        os.environ[SIGNATURE] = uuid.uuid4().hex
        jobs.truncate(0)
        jobs.write(os.environ[SIGNATURE])
    return waited


def join() -> None:
    """Become a job of the run that started this process; an `InputError` if another run has taken its place."""
    if not (signature := os.environ.get(SIGNATURE)) or not JOBS.exists():
        return  # started by hand, or by a workflow that has its own lock
    jobs = _open(JOBS)
    _held.append(jobs)
    _lock(jobs, fcntl.LOCK_SH)
    if jobs.read() != signature:
        raise InputError("the run that started this job has ended, and another has begun: the job is left to that one.")


def holders(file: IO[str]) -> list[str]:
    """The processes on this machine that hold a lock on a file, as far as Linux says."""
    inode, found = f":{os.fstat(file.fileno()).st_ino}", []
    locks = Path("/proc/locks")
    for line in locks.read_text().splitlines() if locks.exists() else []:
        fields = line.split()
        if "->" not in fields and fields[5].endswith(inode):
            command = Path("/proc", fields[4], "cmdline")
            words = command.read_bytes().decode(errors="replace").split("\0") if command.exists() else []
            found.append(f"process {fields[4]} ({Path(words[1] if len(words) > 1 else '').name})")
    return found or ["processes on another machine"]


def _open(path: Path) -> IO[str]:
    try:
        path.parent.mkdir(exist_ok=True)
        return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {(error.strerror or str(error)).lower()}.") from None


def _process(file: IO[str]) -> str:
    return file.read().strip() or "it is just starting"


def _lock(file: IO[str], kind: int) -> bool:
    """Whether the lock was taken; true also on a file system that has no locks."""
    try:
        fcntl.flock(file, kind)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        log.warning("%s: this file system has no locks; make sure that only one run works here", file.name)
    return True
