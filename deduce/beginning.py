"""What the main process of a run does before its first job."""

import errno
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from deduce import fetch, lock
from deduce.artifacts import remove_unfinished, save_json
from deduce.errors import InputError
from deduce.experiment import Experiment


def begin(experiment: Experiment, config: Mapping[str, Any], directory: str) -> None:
    """Take the lock, clear up after a killed run, repair the data, and save the config; exit with a sentence if not.

    directory: in which the command was given.
    """
    keep_asking_squeue()
    folder, data = Path("results", experiment.name), Path("results/data")
    try:
        if lock.start():
            restart(directory)
        for place in (data, folder):
            check_writable(place)
            remove_unfinished(place)
        for message in fetch.repair(data, config) if experiment.judges else []:
            print(message, file=sys.stderr)
        save_json(folder / "config.json", config)  # what these results are of, from the first minute
    except InputError as error:
        sys.exit(str(error))


def check_writable(folder: Path) -> None:
    """An `InputError` if a folder of the results cannot be written: Snakemake itself would print a traceback."""
    for place, _, _ in os.walk(folder):
        if not os.access(place, os.W_OK):
            code = errno.EROFS if os.statvfs(place).f_flag & os.ST_RDONLY else errno.EACCES
            raise InputError(f"{place}: cannot be written: {os.strerror(code).lower()}.")


def restart(directory: str) -> NoReturn:
    """The same command in the same process: the plan would make again what jobs of a killed run have made since."""
    print("These jobs have ended: planning again.", file=sys.stderr, flush=True)
    del os.environ[lock.SIGNATURE]
    os.chdir(directory)
    os.execv(sys.executable, sys.orig_argv)


def keep_asking_squeue() -> None:
    """Make Snakemake's SLURM plugin remember how long `squeue` knows ended jobs, instead of asking before each query.

    If SLURM's controller is away when it asks, it turns to `sacct`. Where that has no database, the plugin then forgets
    its jobs, and the run never ends.
    """
    plugin: Any = sys.modules.get("snakemake_executor_plugin_slurm")
    if plugin and (age := plugin.get_min_job_age()):
        plugin.get_min_job_age = lambda: age
