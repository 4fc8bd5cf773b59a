"""CEM (Dhurandhar et al. 2018): what would have to be added to an image, or is enough of it, for its class.

A *pertinent negative* is the least ink whose addition changes the class; a *pertinent positive* the least part of the
image's ink that has the class by itself. The search is that of alibi's `CEM`: iterative shrinkage, with a weight of the
classifier's loss that is found by bisection.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deduce.adam import like
from deduce.inputs import check_settings
from deduce.search import (
    Models,
    Result,
    Rows,
    Search,
    checked_pairs,
    distinct,
    folded,
    frozen_beside,
    probabilities,
    search,
)

INFINITE = 1e10  # alibi's initial value for distances and for the upper bound of the loss weight


@dataclass
class AutoencoderModels(Models):
    autoencoder: Any = None


@dataclass
class PertinentRows(Rows):
    original: Tensor
    label: Tensor  # the predicted class of the original
    iterate: Tensor
    point: Tensor  # where the gradient is taken: the iterate, or ahead of it with momentum
    distance: Tensor  # of the nearest answer, which is in `image`; INFINITE until there is one
    best_confidence: Tensor
    met: Tensor  # bool: the present descent has met an answer
    loss_weight: Tensor  # c, between the bounds of its search
    lower: Tensor
    upper: Tensor
    steps: Tensor  # of the present descent
    descents: Tensor  # that are over


@dataclass(frozen=True)
class CEM(Search[AutoencoderModels, PertinentRows]):
    """Hyper-parameters; the defaults are those of alibi's MNIST example, and the comments give alibi's names.

    No confidence can be prescribed: a search succeeds when the target becomes the likeliest class.
    """

    name = "cem"
    display_name = "CEM"
    needs = ("autoencoder",)
    variable = "point"

    targeted: bool = True  # False, as published: any other class will do
    confidence_margin: float = 0.0  # kappa
    sparsity: float = 0.1  # beta
    autoencoder_weight: float = 100.0  # gamma
    initial_loss_weight: float = 1.0  # c_init
    loss_weight_steps: int = 10  # c_steps
    max_iterations: int = 1000  # of each of these steps; none stops early
    learning_rate: float = 0.01  # learning_rate_init
    gradient_clip: float = 1000.0  # clip
    # alibi updates two variables in no fixed order, and the momentum that it intends nearly always vanishes.
    momentum: bool = False
    batch_size: int = 128

    def __post_init__(self) -> None:
        check_settings(self)  # and no target confidence

    def generate(
        self,
        classifier: nn.Module,
        autoencoder: Any,
        images: Tensor,
        targets: Tensor,
        allow_reached: bool = False,
        progress: bool = False,
    ) -> Result:
        """Pertinent negatives of images (n, channels, height, width) in [0, 1] for targets (n,), one row each.

        classifier: any module that gives logits. autoencoder: a module that reconstructs images. If the search is not
        targeted, each image is searched once, and found is the pair whose target is the class that it reached.
        """
        models = self.models(classifier, autoencoder, images)
        if self.targeted:
            return search(self, models, images, targets, allow_reached, progress)
        images, targets = checked_pairs(models.classifier, images, targets, allow_reached)
        originals, of_image = distinct(images)
        predicted = probabilities(models.classifier, originals).argmax(1)
        once = search(self, models, originals, predicted, allow_reached=True, progress=progress)
        fields = ("counterfactual", "found", "confidence", "iterations")
        whole = Result(*(getattr(once, name)[of_image] for name in fields))
        by_class = probabilities(models.classifier, whole.counterfactual)
        whole.confidence = by_class.gather(1, targets[:, None])[:, 0]
        already = predicted[of_image] == targets
        whole.found = (whole.found & (by_class.argmax(1) == targets)) | already
        whole.counterfactual[already] = images[already]
        whole.confidence[already] = probabilities(models.classifier, images).gather(1, targets[:, None])[already, 0]
        return whole

    def positives(self, classifier: nn.Module, autoencoder: Any, images: Tensor, progress: bool = False) -> Result:
        """The pertinent positive of each image, (n, channels, height, width): the least ink that keeps its class."""
        models = self.models(classifier, autoencoder, images)
        method = PertinentPositives(**self.settings() | {"targeted": False})
        any_class = torch.zeros(len(images), dtype=torch.long)
        images, _ = checked_pairs(models.classifier, images, any_class, allow_reached=True)
        predicted = probabilities(models.classifier, images).argmax(1)
        return search(method, models, images, predicted, allow_reached=True, progress=progress)

    def models(self, classifier: nn.Module, autoencoder: Any, images: Tensor) -> AutoencoderModels:
        classifier = folded(classifier, images)
        return AutoencoderModels(classifier, autoencoder=frozen_beside(autoencoder, classifier))

    def start(self, models: AutoencoderModels, rows: Rows) -> PertinentRows:
        zeros = rows.image.new_zeros(len(rows.image))
        return PertinentRows(
            **vars(rows),
            original=rows.image,
            label=models.classifier(rows.image).argmax(1),
            iterate=rows.image,
            point=rows.image,
            distance=zeros + INFINITE,
            best_confidence=zeros,
            met=rows.broken,
            loss_weight=zeros + self.initial_loss_weight,
            lower=zeros,
            upper=zeros + INFINITE,
            steps=torch.zeros_like(rows.iterations),
            descents=torch.zeros_like(rows.iterations),
        )

    # --- what distinguishes negatives from positives -----------------------------------------------------------------
    def shown(self, rows: PertinentRows, image: Tensor) -> Tensor:
        """What the classifier is shown of an iterate."""
        return image

    def wanted(self, rows: PertinentRows) -> tuple[Tensor, bool]:
        """A class (n,), and whether it should become the likeliest, or cease to be."""
        return (rows.target, True) if self.targeted else (rows.label, False)

    def allowed(self, image: Tensor, original: Tensor) -> Tensor:
        """Which pixels may have the value of `image`; the others keep the original's. Black is no information."""
        return image.abs() > original.abs()

    # --- the search --------------------------------------------------------------------------------------------------
    def evaluate(self, models: AutoencoderModels, rows: PertinentRows) -> tuple[Tensor, Tensor]:
        shown = self.shown(rows, rows.point)
        by_class = models.classifier(shown).softmax(1)
        if self.momentum:  # the iterate is another image than the point
            with torch.no_grad():
                self.judge(rows, models.classifier(self.shown(rows, rows.iterate)).softmax(1))
        else:
            self.judge(rows, by_class.detach())
        of_class, others, likeliest = self.compared(rows, by_class)
        away = others - of_class if likeliest else of_class - others
        loss = rows.loss_weight * F.relu(away + self.confidence_margin)
        loss = loss + (rows.point - rows.original).square().flatten(1).sum(1)
        if self.autoencoder_weight:
            error = (models.autoencoder(shown) - shown).square().flatten(1).sum(1)
            loss = loss + self.autoencoder_weight * error
        return loss, rows.best_confidence

    def compared(self, rows: PertinentRows, by_class: Tensor) -> tuple[Tensor, Tensor, bool]:
        """The probability of the class that is wanted (or not), and the largest of the others, each (n,)."""
        wanted, likeliest = self.wanted(rows)
        others = by_class.scatter(1, wanted[:, None], -INFINITE).amax(1)
        return by_class.gather(1, wanted[:, None])[:, 0], others, likeliest

    def judge(self, rows: PertinentRows, by_class: Tensor) -> None:
        """Keeps an iterate that is an answer and nearer than any before; ends a descent that had its iterations."""
        of_class, others, likeliest = self.compared(rows, by_class)
        answer = (
            of_class - self.confidence_margin >= others if likeliest else of_class + self.confidence_margin < others
        )
        reached = (rows.descents == 0) & (rows.label == rows.target) & self.targeted  # nothing is left to explain
        answer = answer & ((rows.steps > 0) | reached)
        change = (rows.iterate - rows.original).flatten(1)
        distance = change.square().sum(1) + self.sparsity * change.abs().sum(1)
        nearer = answer & (distance < rows.distance)
        rows.distance = torch.where(nearer, distance, rows.distance)
        better = nearer | (rows.distance == INFINITE)  # without an answer, the result is the last iterate
        confidence = by_class.gather(1, rows.target[:, None])[:, 0]
        rows.best_confidence = torch.where(better, confidence, rows.best_confidence)
        rows.image = torch.where(like(better, rows.image), self.shown(rows, rows.iterate), rows.image)
        rows.met = rows.met | answer
        self.next_weight(rows, rows.steps == self.max_iterations)

    def next_weight(self, rows: PertinentRows, ended: Tensor) -> None:
        """Chooses the next weight of the classifier's loss where a descent is over, a mask (n,) bool."""
        rows.upper = torch.where(ended & rows.met, torch.minimum(rows.upper, rows.loss_weight), rows.upper)
        rows.lower = torch.where(ended & ~rows.met, torch.maximum(rows.lower, rows.loss_weight), rows.lower)
        between = torch.where(rows.upper < INFINITE, (rows.lower + rows.upper) / 2, 10 * rows.loss_weight)
        rows.loss_weight = torch.where(ended, between, rows.loss_weight)
        rows.descents, rows.met = rows.descents + ended, rows.met & ~ended

    def step(self, rows: PertinentRows, gradient: Tensor) -> None:
        rate = self.learning_rate * (1 - rows.steps / self.max_iterations).clamp(min=0).sqrt()
        gradient = gradient.clamp(-self.gradient_clip, self.gradient_clip)
        moved = self.shrink(rows.point - like(rate, gradient).to(gradient) * gradient, rows.original)
        iterate = torch.where(self.allowed(moved, rows.original), moved, rows.original)
        point = iterate
        if self.momentum:
            ahead = like((rows.steps + 1) / (rows.steps + 4), iterate).to(iterate) * (iterate - rows.iterate)
            point = torch.where(self.allowed(iterate + ahead, rows.original), iterate + ahead, rows.original)
        # Where a descent is over, this step goes back to the original instead.
        ended = rows.steps == self.max_iterations
        rows.iterate = torch.where(like(ended, iterate), rows.original, iterate)
        rows.point = torch.where(like(ended, point), rows.original, point)
        rows.steps = (rows.steps + 1).masked_fill(ended, 0)

    def shrink(self, moved: Tensor, original: Tensor) -> Tensor:
        """Reduces the change of every pixel by `sparsity`, to zero if the change is smaller; then clips to [0, 1]."""
        change = moved - original
        nearer = torch.where(change > 0, (moved - self.sparsity).clamp(max=1), (moved + self.sparsity).clamp(min=0))
        return torch.where(change.abs() > self.sparsity, nearer, original)

    def succeeded(self, rows: PertinentRows) -> Tensor:
        return (rows.distance < INFINITE) & self.exhausted(rows)

    def exhausted(self, rows: PertinentRows) -> Tensor:
        return (rows.descents == self.loss_weight_steps) | (rows.distance == 0)


@dataclass(frozen=True)
class PertinentPositives(CEM):
    """The same search for what is enough: its variable is the rest of the image, which it leaves out."""

    name = "pertinent_positives"  # no method of the workflow, because its answers are no counterfactuals

    def shown(self, rows: PertinentRows, image: Tensor) -> Tensor:
        return rows.original - image

    def wanted(self, rows: PertinentRows) -> tuple[Tensor, bool]:
        return rows.label, True

    def allowed(self, image: Tensor, original: Tensor) -> Tensor:
        return image.abs() <= original.abs()
