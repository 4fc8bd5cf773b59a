# What the rule files share: the checked configuration, the paths of artefacts, and small helpers.

import sys
from pathlib import Path

ROOT = Path(workflow.basedir)
sys.path.insert(0, str(ROOT))  # so that `import deduce` works before anything is installed

from deduce import provenance
from deduce.config import checked, schema
from deduce.datasets import DATASETS
from deduce.errors import InputError
from deduce.fetch import corrupted

AVAILABLE_METHODS = [path.stem for path in (ROOT / "rules" / "methods").glob("*.smk")]

try:
    config = checked(config, schema(ROOT / "schemas", AVAILABLE_METHODS))
except InputError as error:
    sys.exit(str(error))

METHODS = config["methods"]
SEEDS = [str(seed) for seed in config["seeds"]]
OUTLIERS = "fashion_mnist" if config["dataset"] == "mnist" else "mnist"  # what is surely not of the dataset
PARTS = [f"{part:03d}" for part in range(config["shards_per_seed"])]

# A cached file that is no longer what it was would be used unnoticed: Snakemake only sees that it exists.
if workflow.is_main_process:
    for dataset, facts in DATASETS.items():
        for path in corrupted(dataset, Path("results/data", facts.folder, "raw")):
            print(
                f"{path} is corrupted (wrong SHA-256): it is removed and will be fetched again.",
                file=sys.stderr,
            )
            path.unlink()


def source(script):
    """A digest of the library modules that a script uses, for its rule's params: editing one reruns the rule."""
    return provenance.digest(ROOT / "scripts" / script)


def shard(method):
    """Where a method's rule writes the shard of one job: the answer to the pair file of the same seed and part."""
    return f"<results>/shards/{method}/{{seed}}/{{part}}.npz"


def grows(amount):
    """Memory or time that a job asks for: again as much on each retry, for what ran out of it."""
    return lambda wildcards, attempt: amount * attempt


def settings(method):
    """A method's section of the config."""
    return config.get(method, {})


def raw_files(dataset):
    """The raw files of a dataset, in the layout that torchvision reads; `{dataset}` makes the pattern of them all.

    They are verified by their content, so their age does not matter: fetching them again reruns nothing.
    """
    if dataset in DATASETS:
        return [ancient(f"<data>/{DATASETS[dataset].folder}/raw/{name}") for name in DATASETS[dataset].files]
    return [f"<data>/{dataset}/raw/{name}" for name in DATASETS["mnist"].files]


def classifier_settings(name):
    """The config section of a classifier; `ddu-c3` is `ddu` with another spectral coefficient."""
    section, _, coefficient = name.partition("-c")
    return config[section] | ({"coefficient": float(coefficient)} if coefficient else {})
