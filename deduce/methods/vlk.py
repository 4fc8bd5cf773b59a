"""VLK (Van Looveren and Klaise): sparse counterfactuals, kept on the data by an autoencoder and a class prototype.

The algorithm is that of alibi's `CounterfactualProto`, which deduce/alibi_reference.py runs for real; this is the same
for a batch of pairs at a time. docs/vlk.md says how closely the two agree.
"""

import sys
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from deduce.errors import InputError
from deduce.fold import device_of, frozen
from deduce.search import Models, Result, Rows, checked_pairs, prepared

INFINITE = 1e10  # what alibi starts distances and the upper bound of the loss weight with


@dataclass(frozen=True)
class VLK:
    """Hyper-parameters; the defaults are those of alibi's MNIST example, whose names stand beside them."""

    name: ClassVar[str] = "vlk"
    display_name: ClassVar[str] = "VLK"
    target_confidence: ClassVar[None] = None  # VLK cannot prescribe one: the target is the likeliest class, no more

    confidence_margin: float = 0.0  # kappa
    sparsity: float = 0.1  # beta
    autoencoder_weight: float = 100.0  # gamma
    prototype_weight: float = 100.0  # theta
    initial_loss_weight: float = 1.0  # c_init
    loss_weight_steps: int = 2  # c_steps
    max_iterations: int = 1000  # of each of those steps; none stops early
    learning_rate: float = 0.01  # learning_rate_init
    gradient_clip: float = 1000.0  # clip
    neighbours: int = 5  # k
    training_images: int = 50_000  # among how many the neighbours are looked for
    # alibi means to accelerate its descent, but updates two variables in no fixed order, so that nearly always the
    # momentum vanishes (docs/vlk.md). This is the algorithm as intended.
    momentum: bool = False
    batch_size: int = 128

    def __post_init__(self) -> None:
        for name in ("loss_weight_steps", "max_iterations", "neighbours", "training_images", "batch_size"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; it must be at least 1.")

    def settings(self) -> dict[str, Any]:
        return asdict(self)

    def generate(
        self,
        classifier: nn.Module,
        autoencoder: Any,
        training: Tensor | dict[int, Tensor],
        images: Tensor,
        targets: Tensor,
        allow_reached: bool = False,
        progress: bool = False,
    ) -> Result:
        """Counterfactuals of images (n, channels, height, width) in [0, 1] for targets (n,), one row each.

        classifier: any module that gives logits.
        autoencoder: a module with `encode(images) -> encodings` and `decode(encodings) -> images`.
        training: images (m, channels, height, width) in [0, 1], among which the prototypes of targets are looked
            for; or their `class_encodings`, computed before.
        """
        classifier = prepared(classifier, images)
        images, targets = checked_pairs(classifier, images, targets, allow_reached)
        if isinstance(training, Tensor):
            training = self.class_encodings(classifier, autoencoder, training)
        models = Models(classifier=classifier, autoencoder=prepared_autoencoder(autoencoder, classifier))
        result = Result.empty(images)
        searched = _record_reached(result, models, images, targets)
        batches = searched.tensor_split(-(-len(searched) // self.batch_size)) if len(searched) else ()
        total = len(batches) * self.loss_weight_steps * self.max_iterations
        interval = 0.1 if sys.stderr.isatty() else 30
        with tqdm(total=total, desc=self.display_name, disable=not progress, mininterval=interval) as bar:
            for index in batches:
                rows = self.start(models, training, images[index], targets[index])
                self.search(models, rows, bar)
                _record(result, index, rows)
                result.iterations[index] = self.loss_weight_steps * self.max_iterations
        return result

    @torch.no_grad()
    def class_encodings(self, classifier: nn.Module, autoencoder: Any, images: Tensor) -> dict[int, Tensor]:
        """The encodings, each flattened, of the training images that the classifier predicts to be of each class."""
        classifier = prepared(classifier, images)
        models = Models(classifier=classifier, autoencoder=prepared_autoencoder(autoencoder, classifier))
        labels, encodings = [], []
        for some in images[: self.training_images].to(device_of(classifier)).split(1000):
            labels.append(_probabilities(models, some).argmax(1))
            encodings.append(models.autoencoder.encode(some).flatten(1))
        label, encoding = torch.cat(labels), torch.cat(encodings)
        return {int(value): encoding[label == value] for value in label.unique()}

    @torch.no_grad()
    def start(self, models: Models, encodings: dict[int, Tensor], images: Tensor, targets: Tensor) -> Rows:
        """The rows before the search; every tensor's first dimension is the row, and no row sees another."""
        original, target = (tensor.to(device_of(models.classifier)) for tensor in (images, targets))
        probabilities = models.classifier(original).softmax(1)
        value = torch.zeros(len(original), device=original.device)
        encoded = models.autoencoder.encode(original)
        return Rows(
            original=original,
            target=target,
            label=probabilities.argmax(1),  # what the search moves away from is the prediction, whatever the truth
            prototype=prototypes(encoded, target, encodings, self.neighbours),
            loss_weight=value + self.initial_loss_weight,  # c, and the bounds between which it is looked for
            lower=value.clone(),
            upper=value + INFINITE,
            image=original,
            confidence=_of(probabilities, target),
            best=original.clone(),
            best_distance=value + INFINITE,
            best_confidence=value.clone(),
        )

    def search(self, models: Models, rows: Rows, bar: Any = None) -> None:
        """Descends from the original once per loss weight; `rows.best` is the nearest counterfactual seen in all."""
        for _ in range(self.loss_weight_steps):
            found = self.descend(models, rows, bar)
            rows.upper = torch.where(found, torch.minimum(rows.upper, rows.loss_weight), rows.upper)
            rows.lower = torch.where(found, rows.lower, torch.maximum(rows.lower, rows.loss_weight))
            between, bounded = (rows.lower + rows.upper) / 2, rows.upper < INFINITE
            rows.loss_weight = torch.where(bounded, between, 10 * rows.loss_weight)

    def descend(self, models: Models, rows: Rows, bar: Any = None) -> Tensor:
        """Iterative shrinkage with the rows' present loss weights; which rows, (n,) bool, met a counterfactual."""
        found = torch.zeros_like(rows.target, dtype=torch.bool)
        rows.image = point = rows.original  # the iterate, and the point whose gradient is taken
        for iteration in range(self.max_iterations):
            gradient, probabilities = self.gradient(models, rows, point)
            if iteration and not self.momentum:  # iterate and point are one: this pass has seen what the last step made
                found |= self.accept(rows, probabilities)
            rate = self.learning_rate * (1 - iteration / self.max_iterations) ** 0.5
            moved = self.shrink(point - rate * gradient.clamp(-self.gradient_clip, self.gradient_clip), rows.original)
            previous, rows.image = rows.image, moved
            point = moved
            if self.momentum:
                point = (moved + (iteration + 1) / (iteration + 4) * (moved - previous)).clamp(0, 1)
                found |= self.accept(rows, _probabilities(models, moved))
            if bar is not None:
                bar.update()
        if not self.momentum:
            found |= self.accept(rows, _probabilities(models, rows.image))
        return found

    def gradient(self, models: Models, rows: Rows, point: Tensor) -> tuple[Tensor, Tensor]:
        """Of the smooth part of the loss at `point`, per row; and the classes' probabilities there, (n, classes)."""
        point = point.detach().requires_grad_()
        probabilities = models.classifier(point).softmax(1)
        encoding = models.autoencoder.encode(point)  # serves the autoencoder's term and the prototype's
        others = probabilities.scatter(1, rows.label[:, None], -INFINITE).amax(1)
        away = F.relu(_of(probabilities, rows.label) - others + self.confidence_margin)
        loss = (rows.loss_weight * away).sum() + (point - rows.original).square().sum()
        if self.autoencoder_weight:
            error = (models.autoencoder.decode(encoding) - point).square().sum()
            loss = loss + self.autoencoder_weight * error
        if self.prototype_weight:
            loss = loss + self.prototype_weight * (encoding - rows.prototype).square().sum()
        return torch.autograd.grad(loss, point)[0], probabilities.detach()

    def shrink(self, moved: Tensor, original: Tensor) -> Tensor:
        """Takes every pixel's change back by `sparsity`, all of it where it is smaller; then clips to [0, 1].

        As in alibi the threshold is not scaled by the learning rate, so that a pixel needs a steep gradient to leave.
        """
        change = moved - original
        nearer = torch.where(change > 0, (moved - self.sparsity).clamp(max=1), (moved + self.sparsity).clamp(min=0))
        return torch.where(change.abs() > self.sparsity, nearer, original)

    @torch.no_grad()
    def accept(self, rows: Rows, probabilities: Tensor) -> Tensor:
        """Keeps the iterates that are counterfactuals nearer than any before; which rows, (n,) bool, are one at all."""
        raised = probabilities.scatter_add(
            1, rows.label[:, None], torch.full_like(probabilities[:, :1], self.confidence_margin)
        )
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
        if len(encodings.get(target, ())) < neighbours:
            raise InputError(
                f"the classifier predicts class {target} for {len(encodings.get(target, ()))} training images; "
                f"{neighbours} neighbours are asked for."
            )
        of_target = targets == target
        # Not by matrix multiplication: its rounding would swap near neighbours.
        distance = torch.cdist(
            encoded[of_target].flatten(1), encodings[target], compute_mode="donot_use_mm_for_euclid_dist"
        )
        nearest = distance.topk(neighbours, largest=False).indices
        prototype[of_target] = encodings[target][nearest].mean(1).view_as(encoded[of_target])
    return prototype


def _record_reached(result: Result, models: Models, images: Tensor, targets: Tensor) -> Tensor:
    """Answers the pairs whose image is predicted to be of its target, which are not searched; the others' index."""
    where = device_of(models.classifier)
    probabilities = torch.cat([_probabilities(models, some.to(where)).cpu() for some in images.split(100)])
    result.counterfactual.copy_(images)
    result.found = probabilities.argmax(1) == targets
    result.confidence = _of(probabilities, targets)
    return (~result.found).nonzero().squeeze(1)


def _record(result: Result, index: Tensor, rows: Rows) -> None:
    found = rows.best_distance < INFINITE
    result.counterfactual[index] = torch.where(found[:, None, None, None], rows.best, rows.image).cpu()
    result.found[index] = found.cpu()
    result.confidence[index] = torch.where(found, rows.best_confidence, rows.confidence).cpu()


def prepared_autoencoder(autoencoder: Any, classifier: nn.Module) -> Any:
    """Frozen, where the classifier is, in the memory layout that convolutions are fastest in."""
    autoencoder = frozen(autoencoder).to(device_of(classifier))
    return autoencoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


@torch.no_grad()
def _probabilities(models: Models, images: Tensor) -> Tensor:
    return models.classifier(images).softmax(1)


def _of(probabilities: Tensor, classes: Tensor) -> Tensor:
    return probabilities.gather(1, classes[:, None]).squeeze(1)
