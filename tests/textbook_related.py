"""The algorithms of the paper's related work as one would write them on a blackboard: one image, plain loops."""

import torch
from torch import Tensor


class Adam:
    """torch's own, for one tensor that the caller moves."""

    def __init__(self, value: Tensor) -> None:
        self.value = value.clone().requires_grad_()
        self.optimiser = torch.optim.Adam([self.value])

    def step(self, loss: Tensor, rate: float) -> None:
        (self.value.grad,) = torch.autograd.grad(loss, self.value)
        self.optimiser.param_groups[0]["lr"] = rate
        self.optimiser.step()


def wachter(network, image: Tensor, target: int, method, pixel_weights: Tensor | float = 1.0):
    """The counterfactual or None, its distance, and every weight λ that was tried."""
    original = image.clone()

    def probability(x: Tensor) -> Tensor:
        return network(x[None]).softmax(1)[0, target]

    def distance(x: Tensor) -> Tensor:
        return ((x - original).abs() * pixel_weights).sum()

    def descend(x: Tensor, weight: float, steps: int, patience: int) -> tuple[Tensor, list[tuple[Tensor, bool]]]:
        adam, seen, streak = Adam(x), [], 0
        p = probability(adam.value)
        for step in range(steps):
            loss = -p.log() if method.loss == "cross_entropy" else (1 - p) ** 2
            adam.step(loss + weight * distance(adam.value), method.learning_rate * (1 - step / method.max_iterations))
            adam.value.data.clamp_(0, 1)
            p = probability(adam.value)
            hit = bool(p >= method.target_confidence)
            seen.append((adam.value.detach().clone(), hit))
            streak = streak + 1 if hit and streak > 0 else 1 if hit else streak - 1 if streak < 0 else -1
            if abs(streak) >= patience:
                break
        return seen[-1][0], seen

    if probability(image) >= method.target_confidence:
        return image, 0.0, []
    sweep = [method.initial_weight / 10**power for power in range(method.sweep_weights)]
    hits, x = [], image
    for weight in sweep:
        x, seen = descend(x, weight, method.max_iterations // 10, patience=10**9)
        hits.append(sum(hit for _, hit in seen))
    with_hits = [weight for weight, count in zip(sweep, hits, strict=True) if count]
    without = [weight for weight, count in zip(sweep, hits, strict=True) if not count]
    if len(with_hits) < 2:
        return None, torch.inf, sweep
    lower, upper = with_hits[1], without[-1] if without else sweep[0]
    best, nearest, tried, x = None, torch.inf, [], image
    for _ in range(method.weight_steps):
        tried.append((lower + upper) / 2)
        x, seen = descend(x, tried[-1], method.max_iterations, method.patience)
        for candidate, hit in seen:
            if hit and distance(candidate) < nearest:
                best, nearest = candidate, float(distance(candidate))
        if sum(hit for _, hit in seen) >= method.enough_hits:
            lower = max(lower, tried[-1])
        else:
            upper = min(upper, tried[-1])
    return best, nearest, sweep + tried


def schut(members: list, image: Tensor, target: int, method) -> tuple[Tensor, bool, int]:
    """The image, whether it was found, and the number of steps; `members` are separate classifiers."""
    image, changes = image.clone(), torch.zeros(image.numel())
    for iteration in range(method.max_iterations + 1):
        x = image.clone().requires_grad_()
        logits = [member(x[None])[0] for member in members]
        confidence = sum(member.softmax(0)[target] for member in logits) / len(members)
        if confidence >= method.target_confidence or iteration == method.max_iterations:
            return image, bool(confidence >= method.target_confidence), iteration
        (gradient,) = torch.autograd.grad((sum(logits) / len(members)).log_softmax(0)[target], x)
        gradient = gradient.flatten()
        gradient[changes >= method.max_changes_per_pixel] = 0
        pixel = int(gradient.abs().argmax())
        image.view(-1)[pixel] = (image.view(-1)[pixel] + method.step_size * gradient[pixel].sign()).clamp(0, 1)
        changes[pixel] += 1
    raise AssertionError
