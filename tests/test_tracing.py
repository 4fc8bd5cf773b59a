"""Classifiers that the library does not know: features and head are traced where the last layer is linear."""

import pytest
import torch
from torch import nn

from deduce import JSMA, DeDUCE, Normalised
from deduce.datasets import torchvision
from deduce.errors import InputError
from deduce.fold import fold
from deduce.tracing import Traced, with_features

CLASSES, SIZE = 4, 32


def coloured(n):
    """Images (n, 3, 32, 32) whose class is a colour, and their labels."""
    labels = torch.arange(n) % CLASSES
    images = 0.4 * torch.rand(n, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    images[torch.arange(n), labels % 3] += 0.2 * (1 + (labels == 3))[:, None, None]
    return images, labels


def resnet18():
    return torchvision("models").resnet18(num_classes=CLASSES)


def small():
    first = nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.AvgPool2d(4), nn.Flatten()
    return nn.Sequential(*first, nn.Dropout(), nn.Linear(128, 16), nn.ReLU(), nn.Linear(16, CLASSES), nn.LogSoftmax(1))


def state(network):
    hooks = [layer._forward_pre_hooks or layer._forward_hooks for layer in network.modules()]
    modes = [layer.training for layer in network.modules()]
    gradients = [(parameter.requires_grad, parameter.grad) for parameter in network.parameters()]
    return modes, gradients, [len(some) for some in hooks]


@pytest.mark.parametrize("make, training, iterations", [(resnet18, 0, 2), (small, 40, 150)])
def test_deduce_explains_networks_that_were_not_made_for_it(make, training, iterations):
    torch.manual_seed(0)
    network, (images, labels) = make(), coloured(40)
    optimiser = torch.optim.Adam(network.parameters(), 0.003)
    for _ in range(training):
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(images), labels).backward()
        optimiser.step()
    optimiser.zero_grad()
    weights, before = {name: value.clone() for name, value in network.state_dict().items()}, state(network)
    asked, targets = images[:3], (labels[:3] + 1) % CLASSES
    method = DeDUCE(pixels_per_step=16, step_size=0.5, max_iterations=iterations)
    result = method.generate(network, (images, labels), asked, targets, allow_reached=True)

    assert all(torch.equal(value, weights[name]) for name, value in network.state_dict().items())
    assert state(network) == before and network.training
    assert result.found.all() or not training
    assert (result.counterfactual != asked).flatten(1).any(1).all()
    with torch.no_grad():
        confidence = network.eval()(result.counterfactual).softmax(1)[range(3), targets]
    torch.testing.assert_close(result.confidence, confidence, atol=1e-4, rtol=1e-3)
    JSMA(max_iterations=1).generate(network, asked, targets, allow_reached=True)


def test_what_enters_the_last_layer_are_the_features():
    torch.manual_seed(0)
    network, (images, _) = resnet18().eval(), coloured(4)
    traced = with_features(fold(network, images.shape[1:]), images.shape[1:])
    assert isinstance(traced, Traced) and traced.head.in_features == 512
    assert not any(isinstance(layer, nn.BatchNorm2d) for layer in traced.modules())  # folded away
    body = nn.Sequential(*list(network.children())[:-1], nn.Flatten())
    torch.testing.assert_close(traced.features(images), body(images), atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(traced(images), network(images), atol=1e-4, rtol=1e-3)
    assert with_features(traced, images.shape[1:]) is traced


def test_the_names_features_and_head_may_mean_something_else():
    class Backbone(nn.Module):
        """`features` are maps, which are averaged before the head, as in some of torchvision's networks."""

        def __init__(self):
            super().__init__()
            self.features, self.head = nn.Conv2d(3, 8, 3), nn.Linear(8, CLASSES)

        def forward(self, images):
            return self.head(self.features(images).mean((2, 3)))

    network, (images, _) = Backbone(), coloured(2)
    traced = with_features(network, images.shape[1:])
    assert traced is not network
    torch.testing.assert_close(traced.features(images), network.features(images).mean((2, 3)))


def test_normalisation_can_be_given():
    torch.manual_seed(0)
    network, (images, labels) = small().eval(), coloured(40)
    normalised = Normalised(network, mean=(0.5, 0.4, 0.3), std=(0.2, 0.2, 0.1))
    by_hand = (images - torch.tensor([0.5, 0.4, 0.3])[:, None, None]) / torch.tensor([0.2, 0.2, 0.1])[:, None, None]
    torch.testing.assert_close(normalised(images), network(by_hand))
    result = DeDUCE(max_iterations=2).generate(
        normalised, (images, labels), images[:2], labels[:2] + 1, allow_reached=True
    )
    expected = normalised(result.counterfactual).softmax(1)[range(2), labels[:2] + 1]
    torch.testing.assert_close(result.confidence, expected.detach(), atol=1e-4, rtol=1e-3)
    with pytest.raises(InputError, match="one number per channel"):
        Normalised(network, mean=(0.5,), std=(0.2, 0.0))


class Tokens(nn.Module):
    """Like a transformer that compares what it has read with an embedding of each class."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 8, 8)
        self.encoder = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.classes = nn.Parameter(torch.randn(CLASSES, 16))

    def forward(self, images):
        return self.encoder(self.patches(images).flatten(2).mT).mean(1) @ self.classes.T


def test_a_network_without_a_last_linear_layer_gets_a_sentence():
    images, labels = coloured(8)
    with pytest.raises(InputError, match=r"\(Tokens\) does not end in a linear layer, .* add these two to it\."):
        DeDUCE().generate(Tokens(), (images, labels), images[:1], torch.tensor([1]))
    JSMA(max_iterations=1).generate(Tokens(), images[:1], torch.tensor([1]), allow_reached=True)
