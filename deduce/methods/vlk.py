"""VLK (Van Looveren and Klaise): sparse counterfactuals, kept on the data by an autoencoder and a class prototype.

The algorithm is that of alibi's `CounterfactualProto`, which deduce/alibi_reference.py runs; this implementation
searches a batch of pairs at a time. docs/vlk.md says how closely the two agree.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deduce.errors import InputError
from deduce.fold import device_of
from deduce.inputs import image_tensor
from deduce.search import Method, Models, Result, checked_pairs, folded, frozen_beside, probabilities, progress_bar

INFINITE = 1e10  # alibi's initial value for distances and for the upper bound of the loss weight
Encodings = dict[int, Tensor]  # of the training images that the classifier predicts to be of each class, (m, d) each


@dataclass
class AutoencoderModels(Models):
    autoencoder: Any


@dataclass
class ProtoRows:
    """The rows of a batch; every tensor's first dimension is the row."""

    original: Tensor
    target: Tensor
    label: Tensor  # the predicted class of the original, from which the search moves away
    prototype: Tensor
    loss_weight: Tensor  # c, between the bounds of its search
    lower: Tensor
    upper: Tensor
    image: Tensor  # the iterate, and the confidence in the target there
    confidence: Tensor
    best: Tensor  # the nearest counterfactual so far
    best_distance: Tensor
    best_confidence: Tensor


