"""The passes written out by hand are those of automatic differentiation, up to rounding."""

import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from deduce.fold import fold
from deduce.kernels import Affine, Dense, FewChannels, Network, Residual, lower
from deduce.models.autoencoder import Autoencoder
from deduce.models.resnet import PlainResNet, SpectralResNet
from deduce.models.vae import VAE
from deduce.search import frozen_beside


def passes(function, images):
    """The output and the gradient of a sum with different weights for all numbers of the output."""
    variable = images.clone().requires_grad_()
    output = function(variable)
    weights = torch.linspace(-1, 1, output.numel()).to(output).view_as(output)
    (gradient,) = torch.autograd.grad((output * weights).sum(), variable)
    return output.detach(), gradient


def assert_equal_up_to_rounding(function: Network, images):
    assert function.layers(tuple(images.shape[1:])) is not None  # else the comparison would be of the same thing
    for ours, automatic in zip(passes(function, images), passes(function.plain, images), strict=True):
        assert automatic.abs().max() > 0
        torch.testing.assert_close(ours, automatic, rtol=0, atol=5e-6 * float(automatic.abs().max()))


def linear_maps(layers):
    for layer in layers:
        inner = (*layer.main, layer.last, *layer.shortcut) if isinstance(layer, Residual) else (layer,)
        yield from (type(affine.linear) for affine in inner if isinstance(affine, Affine))


@pytest.mark.parametrize("width", [4, 8, 16, 64])
@pytest.mark.parametrize("shape", [(1, 28, 28), (1, 12, 12), (3, 32, 32)], ids=str)
@pytest.mark.parametrize("network", ["plain", "ddu"])
def test_classifiers(width, shape, network):
    torch.manual_seed(0)
    channels, size, _ = shape
    original = PlainResNet(width, channels, 10) if network == "plain" else SpectralResNet(width, channels, 10, size)
    with torch.no_grad():
        for layer in original.modules():  # as if trained: statistics that are not those of the start
            if isinstance(layer, nn.BatchNorm2d):
                layer.running_mean.uniform_(-0.2, 0.2)
                layer.running_var.uniform_(0.5, 2)
    folded, images = fold(original.eval(), shape), torch.rand(5, *shape)
    assert_equal_up_to_rounding(folded.features, images)
    ours, unfolded = passes(folded, images), passes(original, images)
    for first, second in zip(ours, unfolded, strict=True):
        torch.testing.assert_close(first, second, rtol=0, atol=2e-5 * float(second.abs().max()))
    maps = list(linear_maps(folded.features.layers(shape)))
    if size == 28:
        assert maps.count(Dense) == {"plain": 7, "ddu": 0}[network]  # from 2 × 2 pixels on, of which ddu keeps 4 × 4
    assert (maps[0] is FewChannels) == (width >= 16)


