# What all rules share: the experiment, and short functions on top of it. The DAG follows from the config alone.

import os
import shlex
import sys
from pathlib import Path

from snakemake.utils import update_config

ROOT = Path(str(workflow.current_basedir)).parent  # of this repository, also where another workflow imports it
sys.path.insert(0, str(ROOT))  # so that `import deduce` works before anything is installed

from deduce import config as configuration, config_files, lock, models, provenance
from deduce.beginning import begin
from deduce.datasets import DATASETS
from deduce.errors import InputError
from deduce.evaluation import catalogue
from deduce.failures import failures
from deduce.experiment import PUBLICATION, RUN, Experiment
from deduce.pairs import SAMPLE, TIMED, VALIDATION, is_measured
from deduce.variants import base

COMMAND_LINE = workflow.config_settings.config  # Snakemake leaves numbers inside lists and sections as text
try:
    lock.join()  # if this process is a job
    for file in workflow.configfiles:
        config_files.check_file(file)
    nested = {key: value for key, value in COMMAND_LINE.items() if not isinstance(value, str)}
    update_config(config, configuration.typed(nested))
    EXPERIMENT = Experiment.load(config, ROOT, COMMAND_LINE.get("name"))
except InputError as error:
    sys.exit(str(error))
config = EXPERIMENT.config
# The part of the config that rules track. Where the data and an estimate's records come from changes no result.
TRACKED = {key: value for key, value in config.items() if key not in ("sources", "estimate_from")}

# A job that trains, searches or scores asks a cluster for a GPU; inside SLURM, only if one was allocated.
GPU = 1 if workflow.is_main_process else int("SLURM_GPUS" in os.environ)
ALL_CORES = workflow.resource_settings.cores or 1 if workflow.is_main_process else 1
if workflow.is_main_process:
    os.environ.update(DEDUCE_COMMAND=shlex.join(["snakemake", *sys.argv[1:]]))  # for the manifest


def repository_file(name):
    """A file of this repository, relative to the working directory: moving a checkout reruns nothing."""
    return os.path.relpath(ROOT / name)


def artifacts(*kinds):
    """The files of these kinds that the evaluation starts from."""
    return [f"<artifacts>/{name}" for kind in kinds for name in EXPERIMENT.artifacts.get(kind, [])]


def source(script, *modules):
    """A digest of all code that a script runs, with the modules that it imports by name: editing it reruns the rule."""
    return provenance.digest(ROOT / "scripts" / script, *modules)


def raw_data(dataset):
    """The file with the checksums of a dataset's raw files, which lie beside it: never in a remote storage."""
    return local(f"<data>/{DATASETS[dataset].folder}/SHA256SUMS")


def grows(amount):
    """Memory or time of a job. It grows with each attempt, because the last one may have run out."""
    return lambda wildcards, attempt: amount * attempt


def alone(wildcards):
    """The threads of a search. A search that is timed takes all cores, because nothing may run beside it."""
    return ALL_CORES if is_measured(wildcards.seed) else 1


def shard(method):
    """Where a method's rule writes the answer to one job's pairs; `{method}` may be a variant of the method."""
    return f"<results>/shards/{{method,{method}(@[^/]+)?}}/{{seed}}/{{part}}.npz"


def each_part(pattern):
    """An input function: the files of all parts of a pair set. The pattern calls the wildcards `job`."""
    return lambda wildcards: expand(pattern, job=[wildcards], part=EXPERIMENT.parts_of(wildcards.seed))


def variant_of(method, wildcards):
    """The variant of `method` that a job stands for, also if the job is of another method that shares the settings."""
    return method + wildcards.method.removeprefix(base(wildcards.method))


def settings(method):
    """The settings for a method's script. They depend on wildcards only, because Snakemake tracks no others."""

    def of_variant(wildcards):
        whole = EXPERIMENT.settings(variant_of(method, wildcards))
        return {key: value for key, value in whole.items() if key not in ("classifier", "confirm_by")}

    return of_variant


def used_models(wildcards, input):
    """The names of a job's models by role, for the shard's metadata. A variant can only change these models."""
    names = {role: Path(file).stem for role, file in input.items() if "/models/" in str(file)}
    if problem := EXPERIMENT.unused_setting(wildcards.method, names.values()):
        sys.exit(problem)
    return names


def model_file(role, user):
    """The weights of the model that a method, a model or a variant of one uses in a role."""
    return f"<results>/models/{EXPERIMENT.model(user, role)}.safetensors"


def model(role, method=None):
    """`model_file` as an input function. `method` is given by rules that share the settings of another method."""
    return lambda wildcards: model_file(role, variant_of(method or base(wildcards.method), wildcards))


def confirming(wildcards):
    """The weights of the classifier that must agree before a search ends, if the setting `confirm_by` names one."""
    asked = EXPERIMENT.settings(wildcards.method)["confirm_by"]
    return {"confirming": model_file("confirming", wildcards.method)} if asked else {}


def needed_models(wildcards):
    """The weights of the models that a model is made from, by role."""
    roles = models.REGISTRY[base(wildcards.model)].needed(EXPERIMENT.settings(wildcards.model))
    return {role: model_file(role, wildcards.model) for role in roles}


def model_files(*roles, user="density"):
    """The weights of the configured models by role; the classifier is the one whose features the densities describe."""
    return {role: model_file(role, user) for role in roles}


def extra_files(folder, *extras):
    """The artefacts in one folder that some sweeps or comparisons need, each once."""
    names = dict.fromkeys(name for extra in extras for name in extra.artifacts())
    return [f"<artifacts>/{name}" for name in names if name.startswith(f"{folder}/")]


def reported(file, section, what):
    """Adds a file to Snakemake's own report, with the caption of the file itself, of its section, or of its folder."""
    captions = (ROOT / "report" / f"{name}.rst" for name in (Path(file).stem, section, Path(file).parent.name))
    caption, labels = str(next(filter(Path.exists, captions))), {"what": what.replace("_", " ")}
    return report(file, caption=caption, category=catalogue.TITLES[section], labels=labels)
