"""Classifiers of any make: features and head are found where the network's last layer is linear."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deduce.errors import InputError
from deduce.fold import device_of


class Normalised(nn.Module):
    """A classifier that learnt from normalised images, for images in [0, 1]: `(image - mean) / std` comes first.

    mean, std: one number per channel, as in `torchvision.transforms.Normalize`.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, classifier: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.classifier = classifier
        if len(mean) != len(std) or min(std, default=0) <= 0:
            raise InputError("mean and std must have one number per channel, and those of std must be above 0.")
        for name, values in (("mean", mean), ("std", std)):
            self.register_buffer(name, torch.tensor(values).float()[:, None, None])

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier((images - self.mean) / self.std)


class Traced(nn.Module):
    """A network as two functions: the features are what enters its last layer, and the head is that layer."""

    is_folded = has_features = True

    def __init__(self, network: nn.Module, head: nn.Linear) -> None:
        super().__init__()
        self.network, self.head = network, head

    def features(self, images: Tensor) -> Tensor:
        """images: as the network takes them → (n, d)."""
        entering: list[Tensor] = []
        with self.head.register_forward_pre_hook(lambda layer, inputs: entering.append(inputs[0])):
            self.network(images)
        return entering[-1]

    def forward(self, images: Tensor) -> Tensor:
        """Logits, also where the network gives probabilities or their logarithms."""
        return self.head(self.features(images))


@torch.no_grad()
def with_features(network: Any, shape: Sequence[int]) -> Any:
    """A frozen network with `features(images) -> (n, d)` and `head(features) -> logits`.

    It is the network itself if it has these functions, else it is `Traced`. Images of noise of `shape` (channels,
    height, width) are run through it to see which layer gives its output.
    """
    if getattr(network, "has_features", False):
        return network
    noise = torch.rand(2, *shape, generator=torch.Generator().manual_seed(0)).to(device_of(network))
    if all(callable(getattr(network, name, None)) for name in ("features", "head")) and _has_features(network, noise):
        network.has_features = True
        return network
    calls: list[tuple[nn.Linear, Tensor]] = []
    layers = [layer for layer in network.modules() if isinstance(layer, nn.Linear)]
    hooks = [layer.register_forward_hook(lambda layer, _, output: calls.append((layer, output))) for layer in layers]
    output = network(noise)
    for hook in hooks:
        hook.remove()
    if not calls or not _same_answer(calls[-1][1], output):
        raise InputError(
            f"the classifier ({type(network).__name__}) does not end in a linear layer, and has no functions "
            "`features(images) -> (n, d)` and `head(features) -> logits`, which this method needs: add these two to it."
        )
    return Traced(network, calls[-1][0]).eval()


def _has_features(network: Any, images: Tensor) -> bool:
    """Whether the network's own two functions give its answer; some networks use these names for something else."""
    try:
        return _same_answer(network.head(network.features(images)), network(images))
    except (RuntimeError, TypeError, ValueError, AttributeError):
        return False


def _same_answer(logits: Any, output: Any) -> bool:
    """Whether an output (n, classes) is these logits, or their softmax or its logarithm."""
    if not all(isinstance(value, Tensor) and value.ndim == 2 for value in (logits, output)):
        return False
    answers = (logits, F.log_softmax(logits, 1), logits.softmax(1))
    slack = 1e-4 * float(output.abs().max())
    return any(answer.shape == output.shape and torch.allclose(answer, output, atol=slack) for answer in answers)
