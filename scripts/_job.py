"""How every script of the workflow starts: it imports `snakemake` from here before anything heavy.

The import obeys the rule's `threads`, and sends messages and crashes to the rule's log and to the console.
"""

import logging
import os
import sys
from pathlib import Path

from __main__ import snakemake  # Snakemake puts it into the script

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # `import deduce` works, installed or not
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"):
    os.environ[variable] = str(snakemake.threads)

Path(snakemake.log[0]).parent.mkdir(parents=True, exist_ok=True)
logging.basicConfig(
    level=logging.INFO,
    format="%(asctime)s %(levelname)s %(message)s",
    datefmt="%H:%M:%S",
    handlers=[logging.FileHandler(snakemake.log[0], mode="w"), logging.StreamHandler()],
    force=True,
)
logging.getLogger("fontTools").setLevel(logging.WARNING)  # silence font-subsetting logs
log = logging.getLogger(snakemake.rule)


def crash(kind, error, traceback) -> None:
    from deduce.errors import InputError

    # A broken input is for the user to mend and needs one sentence; any other error needs its traceback.
    if issubclass(kind, InputError):
        log.error("%s", error)
    else:
        log.critical("the script crashed", exc_info=(kind, error, traceback))


sys.excepthook = crash
