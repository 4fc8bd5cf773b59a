"""How every script of the workflow starts: it imports `snakemake` from here before anything heavy.

The import obeys the rule's `threads`, sends messages and crashes to the rule's log and to the console, and verifies the
rule's input. When the script has succeeded, the digests of its output are recorded.
"""

import atexit
import gc
import logging
import os
import resource
import signal
import sys
from pathlib import Path

from __main__ import snakemake  # Snakemake puts it into the script

# To look for garbage among the objects of large libraries, while they are imported and at the end, would take as long
# as the work of a small job.
gc.set_threshold(10_000)
atexit.register(gc.freeze)

signal.signal(signal.SIGINT, signal.SIG_DFL)  # an interrupt during the imports is not worth a traceback
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # `import deduce` works, installed or not
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"):
    os.environ[variable] = str(snakemake.threads)

from deduce import artifacts, lock  # noqa: E402
from deduce.errors import InputError  # noqa: E402

log = logging.getLogger(snakemake.rule)


def crash(kind, error, traceback) -> None:
    atexit.unregister(record)
    if issubclass(kind, KeyboardInterrupt):
        return
    # A broken input or a full disk is for the user to mend and needs one sentence; any other error needs its traceback.
    if issubclass(kind, InputError):
        log.error("%s", error)
    elif reason := artifacts.refusal(error, Path(snakemake.log[0]).parent):
        log.error("%s: cannot be written: %s.", getattr(error, "filename", None) or snakemake.output[0], reason)
    else:
        log.critical("the script crashed", exc_info=(kind, error, traceback))


def terminate(number, frame) -> None:
    atexit.unregister(record)
    sys.exit(128 + number)  # unlike the signal's own action, this removes temporary files


def record() -> None:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    log.info("%.1f s of CPU time, at most %.0f MB", usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
    try:
        for path in map(Path, snakemake.output):
            if path.is_file():
                artifacts.record(path)
    except Exception as error:  # a full disk, for instance: Python itself would print it, and end as if all were well
        crash(type(error), error, error.__traceback__)
        logging.shutdown()
        os._exit(1)


sys.excepthook = crash
logging.raiseExceptions = False  # a log on a full disk is not worth a traceback for each line
logging.basicConfig(
    level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", datefmt="%H:%M:%S",
    handlers=[logging.StreamHandler()], force=True,
)  # fmt: skip
Path(snakemake.log[0]).parent.mkdir(parents=True, exist_ok=True)
file_handler = logging.FileHandler(snakemake.log[0], mode="w")
file_handler.setFormatter(logging.root.handlers[0].formatter)
logging.root.addHandler(file_handler)
logging.getLogger("fontTools").setLevel(logging.WARNING)  # silence font-subsetting logs

signal.signal(signal.SIGTERM, terminate)
signal.signal(signal.SIGINT, signal.default_int_handler)
lock.join()
for path in snakemake.output:
    artifacts.forget(path)
for path in snakemake.input:
    artifacts.verify(path)
atexit.register(record)