@dataclass(frozen=True)
class VLK(Method):
    """Hyper-parameters; the defaults are those of alibi's MNIST example, and the comments give alibi's names.

    No confidence can be prescribed: a search succeeds when the target becomes the likeliest class.
    """

    name = "vlk"
    display_name = "VLK"
    needs = ("autoencoder", "training")

    confidence_margin: float = 0.0  # kappa
    sparsity: float = 0.1  # beta
    autoencoder_weight: float = 100.0  # gamma
    prototype_weight: float = 100.0  # theta
    initial_loss_weight: float = 1.0  # c_init
    loss_weight_steps: int = 2  # c_steps
    max_iterations: int = 1000  # of each of these steps; none stops early
    learning_rate: float = 0.01  # learning_rate_init
    gradient_clip: float = 1000.0  # clip
    neighbours: int = 5  # k
    training_images: int = 50_000  # among which the neighbours are searched
    # alibi means to accelerate its descent, but updates two variables in no fixed order, and the momentum nearly
    # always vanishes (docs/vlk.md). True gives the intended descent.
    momentum: bool = False
    batch_size: int = 128

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_iterations < 1:
            raise InputError(f"max_iterations is {self.max_iterations}; it must be at least 1.")

    def prepare(self, images: Any, classifier: Any, **needed: Any) -> dict[str, Any]:
        arguments = super().prepare(images, classifier, **needed)
        encodings = self.class_encodings(arguments["classifier"], arguments["autoencoder"], arguments["training"][0])
        return arguments | {"training": encodings}

    def generate(
        self,
        classifier: nn.Module,
        autoencoder: Any,
        training: Tensor | tuple[Tensor, Tensor] | Encodings,
        images: Tensor,
        targets: Tensor,
        allow_reached: bool = False,
        progress: bool = False,
    ) -> Result:
        """Counterfactuals of images (n, channels, height, width) in [0, 1] for targets (n,), one row each.

        classifier: any module that gives logits.
        autoencoder: a module with `encode(images) -> encodings` and `decode(encodings) -> images`.
        training: images (m, channels, height, width) in [0, 1] whose encodings are averaged into prototypes, with or
            without labels; or their `class_encodings`, computed before.
        """
        classifier = folded(classifier, images)
        images, targets = checked_pairs(classifier, images, targets, allow_reached)
        if not isinstance(training, dict):
            training_images = training[0] if isinstance(training, tuple | list) else training
            training = self.class_encodings(classifier, autoencoder, training_images)
        models = AutoencoderModels(classifier, frozen_beside(autoencoder, classifier))
        by_class = probabilities(classifier, images)
        reached = by_class.argmax(1) == targets  # an image that is already predicted as its target is its own answer
        result = Result(images.clone(), reached, _of(by_class, targets), iterations=torch.zeros_like(targets))
        searched = (~reached).nonzero().squeeze(1)
        batches = searched.tensor_split(-(-len(searched) // self.batch_size)) if len(searched) else ()
        iterations = self.loss_weight_steps * self.max_iterations
        with progress_bar(self, len(batches) * iterations, progress) as bar:
            for index in batches:
                rows = self.start(models, training, images[index], targets[index])
                self.search(models, rows, bar)
                found = rows.best_distance < INFINITE
                result.counterfactual[index] = torch.where(found[:, None, None, None], rows.best, rows.image).cpu()
                result.found[index] = found.cpu()
                result.confidence[index] = torch.where(found, rows.best_confidence, rows.confidence).cpu()
                result.iterations[index] = iterations
        return result

    @torch.no_grad()
    def class_encodings(self, classifier: nn.Module, autoencoder: Any, images: Tensor) -> Encodings:
        """The flattened encodings of the training images, by the class that the classifier predicts."""
        classifier = folded(classifier, images)
        autoencoder = frozen_beside(autoencoder, classifier)
        images = image_tensor(images[: self.training_images], "training images")
        blocks = images.to(device_of(classifier)).split(1000)
        labels = torch.cat([classifier(block).softmax(1).argmax(1) for block in blocks])
        encodings = torch.cat([autoencoder.encode(block).flatten(1) for block in blocks])
        return {int(label): encodings[labels == label] for label in labels.unique()}

    @torch.no_grad()
    def start(self, models: AutoencoderModels, encodings: Encodings, images: Tensor, targets: Tensor) -> ProtoRows:
        """The rows before the search."""
        original, target = (tensor.to(device_of(models.classifier)) for tensor in (images, targets))
        by_class = models.classifier(original).softmax(1)
        zeros = original.new_zeros(len(original))
        return ProtoRows(
            original=original,
            target=target,
            label=by_class.argmax(1),
            prototype=prototypes(models.autoencoder.encode(original), target, encodings, self.neighbours),
            loss_weight=zeros + self.initial_loss_weight,
            lower=zeros,
            upper=zeros + INFINITE,
            image=original,
            confidence=_of(by_class, target),
            best=original,
            best_distance=zeros + INFINITE,
            best_confidence=zeros,
        )

    def search(self, models: AutoencoderModels, rows: ProtoRows, bar: Any = None) -> None:
        """Descends from the original once per loss weight; `rows.best` is the nearest counterfactual seen in all."""
        for _ in range(self.loss_weight_steps):
            found = self.descend(models, rows, bar)
            rows.upper = torch.where(found, torch.minimum(rows.upper, rows.loss_weight), rows.upper)
            rows.lower = torch.where(found, rows.lower, torch.maximum(rows.lower, rows.loss_weight))
            between, bounded = (rows.lower + rows.upper) / 2, rows.upper < INFINITE
            rows.loss_weight = torch.where(bounded, between, 10 * rows.loss_weight)

    @torch.no_grad()
    def descend(self, models: AutoencoderModels, rows: ProtoRows, bar: Any = None) -> Tensor:
        """Iterative shrinkage with the rows' present loss weights; which rows, (n,) bool, met a counterfactual."""
        found = torch.zeros_like(rows.target, dtype=torch.bool)
        rows.image = point = rows.original  # the iterate, and the point whose gradient is taken
        for iteration in range(self.max_iterations):
            gradient, probabilities = self.gradient(models, rows, point)
            if iteration and not self.momentum:  # the point is the iterate: these are the probabilities there
                found |= self.accept(rows, probabilities)
            rate = self.learning_rate * (1 - iteration / self.max_iterations) ** 0.5
            moved = self.shrink(point - rate * gradient.clamp(-self.gradient_clip, self.gradient_clip), rows.original)
            previous, rows.image, point = rows.image, moved, moved
            if self.momentum:
                point = (moved + (iteration + 1) / (iteration + 4) * (moved - previous)).clamp(0, 1)
                found |= self.accept(rows, models.classifier(moved).softmax(1))
            if bar is not None:
                bar.update()
        if not self.momentum:
            found |= self.accept(rows, models.classifier(rows.image).softmax(1))
        return found

    @torch.enable_grad()
    def gradient(self, models: AutoencoderModels, rows: ProtoRows, point: Tensor) -> tuple[Tensor, Tensor]:
        """The gradient of the loss's smooth part at `point`, per row, and the probabilities (n, classes) there."""
        point = point.detach().requires_grad_()
        probabilities = models.classifier(point).softmax(1)
        encoding = models.autoencoder.encode(point)  # for the terms of both the autoencoder and the prototype
        others = probabilities.scatter(1, rows.label[:, None], -INFINITE).amax(1)
        away = F.relu(_of(probabilities, rows.label) - others + self.confidence_margin)
        loss = (rows.loss_weight * away).sum() + (point - rows.original).square().sum()
        if self.autoencoder_weight:
            loss = loss + self.autoencoder_weight * (models.autoencoder.decode(encoding) - point).square().sum()
        if self.prototype_weight:
            loss = loss + self.prototype_weight * (encoding - rows.prototype).square().sum()
        return torch.autograd.grad(loss, point)[0], probabilities.detach()

    def shrink(self, moved: Tensor, original: Tensor) -> Tensor:
        """Reduces the change of every pixel by `sparsity`, to zero if the change is smaller; then clips to [0, 1].

        As in alibi, the threshold is not scaled by the learning rate: a pixel needs a steep gradient to leave.
        """
        change = moved - original
        nearer = torch.where(change > 0, (moved - self.sparsity).clamp(max=1), (moved + self.sparsity).clamp(min=0))
        return torch.where(change.abs() > self.sparsity, nearer, original)

    def accept(self, rows: ProtoRows, probabilities: Tensor) -> Tensor:
        """Keeps the counterfactuals that are nearer than any before; which iterates, (n,) bool, are counterfactuals."""
        margin = torch.full_like(probabilities[:, :1], self.confidence_margin)
        raised = probabilities.scatter_add(1, rows.label[:, None], margin)
        accepted = (raised.argmax(1) != rows.label) & (probabilities.argmax(1) == rows.target)
        change = (rows.image - rows.original).flatten(1)
        distance = change.square().sum(1) + self.sparsity * change.abs().sum(1)
        rows.confidence = _of(probabilities, rows.target)
        nearest = accepted & (distance < rows.best_distance)
        rows.best_distance = torch.where(nearest, distance, rows.best_distance)
        rows.best_confidence = torch.where(nearest, rows.confidence, rows.best_confidence)
        rows.best = torch.where(nearest[:, None, None, None], rows.image, rows.best)
        return accepted


@torch.no_grad()
def prototypes(encoded: Tensor, targets: Tensor, encodings: dict[int, Tensor], neighbours: int) -> Tensor:
    """The mean of the `neighbours` encodings of the target's class that are nearest to each of `encoded`, exactly."""
    prototype = torch.empty_like(encoded)
    for target in targets.unique().tolist():
        if (count := len(encodings.get(target, ()))) < neighbours:
            raise InputError(
                f"the classifier predicts class {target} for {count} training images; "
                f"{neighbours} neighbours are asked for."
            )
        rows, known = targets == target, encodings[target]
        # Not by matrix multiplication: its rounding would swap near neighbours.
        distance = torch.cdist(encoded[rows].flatten(1), known, compute_mode="donot_use_mm_for_euclid_dist")
        nearest = distance.topk(neighbours, largest=False).indices
        prototype[rows] = known[nearest].mean(1).view_as(encoded[rows])
    return prototype


def _of(probabilities: Tensor, classes: Tensor) -> Tensor:
    return probabilities.gather(1, classes[:, None]).squeeze(1)
