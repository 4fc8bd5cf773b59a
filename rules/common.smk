# What all rule files share. The checked configuration, the paths of artefacts, and small helpers.

import os
import re
import shlex
import sys
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path

from snakemake.exceptions import WorkflowError

ROOT = Path(workflow.basedir)
sys.path.insert(0, str(ROOT))  # so that `import deduce` works before anything is installed

from deduce import provenance
from deduce.artifacts import save_json
from deduce.config import checked, schema
from deduce.datasets import DATASETS
from deduce.errors import InputError
from deduce.evaluation import paper
from deduce.evaluation.bundle import Bundle
from deduce.fetch import corrupted

AVAILABLE_METHODS = [path.stem for path in (ROOT / "rules" / "methods").glob("*.smk")]

# Stored results say themselves which experiment they are of; only its name can be overridden (`--config name=...`).
STORED = None
try:
    if config.get("published"):
        AVAILABLE_METHODS += paper.EXPERIMENT["methods"]
        config |= paper.EXPERIMENT
    elif config.get("artifacts"):
        STORED = Bundle(config["artifacts"])
        AVAILABLE_METHODS += STORED.experiment["methods"]
        name = workflow.config_settings.overwrite_config.get("name", STORED.experiment["name"])
        config |= STORED.experiment | {"name": name}
    config = checked(config, schema(ROOT / "schemas", set(AVAILABLE_METHODS)))
except InputError as error:
    sys.exit(str(error))

METHODS = config["methods"]
SEEDS = [str(seed) for seed in config["seeds"]]
OUTLIERS = "fashion_mnist" if config["dataset"] == "mnist" else "mnist"  # what is surely not of the dataset
PARTS = [f"{part:03d}" for part in range(config["shards_per_seed"])]

# What the jobs that train, search and score ask a cluster for; a local run does not care. A job that SLURM has started
# asks for what it was given: none on a cluster without GPUs (slurm/config.yaml), where srun would refuse to be asked.
GPU = 1 if workflow.is_main_process else int("SLURM_GPUS" in os.environ)

# The threads of a measurement: all cores of a local run, so that nothing runs beside it; the one of its job on a cluster.
# (`workflow.cores` refuses to answer where there is no --cores.)
ALL_CORES = workflow.resource_settings.cores or 1 if workflow.is_main_process else 1

# A cached file that is no longer what it was would be used unnoticed: Snakemake only sees that it exists.
if workflow.is_main_process:
    for dataset, facts in DATASETS.items():
        for path in corrupted(dataset, Path("results/data", facts.folder, "raw")):
            print(
                f"{path} is corrupted (wrong SHA-256): it is removed and will be fetched again.",
                file=sys.stderr,
            )
            path.unlink()


# A run's own artefacts lie among its results; stored ones are copied into a folder there.
ARTIFACT_FOLDER = Path("results", config["name"], "artifacts" if config["artifacts"] or config["published"] else "")
# The files that the evaluation starts from, by their path in a folder of artefacts; stored ones list theirs.
ARTIFACTS = expand("pairs/{seed}.npz", seed=SEEDS)
ARTIFACTS += expand("counterfactuals/{method}/{seed}.npz", method=METHODS, seed=SEEDS)
if STORED:
    try:
        STORED.require(ARTIFACTS)
    except InputError as error:
        sys.exit(str(error))
    ARTIFACTS = sorted(set(STORED.sums) - {"manifest.json"})
