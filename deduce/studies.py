"""Two questions about the networks, each asked of all test sets with several trainings, as a config declares them.

*One classifier for all*: every method explains every classifier, so that algorithms are compared on one network, and
networks under one algorithm. *Dependence*: one setting of a network is varied at a time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from deduce.variants import TRAINING_SEED, variant

SAME_CLASSIFIER, DEPENDENCE = "same_classifier", "dependence"


@dataclass(frozen=True)
class Case:
    """A method with one training of one network."""

    method: str
    variant: str  # as paths have it
    training_seed: int
    settings: dict[str, Any]  # that the study sets, without the training seed
    curve: str = ""  # of the dependence: its name


@dataclass(frozen=True)
class Study:
    name: str
    on: list[str]  # test sets by their number
    cases: list[Case]

    def artifacts(self) -> list[str]:
        """The artefacts that the study is evaluated from."""
        variants = dict.fromkeys(case.variant for case in self.cases)
        shards = [f"counterfactuals/{name}/{seed}.npz" for name in variants for seed in self.on]
        return [*(f"pairs/{seed}.npz" for seed in self.on), *shards]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Study":
        return cls(values["name"], values["on"], [Case(**case) for case in values["cases"]])


def declared_studies(config: Mapping[str, Any]) -> dict[str, Study]:
    """The studies of a config by name."""
    kinds = {SAME_CLASSIFIER: _same_classifier, DEPENDENCE: _dependence}
    on = [str(seed) for seed in config["seeds"]]
    return {name: Study(name, on, list(cases(config))) for name, cases in kinds.items() if config.get(name)}


def _same_classifier(config: Mapping[str, Any]) -> Iterator[Case]:
    section = config[SAME_CLASSIFIER]
    for seed in config["training_seeds"]:
        for method in section["methods"]:
            for classifier in section["classifiers"]:
                yield _case(config, method, seed, {"classifier": classifier})


def _dependence(config: Mapping[str, Any]) -> Iterator[Case]:
    section = config[DEPENDENCE]
    fewer = section.get("fewer_trainings") or {}
    for number, seed in enumerate(section["training_seeds"]):
        for curve, methods in section["curves"].items():
            for method, varied in (methods or {}).items():
                for setting, values in (varied or {}).items():
                    for value in values or []:
                        if number < fewer.get(f"{setting}={value}", number + 1):
                            yield _case(config, method, seed, {setting: value}, curve)


def _case(config: Mapping[str, Any], method: str, seed: int, settings: dict[str, Any], curve: str = "") -> Case:
    name = variant(method, settings | {TRAINING_SEED: seed}, config)
    return Case(method, name, seed, settings, curve)
