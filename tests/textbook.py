"""The algorithms as one would write them on a blackboard: one image, a plain loop, no tricks."""

import torch
from torch import Tensor
from torch.distributions import MultivariateNormal
from torch.nn import functional as F


def gaussians(network, images: Tensor, labels: Tensor, classes: int) -> list[MultivariateNormal]:
    with torch.no_grad():
        features = network.features(images).double()
    return [
        MultivariateNormal(features[labels == label].mean(0), features[labels == label].T.cov())
        for label in range(classes)
    ]


def deduce(
    network,
    densities: list[MultivariateNormal],
    image: Tensor,
    target: int,
    target_confidence=0.5,
    step_size=0.2,
    max_iterations=700,
    max_changes_per_pixel=5,
    pixels_per_step=1,
    momentum=0.6,
    momentum_in_selection=False,
    objective="relative",
    cross_entropy_weight=1.0,
) -> tuple[Tensor, bool, int]:
    """Algorithm 1 on one image (channels, height, width): the counterfactual, whether it was found, iterations."""
    image = image.clone()
    changes, last = torch.zeros(image.numel()), torch.zeros(image.numel())
    for iteration in range(max_iterations + 1):
        x = image.clone().requires_grad_()
        features = network.features(x[None])
        log_probability = F.log_softmax(network.head(features), 1)[0, target]
        if log_probability.exp() >= target_confidence or iteration == max_iterations:
            return image, bool(log_probability.exp() >= target_confidence), iteration
        cross_entropy, log_density = -log_probability, densities[target].log_prob(features[0].double())
        (of_class,) = torch.autograd.grad(cross_entropy, x, retain_graph=True)
        (of_density,) = torch.autograd.grad(log_density, x)
        if objective == "relative":
            of_class, of_density = of_class / cross_entropy, of_density / log_density.abs()
        gradient = (cross_entropy_weight * of_class - of_density).detach().flatten()
        with_momentum = gradient + momentum * last
        salience = (with_momentum if momentum_in_selection else gradient).abs()
        salience[changes >= max_changes_per_pixel] = 0
        for pixel in salience.argsort(descending=True)[:pixels_per_step]:
            value = image.flatten()[pixel] - step_size * with_momentum[pixel].sign()
            image.view(-1)[pixel] = min(max(value, 0), 1)
            changes[pixel] += 1
        last = with_momentum
    raise AssertionError


def jsma(network, image: Tensor, target: int, target_confidence=0.5, step_size=0.2, max_iterations=700):
    image = image.clone()
    frozen = torch.zeros(image.numel(), dtype=torch.bool)
    for iteration in range(max_iterations + 1):
        x = image.clone().requires_grad_()
        log_probability = F.log_softmax(network(x[None]), 1)[0, target]
        if log_probability.exp() >= target_confidence or iteration == max_iterations:
            return image, bool(log_probability.exp() >= target_confidence), iteration
        (gradient,) = torch.autograd.grad(-log_probability, x)
        gradient = gradient.flatten()
        gradient[frozen] = 0
        pixel = gradient.abs().argmax()
        value = min(max(image.flatten()[pixel] - step_size * gradient[pixel].sign(), 0), 1)
        image.view(-1)[pixel] = value
        frozen[pixel] = value == 0 or value == 1
    raise AssertionError


def revise(
    network,
    vae,
    image: Tensor,
    target: int,
    target_confidence=0.5,
    distance_weight=1.0,
    step_size=1e-5,
    max_iterations=50_000,
    accumulate_gradients=True,
):
    with torch.no_grad():
        latent = vae.encode(image[None])[0]
    total = torch.zeros_like(latent)
    for iteration in range(max_iterations + 1):
        z = latent.clone().requires_grad_()
        generated = vae.decode(z)
        log_probability = F.log_softmax(network(generated), 1)[0, target]
        if log_probability.exp() >= target_confidence or iteration == max_iterations:
            return generated[0].detach(), bool(log_probability.exp() >= target_confidence), iteration
        loss = -log_probability + distance_weight * (generated - image).abs().sum()
        (gradient,) = torch.autograd.grad(loss, z)
        total = total + gradient if accumulate_gradients else gradient
        latent = latent - step_size * total
    raise AssertionError
