# What all rule files share. The checked configuration, the paths of artefacts, and small helpers.

import os
import re
import shlex
import sys
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path

import yaml
from snakemake.exceptions import WorkflowError
from snakemake.utils import update_config

ROOT = Path(workflow.basedir)
sys.path.insert(0, str(ROOT))  # so that `import deduce` works before anything is installed

from deduce import provenance, sweeps
from deduce.artifacts import save_json
from deduce.config import check_keys, checked, in_order, schema, typed
from deduce.datasets import DATASETS
from deduce.errors import InputError
from deduce.evaluation import paper
from deduce.evaluation.bundle import Bundle
from deduce.fetch import corrupted

AVAILABLE_METHODS = [path.stem for path in (ROOT / "rules" / "methods").glob("*.smk")]
if reserved := {"original", "reconstruction"} & set(AVAILABLE_METHODS):  # what realism scores are compared with
    sys.exit(f"rules/methods: no method can be called {reserved.pop()!r}, which is the name of other images.")

# Which of the models' settings a sweep can vary, and the models that rules/models.smk makes of each value, as `ddu-c3`.
VARIED_MODELS = {"ddu.coefficient": {"ddu": "-c", "density": "-c"}}

# Snakemake leaves what is nested in --config as text.
for key, value in workflow.config_settings.overwrite_config.items():
    update_config(config, {key: value if isinstance(value, str) else typed(value)})

# Stored results say themselves which experiment they are of; only its name can be overridden (`--config name=...`).
STORED = None
try:
    for file in workflow.configfiles:
        check_keys(file)
    if config.get("published"):
        from deduce.evaluation import published_validation

        AVAILABLE_METHODS += paper.EXPERIMENT["methods"]
        config |= paper.EXPERIMENT | {"sweeps": published_validation.sweeps(config["published"])}
    elif config.get("artifacts"):
        STORED = Bundle(config["artifacts"])
        AVAILABLE_METHODS += STORED.experiment["methods"]
        name = workflow.config_settings.overwrite_config.get("name", STORED.experiment["name"])
        config |= STORED.experiment | {"name": name, "sweeps": {}}
    SCHEMA = schema(ROOT / "schemas", set(AVAILABLE_METHODS))
    config = in_order(checked(config, SCHEMA), yaml.safe_load((ROOT / "config.yaml").read_text()))
    EXPERIMENT = {key: value for key, value in config.items() if key not in ("artifacts", "published")}
    if config["published"]:
        EXPERIMENT = paper.EXPERIMENT | {"sweeps": config["sweeps"]}
    elif STORED:
        EXPERIMENT = STORED.config
    SWEEPS = sweeps.declared(EXPERIMENT)
    if workflow.is_main_process and not (STORED or config["published"]):
        for sweep in SWEEPS.values():
            text = (ROOT / "rules" / "methods" / f"{sweep.method}.smk").read_text()
            used = {key for key in VARIED_MODELS if f'model("{key.partition(".")[0]}"' in text}
            sweeps.check(sweep, config, SCHEMA, used)
except InputError as error:
    sys.exit(str(error))

METHODS = config["methods"]
USED_METHODS = list(dict.fromkeys([*METHODS, *(sweep.method for sweep in SWEEPS.values())]))
USED_SEEDS = sorted({*map(str, config["seeds"]), *(seed for sweep in SWEEPS.values() for seed in sweep.on)})
SEEDS = [str(seed) for seed in config["seeds"]]
OUTLIERS = "fashion_mnist" if config["dataset"] == "mnist" else "mnist"  # what is surely not of the dataset
PARTS = [f"{part:03d}" for part in range(config["shards_per_seed"])]

# What the jobs that train, search and score ask a cluster for; a local run does not care. A job that SLURM has started
# asks for what it was given: none on a cluster without GPUs (slurm/config.yaml), where srun would refuse to be asked.
GPU = 1 if workflow.is_main_process else int("SLURM_GPUS" in os.environ)

# The cores that a measurement reserves: all of a local run, so that nothing runs beside it; the one of its job on a cluster.
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
        ARTIFACTS += sorted({file for sweep in SWEEPS.values() for file in sweep.artifacts()})
    else:
        # A method that wants a row in table 2 has a rule time_NAME in its file.
        rule_files = {method: (ROOT / "rules" / "methods" / f"{method}.smk").read_text() for method in METHODS}
        TIMED = [method for method, text in rule_files.items() if f"rule {method} as time_{method} " in text]
        ARTIFACTS += expand("timing/{method}.csv", method=TIMED)
        ARTIFACTS += expand("models/{model}.csv", model=["ddu", "plain", "vae", "autoencoder", "wgan"])
        ARTIFACTS += ["tables/model_card.csv", "tables/sanity.csv", "reconstructions.npz"]
        if any("<results>/features.npz" in text for text in rule_files.values()):
            ARTIFACTS += ["features.npz"]
