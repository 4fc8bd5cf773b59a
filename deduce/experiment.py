"""The experiment that a config describes: one object that answers every question of the rules.

It is a function of the config and the mode alone, whatever files exist. Only the guard against overwriting a run looks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

from deduce import config as configuration
from deduce import models
from deduce.datasets import DATASETS, Dataset
from deduce.errors import InputError
from deduce.evaluation import catalogue
from deduce.evaluation.bundle import DESCRIBED, MANIFEST
from deduce.evaluation.merge import stored
from deduce.evaluation.metrics import EXPLAINED, JUDGES, METRICS, RETRAINED, judges
from deduce.pairs import is_measured
from deduce.published import PUBLISHED, validation
from deduce.studies import Study, declared_studies
from deduce.sweeps import Comparison, Sweep, check, check_settings, declared_comparisons, declared_sweeps
from deduce.variants import TRAINING_SEED, base, configured, overrides, sections, variant

RUN, ARTIFACTS, PUBLICATION = "run", "artifacts", "published"
MOST_JOBS = 20_000
BRIEF = {"iterations": 40, "pairs": 100}  # of a search that is only measured; a full batch, as in the paper
# The files that compare counterfactuals with real images as sets, by kind.
JUDGED = {"frechet": ["realism/frechet.csv"], "natural_changes": ["realism/natural_changes.csv"]}
CONVICTION_TABLES = ("conviction", "conviction_equal")  # the files that the sweeps of `conviction` make together
REFERENCES = ("original", "reconstruction")  # the images that realism scores are compared with


@dataclass(frozen=True)
class Experiment:
    config: dict[str, Any]  # complete and checked; for stored results, the config that made them
    mode: str = RUN
    name: str = ""  # results go to results/NAME
    # For stored results: the folder or file of artefacts, or several to merge, or the clone of the authors' repository.
    origin: str | tuple[str, ...] = ""
    stored: tuple[str, ...] = ()  # names of the stored artefacts, in the mode `artifacts`

    @classmethod
    def load(cls, config: dict[str, Any], root: Path, name: str | None = None) -> Experiment:
        """The experiment of a user's config; every mistake is an `InputError`.

        root: of the repository. name: from the command line; it replaces the name of stored artefacts.
        """
        methods = configuration.available_methods(root)
        if reserved := set(REFERENCES) & set(methods):
            raise InputError(
                f"rules/methods: no method can be called {min(reserved)!r}: it is reserved for references."
            )
        if not isinstance(config, dict):
            raise InputError("config: must be a mapping of keys to values, as config.yaml is.")
        config = configuration.complete(config, configuration.defaults(root))
        everything = configuration.schema(root, methods)
        modes = {key: config[key] for key in ("name", "artifacts", "published")}
        configuration.checked(modes, {"properties": everything["properties"]})
        if config["published"]:
            if not os.path.isdir(folder := Path(config["published"], "_testset_results")):
                raise InputError(f"{folder}: no such folder; `published` must name a clone of the authors' repository.")
            published = PUBLISHED | {"sweeps": validation.sweeps(config["published"])}
            if config["judge_published"]:
                published |= {key: config[key] for key in ("judge_published", "sources", "oracles", "accelerator")}
            experiment = cls(published, PUBLICATION, str(PUBLISHED["name"]), config["published"])
        elif config["artifacts"]:
            paths = config["artifacts"]
            experiment = cls._of_bundles(paths if isinstance(paths, str) else tuple(paths), root, name)
        else:
            configuration.checked(config, everything)
            schema = configuration.schema(root, methods, prod(DATASETS[config["dataset"]].shape))
            experiment = cls(configuration.checked(config, schema), RUN, config["name"])
            experiment._check_names(schema, methods)
            return experiment
        facts = {key: experiment.config[key] for key in DESCRIBED} | {"name": experiment.name}
        configuration.checked(config | facts, configuration.schema(root, {*methods, *experiment.methods}))
        return experiment

    @classmethod
    def _of_bundles(cls, origin: str | tuple[str, ...], root: Path, name: str | None) -> Experiment:
        bundle = stored(origin, lambda each: each.check(configuration.schema(root, each.methods)["properties"]))
        if name is None:  # what is made from a run's own artefacts goes beside the run, not over it
            paths = [Path(path).resolve() for path in ([origin] if isinstance(origin, str) else origin)]
            run = Path("results", bundle.config["name"]).resolve()
            own = any(run in (path, *path.parents) for path in paths)
            name = bundle.config["name"] + ("-artifacts" if own else "")
        if cls._is_run(Path("results", name)):
            raise InputError(f"results/{name} is a run of its own: choose another name, `--config name=…`.")
        names = tuple(sorted(set(bundle.sums) - {MANIFEST}))
        experiment = cls(bundle.config, ARTIFACTS, name, origin, names)
        bundle.require(name for names in experiment.required.values() for name in names)
        return experiment

    @staticmethod
    def _is_run(folder: Path) -> bool:
        """Whether results are a run's own: stored results always have a copy of their artefacts beside their tables."""
        has = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
        return bool(has & {"shards", "pairs", "models"}) or ("tables" in has and "artifacts" not in has)

    def _check_names(self, schema: dict[str, Any], methods: Iterable[str]) -> None:
        """Fails if the config names something that does not exist, or gives a name twice."""
        points = [variant for sweep in self.sweeps.values() for variant in sweep.variants]
        for method in (*self.methods, *points):
            classifier = self.settings(method).get("classifier", models.classifiers()[0])
            confirming = self.settings(method).get("confirm_by") or classifier
            for key, name in (("classifier", classifier), ("confirm_by", base(confirming))):
                if name not in (known := models.classifiers()):
                    raise InputError(f"config: '{method}.{key}' is {name!r}; allowed: {', '.join(known)}.")
            self.settings(confirming)  # fails if it names a setting that the model does not have
        if (jobs := len(self.methods) * len(self.seeds) * self.config["shards_per_seed"]) > MOST_JOBS:
            raise InputError(f"config: {jobs} jobs for the test sets are too many to plan; lower 'shards_per_seed'.")
        taken = {entry.name for entry in (*catalogue.TABLES, *catalogue.FIGURES)} | {*CONVICTION_TABLES}
        for kind, items in (("sweep", self.sweeps), ("comparison", self.comparisons)):
            for item in items.values():
                if item.name in taken:
                    raise InputError(
                        f"config: {kind} '{item.name}': choose another name, because a table has this one."
                    )
                taken.add(item.name)
                for method in [item.method] if isinstance(item, Sweep) else item.methods:
                    if method not in methods:
                        raise InputError(f"config: {kind} '{item.name}': there is no method '{method}'.")
        for sweep in self.sweeps.values():
            check(sweep, self.config, schema, set(models.REGISTRY))
        for study in self.studies.values():
            for case in study.cases:
                if case.method not in methods:
                    raise InputError(f"config: '{study.name}': there is no method '{case.method}'.")
                check_settings(
                    f"config: '{study.name}': ", case.method, case.settings, self.config, schema, set(models.REGISTRY)
                )
        for name in self.config["conviction"]["sweeps"]:
            if name not in self.config["sweeps"]:
                raise InputError(f"config: 'conviction.sweeps' names '{name}', which is not among the sweeps.")
        for sweep in self.conviction:
            if missing := {"agan", "oracle"} - set(sweep.scores):
                raise InputError(f"config: sweep '{sweep.name}' in 'conviction' needs the score '{min(missing)}'.")
        self._check_replicated()

    def _check_replicated(self) -> None:
        """Fails if a model is both shared by the replicates and made from one that is trained anew."""
        replicated = self.config["replicated"]
        for name, model in models.REGISTRY.items():
            classifier = self.settings(name).get("classifier") if "classifier" in model.needs else None
            if classifier in replicated and name not in replicated:
                raise InputError(f"config: 'replicated' has {classifier}, so it needs {name}, which is made from it.")
        for name in (*replicated, *self.used_methods):
            if TRAINING_SEED in self.settings(name):
                raise InputError(f"config: '{name}.{TRAINING_SEED}' cannot be set: 'training_seeds' has its seeds.")

    # --- who is asked what ---------------------------------------------------------------------------------------
    @property
    def dataset(self) -> Dataset:
        return DATASETS[self.config["dataset"]]

    @property
    def methods(self) -> list[str]:
        return self.config["methods"]

    @property
    def seeds(self) -> list[str]:
        """The test sets by their number."""
        return [str(seed) for seed in self.config["seeds"]]

    @property
    def training_seeds(self) -> list[int]:
        return self.config["training_seeds"]

    @property
    def first_training(self) -> int:
        """The training seed of the names without a suffix."""
        return self.config["training_seeds"][0]

    @cached_property
    def replicates(self) -> list[str]:
        """Each method with each training of the replicated models, as variants; a single training has no suffix."""
        return [name for seed in self.config["training_seeds"] for name in self._of_training(self.methods, seed)]

    @property
    def trained(self) -> list[str]:
        """Every model of the registry, and each further training of the replicated ones."""
        further = self.config["training_seeds"][1:]
        again = [name for seed in further for name in self._of_training(self.config["replicated"], seed)]
        return [*models.of_every_run(), *again]

    def _of_training(self, names: Iterable[str], seed: int) -> list[str]:
        return [variant(name, {TRAINING_SEED: seed}, self.config) for name in names]

    def parts_of(self, seed: str) -> list[str]:
        """The jobs into which a method's work on a pair set is split; a timed set is never split."""
        return [f"{part:03d}" for part in range(1 if is_measured(seed) else self.config["shards_per_seed"])]

    @property
    def pairs_per_seed(self) -> int:
        return self.config["images_per_seed"] * (len(self.dataset.classes) - 1)

    @property
    def brief_pairs(self) -> int:
        """How many pairs of the first test set a method is measured on."""
        return min(BRIEF["pairs"], self.pairs_per_seed)

    def brief(self, method: str) -> str:
        """The variant of a method that stops after a few iterations, to measure what these cost."""
        limit = self.settings(method).get("max_iterations")
        return variant(method, {"max_iterations": min(limit, BRIEF["iterations"])}, self.config) if limit else method

    @property
    def used_methods(self) -> list[str]:
        """The methods of the tables, of sweeps and of comparisons, whose rules are needed."""
        of_sweeps = [sweep.method for sweep in self.sweeps.values()]
        of_comparisons = [method for comparison in self.comparisons.values() for method in comparison.methods]
        of_studies = [case.method for study in self.studies.values() for case in study.cases]
        return list(dict.fromkeys([*self.methods, *of_sweeps, *of_comparisons, *of_studies]))

    @cached_property
    def sweeps(self) -> dict[str, Sweep]:
        return declared_sweeps(self.config)

    @property
    def conviction(self) -> list[Sweep]:
        """The sweeps whose points are drawn as curves against the oracle rate."""
        names = self.config.get("conviction", {}).get("sweeps", [])
        return [self.sweeps[name] for name in names if name in self.sweeps]

    @property
    def appendices(self) -> list[str]:
        """The names of the sweeps that have a table and a figure of their own."""
        return [name for name, sweep in self.sweeps.items() if sweep not in self.conviction]

    def sweep_of(self, variant: str) -> str:
        """The name of the first sweep with this variant among its points; empty if there is none."""
        return next((sweep.name for sweep in self.sweeps.values() if variant in sweep.variants), "")

    def compared_sweeps(self, name: str) -> list[Sweep]:
        """A sweep, and the sweeps that it is compared on."""
        names = dict.fromkeys([name, *self.sweeps[name].compare_on])
        return [self.sweeps[name] for name in names if name in self.sweeps]

    @cached_property
    def comparisons(self) -> dict[str, Comparison]:
        return declared_comparisons(self.config)

    @cached_property
    def studies(self) -> dict[str, Study]:
        return declared_studies(self.config)

    # --- variants ----------------------------------------------------------------------------------------------------
    def settings(self, variant: str) -> dict[str, Any]:
        """The settings of a method or model: its section of the config, with the changes that the variant names."""
        section = self.config.get(base(variant)) or {}
        changed = {key: value for key, value in overrides(variant).items() if "." not in key}
        if base(variant) not in models.REGISTRY:
            changed.pop(TRAINING_SEED, None)  # it is a setting of the models that the method uses
        elif unknown := changed.keys() - (known := {*section, TRAINING_SEED}):
            raise InputError(f"'{variant}': unknown setting '{min(unknown)}'; known: {', '.join(sorted(known))}.")
        return section | changed

    def training_seed(self, variant: str) -> int:
        """The seed that a model is trained with, or that the replicated models of a method are trained with."""
        return overrides(variant).get(TRAINING_SEED, configured(self.config, base(variant), TRAINING_SEED))

    def model(self, user: str, role: str) -> str:
        """The variant of a model that a variant of a method or model uses in a role.

        The role `classifier` is the model that the user's section names; any other role is a model by its own name. A
        model of a classifier's features follows the classifier that the user explains.
        """
        if role == "confirming":  # a second opinion has its own name; what changes the explained models leaves it alone
            named = self.settings(user)["confirm_by"]
            return variant(base(named), overrides(named), self.config)
        explained = self.settings(user).get("classifier")
        name = explained if role == "classifier" else role
        if name not in models.REGISTRY:
            raise InputError(f"config: '{base(user)}' names no classifier; known: {', '.join(models.classifiers())}.")
        training = {TRAINING_SEED: self.training_seed(user)} if name in self.config["replicated"] else {}
        own = {key: value for key, value in overrides(user).items() if key.partition(".")[0] == name}
        changed = training | {key.partition(".")[2]: value for key, value in own.items()}
        if "classifier" in models.REGISTRY[name].needs and explained:
            of_classifier = {key: value for key, value in overrides(user).items() if key.startswith(f"{explained}.")}
            changed |= of_classifier | {"classifier": explained}
        return variant(name, changed, self.config)

    def retrained(self, user: str) -> str:
        """The classifier that a method's variant explains, of the next training; empty if there is but one."""
        explained, seeds = self.model(user, "classifier"), self.config["training_seeds"]
        if len(seeds) < 2 or base(explained) not in self.config["replicated"]:
            return ""
        following = seeds[(seeds.index(self.training_seed(user)) + 1) % len(seeds)]
        return variant(base(explained), overrides(explained) | {TRAINING_SEED: following}, self.config)

    def scores(self, variant: str, seed: str) -> list[str]:
        """The metrics by which counterfactuals are scored: of test sets all, of sweeps' points those they ask for."""
        if variant in self.replicates and seed in self.seeds:
            return [name for name, metric in METRICS.items() if metric.scorer]
        sweeps = [sweep for sweep in self.sweeps.values() if seed in sweep.on]
        asked = {name for sweep in sweeps if variant in sweep.variants for name in sweep.scores}
        return [name for name in METRICS if name in asked]

    def judges_of(self, scored: str, seed: str) -> dict[str, str]:
        """By role, the models that score images: a replicate's own, or the config's for any point of a sweep."""
        training = self.training_seed(scored) if scored in self.replicates else self.first_training
        roles, [density] = judges(self.scores(scored, seed)), self._of_training(["density"], training)
        names = {role: self.model(density, role) for role in roles if role in JUDGES}
        if "classifier" in self.settings(scored):
            names |= {EXPLAINED: self.model(scored, "classifier"), RETRAINED: self.retrained(scored)}
        return {role: name for role, name in names.items() if role in roles and name}

    def scorer_settings(self, variant: str = "") -> dict[str, Any]:
        """The sections of `realism` that scorers read, with what a variant changes."""
        changed = {key: value for key, value in overrides(variant).items() if key.startswith("realism.")}
        section = sections("realism", changed, self.config)["realism"]
        return {name: value for name, value in section.items() if isinstance(value, dict)}

    def unused_setting(self, variant: str, used: Iterable[str]) -> str:
        """A sentence about the first model setting of a method's variant that changes none of the `used` models."""
        used = list(map(base, used))
        for key in overrides(variant):
            if "." in key and key.partition(".")[0] not in used:
                sweep = self.sweep_of(variant)
                where = f"config: sweep '{sweep}'" if sweep else "config: 'dependence'"
                return f"{where}: '{key}' cannot be varied, because {base(variant)} uses {', '.join(used)}."
        return ""

    # --- artefacts: the files that the evaluation starts from --------------------------------------------------------
    @property
    def required(self) -> dict[str, list[str]]:
        """The answers to the test sets, which every experiment has."""
        shards = [f"counterfactuals/{replicate}/{seed}.npz" for replicate in self.replicates for seed in self.seeds]
        return {"pairs": [f"pairs/{seed}.npz" for seed in self.seeds], "counterfactuals": shards}

    @cached_property
    def artifacts(self) -> dict[str, list[str]]:
        """Names of files below the folder of artefacts, by kind."""
        scored = [f"realism/{kind}/{seed}.npz" for kind in (*self.replicates, *REFERENCES) for seed in self.seeds]
        kinds = self.required | {"realism": scored, "reconstructions": ["reconstructions.npz"]}
        if self.mode != RUN:
            kinds["summaries"] = ["summaries.csv"]
        if self.mode != PUBLICATION:
            kinds |= {
                "timed": ["pairs/timed.npz", *(f"counterfactuals/{method}/timed.npz" for method in self.methods)],
                "sanity": [f"sanity/{name}.npz" for name in self.judged],
                "card": ["models/card.csv"],
                "records": [f"models/{name}.csv" for name in self.trained],
                "features": ["features.npz"],
                "pictures": ["pictures.npz"],
            }
        if self.mode != PUBLICATION or self.judges:
            kinds |= JUDGED | {"oracles": ["models/oracles.csv"]}  # shows that oracles judged the counterfactuals
        known = {name for names in kinds.values() for name in names}
        if self.mode == ARTIFACTS:
            kinds = {kind: [name for name in names if name in self.stored] for kind, names in kinds.items()}
            extras = set(self.stored)
        else:
            reported = self._reported([self.sweeps[name] for name in self.appendices], "appendices")
            reported += self._reported(self.comparisons.values(), "comparisons")
            reported += self._reported(self.conviction, "conviction")
            reported += [self.studies[name] for name in self.reported_studies]
            extras = {name for extra in reported for name in extra.artifacts()}
        return kinds | {"extras": sorted(extras - known)}

    @property
    def judges(self) -> bool:
        """Whether oracles are trained here: in every run, and for the authors' results if the config wants it."""
        return self.mode == RUN or (self.mode == PUBLICATION and "oracles" in self.config)

    @property
    def trainings(self) -> list[dict[str, str]]:
        """For each training, the folder of each method's counterfactuals."""
        names = (self._of_training(self.methods, seed) for seed in self.config["training_seeds"])
        return [dict(zip(self.methods, replicates, strict=True)) for replicates in names]

    @property
    def artifact_folder(self) -> str:
        """A run's artefacts lie among its results; stored artefacts are copied to a folder of their own."""
        return f"results/{self.name}" if self.mode == RUN else f"results/{self.name}/artifacts"

    @property
    def artifact_names(self) -> list[str]:
        return sorted({name for names in self.artifacts.values() for name in names})

    @property
    def judged(self) -> list[str]:
        """The datasets on which the realism score is checked: this one, and its outliers that have a source."""
        names = [self.dataset.name, *self.dataset.outliers]
        return [name for name in names if self.mode != RUN or DATASETS[name].sources(self.config)]

    def _reported(self, declared: Iterable[Sweep | Comparison | Study], extra: str) -> list[Any]:
        """The sweeps or comparisons that belong to the report, the claims and the archive."""
        if self.mode == ARTIFACTS:
            return [item for item in declared if set(item.artifacts()) <= set(self.stored)]
        return list(declared) if self.mode == PUBLICATION or extra in self.config["extras"] else []

    @property
    def reported_sweeps(self) -> list[str]:
        return [sweep.name for sweep in self._reported(map(self.sweeps.__getitem__, self.appendices), "appendices")]

    @property
    def reported_comparisons(self) -> list[str]:
        return [comparison.name for comparison in self._reported(self.comparisons.values(), "comparisons")]

    @property
    def reports_conviction(self) -> bool:
        return bool(self.conviction) and self._reported(self.conviction, "conviction") == self.conviction

    @property
    def reported_studies(self) -> list[str]:
        """Each study is an extra of its own."""
        return [name for name, study in self.studies.items() if self._reported([study], name)]

    # --- tables and figures ------------------------------------------------------------------------------------------
    @property
    def tables(self) -> list[catalogue.Item]:
        return catalogue.items(catalogue.TABLES, self)

    @property
    def figures(self) -> list[catalogue.Item]:
        return catalogue.items(catalogue.FIGURES, self)
