"""The loss of equation 7 and its gradient in the latent space, written out by hand for the registered WGAN on the CPU.

A descent evaluates the same small networks thousands of times. Three things make a step about three times as fast as
that of a textbook (docs/speed.md has the figures; `anogan.AutodiffGAN` is the readable equivalent):

- batch-norm and spectral normalisation are folded into the weights once, and no gradient of a weight is computed;
- the passes are those of `deduce.kernels`, without automatic differentiation;
- the layer with most work, a transposed convolution of a small image, is a product of polynomials, computed from their
  values at a few points (the algorithm of Toom and Cook, as in Winograd's convolutions): a quarter of the
  multiplications.

All calls should have the same number of rows, because a row's result must not depend on how many other rows there are.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from deduce import kernels
from deduce.compute import keep_freed_memory
from deduce.fold import device_of, frozen
from deduce.kernels import Affine, Convolution, Linear, Shape
from deduce.models.wgan import SLOPE, WGAN

POINTS = (0.0, 1.0, -1.0, 2.0, -2.0)  # and infinity; more than these six would cost digits


class FastWGAN:
    """Equation 7 for latent vectors (rows, latent), in the precision of `dtype`."""

    def __init__(self, wgan: WGAN, feature_weight: float, dtype: torch.dtype = torch.float32):
        keep_freed_memory()
        frozen_wgan = frozen(wgan, dtype=None).double()
        self.feature_weight, critic = feature_weight, frozen_wgan.critic
        draws: list[Any] = []
        for module in frozen_wgan.generator.layers:
            if isinstance(module, nn.BatchNorm2d):
                module = fuse_conv_bn_eval(draws.pop(), module, transpose=True)
            draws.append(module)
        judges = fuse_conv_bn_eval(critic.convolution1, critic.normalisation1), nn.LeakyReLU(SLOPE), critic.convolution2
        for module in (*draws, *judges):
            module.to(dtype).requires_grad_(False)
        self.generator = kernels.lower((wgan.generator.latent,), *draws)
        for layer in self.generator:
            if isinstance(layer, Affine) and (faster := Products.of(layer.linear)):
                layer.linear = faster
        self.critic = kernels.lower(self.generator[-1].outputs, *judges)

    @staticmethod
    def supports(gan: nn.Module) -> bool:
        """Whether the gan has the architecture that is written out here, and is on the CPU."""
        return isinstance(gan, WGAN) and device_of(gan).type == "cpu"

    def prepare(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """images: (rows, channels, 28, 28) → the images, and their features f_D."""
        return images, kernels.forward(self.critic, images, [])

    def loss(self, latent: Tensor, images: Tensor, features: Tensor) -> Tensor:
        """Equation 7, per row: (rows,)."""
        generated = kernels.forward(self.generator, latent, [])
        by_feature = kernels.forward(self.critic, generated, []) - features
        by_pixel = (generated - images).abs().flatten(1).sum(1)
        return by_pixel + self.feature_weight * by_feature.abs().flatten(1).sum(1)

    def gradient(self, latent: Tensor, images: Tensor, features: Tensor) -> Tensor:
        """The gradient of equation 7 in the latent vectors: (rows, latent)."""
        tape: list[Tensor] = []
        generated = kernels.forward(self.generator, latent, tape)
        by_feature = kernels.forward(self.critic, generated, tape).sub_(features).sign_().mul_(self.feature_weight)
        by_pixel = torch.sub(generated, images).sign_().add_(kernels.backward(self.critic, by_feature, tape))
        return kernels.backward(self.generator, by_pixel, tape)


class Products(Linear):
    """A convolution of stride 1 and its adjoint, as products of polynomials at points.

    The adjoint is the direct map: the coefficients of a product are sums over the pixels under all taps.
    """

    def __init__(self, kernel: Tensor, small: Shape, large: Shape) -> None:
        """kernel: (channels of the small image, channels of the large one, k, k); small and large: the images."""
        image, taps, result = product_scheme(small[-1], kernel.shape[-1])
        at_points = torch.as_tensor(taps)
        weight = torch.einsum("pk,ql,iokl->pqoi", at_points, at_points, kernel.double()).flatten(0, 1)
        self.weight = weight.to(kernel.dtype).contiguous()  # (points, channels of the large image, of the small one)
        self.adjoint = self.weight.transpose(1, 2).contiguous()
        for_both_sides = (torch.as_tensor(np.kron(matrix, matrix)).to(kernel.dtype) for matrix in (image, result))
        self.image, self.result = (matrix.contiguous() for matrix in for_both_sides)
        self.image_adjoint, self.result_adjoint = self.image.T.contiguous(), self.result.T.contiguous()
        self.inputs, self.outputs = large, small

    @classmethod
    def of(cls, linear: Linear) -> "Products | None":
        """The faster form of a convolution; None if it has another stride, or needs more points than there are."""
        if not isinstance(linear, Convolution) or [*linear.stride, *linear.padding] != [1, 1, 0, 0]:
            return None
        small, sides = linear.outputs, {linear.outputs[1:], linear.weight.shape[2:]}
        if any(height != width for height, width in sides) or linear.inputs[-1] > len(POINTS) + 1:
            return None
        return cls(linear.weight, small, linear.inputs)

    def up(self, images: Tensor, bias: Tensor | None = None) -> Tensor:
        assert bias is None
        return self._through(images, self.result_adjoint, self.adjoint, self.image_adjoint, self.outputs)

    def down(self, images: Tensor) -> Tensor:
        return self._through(images, self.image, self.weight, self.result, self.inputs)

    def _through(self, images: Tensor, to_points: Tensor, weight: Tensor, back: Tensor, shape: Shape) -> Tensor:
        """The pixels are mapped to values at the points, these are multiplied, and mapped back."""
        rows, channels = images.shape[:2]
        pixels = images.permute(2, 3, 0, 1).reshape(-1, rows * channels)
        values = (to_points @ pixels).view(-1, rows, channels)
        multiplied = torch.stack([kernels.product(*pair) for pair in zip(values, weight, strict=True)])
        pixels = (back @ multiplied.flatten(1)).view(*shape[1:], rows, shape[0])
        return pixels.permute(2, 3, 0, 1).contiguous(memory_format=torch.channels_last)


def product_scheme(side: int, kernel: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Matrices (p, side), (p, kernel) and (p, p), p = side + kernel - 1, for one dimension.

    convolution(image, taps) = result @ ((at_points @ image) * (taps_at_points @ taps)): image and taps are polynomials,
    and their product follows from its values at as many points as it has coefficients.
    """
    count = side + kernel - 1

    def values(coefficients: int) -> np.ndarray:
        """(count, coefficients): maps a polynomial's coefficients to its values at `count` points."""
        at_infinity = np.eye(coefficients)[-1:]  # the last point: the leading coefficient
        return np.concatenate([np.vander(np.array(POINTS[: count - 1]), coefficients, increasing=True), at_infinity])

    return values(side), values(kernel), np.linalg.inv(values(count))
