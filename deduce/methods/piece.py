"""PIECE (Kenny and Keane 2021): make the exceptional features of an image what is usual in the target's class.

For each class and feature, a hurdle model of the training images tells how often the feature is on (above 0), and how
its values are distributed where it is. The features of the image that are improbable in the target's class, and whose
change raises the target, get their expected values; a generator's latent vector is then moved until its image has them.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from scipy import stats
from scipy.special import digamma, polygamma
from torch import Tensor, nn

from deduce import adam, compute
from deduce.fold import device_of, features_of, frozen
from deduce.inputs import check_functions
from deduce.search import Models, Result, Rows, Search, checked_pairs, distinct, folded, on_device, search

FAMILIES: tuple[Any, ...] = (stats.norm, stats.gamma, stats.expon)


@dataclass
class Hurdles:
    """The hurdle models of every class and feature; arrays (classes, d)."""

    on: np.ndarray  # θ: the share of the class's images in which the feature is on
    family: np.ndarray  # index into FAMILIES; -1 where the feature is never on
    parameters: np.ndarray  # (classes, d, 3): shape (of the gamma distribution), location and scale

    @property
    def expected(self) -> np.ndarray:
        """The mean of each feature where it is on."""
        shape, location, scale = np.moveaxis(self.parameters, 2, 0)
        return location + scale * np.choose(self.family.clip(0), (np.zeros_like(shape), shape, np.ones_like(shape)))

    def below(self, features: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """F, the share of the values where a feature is on that are smaller than features (n, d): (n, d)."""
        share, family, parameters = np.zeros(features.shape), self.family[classes], self.parameters[classes]
        for index, distribution in enumerate(FAMILIES):
            chosen = family == index
            shape, location, scale = parameters[chosen].T
            of_shape = (shape,) if distribution.shapes else ()
            share[chosen] = distribution.cdf(features[chosen], *of_shape, loc=location, scale=scale)
        return share

    @classmethod
    def fit(cls, features: np.ndarray, labels: np.ndarray, classes: int) -> "Hurdles":
        """features: (n, d) of training images; labels: (n,), the classes that the classifier predicts for them."""
        d = features.shape[1]
        hurdles = cls(np.zeros((classes, d)), np.full((classes, d), -1), np.tile([1.0, 0.0, 1.0], (classes, d, 1)))
        for label in range(classes):
            of_class = features[labels == label].astype(np.float64)
            for feature in range(d if len(of_class) else 0):
                values = of_class[:, feature]
                on = np.sort(values[values > 0])
                hurdles.on[label, feature] = len(on) / len(values)
                if len(on) > 1 and on[0] < on[-1]:
                    hurdles.family[label, feature], hurdles.parameters[label, feature] = fitted(on)
                elif len(on):  # a single value: as narrow a normal distribution as there can be
                    hurdles.family[label, feature], hurdles.parameters[label, feature] = 0, (1, on[0], 1e-6 * on[0])
        return hurdles


def fitted(values: np.ndarray) -> tuple[int, tuple[float, float, float]]:
    """The best of six distributions of sorted positive values: its family, and its shape, location and scale.

    Normal, gamma and exponential, each with a free location and from 0; the best has the largest p-value in a
    Kolmogorov-Smirnov test, the first of equals.
    """
    mean, deviation, skew = values.mean(), values.std(), float(stats.skew(values))
    candidates = [(0, (1.0, mean, deviation)), (0, (1.0, 0.0, float(np.sqrt((values**2).mean()))))]
    if skew > 0:  # by moments, because the likelihood of a gamma distribution with a free location has no maximum
        shape, scale = 4 / skew**2, deviation * skew / 2
        candidates.append((1, (shape, mean - shape * scale, scale)))
    shape = gamma_shape(np.log(mean) - np.log(values).mean())
    candidates.append((1, (shape, 0.0, mean / shape)))
    candidates += [(2, (1.0, values[0], mean - values[0])), (2, (1.0, 0.0, mean))]
    steps = np.arange(len(values) + 1) / len(values)
    fits = []
    for family, parameters in candidates:
        of_shape = parameters[:1] if FAMILIES[family].shapes else ()
        share = FAMILIES[family].cdf(values, *of_shape, loc=parameters[1], scale=parameters[2])
        distance = max((steps[1:] - share).max(), (share - steps[:-1]).max())
        fits.append(stats.kstwobign.sf(distance * np.sqrt(len(values))))
    return candidates[int(np.argmax(fits))]


def gamma_shape(spread: float) -> float:
    """The likeliest shape of a gamma distribution from 0; spread: log of the mean minus the mean of the logs."""
    shape = (3 - spread + np.sqrt((spread - 3) ** 2 + 24 * spread)) / (12 * spread)
    for _ in range(3):  # Newton's method from a start that is already right to 1.5 %
        error = np.log(shape) - digamma(shape) - spread
        shape -= error / (1 / shape - polygamma(1, shape))
    return float(shape)


@dataclass
class GeneratorModels(Models):
    generator: Any = None
    hurdles: Any = None
    latent: Any = None  # (pairs, latent): of each pair's image
    exceptional: Any = None  # (pairs, d) bool: in the real image, where that decides

    @property
    def weights(self) -> np.ndarray:
        """Of the classifier's last layer, (classes, d)."""
        return self.classifier.head.weight.detach().cpu().double().numpy()


