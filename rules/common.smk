# What the rule files share: the checked configuration, the paths of artefacts, and small helpers.

import os
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

ROOT = Path(workflow.basedir)
sys.path.insert(0, str(ROOT))  # so that `import deduce` works before anything is installed

from deduce import provenance
from deduce.config import checked, schema
from deduce.errors import InputError

AVAILABLE_METHODS = [path.stem for path in (ROOT / "rules" / "methods").glob("*.smk")]

try:
    config = checked(config, schema(ROOT / "schemas", AVAILABLE_METHODS))
except InputError as error:
    raise WorkflowError(str(error)) from None

METHODS = config["methods"]
SEEDS = [str(seed) for seed in config["seeds"]]
PARTS = [f"{part:03d}" for part in range(config["shards_per_seed"])]


def source(script):
    """A digest of the library modules that a script uses, for its rule's params: editing one reruns the rule."""
    return provenance.digest(ROOT / "scripts" / script)


def shard(method):
    """Where a method's rule writes the shard of one job: the answer to the pair file of the same seed and part."""
    return f"<results>/shards/{method}/{{seed}}/{{part}}.npz"


def settings(method):
    """A method's section of the config."""
    return config[method]
