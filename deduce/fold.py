"""Makes a trained network cheap to search through: whatever is constant during a search is computed once, before it."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.nn.utils.fusion import fuse_conv_bn_eval

from deduce import kernels
from deduce.inputs import copied

BLOCK = 100  # images at a time, where there are many: larger batches do not fit a CPU's caches


def fold(network: nn.Module, shape: Sequence[int]) -> nn.Module:
    """A frozen copy in evaluation mode, equal to `network` up to rounding, with its normalisations folded away.

    Parametrizations (spectral normalisation) become plain weights, and batch normalisation is merged into the
    convolution before it. An image of `shape` (channels, height, width) is run through the network to see which layer
    feeds which, so any `forward` will do. A network that is already folded is returned as it is.
    """
    if getattr(network, "is_folded", False):
        return network
    folded = frozen(network)
    with torch.no_grad():
        # Noise, because a flat image would hide differences in the layers that it does not excite.
        noise = torch.rand(1, *shape, generator=torch.Generator().manual_seed(0)).to(device_of(network))
        plain = folded(noise)
        candidate = copy.deepcopy(folded)
        _fuse_batch_norms(candidate, noise)
        # If a convolution's output is also used elsewhere, folding would change the network: keep it unfolded.
        if torch.allclose(candidate(noise), plain, rtol=1e-3, atol=1e-4 * float(plain.abs().max())):
            folded = candidate
    kernels.accelerate(folded)
    folded.is_folded = True  # type: ignore[assignment]
    return folded


def frozen(network: nn.Module, dtype: torch.dtype | None = torch.float32) -> Any:
    """A copy in evaluation mode whose weights are constants: no gradients, no parametrizations.

    dtype: of the weights; by default that of images. None leaves them as they are.
    """
    network = copied(network, copy.deepcopy).eval()
    if dtype and any(value.is_floating_point() and value.dtype != dtype for value in network.state_dict().values()):
        network.to(dtype)
    for layer in list(network.modules()):
        if parametrize.is_parametrized(layer):
            # Not `remove_parametrizations`: it takes the property from the class, which copy and original share.
            values = {name: getattr(layer, name).detach() for name in layer.parametrizations}  # type: ignore[union-attr]
            layer.__class__ = type(layer).__bases__[0]
            del layer.parametrizations
            for name, value in values.items():
                layer.register_parameter(name, nn.Parameter(value))
    if device_of(network).type == "cpu":  # faster there at any width (benchmarks/search.py); not measured elsewhere
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network.requires_grad_(False)


def device_of(network: nn.Module) -> torch.device:
    return next((parameter.device for parameter in network.parameters()), torch.device("cpu"))


@torch.no_grad()
def features_of(classifier: Any, images: Tensor) -> Tensor:
    """Features (n, d) of any number of images (n, channels, height, width), by a classifier in evaluation mode."""
    with parametrize.cached():  # spectral bounds are computed once, not for every block
        return torch.cat([classifier.features(block.to(device_of(classifier))) for block in images.split(BLOCK)])


def _fuse_batch_norms(network: nn.Module, example: Tensor) -> None:
    """Merges, in place, each batch normalisation into the convolution whose output it normalises."""
    convolutions: dict[int, tuple[nn.Conv2d, Tensor]] = {}  # by the id of their output, which is kept alive here
    replacement: dict[nn.Module, nn.Module] = {}

    def observe(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if isinstance(layer, nn.Conv2d):
            convolutions[id(output)] = (layer, output)
        elif isinstance(layer, nn.BatchNorm2d) and layer.track_running_stats and id(inputs[0]) in convolutions:
            convolution, _ = convolutions[id(inputs[0])]
            replacement[convolution] = fuse_conv_bn_eval(convolution, layer)
            replacement[layer] = nn.Identity()

    layers = list(network.modules())
    hooks = [layer.register_forward_hook(observe) for layer in layers]
    network(example)
    for hook in hooks:
        hook.remove()
    for parent in layers:
        for name, child in list(parent.named_children()):
            if child in replacement:
                setattr(parent, name, replacement[child])
