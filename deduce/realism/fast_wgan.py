"""The loss of equation 7 and its gradient in the latent space, written out by hand for the registered WGAN on the CPU.

A descent evaluates the same small networks thousands of times. Three things make a step more than four times as
fast as that of a textbook (benchmarks/realism.py measures it; `anogan.AutodiffGAN` is the readable equivalent):

- batch-norm and spectral normalisation are folded into the weights once, and no gradient of a weight is computed;
- a transposed convolution is a product of polynomials, computed from their values at a few points (the algorithm of
  Toom and Cook, as in Winograd's convolutions): a third of the multiplications, all of them in matrix products;
- images lie in memory as (height, width, row, channel), and whole rows of numbers move between layers, in buffers and
  views that are allocated once.

The number of rows is fixed, because a row's result must not depend on how many other rows there are.
"""

import itertools
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from deduce.fold import device_of
from deduce.models.wgan import SLOPE, WGAN, Critic

POINTS = (0.0, 1.0, -1.0, 2.0, -2.0)  # and infinity; more than these six would cost digits


class FastWGAN:
    """Evaluates `rows` latent vectors at a time; the arrays that it returns are overwritten by the next call."""

    def __init__(self, wgan: WGAN, rows: int, feature_weight: float, dtype: torch.dtype = torch.float32):
        layers: list[Any] = list(wgan.generator.layers)[1:]  # the first only reshapes the latent vector
        self.feature_weight = feature_weight
        self.upwards, side = [], 1
        for convolution, normalisation in zip(layers[0:9:3], layers[1:9:3], strict=True):
            self.upwards.append(Upwards(convolution, normalisation, side, rows, dtype))
            side = self.upwards[-1].outputs
        self.pixels = Pixels(layers[9], side, rows, dtype)
        self.critic = CriticFeatures(wgan.critic, self.pixels.shape, dtype)
        self._start = torch.empty(1, 1, rows, wgan.generator.latent, dtype=dtype)
        self._difference = torch.empty(self.pixels.shape, dtype=dtype)

    @staticmethod
    def supports(gan: nn.Module) -> bool:
        """Whether the gan has the architecture that is written out here, and is on the CPU."""
        return isinstance(gan, WGAN) and device_of(gan).type == "cpu"

    def prepare(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """images: (rows, channels, 28, 28) → the images in this module's layout, and their features f_D."""
        transposed = images.to(self._difference).permute(2, 3, 1, 0).contiguous()
        return transposed, self.critic.forward(transposed).clone()

    def generate(self, latent: Tensor) -> Tensor:
        """latent: (rows, latent) → images (28, 28, channels, rows) in [0, 1]."""
        state = self._start.copy_(latent[None, None])
        for layer in self.upwards:
            state = layer.forward(state)
        return self.pixels.forward(state)

    def loss(self, latent: Tensor, images: Tensor, features: Tensor) -> Tensor:
        """Equation 7, per row: (rows,)."""
        generated = self.generate(latent)
        by_pixel, by_feature = generated - images, self.critic.forward(generated) - features
        # Each row is made contiguous before it is added up, because the sum must not depend on the row's position.
        pixels = by_pixel.permute(3, 0, 1, 2).flatten(1).contiguous().abs().sum(1)
        return pixels + self.feature_weight * by_feature.permute(2, 0, 1, 3).flatten(1).contiguous().abs().sum(1)

    def gradient(self, latent: Tensor, images: Tensor, features: Tensor) -> Tensor:
        """The gradient of equation 7 in the latent vectors: (rows, latent)."""
        generated = self.generate(latent)
        by_feature = torch.sub(self.critic.forward(generated), features).sign_().mul_(self.feature_weight)
        state = torch.sub(generated, images, out=self._difference).sign_().add_(self.critic.backward(by_feature))
        state = self.pixels.backward(state)
        for layer in reversed(self.upwards):
            state = layer.backward(state)
        return state[0, 0]


class Upwards:
    """Transposed convolution, batch-norm and ReLU: (side, side, rows, inputs) → (outputs, outputs, rows, channels)."""

    def __init__(self, convolution: nn.ConvTranspose2d, normalisation: nn.Module, side: int, rows: int, dtype: Any):
        scale, shift = _affine(normalisation)
        kernel, stride = convolution.weight.detach().double() * scale[:, None, None], convolution.stride[0]
        self.linear: Spread | Products | Taps
        if side == 1:
            self.linear = Spread(kernel, rows, dtype)
        elif stride == 1 and side + kernel.shape[-1] - 2 <= len(POINTS):
            self.linear = Products(kernel, side, rows, dtype)
        else:
            self.linear = Taps(kernel, side, stride, rows, dtype)
        self.bias = shift.to(dtype)  # the convolution has none
        self.outputs = self.linear.outputs

    def forward(self, state: Tensor) -> Tensor:
        self.state = self.linear.up(state).add_(self.bias).clamp_(min=0)
        return self.state

    def backward(self, gradient: Tensor) -> Tensor:
        """From the gradient in the output of the last `forward`, which is overwritten, to that in its input."""
        torch.ops.aten.threshold_backward.grad_input(gradient, self.state, 0, grad_input=gradient)
        return self.linear.down(gradient)


class Spread:
    """A transposed convolution of a single pixel (`up`) and its adjoint (`down`): one matrix per output pixel."""

    def __init__(self, kernel: Tensor, rows: int, dtype: torch.dtype):
        """kernel: (inputs, outputs, k, k)."""
        inputs, channels, self.outputs, _ = kernel.shape
        self.weight = kernel.permute(2, 3, 0, 1).flatten(0, 1).to(dtype).contiguous()  # (k · k, inputs, outputs)
        self.adjoint = self.weight.transpose(1, 2).contiguous()
        self._large = self.weight.new_empty(self.outputs, self.outputs, rows, channels)
        self._parts = self.weight.new_empty(len(self.weight), rows, inputs)
        self._small = self.weight.new_empty(1, 1, rows, inputs)

    def up(self, state: Tensor) -> Tensor:
        torch.bmm(state[0].expand(len(self.weight), -1, -1), self.weight, out=self._large.flatten(0, 1))
        return self._large

    def down(self, state: Tensor) -> Tensor:
        torch.bmm(state.flatten(0, 1), self.adjoint, out=self._parts)
        torch.sum(self._parts, 0, out=self._small[0, 0])
        return self._small


class Taps:
    """A transposed convolution (`up`) and its adjoint, a convolution (`down`), as matrix products.

    Along the height, products with the kernel's rows are accumulated in place; along the width, slices are added.
    """

    def __init__(self, kernel: Tensor, side: int, stride: int, rows: int, dtype: torch.dtype):
        """kernel: (inputs, outputs, k, k), from the view of `up`; side: of the smaller image."""
        inputs, channels, self.kernel, _ = kernel.shape
        self.side, self.stride = side, stride
        self.outputs = (side - 1) * stride + self.kernel
        self.weight = kernel.permute(2, 0, 3, 1).flatten(2).to(dtype).contiguous()  # (k, inputs, k · channels)
        self.adjoint = self.weight.transpose(1, 2).contiguous()
        self._columns = self.weight.new_empty(self.outputs, side, rows, self.kernel, channels)
        self._large = self.weight.new_empty(self.outputs, self.outputs, rows, channels)
        self._small = self.weight.new_empty(side, side, rows, inputs)
        # Views are created once, because creating one takes as long as using it.
        columns = self._columns.flatten(3).flatten(1, 2)
        self._lines = [columns[self._slice(tap)] for tap in range(self.kernel)]
        self._parts = [self._columns[:, :, :, tap] for tap in range(self.kernel)]
        self._places = [self._large[:, self._slice(tap)] for tap in range(self.kernel)]
        self._untouched = columns[stride * side :], self._large[:, stride * side :]  # by the first `stride` taps
        self._weights = [weight.expand(side, -1, -1) for weight in self.weight]
        self._adjoints = [adjoint.expand(side, -1, -1) for adjoint in self.adjoint]

    def _slice(self, tap: int) -> slice:
        """The lines (or columns) of the larger image under a tap of the kernel."""
        return slice(tap, tap + (self.side - 1) * self.stride + 1, self.stride)

    def up(self, state: Tensor) -> Tensor:
        state = state.flatten(1, 2)
        for untouched in self._untouched:
            untouched.zero_()
        for tap, (lines, weight) in enumerate(zip(self._lines, self._weights, strict=True)):
            lines.baddbmm_(state, weight, beta=int(tap >= self.stride))  # the first `stride` taps meet each line once
        for tap, (place, part) in enumerate(zip(self._places, self._parts, strict=True)):
            place.add_(part) if tap >= self.stride else place.copy_(part)
        return self._large

    def down(self, state: Tensor) -> Tensor:
        for tap, part in enumerate(self._parts):
            part.copy_(state[:, self._slice(tap)])
        small = self._small.flatten(1, 2)
        for tap, (lines, weight) in enumerate(zip(self._lines, self._adjoints, strict=True)):
            small.baddbmm_(lines, weight, beta=int(tap > 0))
        return self._small


class Products:
    """A transposed convolution of stride 1 (`up`) and its adjoint (`down`), as products of polynomials at points."""

    def __init__(self, kernel: Tensor, side: int, rows: int, dtype: torch.dtype):
        """kernel: (inputs, outputs, k, k)."""
        image, taps, result = product_scheme(side, kernel.shape[-1])
        at_points = torch.as_tensor(taps).to(kernel)
        weight = torch.einsum("pk,ql,iokl->pqio", at_points, at_points, kernel).flatten(0, 1)
        self.weight = weight.to(dtype).contiguous()
        self.adjoint = self.weight.transpose(1, 2).contiguous()
        for_both_sides = (torch.as_tensor(np.kron(matrix, matrix)) for matrix in (image, result))
        self.image, self.result = (matrix.to(dtype).contiguous() for matrix in for_both_sides)
        self.image_adjoint, self.result_adjoint = self.image.T.contiguous(), self.result.T.contiguous()
        self.outputs = len(result)
        products, inputs, outputs = weight.shape
        self._large, self._products = (self.weight.new_empty(products, rows, outputs) for _ in range(2))
        self._values = self.weight.new_empty(products, rows, inputs)
        self._small = self.weight.new_empty(side, side, rows, inputs)

    def up(self, state: Tensor) -> Tensor:
        torch.mm(self.image, state.flatten(2).flatten(0, 1), out=self._values.flatten(1))
        torch.bmm(self._values, self.weight, out=self._products)
        torch.mm(self.result, self._products.flatten(1), out=self._large.flatten(1))
        return self._large.unflatten(0, (self.outputs, self.outputs))

    def down(self, state: Tensor) -> Tensor:
        torch.mm(self.result_adjoint, state.flatten(2).flatten(0, 1), out=self._products.flatten(1))
        torch.bmm(self._products, self.adjoint, out=self._values)
        torch.mm(self.image_adjoint, self._values.flatten(1), out=self._small.flatten(2).flatten(0, 1))
        return self._small


class Pixels:
    """The generator's last layer, a transposed convolution and a sigmoid: → images (28, 28, channels, rows)."""

    def __init__(self, convolution: Any, side: int, rows: int, dtype: torch.dtype):
        kernel = convolution.weight.detach()  # (inputs, channels, k, k)
        inputs, channels, self.kernel, _ = kernel.shape
        self.side, self.stride = side, convolution.stride[0]
        self.weight = kernel.permute(2, 3, 1, 0).reshape(-1, inputs).to(dtype).contiguous()
        self.bias = convolution.bias.detach().to(dtype)[:, None]
        size = (side - 1) * self.stride + self.kernel
        self.shape = (size, size, channels, rows)
        self._columns = self.weight.new_empty(self.kernel, self.kernel, channels, side, side, rows)
        self._gradient = self.weight.new_empty(side, side, rows, inputs)
        self.images = self.weight.new_empty(self.shape)
        self._places = places(self._columns.permute(0, 1, 3, 4, 2, 5), self.images, self.stride)

    def forward(self, state: Tensor) -> Tensor:
        torch.mm(self.weight, state.flatten(0, 2).T, out=self._columns.view(len(self.weight), -1))
        self.images.copy_(self.bias.expand(self.shape))
        for place, part in self._places:
            place.add_(part)
        return self.images.sigmoid_()

    def backward(self, gradient: Tensor) -> Tensor:
        gradient = torch.ops.aten.sigmoid_backward(gradient, self.images)
        self._columns.copy_(windows(gradient, self.kernel, self.stride, self.side).permute(0, 1, 4, 2, 3, 5))
        torch.mm(self._columns.view(len(self.weight), -1).T, self.weight, out=self._gradient.flatten(0, 2))
        return self._gradient


class CriticFeatures:
    """f_D of equation 7: images (28, 28, channels, rows) → the second convolution's output, (7, 7, rows, channels)."""

    def __init__(self, critic: Critic, shape: tuple[int, int, int, int], dtype: torch.dtype):
        layers: Any = critic  # Any: a parametrized layer's weight has no type
        first, second = layers.convolution1, layers.convolution2
        scale, shift = _affine(critic.normalisation1)
        kernel = first.weight.detach().double() * scale[:, None, None, None]
        size, _, channels, rows = shape
        self.kernel, self.stride, padding = int(first.kernel_size[0]), int(first.stride[0]), int(first.padding[0])
        self.side = (size + 2 * padding - self.kernel) // self.stride + 1
        self.weight = kernel.permute(2, 3, 1, 0).flatten(0, 2).to(dtype).contiguous()  # (k · k · channels, width)
        self.bias = shift.to(self.weight)
        width, new = len(kernel), self.weight.new_zeros
        self._activated = new(self.side, self.side, rows, width)
        # Separate arrays, because `forward` needs borders of zeros and `backward` writes to the borders.
        self._padded = new(size + 2 * padding, size + 2 * padding, channels, rows)
        self._gradient = torch.empty_like(self._padded)
        self._columns = new(self.kernel, self.kernel, channels, self.side, self.side, rows)
        self._places = places(self._columns.permute(0, 1, 3, 4, 2, 5), self._gradient, self.stride)
        side2 = (self.side + 2 * padding - self.kernel) // self.stride + 1
        self.second = Taps(second.weight.detach(), side2, self.stride, rows, dtype)
        self._hidden = new(self.second.outputs, self.second.outputs, rows, width)
        self.inner, self.inner_hidden = slice(padding, padding + size), slice(padding, padding + self.side)

    def forward(self, images: Tensor) -> Tensor:
        self._padded[self.inner, self.inner] = images
        self._columns.copy_(windows(self._padded, self.kernel, self.stride, self.side).permute(0, 1, 4, 2, 3, 5))
        flat = self._activated.flatten(0, 2)
        torch.addmm(self.bias, self._columns.flatten(3).flatten(0, 2).T, self.weight, out=flat)
        hidden = self._hidden[self.inner_hidden, self.inner_hidden]
        torch.ops.aten.leaky_relu.out(self._activated, SLOPE, out=hidden)
        return self.second.down(self._hidden)

    def backward(self, gradient: Tensor) -> Tensor:
        """From the gradient in the output of the last `forward` to that in its images."""
        inner, inside = self.inner_hidden, self._activated
        gradient = self.second.up(gradient)[inner, inner]
        torch.ops.aten.leaky_relu_backward.grad_input(gradient, inside, SLOPE, False, grad_input=inside)
        torch.mm(self.weight, inside.flatten(0, 2).T, out=self._columns.view(len(self.weight), -1))
        self._gradient.zero_()
        for place, part in self._places:
            place.add_(part)
        return self._gradient[self.inner, self.inner]


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


def windows(images: Tensor, kernel: int, stride: int, side: int) -> Tensor:
    """A view (kernel, kernel, side, side, …) of images (height, width, …): the pixel under a tap at each position."""
    down, right, *rest = images.stride()
    shape = kernel, kernel, side, side, *images.shape[2:]
    return images.as_strided(shape, (down, right, stride * down, stride * right, *rest))


def places(columns: Tensor, images: Tensor, stride: int) -> list[tuple[Tensor, Tensor]]:
    """The adjoint of `windows`, per tap: a view of images (height, width, …) and the view of columns to add to it."""
    kernel, _, side, _ = columns.shape[:4]
    slices = [slice(tap, tap + (side - 1) * stride + 1, stride) for tap in range(kernel)]
    taps = itertools.product(range(kernel), repeat=2)
    return [(images[slices[down], slices[right]], columns[down, right]) for down, right in taps]


def _affine(normalisation: Any) -> tuple[Tensor, Tensor]:
    """Scale and shift, (channels,) in double precision, of a batch-norm in evaluation mode."""
    mean, variance = normalisation.running_mean.double(), normalisation.running_var.double()
    scale = normalisation.weight.detach().double() / (variance + normalisation.eps).sqrt()
    return scale, normalisation.bias.detach().double() - mean * scale
