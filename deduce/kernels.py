"""The passes of a folded network, forwards and backwards, written out by hand for the CPU.

A search runs the same networks thousands of times, and needs the gradient in the image only. Three things make such a
pass faster than automatic differentiation, up to twice as fast (docs/speed.md has the figures):

- on an image with no more pixels than the kernel has taps, a convolution is a dense product: most taps of the kernel
  would only meet padding;
- the backward pass of a layer whose images have few channels is a matrix product whose columns are added up, because
  such images do not fill the processor's registers;
- activations and sums are written over arrays that nothing else needs, which stay in the cache.

`Network` makes a function from the modules that a network names as its `chains`. All choices are rules of shapes, and
none depends on a clock: equal calls give equal bits.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from deduce.compute import keep_freed_memory

Shape = tuple[int, ...]  # of an image without its row: (channels, height, width), or (dimension,)
VECTOR = 16  # numbers in a register: with fewer channels than this, a convolution cannot fill it
ONEDNN_FROM = 2**20  # multiplications


class Unsupported(Exception):
    """A module has no layer here."""


class Layer(ABC):
    """A step of a network. Images are (n, *shape), in memory as (row, height, width, channel)."""

    outputs: Shape

    @abstractmethod
    def forward(self, images: Tensor, tape: list[Tensor]) -> Tensor:
        """What the backward pass needs is appended to the tape; the images are not changed."""

    @abstractmethod
    def backward(self, gradient: Tensor, tape: list[Tensor]) -> Tensor:
        """From the gradient in the output, which may be overwritten, to that in the images; pops from the tape."""


class Network:
    """A function of images (n, *shape) that can be differentiated; `plain` is the module's own function.

    Images that are not float32 on the CPU go to `plain`. Layers are made for each shape of image when it first comes.
    """

    def __init__(self, plain: Callable[[Tensor], Tensor], modules: Sequence[nn.Module]) -> None:
        self.plain, self.modules = plain, modules
        self._layers: dict[Shape, list[Layer] | None] = {}

    def __call__(self, images: Tensor) -> Tensor:
        layers = self.layers(tuple(images.shape[1:])) if available(images) and len(images) else None
        return self.plain(images) if layers is None else cast(Tensor, Passes.apply(images, layers))

    def layers(self, shape: Shape) -> list[Layer] | None:
        """None if some module is `Unsupported`."""
        if shape not in self._layers:
            try:
                self._layers[shape] = lower(shape, *self.modules)
            except Unsupported:
                self._layers[shape] = None
        return self._layers[shape]


def accelerate(network: nn.Module) -> None:
    """Replaces, in place, the functions of a folded network for which it names a chain of modules."""
    keep_freed_memory()
    for name, modules in getattr(network, "chains", dict)().items():
        network.__dict__[name] = Network(getattr(network, name), modules)


class Passes(torch.autograd.Function):
    """Both passes through a list of layers."""

    @staticmethod
    def forward(context: Any, images: Tensor, layers: list[Layer]) -> Tensor:
        tape: list[Tensor] = []
        context.layers, context.tape = layers, tape
        return forward(layers, images, tape)

    @staticmethod
    @once_differentiable
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        tape = list(context.tape)  # a copy, so that the graph can be retained
        return backward(context.layers, gradients[0].clone(), tape), None


def forward(layers: Sequence[Layer], images: Tensor, tape: list[Tensor]) -> Tensor:
    images = _in_order(images)
    for layer in layers:
        images = layer.forward(images, tape)
    return images


def backward(layers: Sequence[Layer], gradient: Tensor, tape: list[Tensor]) -> Tensor:
    """From the gradient in what `forward` gave, which may be overwritten, to that in the images."""
    gradient = _in_order(gradient)
    for layer in reversed(layers):
        gradient = layer.backward(gradient, tape)
    return gradient


def available(images: Tensor) -> bool:
    """Whether layers can work on these images here: the operations are those of oneDNN."""
    on_cpu = images.device.type == "cpu" and images.dtype == torch.float32
    return on_cpu and torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def product(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    """left (n, k) @ right (m, k)ᵀ, plus the bias (m,).

    By oneDNN, whose products use a processor's widest instructions whoever made it; MKL's do not. It takes longer to
    start, so that small products are left to torch.
    """
    if len(left) * right.numel() < ONEDNN_FROM or not available(left):
        return F.linear(left, right, bias)
    return torch.ops.mkldnn._linear_pointwise.default(left, right, bias, "none", [], "")


def _activated(images: Tensor, slope: float | None) -> Tensor:
    if slope is None:
        return images
    return F.leaky_relu_(images, slope) if slope else images.relu_()


def _deactivated(gradient: Tensor, activated: Tensor, slope: float) -> Tensor:
    """The gradient before an activation from that after it, in place."""
    if slope:
        return torch.ops.aten.leaky_relu_backward.grad_input(gradient, activated, slope, True, grad_input=gradient)
    return torch.ops.aten.threshold_backward.grad_input(gradient, activated, 0, grad_input=gradient)


class Linear(ABC):
    """A linear map between images and its adjoint: `up` is the direction of a convolution."""

    inputs: Shape
    outputs: Shape

    def bias(self, values: Tensor) -> Tensor:
        """A bias (channels,) in the form that `up` adds."""
        return values

    @abstractmethod
    def up(self, images: Tensor, bias: Tensor | None = None) -> Tensor:
        """The image of the map, plus the bias."""

    @abstractmethod
    def down(self, images: Tensor) -> Tensor:
        """The image of the adjoint."""


class Convolution(Linear):
    """One with square or oblong kernels, as oneDNN has it."""

    def __init__(self, weight: Tensor, inputs: Shape, stride: Sequence[int], padding: Sequence[int]) -> None:
        """weight: (channels of the output, channels of the input, height, width)."""
        self.weight = weight.contiguous(memory_format=torch.channels_last)
        self.inputs, self.stride, self.padding = inputs, list(stride), list(padding)
        lines = zip(inputs[1:], weight.shape[2:], stride, padding, strict=True)
        sides = [(size + 2 * pad - kernel) // step + 1 for size, kernel, step, pad in lines]
        self.outputs = (len(weight), *sides)
        spans = zip(sides, weight.shape[2:], stride, padding, strict=True)
        covered = [(side - 1) * step - 2 * pad + kernel for side, kernel, step, pad in spans]
        self.uncovered = [size - cover for size, cover in zip(inputs[1:], covered, strict=True)]

    def up(self, images: Tensor, bias: Tensor | None = None) -> Tensor:
        return F.conv2d(images, self.weight, bias, self.stride, self.padding)

    def down(self, images: Tensor) -> Tensor:
        return F.conv_transpose2d(images, self.weight, None, self.stride, self.padding, self.uncovered)


class FewChannels(Convolution):
    """A convolution of images with few channels: its adjoint is a matrix product whose columns are added up."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.columns = self.weight.flatten(1).T.contiguous()  # (channels · height · width, channels of the output)

    def down(self, images: Tensor) -> Tensor:
        n, kernel = len(images), self.weight.shape[2:]
        columns = product(self.columns, images.permute(0, 2, 3, 1).flatten(0, 2))
        columns = columns.view(len(columns), n, -1).transpose(0, 1)
        return F.fold(columns, self.inputs[1:], kernel, padding=tuple(self.padding), stride=tuple(self.stride))


