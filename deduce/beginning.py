"""What the main process of a run does before its first job."""

import errno
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deduce import fetch, lock
from deduce.artifacts import remove_unfinished, save_json
from deduce.errors import InputError
from deduce.experiment import Experiment


def begin(experiment: Experiment, config: Mapping[str, Any]) -> None:
    """Take the lock, clear up after a killed run, repair the data, and save the config; exit with a sentence if not."""
    folder, data = Path("results", experiment.name), Path("results/data")
    try:
        lock.start()
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
