"""The algorithms of the paper's related work as one would write them on a blackboard: one image, plain loops."""

import numpy as np
import torch
from scipy import stats
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


def cem(classify, autoencoder, image: Tensor, method, target: int | None = None, positive=False):
    """The best image or None: a pertinent negative for a target or (None) for any other class, or a positive."""
    x = image[None]
    y = int(classify(x).argmax())

    def shown(z: Tensor) -> Tensor:
        return x - z if positive else z

    def project(z: Tensor) -> Tensor:
        keep = z.abs() <= x.abs() if positive else z.abs() > x.abs()
        return torch.where(keep, z, x)

    def missing(p: Tensor) -> Tensor:
        """How far the condition is from being met: above 0 if it is not."""
        wanted = y if positive else target
        if wanted is None:
            return p[y] - max(p[j] for j in range(len(p)) if j != y) + method.confidence_margin
        return max(p[j] for j in range(len(p)) if j != wanted) - p[wanted] + method.confidence_margin

    lower, c, upper, best, best_image = 0.0, method.initial_loss_weight, 1e10, 1e10, None
    for _ in range(method.loss_weight_steps):
        new = point = x
        found = False
        for i in range(method.max_iterations):
            point = point.detach().requires_grad_()
            error = (autoencoder(shown(point)) - shown(point)).square().sum()
            attack = torch.clamp(missing(classify(shown(point)).softmax(1)[0]), min=0)
            loss = c * attack + (point - x).square().sum() + method.autoencoder_weight * error
            (gradient,) = torch.autograd.grad(loss, point)
            rate = method.learning_rate * (1 - i / method.max_iterations) ** 0.5
            moved = point.detach() - rate * gradient.clamp(-method.gradient_clip, method.gradient_clip)
            old, d = new, moved - x
            new = x.clone()
            new[d > method.sparsity] = (moved - method.sparsity).clamp(max=1)[d > method.sparsity]
            new[d < -method.sparsity] = (moved + method.sparsity).clamp(min=0)[d < -method.sparsity]
            new = project(new)
            point = project(new + (i + 1) / (i + 4) * (new - old)) if method.momentum else new
            size = float((new - x).square().sum() + method.sparsity * (new - x).abs().sum())
            with torch.no_grad():
                if missing(classify(shown(new)).softmax(1)[0]) < 0:
                    found = True
                    if size < best:
                        best, best_image = size, shown(new)[0]
        upper, lower = (min(upper, c), lower) if found else (upper, max(lower, c))
        c = (lower + upper) / 2 if upper < 1e9 else 10 * c
    return best_image


def hurdle(values: np.ndarray):
    """How often a feature is above 0, and the distribution that fits it best where it is; None if it never is."""
    on = values[values > 0]
    if not len(on):
        return 0.0, None
    if on.min() == on.max():
        return len(on) / len(values), stats.norm(on[0], 1e-6 * on[0])
    skew = stats.skew(on)
    fits = [stats.norm(*stats.norm.fit(on)), stats.norm(0, np.sqrt(np.mean(on**2)))]
    if skew > 0:
        a, scale = 4 / skew**2, on.std() * skew / 2
        fits.append(stats.gamma(a, on.mean() - a * scale, scale))
    fits += [stats.gamma(*stats.gamma.fit(on, floc=0)), stats.expon(*stats.expon.fit(on)), stats.expon(0, on.mean())]
    p = [stats.kstest(on, fit.cdf, method="asymp").pvalue for fit in fits]
    return len(on) / len(values), fits[int(np.argmax(p))]


def piece_goal(features: np.ndarray, weight: np.ndarray, hurdles: list, alpha: float, query=None) -> np.ndarray:
    """The goal of one image's features; `weight` and `hurdles` are the target's, feature by feature.

    query: the features that tell what is exceptional, if these are not the image's.
    """
    goal = features.copy()
    for j, (value, w, (share, fit)) in enumerate(
        zip(features if query is None else query, weight, hurdles, strict=True)
    ):
        if fit is None:
            continue
        low, high = share * fit.cdf(value), share * (1 - fit.cdf(value))
        probability = 1 - share if value <= 0 else min(low, high)
        if probability >= alpha:
            continue
        if (value <= 0 and w < 0) or (value > 0 and high < alpha and w > 0) or (value > 0 and low < alpha and w < 0):
            continue  # the target would lose by the change
        goal[j] = fit.mean()
    return goal


def piece_inversion(network, generator, image: Tensor, starts: Tensor, steps: int, rate: float) -> Tensor:
    """The latent vector whose image is nearest, in pixels and in features."""
    with torch.no_grad():
        wanted = network.features(image[None])[0]

    def distance(z: Tensor) -> Tensor:
        generated = generator(z[None])
        return (generated[0] - image).square().mean() + (network.features(generated)[0] - wanted).square().mean()

    ends = []
    for start in starts:
        adam = Adam(start)
        for _ in range(steps):
            adam.step(distance(adam.value), rate)
        ends.append(adam.value.detach())
    with torch.no_grad():
        return min(ends, key=distance)


def piece(network, generator, latent: Tensor, goal: Tensor, target: int, method) -> tuple[Tensor, bool]:
    adam = Adam(latent)
    for _ in range(method.max_iterations):
        adam.step((network.features(generator(adam.value[None]))[0] - goal).square().mean(), method.step_size)
    with torch.no_grad():
        image = generator(adam.value[None])
        confidence = network(image).softmax(1)[0, target]
    return image[0], bool(confidence >= method.target_confidence)