@pytest.mark.parametrize("size, channels", [(28, 1), (12, 1), (32, 3)])
def test_generative_models(size, channels):
    torch.manual_seed(0)
    classifier, rows = PlainResNet(4, channels, 10), 5
    vae = frozen_beside(VAE(10, channels, size), classifier)
    assert_equal_up_to_rounding(vae.decode, torch.randn(rows, 10))
    for width in (4, 16):
        autoencoder = frozen_beside(Autoencoder(channels, width), classifier)
        assert_equal_up_to_rounding(autoencoder.encode, torch.rand(rows, channels, size, size))
        assert_equal_up_to_rounding(autoencoder.decode, torch.rand(rows, 1, size // 2, size // 2))
        assert frozen_beside(autoencoder, classifier) is autoencoder


LAYERS = {
    "oblong kernels, strides that leave pixels out": [nn.Conv2d(20, 3, (3, 5), (2, 3), (1, 2)), nn.ReLU()],
    "few channels become many": [nn.Conv2d(20, 2, 3, padding=2), nn.LeakyReLU(0.3), nn.Conv2d(2, 17, 5, 2)],
    "tiny images": [nn.Conv2d(20, 4, 11, padding=(0, 1)), nn.Conv2d(4, 6, 3, 2, 1), nn.ReLU(), nn.Conv2d(6, 2, 1)],
    "pooling before and after activations": [nn.LeakyReLU(0.1), nn.MaxPool2d(3, 2, 1), nn.ReLU(), nn.MaxPool2d(2)],
    "pooling after a convolution": [nn.Conv2d(20, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 2, 2)],
    "transposed convolutions": [
        nn.ConvTranspose2d(20, 18, 4, 3, 1, output_padding=1),
        nn.ReLU(),
        nn.ZeroPad2d((1, -2, 0, 3)),
        nn.ConvTranspose2d(18, 2, 3, bias=False),
        nn.Sigmoid(),
    ],
    "means and products": [
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(500, 12),
        nn.ReLU(),
        nn.Unflatten(1, (3, 2, 2)),
        nn.AdaptiveAvgPool2d(1),
    ],
    "enlarged": [nn.Upsample(scale_factor=3), nn.Conv2d(20, 1, 1)],
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    torch.manual_seed(0)
    modules = nn.Sequential(*LAYERS[name]).requires_grad_(False)
    function = Network(modules, [modules])
    images = torch.randn(4, 20, 11, 10)
    assert_equal_up_to_rounding(function, images)
    assert_equal_up_to_rounding(function, images.permute(0, 1, 3, 2).contiguous().permute(0, 1, 3, 2))
    assert [layer.outputs for layer in lower((20, 11, 10), modules)][-1] == tuple(modules(images).shape[1:])
    assert torch.equal(function(images), function(images))


def test_nothing_is_written_that_a_caller_still_needs():
    torch.manual_seed(0)
    folded = fold(PlainResNet(16, 1, 10).eval(), (1, 28, 28))
    images = torch.rand(3, 1, 28, 28, requires_grad=True)
    features, before = folded.features(images), images.detach().clone()
    given = torch.rand_like(features)
    first, kept = torch.autograd.grad(features, images, given, retain_graph=True)[0], given.clone()
    (second,) = torch.autograd.grad(features, images, given)
    assert torch.equal(first, second) and torch.equal(images, before) and torch.equal(given, kept)


def test_what_has_no_layer_runs_as_it_is():
    strange = nn.Sequential(nn.Conv2d(1, 3, 3, dilation=2), nn.Tanh()).requires_grad_(False)
    function, images = Network(strange, [strange]), torch.rand(2, 1, 9, 9)
    assert function.layers((1, 9, 9)) is None and torch.equal(function(images), strange(images))
    folded = fold(PlainResNet(4, 1, 10).eval(), (1, 28, 28))
    assert folded.double().features(torch.rand(2, 1, 28, 28).double()).dtype == torch.float64


@pytest.mark.parametrize("kernel, stride, padding", [(3, 1, 1), (7, 2, 3), (3, 2, 1), (2, 1, 0)])
def test_useful_operations_are_those_that_meet_pixels(kernel, stride, padding, monkeypatch):
    """By brute force: how many taps of ones meet ones, over all pixels of the output."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "benchmarks"))
    import steps

    images, taps = torch.ones(2, 3, 4, 4), torch.ones(1, 1, kernel, kernel)
    meetings = int(F.conv2d(images[:1, :1], taps, None, stride, padding).sum())
    down = nn.Conv2d(3, 5, kernel, stride, padding)
    assert steps.useful_operations([down], lambda: down(images)) == 4 * 2 * 3 * 5 * meetings
    up = nn.ConvTranspose2d(5, 3, kernel, stride, padding)
    small = down(images)
    if up(small).shape == images.shape:  # where no line is left out, it is the same operation backwards
        assert steps.useful_operations([up], lambda: up(small)) == 4 * 2 * 3 * 5 * meetings
    sys.modules.pop("steps")