# Sweeps are no part of the default target. Those that are there belong to the artefacts, the claims and the report.
if STORED or config["published"]:
    MADE_SWEEPS = [name for name, sweep in SWEEPS.items() if set(sweep.artifacts()) <= set(ARTIFACTS)]
else:
    MADE_SWEEPS = [name for name in SWEEPS if Path("results", config["name"], "tables", f"{name}.csv").exists()]
    ARTIFACTS += sorted({file for name in MADE_SWEEPS for file in SWEEPS[name].artifacts()} - set(ARTIFACTS))
    # So does a comparison of a method's two implementations (`parity`).
    ARTIFACTS += sorted(f"tables/{path.name}" for path in Path("results", config["name"]).glob("tables/*_parity*.csv"))
# A sceptic's pandas, scipy and matplotlib write no Parquet: then there is the CSV alone.
PARQUET = ["<results>/results.parquet"] if find_spec("pyarrow") else []

if workflow.is_main_process:
    os.environ.update(DEDUCE_COMMAND=shlex.join(["snakemake", *sys.argv[1:]]))  # for the manifest


def stored(pattern):
    """The artefacts of this experiment that match: what was not measured or not kept is not asked for.

    Those of sweeps are no answers to the test sets, and only among all (`*`).
    """
    of_sweeps = {name for name in ARTIFACTS if "@" in name or Path(name).stem == sweeps.VALIDATION}
    chosen = [name for name in ARTIFACTS if pattern == "*" or name not in of_sweeps]
    return [f"<artifacts>/{name}" for name in chosen if fnmatch(name, pattern)]


def clone_needed(wildcards):
    sys.exit("The target 'published' needs a clone of github.com/benedikthoeltgen/DeDUCE: `--config published=CLONE`.")


def source(script):
    """A digest of the library modules that a script uses, for its rule's params: editing one reruns the rule."""
    return provenance.digest(ROOT / "scripts" / script)


def shard(method):
    """Where a method's rules write the shard of one job, the answer to the pair file of the same seed and part.

    The wildcard `method` is the method's name, or in a sweep that of a variant, as `jsma@step_size=0.1`.
    """
    return f"<results>/shards/{{method,{method}(@[^/]+)?}}/{{seed}}/{{part}}.npz"


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


def section(method):
    """A method's section of the config, of the stored one if there is."""
    return (STORED.config if STORED else config).get(method, {})


def settings(method, leave_out=()):
    """What a method's script is given, by wildcards: its section of the config, with what a variant sets otherwise."""

    def varied(wildcards):
        variant = wildcards.get("method", method)
        own = sweeps.overrides(variant) if variant.partition("@")[0] == method else {}
        if fixed := set(own) & set(leave_out):
            raise WorkflowError(f"No sweep can vary '{min(fixed)}' of {method}: it decides between rules.")
        whole = section(method) | {key: value for key, value in own.items() if "." not in key}
        return {key: value for key, value in whole.items() if key not in leave_out}

    return varied


def model(name, suffix):
    """The file of a model that a method needs, by wildcards: of another model where a variant sets how it is trained."""

    def path(wildcards):
        file = name
        for key, value in sweeps.overrides(wildcards.get("method", "")).items():
            if name in VARIED_MODELS.get(key, {}):
                file += f"{VARIED_MODELS[key][name]}{value:g}"
        return f"<results>/models/{file}{suffix}"

    return path


def compared_sweeps(name):
    """A sweep and those that it is compared on, by name."""
    return {one: SWEEPS[one] for one in [name, *SWEEPS[name].compare_on] if one in SWEEPS}


def sweep_inputs(kind):
    """The artefacts of a sweep and of those that it is compared on, by wildcards: their `pairs` or `counterfactuals`."""

    def files(wildcards):
        names = dict.fromkeys(name for one in compared_sweeps(wildcards.sweep).values() for name in one.artifacts())
        return [f"<artifacts>/{name}" for name in names if name.startswith(kind)]

    return files


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
