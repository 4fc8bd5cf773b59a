"""What the main process of a run does before its first job."""

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
            remove_unfinished(place)
        for message in fetch.repair(data, config) if experiment.judges else []:
            print(message, file=sys.stderr)
        save_json(folder / "config.json", config)  # what these results are of, from the first minute
    except InputError as error:
        sys.exit(str(error))
