"""The soft spectral bound of the DDU network: a convolution, as a linear operator, gets a norm of at most c.

The bound applies to the operator itself, not to the reshaped kernel: the power iteration runs through the
convolution and its adjoint, at the layer's own image size.
"""

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn import grad
from torch.nn.utils import parametrize

from deduce import compute

EPSILON = 1e-12  # of the normalisation of the two vectors
SLACK = 1e-5  # added to the divisor, as the reference implementation of DDU does


class SoftSpectralBound(nn.Module):
    """A parametrization of a convolution's weight W: W / (max(1, σ/c) + 1e-5), σ being the operator's norm.

    An operator whose norm is below c does not change (but for the slack). There is one power iteration per training
    forward and none in evaluation, where the network is a fixed function.
    """

    left: Tensor
    right: Tensor

    def __init__(self, convolution: nn.Conv2d, size: int, coefficient: float) -> None:
        super().__init__()
        if convolution.groups != 1 or convolution.padding_mode != "zeros" or isinstance(convolution.padding, str):
            raise ValueError("only plain convolutions with zero padding given in pixels can be bounded")
        self.coefficient = coefficient
        self.stride, self.padding, self.dilation = convolution.stride, convolution.padding, convolution.dilation
        weight = convolution.weight.detach()
        right = torch.randn(1, convolution.in_channels, size, size).to(weight)
        self.register_buffer("right", _unit(right))  # singular vectors: input side and output side
        self.register_buffer("left", _unit(self._apply_operator(right, weight)))

    def _apply_operator(self, images: Tensor, weight: Tensor) -> Tensor:
        return F.conv2d(images, weight, None, self.stride, self.padding, self.dilation)

    def _apply_adjoint(self, outputs: Tensor, weight: Tensor) -> Tensor:
        return grad.conv2d_input(self.right.shape, weight, outputs, self.stride, self.padding, self.dilation)

    @torch.no_grad()
    def iterate(self, weight: Tensor, times: int = 1) -> None:
        """Power iterations on W: better singular vectors, in place."""
        for _ in range(times):
            self.right.copy_(_unit(self._apply_adjoint(self.left, weight)))
            self.left.copy_(_unit(self._apply_operator(self.right, weight)))

    def norm(self, weight: Tensor) -> Tensor:
        """The present estimate of W's operator norm, from below; differentiable in W."""
        # Cloned because a training forward changes the buffers in place, perhaps before the backward of this one.
        return (self.left.clone() * self._apply_operator(self.right.clone(), weight)).sum()

    def _improved_norm(self, weight: Tensor) -> Tensor:
        """`iterate` and then `norm`, which share one application of the operator; never in bfloat16."""
        with torch.autocast(weight.device.type, enabled=False):
            with torch.no_grad():
                right = _unit(self._apply_adjoint(self.left, weight))
            outputs = self._apply_operator(right, weight)
            left = _unit(outputs.detach())
            self.right.copy_(right)
            self.left.copy_(left)
            return (left * outputs).sum()

    def forward(self, weight: Tensor) -> Tensor:
        norm = self._improved_norm(weight) if self.training else self.norm(weight)
        return weight / ((norm / self.coefficient).clamp(min=1) + SLACK)


def bounded(convolution: nn.Conv2d, size: int, coefficient: float) -> nn.Conv2d:
    """The convolution with its norm softly bounded on square images of `size` pixels a side."""
    parametrize.register_parametrization(convolution, "weight", SoftSpectralBound(convolution, size, coefficient))
    return convolution


@torch.no_grad()
def operator_norms(network: nn.Module, iterations: int = 200) -> dict[str, float]:
    """The norm of every bounded convolution in its forward pass, by a long power iteration from a seeded start."""
    norms = {}
    for name, layer in network.named_modules():
        bound = layer.parametrizations.weight[0] if parametrize.is_parametrized(layer, "weight") else None
        if isinstance(bound, SoftSpectralBound):
            weight = layer.weight.double()
            probe = copy.deepcopy(bound).to(weight)
            start = torch.randn(bound.left.shape, generator=compute.generator("operator norm", name))
            probe.left.copy_(_unit(start))
            probe.iterate(weight, iterations)
            norms[name] = probe.norm(weight).item()
    return norms


def _unit(vector: Tensor) -> Tensor:
    return vector / vector.norm().clamp(min=EPSILON)