else:
    if config.get("realism") or config["published"]:
        ARTIFACTS += expand("realism/{kind}/{seed}.npz", kind=[*METHODS, "original", "reconstruction"], seed=SEEDS)
    if config["published"]:
        ARTIFACTS += ["reconstructions.npz", "summaries.csv"]
    else:
        # A method that wants a row in table 2 has a rule time_NAME in its file.
        rule_files = {method: (ROOT / "rules" / "methods" / f"{method}.smk").read_text() for method in METHODS}
        TIMED = [method for method, text in rule_files.items() if f"rule {method} as time_{method} " in text]
        ARTIFACTS += expand("timing/{method}.csv", method=TIMED)
        ARTIFACTS += expand("models/{model}.csv", model=["ddu", "plain", "vae", "autoencoder", "wgan"])
        ARTIFACTS += ["tables/model_card.csv", "tables/sanity.csv", "reconstructions.npz"]
        if any("<results>/features.npz" in text for text in rule_files.values()):
            ARTIFACTS += ["features.npz"]
EXPERIMENT = {key: value for key, value in config.items() if key not in ("artifacts", "published")}
if config["published"]:
    EXPERIMENT = paper.EXPERIMENT
elif STORED:
    EXPERIMENT = STORED.config
# A sceptic's pandas, scipy and matplotlib write no Parquet: then there is the CSV alone.
PARQUET = ["<results>/results.parquet"] if find_spec("pyarrow") else []

if workflow.is_main_process:
    os.environ.update(DEDUCE_COMMAND=shlex.join(["snakemake", *sys.argv[1:]]))  # for the manifest


def stored(pattern):
    """The artefacts of this experiment that match: what was not measured or not kept is not asked for."""
    return [f"<artifacts>/{name}" for name in ARTIFACTS if fnmatch(name, pattern)]


def clone_needed(wildcards):
    raise WorkflowError(
        "The target 'published' needs a clone of github.com/benedikthoeltgen/DeDUCE: add `--config published=CLONE`."
    )


def source(script):
    """A digest of the library modules that a script uses, for its rule's params: editing one reruns the rule."""
    return provenance.digest(ROOT / "scripts" / script)


def shard(method):
    """Where a method's rules write the shard of one job, the answer to the pair file of the same seed and part."""
    return f"<results>/shards/{method}/{{seed}}/{{part}}.npz"


def grows(amount):
    """Memory or time that a job asks for: again as much on each retry, for what ran out of it."""
    return lambda wildcards, attempt: amount * attempt


def failures(logs):
    """What a run did not finish, by the errors in Snakemake's logs: each with its attempts and where to look."""
    failed = {}
    text = "\n".join(Path(log).read_text() for log in logs)
    for error in re.split(r"^Error in (?:local)?rule\s", text, flags=re.MULTILINE)[1:]:
        facts = dict(re.findall(r"^    (\w+): (.*)$", error.split("\n[")[0], flags=re.MULTILINE))
        # Logs of SLURM's jobs are quoted in this one, and have the same errors again without the job's identity.
        if "output" in facts and not (facts["jobid"] == "0" and facts["output"] in failed):
            failed.setdefault(facts["output"], []).append((error.partition(":")[0], facts.get("log", "no log")))
    lines = []
    for output, attempts in failed.items():
        if not all(Path(file).exists() for file in output.split(", ")):
            name, where = attempts[-1]
            lines += [f"  {name}: {output}", f"    {len(attempts)} attempt(s); see {where.partition(' (check')[0]}"]
    return "\n".join([f"{len(lines) // 2} job(s) failed; the same command runs them again, and nothing else:", *lines])


def settings(method):
    """A method's section of the config, of the stored one if there is."""
    return (STORED.config if STORED else config).get(method, {})


def raw_files(dataset):
    """The raw files of a dataset, in the layout that torchvision reads; `{dataset}` makes the pattern of them all."""
    facts = DATASETS.get(dataset)
    return expand(
        "<data>/{folder}/raw/{name}", folder=facts.folder if facts else "{dataset}", name=DATASETS["mnist"].files
    )


def classifier_settings(name):
    """The config section of a classifier; `ddu-c3` is `ddu` with another spectral coefficient."""
    section, _, coefficient = name.partition("-c")
    return config[section] | ({"coefficient": float(coefficient)} if coefficient else {})
