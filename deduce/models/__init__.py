"""The registry of models, and the one way to store them: weights in `.safetensors`, their architecture in `.json`.

A model is a module with a class and the task that trains it, a line in `REGISTRY` and a section of the config.
The workflow imports this package to see what a model depends on, so it must not need torch. A `.json` names a class of
the registry and its constructor's arguments: reading it executes nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deduce.artifacts import atomic, load_json, save_json, verify
from deduce.errors import InputError

if TYPE_CHECKING:
    from torch import nn

    from deduce.datasets import Dataset
    from deduce.training import Task


@dataclass(frozen=True)
class Model:
    """One line of the registry: a class with its training task, and what it is made from."""

    module: str
    architecture: str  # name of the class
    task: str  # name of the class that trains it
    arguments: Callable[..., tuple[Any, ...]]  # of the class's constructor, from settings, dataset and needed models
    needs: tuple[str, ...] = ()  # roles of other models; `classifier` is the one that the model's section names
    # Roles of further models that only a setting asks for, unless it is 0: {"setting": "role"}.
    needs_if: Mapping[str, str] = field(default_factory=dict)
    classifies: bool = False  # whether methods can explain it
    on_demand: bool = False  # made only for a method that uses it, not in every run

    def needed(self, settings: Mapping[str, Any]) -> list[str]:
        """The roles of the models that it is made from with these settings."""
        return [*self.needs, *(role for setting, role in self.needs_if.items() if settings.get(setting))]

    def build(self, *arguments: Any, **named: Any) -> nn.Module:
        return getattr(import_module(self.module), self.architecture)(*arguments, **named)

    def training_task(self, settings: dict[str, Any], dataset: Dataset, **needed: nn.Module) -> Task:
        network = self.build(*self.arguments(settings, dataset, **needed))
        return getattr(import_module(self.module), self.task)(network, settings, **needed)


ARCHITECTURE = "architecture"  # the key under which the weights' own header repeats the `.json`

# The networks of the model `oracles`, which are trained in one job (deduce/models/oracles.py).
ORACLES = ("perceptron", "deep_perceptron", "convolutional", "residual", "patches")

REGISTRY = {
    "ddu": Model("deduce.models.resnet", "SpectralResNet", "Classification", classifies=True,
                 arguments=lambda s, data: (s["width"], data.channels, len(data.classes), data.size, s["coefficient"])),
    "plain": Model("deduce.models.resnet", "PlainResNet", "Classification", classifies=True,
                   arguments=lambda s, data: (s["width"], data.channels, len(data.classes))),
    "density": Model("deduce.density", "ClassDensities", "DensityFit", needs=("classifier",),
                     needs_if={"ambiguous_images": "vae"},
                     arguments=lambda s, data, classifier, vae=None: (len(data.classes), classifier.head.in_features)),
    "vae": Model("deduce.models.vae", "VAE", "VariationalAutoencoding",
                 arguments=lambda s, data: (s["latent"], data.channels, data.size)),
    "autoencoder": Model("deduce.models.autoencoder", "Autoencoder", "Autoencoding",
                         arguments=lambda s, data: (data.channels,)),
    "wgan": Model("deduce.models.wgan", "WGAN", "AdversarialGeneration",
                  arguments=lambda s, data: (s["latent"], data.channels, s["width"], s["critic_width"])),
    "class_autoencoders": Model(
        "deduce.models.class_autoencoders", "ClassAutoencoders", "ClassAutoencoding",
        arguments=lambda s, data: (len(data.classes), prod(data.shape), s["hidden"], s["latent"])),
    "oracles": Model("deduce.models.oracles", "Oracles", "OracleTraining",
                     arguments=lambda s, data: (data.channels, len(data.classes), data.size)),
    "ensemble": Model("deduce.models.ensemble", "Ensemble", "AdversarialClassification", on_demand=True,
                      arguments=lambda s, data: (s["members"], prod(data.shape), s["hidden"], len(data.classes))),
}  # fmt: skip
ARCHITECTURES = {model.architecture: model for model in REGISTRY.values()}


def of_every_run() -> list[str]:
    """The models that a run makes whatever its methods are."""
    return [name for name, model in REGISTRY.items() if not model.on_demand]


def classifiers() -> list[str]:
    """The models that methods can explain."""
    return [name for name, model in REGISTRY.items() if model.classifies]


def save(path: str | Path, model: nn.Module) -> None:
    """Writes `path` (.safetensors) and the `.json` beside it; `model` is of a registered class."""
    from safetensors.torch import save_file

    name = type(model).__name__
    if name not in ARCHITECTURES:
        raise InputError(f"a {name} cannot be saved: deduce.models.REGISTRY does not have it.")
    description = {"class": name, "arguments": model.arguments}
    if hasattr(model, "precision"):  # what `precision: auto` was on the machine that trained it
        description["precision"] = model.precision
    save_json(Path(path).with_suffix(".json"), description)
    with atomic(path) as temporary:
        tensors = {key: tensor.cpu().contiguous() for key, tensor in model.state_dict().items()}
        save_file(tensors, temporary, {ARCHITECTURE: json.dumps(description, sort_keys=True)})


def load(path: str | Path) -> Any:
    """The model that `save` wrote, on the CPU, in evaluation mode. The `.json` may be missing, as in remote jobs."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    architecture = Path(path).with_suffix(".json")
    for file in (path, architecture):
        verify(file)
    # What a broken file can raise, in safetensors, in a constructor or where the two are put together.
    broken = (SafetensorError, ArithmeticError, LookupError, MemoryError, OSError, RuntimeError, TypeError, ValueError)
    try:
        tensors, header = load_file(path), _header(path)
        given = architecture.exists() or ARCHITECTURE not in header
        description = load_json(architecture) if given else json.loads(header[ARCHITECTURE])
        if (name := description["class"]) not in ARCHITECTURES:
            raise ValueError(f"unknown class '{name}'; known: {', '.join(ARCHITECTURES)}")
        model = ARCHITECTURES[name].build(**description["arguments"])
        model.load_state_dict(tensors)
        if "precision" in description:
            model.precision = description["precision"]
    except FileNotFoundError as error:
        raise InputError(f"{error.filename}: no such file; the weights need their .json beside them.") from None
    except InputError:
        raise
    except broken as error:
        raise InputError(f"{path}: not a saved model, or not the one its .json describes ({error}).") from error
    return model.eval()


def _header(path: str | Path) -> dict[str, str]:
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        return file.metadata() or {}