class Dense(Linear):
    """A convolution of a tiny image as a matrix product, or any other linear map."""

    def __init__(self, matrix: Tensor, inputs: Shape, outputs: Shape) -> None:
        """matrix: (numbers of an output, numbers of an input), each in the order of memory."""
        self.matrix, self.adjoint = matrix.contiguous(), matrix.T.contiguous()
        self.inputs, self.outputs = inputs, outputs

    def bias(self, values: Tensor) -> Tensor:
        return values.repeat(len(self.matrix) // len(values))

    @classmethod
    def of(cls, convolution: "Convolution") -> "Dense":
        """What the convolution makes of every image that has a single pixel."""
        size = torch.Size(convolution.inputs).numel()
        pixels = unflattened(torch.eye(size).to(convolution.weight), convolution.inputs)
        columns = [flattened(convolution.up(block)) for block in pixels.split(100)]
        return cls(torch.cat(columns).T, convolution.inputs, convolution.outputs)

    def up(self, images: Tensor, bias: Tensor | None = None) -> Tensor:
        return unflattened(product(flattened(images), self.matrix, bias), self.outputs)

    def down(self, images: Tensor) -> Tensor:
        return unflattened(product(flattened(images), self.adjoint), self.inputs)


def flattened(images: Tensor) -> Tensor:
    """(n, numbers of an image), a view in the order of memory."""
    return images.permute(0, 2, 3, 1).flatten(1) if images.ndim == 4 else images


def _in_order(images: Tensor) -> Tensor:
    return images.contiguous(memory_format=torch.channels_last if images.ndim == 4 else torch.contiguous_format)


def unflattened(rows: Tensor, shape: Shape) -> Tensor:
    if len(shape) == 1:
        return rows
    channels, height, width = shape
    return rows.view(-1, height, width, channels).permute(0, 3, 1, 2)


def convolution_of(weight: Tensor, inputs: Shape, stride: Sequence[int], padding: Sequence[int]) -> Linear:
    """The fastest form of a convolution of images of a shape. It follows from the shapes, whatever the width."""
    channels, *sides = inputs
    taps = weight.shape[2:].numel()
    if channels < VECTOR <= len(weight):
        return FewChannels(weight, inputs, stride, padding)
    convolution = Convolution(weight, inputs, stride, padding)
    return Dense.of(convolution) if torch.Size(sides).numel() <= taps else convolution


class Affine(Layer):
    """A linear map or its adjoint, a bias, what a shortcut adds, and an activation."""

    def __init__(self, linear: Linear, bias: Tensor | None, adjoint: bool = False) -> None:
        self.linear, self.adjoint = linear, adjoint
        self.bias = bias if adjoint or bias is None else linear.bias(bias)
        self.slope: float | None = None  # of the activation for negative numbers
        self.outputs = linear.inputs if adjoint else linear.outputs

    def forward(self, images: Tensor, tape: list[Tensor], shortcut: Tensor | None = None) -> Tensor:
        if not self.adjoint:
            out = self.linear.up(images, self.bias)
        else:
            out = self.linear.down(images)
            if self.bias is not None:
                out.add_(self.bias[:, None, None])
        if shortcut is not None:
            out.add_(shortcut)
        if self.slope is not None:
            tape.append(_activated(out, self.slope))
        return out

    def before_activation(self, gradient: Tensor, tape: list[Tensor]) -> Tensor:
        return gradient if self.slope is None else _deactivated(gradient, tape.pop(), self.slope)

    def before(self, gradient: Tensor) -> Tensor:
        """From the gradient before the activation to that in the images."""
        return self.linear.up(gradient) if self.adjoint else self.linear.down(gradient)

    def backward(self, gradient: Tensor, tape: list[Tensor]) -> Tensor:
        return self.before(self.before_activation(gradient, tape))


class Residual(Layer):
    """Layers whose result, before the last activation, a shortcut is added to."""

    def __init__(self, main: Sequence[Layer], shortcut: Sequence[Layer]) -> None:
        *self.main, last = main
        if not isinstance(last, Affine) or last.adjoint:
            raise Unsupported("a shortcut is added to what a convolution gives")
        self.last, self.shortcut, self.outputs = last, shortcut, last.outputs

    def forward(self, images: Tensor, tape: list[Tensor]) -> Tensor:
        shortcut = images
        for layer in self.shortcut:
            shortcut = layer.forward(shortcut, tape)
        for layer in self.main:
            images = layer.forward(images, tape)
        return self.last.forward(images, tape, shortcut)

    def backward(self, gradient: Tensor, tape: list[Tensor]) -> Tensor:
        gradient = self.last.before_activation(gradient, tape)
        by_main = self.last.before(gradient)
        for layer in reversed(self.main):
            by_main = layer.backward(by_main, tape)
        for layer in reversed(self.shortcut):
            gradient = layer.backward(gradient, tape)
        return by_main.add_(gradient)


class EveryOther(Layer):
    """Each `stride`-th pixel, or the mean of each window of `stride` × `stride`; then `new` channels of zeros."""

    def __init__(self, inputs: Shape, stride: int, window: int, new: int = 0) -> None:
        self.channels, *sides = inputs
        self.stride, self.window, self.new, self.inputs = stride, window, new, inputs
        self.outputs = (self.channels + new, *(-(-side // stride) for side in sides))

    def forward(self, images: Tensor, tape: list[Tensor]) -> Tensor:
        if self.window > 1:
            images = F.avg_pool2d(images, self.window)
        elif self.stride > 1:
            images = images[:, :, :: self.stride, :: self.stride]
        out = torch.empty((len(images), *self.outputs), memory_format=torch.channels_last)
        out[:, self.channels :] = 0
        out[:, : self.channels] = images
        return out

    def backward(self, gradient: Tensor, tape: list[Tensor]) -> Tensor:
        gradient = gradient[:, : self.channels]
        if self.window > 1:
            return F.interpolate(gradient / self.window**2, scale_factor=self.window)
        out = gradient.new_zeros((len(gradient), *self.inputs)).contiguous(memory_format=torch.channels_last)
        out[:, :, :: self.stride, :: self.stride] = gradient
        return out


class MaxPool(Layer):
    def __init__(self, inputs: Shape, kernel: int, stride: int, padding: int) -> None:
        self.geometry = [kernel] * 2, [stride] * 2, [padding] * 2
        channels, *sides = inputs
        self.outputs = (channels, *((side + 2 * padding - kernel) // stride + 1 for side in sides))

    def forward(self, images: Tensor, tape: list[Tensor]) -> Tensor:
        out, places = torch.ops.aten.max_pool2d_with_indices(images, *self.geometry)
        tape.extend((images, places))
        return out

    def backward(self, gradient: Tensor, tape: list[Tensor]) -> Tensor:
        places, images = tape.pop(), tape.pop()
        backward = torch.ops.aten.max_pool2d_with_indices_backward
        return backward(gradient, images, *self.geometry, [1, 1], False, places)


class Activation(Layer):
    """One that follows no linear map."""

    def __init__(self, inputs: Shape, slope: float) -> None:
        self.outputs, self.slope = inputs, slope

    def forward(self, images: Tensor, tape: list[Tensor]) -> Tensor:
        tape.append(_activated(images.clone(), self.slope))
        return tape[-1]

    def backward(self, gradient: Tensor, tape: list[Tensor]) -> Tensor:
        return _deactivated(gradient, tape.pop(), self.slope)


class Sigmoid(Layer):
    def __init__(self, inputs: Shape) -> None:
        self.outputs = inputs

    def forward(self, images: Tensor, tape: list[Tensor]) -> Tensor:
        tape.append(images.sigmoid())
        return tape[-1]

    def backward(self, gradient: Tensor, tape: list[Tensor]) -> Tensor:
        return torch.ops.aten.sigmoid_backward(gradient, tape.pop())


class Pad(Layer):
    """Lines of zeros around an image; lines are cut off where their number is negative."""

    def __init__(self, inputs: Shape, left: int, right: int, top: int, bottom: int) -> None:
        channels, height, width = inputs
        self.padding, self.outputs = (left, right, top, bottom), (channels, height + top + bottom, width + left + right)

    def forward(self, images: Tensor, tape: list[Tensor]) -> Tensor:
        return F.pad(images, self.padding)

    def backward(self, gradient: Tensor, tape: list[Tensor]) -> Tensor:
        return F.pad(gradient, [-lines for lines in self.padding])


class Enlarge(Layer):
    """Each pixel becomes a window of equal pixels."""

    def __init__(self, inputs: Shape, window: int) -> None:
        channels, height, width = inputs
        self.window, self.outputs = window, (channels, height * window, width * window)

    def forward(self, images: Tensor, tape: list[Tensor]) -> Tensor:
        return F.interpolate(images, scale_factor=self.window)

    def backward(self, gradient: Tensor, tape: list[Tensor]) -> Tensor:
        return F.avg_pool2d(gradient, self.window, divisor_override=1)


class Mean(Layer):
    """The mean of the pixels: one pixel per channel."""

    def __init__(self, inputs: Shape) -> None:
        self.inputs, self.outputs = inputs, (inputs[0], 1, 1)

    def forward(self, images: Tensor, tape: list[Tensor]) -> Tensor:
        return images.mean((2, 3), keepdim=True)

    def backward(self, gradient: Tensor, tape: list[Tensor]) -> Tensor:
        _, height, width = self.inputs
        shares = (gradient / (height * width)).expand(-1, -1, height, width)
        return shares.contiguous(memory_format=torch.channels_last)


class Reshape(Layer):
    """Between images and vectors, whose order has the channel outermost."""

    def __init__(self, inputs: Shape, outputs: Shape) -> None:
        self.inputs, self.outputs = inputs, outputs

    def forward(self, images: Tensor, tape: list[Tensor]) -> Tensor:
        return _in_order(images.reshape(-1, *self.outputs))

    def backward(self, gradient: Tensor, tape: list[Tensor]) -> Tensor:
        return _in_order(gradient.reshape(-1, *self.inputs))


def lower(shape: Shape, *modules: nn.Module) -> list[Layer]:
    """The layers of folded modules, one after the other, for images of a shape; or `Unsupported`."""
    layers: list[Layer] = []
    for module in modules:
        if isinstance(module, nn.Sequential):
            layers += lower(shape, *module)
        elif hasattr(module, "lower"):
            layers += module.lower(shape)  # type: ignore[operator]
        elif isinstance(module, nn.ReLU | nn.LeakyReLU):
            slope = float(getattr(module, "negative_slope", 0))
            if layers and isinstance(last := layers[-1], Affine) and last.slope is None:
                last.slope = slope
            else:
                layers.append(Activation(shape, slope))
        elif isinstance(module, nn.MaxPool2d) and layers and isinstance(last := layers[-1], Affine) and last.slope == 0:
            last.slope = None  # ReLU and maximum commute, and fewer pixels are left after the pooling
            layers.append(_layer(shape, module))
            layers.append(Activation(layers[-1].outputs, 0))
        elif not isinstance(module, nn.Identity):
            layers.append(_layer(shape, module))
        shape = layers[-1].outputs if layers else shape
    return layers


def _layer(shape: Shape, module: nn.Module) -> Layer:
    settings: Any = module  # Any: torch types a side as one number or two
    match module:
        case nn.Conv2d() | nn.ConvTranspose2d() if _is_plain(module):
            return _affine(shape, module)
        case nn.Linear():
            return Affine(Dense(module.weight, shape, (module.out_features,)), module.bias)
        case nn.MaxPool2d(ceil_mode=False, dilation=1):
            return MaxPool(shape, settings.kernel_size, settings.stride, settings.padding)
        case nn.AdaptiveAvgPool2d(output_size=1):
            return Mean(shape)
        case nn.Sigmoid():
            return Sigmoid(shape)
        case nn.ZeroPad2d():
            return Pad(shape, *module.padding)
        case nn.Upsample(mode="nearest", size=None):
            return Enlarge(shape, int(settings.scale_factor))
        case nn.Unflatten(dim=1):
            return Reshape(shape, tuple(module.unflattened_size))
        case nn.Flatten(start_dim=1, end_dim=-1):
            return Reshape(shape, (torch.Size(shape).numel(),))
    raise Unsupported(type(module).__name__)


def _is_plain(module: Any) -> bool:
    zeros = module.padding_mode == "zeros" and not isinstance(module.padding, str)
    return zeros and module.groups == 1 and module.dilation == (1, 1)


def _affine(shape: Shape, module: Any) -> Affine:
    geometry: Any = module.stride, module.padding
    if isinstance(module, nn.Conv2d):
        kernel: Any = module.kernel_size
        padding = [taps - 1 - pad for taps, pad in zip(kernel, geometry[1], strict=True)]
        if module.out_channels < VECTOR <= module.in_channels and module.stride == (1, 1) and min(padding) >= 0:
            # It is the adjoint of a convolution whose images have few channels.
            outputs = [side + taps - 1 - 2 * pad for side, taps, pad in zip(shape[1:], kernel, padding, strict=True)]
            weight = module.weight.flip(2, 3).transpose(0, 1)
            return Affine(FewChannels(weight, (module.out_channels, *outputs), (1, 1), padding), module.bias, True)
        return Affine(convolution_of(module.weight, shape, *geometry), module.bias)
    sides: list[Any] = [*shape[1:]]
    for axis, taps in enumerate(module.kernel_size):
        enlarged = (sides[axis] - 1) * module.stride[axis] + taps + module.output_padding[axis]
        sides[axis] = enlarged - 2 * module.padding[axis]
    return Affine(convolution_of(module.weight, (module.out_channels, *sides), *geometry), module.bias, adjoint=True)
