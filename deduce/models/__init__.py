"""The paper's networks, and the one way to keep them: weights in `.safetensors`, what they are in `.json`.

The file names a class of the registry below and the arguments of its constructor: reading it executes nothing else.
"""

from importlib import import_module
from pathlib import Path

from safetensors import SafetensorError
from torch import nn

from deduce.artifacts import load_tensors, save_tensors
from deduce.errors import InputError

REGISTRY = {
    "SpectralResNet": "deduce.models.resnet",
    "PlainResNet": "deduce.models.resnet",
    "VAE": "deduce.models.vae",
    "Autoencoder": "deduce.models.autoencoder",
    "ClassAutoencoders": "deduce.models.class_autoencoders",
    "WGAN": "deduce.models.wgan",
    "ClassDensities": "deduce.density",
}


def save(path: str | Path, model: nn.Module) -> None:
    """Writes `path` (.safetensors) and the `.json` beside it; `model` is of a registered class."""
    name = type(model).__name__
    if name not in REGISTRY:
        raise InputError(f"a {name} cannot be saved: deduce.models.REGISTRY does not have it.")
    save_tensors(path, model.state_dict(), {"class": name, "arguments": model.arguments})


def load(path: str | Path) -> nn.Module:
    """The model that `save` wrote, on the CPU, in evaluation mode."""
    try:
        tensors, architecture = load_tensors(path)
        name, arguments = architecture["class"], architecture["arguments"]
        if name not in REGISTRY:
            raise InputError(f"{path}: unknown class '{name}'; known: {', '.join(REGISTRY)}.")
        model: nn.Module = getattr(import_module(REGISTRY[name]), name)(**arguments)
        model.load_state_dict(tensors)
    except FileNotFoundError as error:
        raise InputError(f"{error.filename}: no such file; the weights and their .json lie side by side.") from None
    except (SafetensorError, KeyError, TypeError, RuntimeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: not a saved model, or not the one its .json describes ({error}).") from error
    return model.eval()