@dataclass
class GoalRows(adam.AdamRows):
    latent: Tensor
    goal: Tensor  # features


@dataclass(frozen=True)
class PIECE(Search[GeneratorModels, GoalRows]):
    """Hyper-parameters; those of the search for features are as published. A search never stops early."""

    name = "piece"
    display_name = "PIECE"
    needs = ("generative_model", "training")
    variable = "latent"

    target_confidence: float = 0.5
    improbable: float = 0.05  # α
    features_of: Literal["generated", "real"] = "generated"  # the image that tells which features are exceptional
    step_size: float = 0.01
    max_iterations: int = 300
    inversion_starts: int = 3
    inversion_steps: int = 500
    inversion_step_size: float = 0.05
    training_images: int = 50_000
    batch_size: int = 100

    def prepare(self, images: Any, classifier: Any, **needed: Any) -> dict[str, Any]:
        arguments = super().prepare(images, classifier, **needed)
        return arguments | {"training": self.hurdles(arguments["classifier"], arguments["training"])}

    @torch.no_grad()
    def hurdles(self, classifier: Any, training: Tensor | tuple[Tensor, Tensor]) -> Hurdles:
        """The hurdle models of a classifier's features on training images, by the class that it predicts."""
        images = (training[0] if isinstance(training, tuple) else training)[: self.training_images]
        features = features_of(classifier, images)
        logits = classifier.head(features)
        return Hurdles.fit(features.cpu().numpy(), logits.argmax(1).cpu().numpy(), logits.shape[1])

    def generate(
        self,
        classifier: nn.Module,
        generative_model: Any,
        training: Tensor | tuple[Tensor, Tensor] | Hurdles,
        images: Tensor,
        targets: Tensor,
        allow_reached: bool = False,
        progress: bool = False,
    ) -> Result:
        """Counterfactuals of images (n, channels, height, width) in [0, 1] for targets (n,), one row each.

        classifier: any module whose last layer is linear. generative_model: has `generator(latent) -> images` and
        `generator.latent`, the dimension. training: images, with or without labels, to which the hurdle models are
        fitted; or the `hurdles`.
        """
        classifier = folded(classifier, images, features=True)
        images, targets = checked_pairs(classifier, images, targets, allow_reached)
        if not isinstance(training, Hurdles):
            training = self.hurdles(classifier, training)
        check_functions(generative_model, "the generative model", "generator")
        generator = frozen(on_device(generative_model.generator, device_of(classifier)), images.dtype)
        models = GeneratorModels(classifier, generator=generator)
        once, of_image = distinct(images)
        latent = self.invert(models, once)
        models.hurdles, models.latent = training, latent[of_image.to(latent.device)]
        if self.features_of == "real" and len(images):
            features = features_of(classifier, images).cpu().double().numpy()
            models.exceptional = self.are_exceptional(training, models.weights, features, targets.numpy())
        return search(self, models, images, targets, allow_reached, progress)

    def invert(self, models: GeneratorModels, images: Tensor) -> Tensor:
        """The latent vectors (n, latent) of images (n, …): the best of several descents in pixels and features."""
        generator, device = models.generator, device_of(models.classifier)
        starts = torch.stack([
            torch.randn(generator.latent, generator=compute.generator("inversion", start))
            for start in range(self.inversion_starts)
        ]).to(images.dtype)  # fmt: skip
        inverted = [starts.new_zeros(0, generator.latent).to(device)]
        for block in images.split(max(1, self.batch_size // self.inversion_starts)) if len(images) else ():
            image = block.to(device).repeat_interleave(self.inversion_starts, 0)
            with torch.no_grad():
                features = models.classifier.features(image)
            latent = starts.to(device).repeat(len(block), 1).requires_grad_()
            optimiser = torch.optim.Adam([latent], self.inversion_step_size)
            for _ in range(self.inversion_steps):
                (latent.grad,) = torch.autograd.grad(self.distance(models, latent, image, features).sum(), latent)
                optimiser.step()
            with torch.no_grad():
                last = self.distance(models, latent, image, features).view(len(block), -1)
            best = last.argmin(1)
            by_start = latent.detach().view(len(block), self.inversion_starts, -1)
            inverted.append(by_start[torch.arange(len(best), device=device), best])
        return torch.cat(inverted)

    def distance(self, models: GeneratorModels, latent: Tensor, image: Tensor, features: Tensor) -> Tensor:
        """How far generated images are from others, (n,), in pixels and in features."""
        generated = models.generator(latent)
        in_pixels = (generated - image).square().flatten(1).mean(1)
        return in_pixels + (models.classifier.features(generated) - features).square().mean(1)

    def are_improbable(self, hurdles: Hurdles, features: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Which features, (n, d) bool, are less probable in the target's class than α."""
        on, below = hurdles.on[targets], hurdles.below(features, targets)
        tail = np.minimum(on * below, on * (1 - below))
        return np.where(features > 0, tail, 1 - on) < self.improbable

    def are_exceptional(
        self, hurdles: Hurdles, weights: np.ndarray, features: np.ndarray, targets: np.ndarray
    ) -> np.ndarray:
        """Which features, (n, d) bool, are improbable in the target's class, and raise its logit if that is changed.

        weights: (classes, d), of the classifier's last layer.
        """
        on, below, weight = hurdles.on[targets], hurdles.below(features, targets), weights[targets]
        is_on = features > 0
        too_high, too_low = is_on & (on * (1 - below) < self.improbable), is_on & (on * below < self.improbable)
        keep = (~is_on & (weight < 0)) | (too_high & (weight > 0)) | (too_low & (weight < 0))
        return self.are_improbable(hurdles, features, targets) & ~keep & (hurdles.family[targets] >= 0)

    def goal(self, hurdles: Hurdles, features: np.ndarray, exceptional: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """The features that the counterfactual should have, (n, d): what is expected instead of the exceptional."""
        return np.where(exceptional, hurdles.expected[targets], features)

    def start(self, models: GeneratorModels, rows: Rows) -> GoalRows:
        latent = models.latent[rows.index]
        features = models.classifier.features(models.generator(latent))
        generated, targets = features.cpu().double().numpy(), rows.target.cpu().numpy()
        if models.exceptional is None:
            exceptional = self.are_exceptional(models.hurdles, models.weights, generated, targets)
        else:
            exceptional = models.exceptional[rows.index.cpu().numpy()]
        goal = self.goal(models.hurdles, generated, exceptional, targets)
        return GoalRows(**adam.beginning(rows, latent), latent=latent, goal=torch.from_numpy(goal).to(features))

    def evaluate(self, models: GeneratorModels, rows: GoalRows) -> tuple[Tensor, Tensor]:
        generated = models.generator(rows.latent)
        features = models.classifier.features(generated)
        confidence = models.classifier.head(features).softmax(1).gather(1, rows.target[:, None])[:, 0]
        rows.image = generated.detach().clamp(0, 1)
        return (features - rows.goal).square().mean(1), confidence

    def step(self, rows: GoalRows, gradient: Tensor) -> None:
        rows.latent = rows.latent + adam.change(rows, gradient, self.step_size)

    def succeeded(self, rows: GoalRows) -> Tensor:
        return super().succeeded(rows) & self.exhausted(rows)
