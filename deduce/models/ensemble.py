"""A deep ensemble of small classifiers, whose disagreement tells how little they know (Schut et al. 2021)."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deduce.training import Batch, Task, descend


class Ensemble(nn.Module):
    """Classifiers with two hidden layers, side by side. As one classifier, it gives their mean opinion."""

    def __init__(self, members: int, pixels: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.arguments = dict(members=members, pixels=pixels, hidden=hidden, classes=classes)
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for inputs, outputs in pairwise([pixels, hidden, hidden, classes]):
            self.weights.append(torch.zeros(members, inputs, outputs))
            self.biases.append(torch.zeros(members, 1, outputs))

    def member_logits(self, images: Tensor) -> Tensor:
        """images: (n, channels, height, width) in [0, 1] → (members, n, classes)."""
        out = images.flatten(1).expand(len(self.weights[0]), -1, -1)
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            out = torch.baddbmm(bias, out.relu() if layer else out, weight)
        return out

    def forward(self, images: Tensor) -> Tensor:
        """Logits (n, classes) whose softmax is the mean of the members' probabilities."""
        return mean_probabilities(self.member_logits(images)).log()

    @classmethod
    def joined(cls, ensembles: Sequence[Self]) -> Self:
        """One ensemble of the members of several."""
        states = [ensemble.state_dict() for ensemble in ensembles]
        members = sum(ensemble.arguments["members"] for ensemble in ensembles)
        whole = cls(**ensembles[0].arguments | {"members": members}).to(next(iter(states[0].values())).device)
        whole.load_state_dict({name: torch.cat([state[name] for state in states]) for name in states[0]})
        return whole


def mean_probabilities(logits: Tensor) -> Tensor:
    """logits: (members, n, classes) → (n, classes), never exactly 0."""
    return logits.softmax(2).mean(0).clamp_min(torch.finfo(logits.dtype).tiny)


@torch.no_grad()
def uncertainty(ensemble: Ensemble, images: Tensor) -> tuple[Tensor, Tensor]:
    """Predictive entropy and mutual information of images, (n,) each, in nats.

    The entropy of the mean opinion is the mean entropy of the members (ambiguous images) plus the mutual information
    (images that the members have not learnt).
    """
    logits = ensemble.member_logits(images)
    mean = mean_probabilities(logits)
    entropy = -(mean * mean.log()).sum(1)
    of_members = -(logits.softmax(2) * logits.log_softmax(2)).sum(2).mean(0)
    return entropy, (entropy - of_members).clamp_min(0)


class AdversarialClassification(Task):
    """Cross-entropy by Adam on images and on adversarial images that are made from them in the same step."""

    def __init__(self, network: Ensemble, settings: dict[str, Any]) -> None:
        sizes = network.arguments
        self.classes, self.adversarial_step = sizes["classes"], settings["adversarial_step"]
        networks = (_member(sizes["pixels"], sizes["hidden"], self.classes) for _ in range(sizes["members"]))
        self.networks: Any = nn.ModuleList(networks)
        self.module = self.networks
        self.optimisers = [torch.optim.Adam(self.networks.parameters(), settings["learning_rate"])]

    def step(self, batch: Batch) -> dict[str, Tensor]:
        # The members share no weight: the sum of their losses trains each of them as if alone.
        loss = torch.stack([self._loss(network, batch) for network in self.networks])
        descend(self.optimisers[0], loss.sum())
        return {"loss": loss.mean()}

    def _loss(self, network: nn.Module, batch: Batch) -> Tensor:
        images = batch.images.clone().requires_grad_()
        clean = F.cross_entropy(network(images), batch.labels)
        if not self.adversarial_step:
            return clean
        (gradient,) = torch.autograd.grad(clean, images)
        adversarial = (batch.images + self.adversarial_step * gradient.sign()).clamp(0, 1)
        return F.cross_entropy(network(torch.cat([batch.images, adversarial])), batch.labels.repeat(2))

    def evaluate(self, images: Tensor, labels: Tensor) -> dict[str, float]:
        right = self.result()(images).argmax(1) == labels
        return {"validation_accuracy": right.double().mean().item()}

    @torch.no_grad()
    def result(self) -> Ensemble:
        return Ensemble.joined([_folded(network) for network in self.networks])


def _member(pixels: int, hidden: int, classes: int) -> nn.Sequential:
    normalised = [nn.ReLU(), nn.BatchNorm1d(hidden)]
    layers = [nn.Linear(pixels, hidden), *normalised, nn.Linear(hidden, hidden), nn.ReLU(), nn.BatchNorm1d(hidden)]
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(hidden, classes))


def _folded(network: Any) -> Ensemble:
    """An ensemble of one member: each batch normalisation is merged into the linear layer after it."""
    linear = [layer for layer in network if isinstance(layer, nn.Linear)]
    normalisations = [None, *(layer for layer in network if isinstance(layer, nn.BatchNorm1d))]
    ensemble = Ensemble(1, linear[0].in_features, linear[0].out_features, linear[-1].out_features).to(linear[0].weight)
    for weight, bias, layer, before in zip(ensemble.weights, ensemble.biases, linear, normalisations, strict=True):
        scale, shift = torch.ones_like(layer.weight[0]), torch.zeros_like(layer.weight[0])
        if before is not None:
            assert before.running_var is not None and before.running_mean is not None
            scale = before.weight / (before.running_var + before.eps).sqrt()
            shift = before.bias - before.running_mean * scale
        weight[0] = layer.weight.T * scale[:, None]
        bias[0, 0] = layer.bias + layer.weight @ shift
    return ensemble
