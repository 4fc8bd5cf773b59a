"""Trains every model, by one loop that survives a kill.

After each epoch the loop writes the state of the training to one file. Random numbers come from generators that are
keyed by seed and epoch. A resumed training therefore sees the same batches and the same noise as an uninterrupted one,
and ends in the same weights.
"""

from __future__ import annotations

import logging
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

from deduce import compute, models
from deduce.artifacts import atomic, save_csv
from deduce.datasets import Dataset, load
from deduce.errors import InputError

if TYPE_CHECKING:
    import pandas as pd  # imported where it is used: every job that loads a model imports this module

log = logging.getLogger(__name__)

# The learning rate as a multiple of its peak, by progress in (0, 1). The paper's steps follow epochs 25 and 40 of 50.
SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda progress: 1.0,
    "paper": lambda progress: 1.0 if progress < 0.5 else 0.1 if progress < 0.8 else 0.01,
    "one_cycle": lambda progress: min(progress / 0.2, (1 - progress) / 0.8),
}


@dataclass
class Batch:
    """The images of one training step."""

    images: Tensor  # (n, channels, height, width) in [0, 1]
    labels: Tensor  # (n,)
    number: int  # of earlier batches since the training began
    generator: torch.Generator  # for noise; on the CPU, so that every device gets the same

    def noise(self, *shape: int) -> Tensor:
        return compute.sent(torch.randn(*shape, generator=self.generator), self.images.device)


class Task(ABC):
    """What the loop needs to know of a model: its optimisers, what to do with a batch, and how to judge it.

    A task is made from a network, its settings and the models that it needs. Everything that training changes is in the
    state dictionaries of `module` and `optimisers`.
    """

    module: nn.Module
    optimisers: list[torch.optim.Optimizer]
    # Validation images per training image: the paper has 10,000 for its 50,000.
    validation_share: float = 0.2

    def __init__(self, network: Any, settings: dict[str, Any]) -> None:
        """Trains all weights by Adam, unless a task overrides this."""
        self.module = self.network = network
        self.optimisers = [torch.optim.Adam(network.parameters(), settings["learning_rate"])]

    def arranged(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Training or validation data in the form that this task uses."""
        return images, labels

    @abstractmethod
    def step(self, batch: Batch) -> dict[str, Tensor]:
        """Learns from one batch; the values returned are averaged over the epoch into the record."""

    def evaluate(self, images: Tensor, labels: Tensor) -> dict[str, float]:
        """Measures the model, in evaluation mode, on validation images after each epoch."""
        return {}

    def result(self) -> nn.Module:
        """The model to save."""
        return self.module


@dataclass
class Plan:
    """For how long and in what batches a task learns."""

    epochs: int
    batch_size: int
    seed: int
    schedule: str = "constant"


Data = tuple[Tensor, Tensor]  # images (n, channels, height, width) in [0, 1] and labels (n,)


def fit(
    name: str,
    settings: dict[str, Any],
    dataset: Dataset,
    root: str | Path,
    output: str | Path,
    seed: int,
    source: str = "",
    **needed: nn.Module,
) -> pd.DataFrame:
    """Trains a registered model on the dataset below `root`, and saves it as `output`; returns its record.

    needed: the models that it is made from, by role. source: a digest of the code, which a checkpoint remembers.
    """
    count = settings["training_images"]
    training = load(root, dataset.name, "train", count)
    compute.deterministic(seed)
    task = models.REGISTRY[name].training_task(settings, dataset, **needed)
    training = task.arranged(*training)
    validation = task.arranged(*load(root, dataset.name, "validation", int(task.validation_share * count)))
    if not task.optimisers:  # the model has a closed form: one step on all training images
        record = task.step(Batch(*training, number=0, generator=compute.generator("closed form")))
        return _save(task, output, [{key: value.item() for key, value in record.items()}])
    plan = Plan(settings["epochs"], settings["batch_size"], seed, settings["schedule"])
    return train(task, plan, training, validation, output, (settings, source))


def _save(task: Task, output: str | Path, record: list[dict[str, float]]) -> pd.DataFrame:
    import pandas as pd

    models.save(output, task.result())
    table = pd.DataFrame(record)
    save_csv(Path(output).with_suffix(".csv"), table)
    return table


def train(
    task: Task, plan: Plan, training: Data, validation: Data, output: str | Path, settings: Any = None
) -> pd.DataFrame:
    """Trains, or resumes after a kill, and saves the model as `output` (.safetensors), with .json and .csv.

    `settings` is anything else that the weights depend on: a checkpoint with other settings is ignored. Returns the
    record, one row per epoch.
    """
    output = Path(output)
    checkpoint = output.with_suffix(".checkpoint")
    device = compute.device()
    images, labels = (tensor.to(device) for tensor in training)
    held_out = tuple(tensor.to(device) for tensor in validation)
    task.module.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # fast on CPUs
    made_with = repr((plan, settings, getattr(task.module, "precision", None)))
    record = _resume(task, checkpoint, made_with)
    batches = math.ceil(len(images) / plan.batch_size)
    with tqdm(total=plan.epochs * batches, initial=len(record) * batches, desc=output.stem, mininterval=2) as progress:
        for epoch in range(len(record), plan.epochs):
            started = time.perf_counter()
            task.module.train()
            averages = _epoch(task, plan, epoch, images, labels, progress)
            task.module.eval()
            with torch.no_grad():
                averages |= task.evaluate(*held_out)
            if not all(map(math.isfinite, averages.values())):
                raise InputError(f"training of '{output.stem}' diverged in epoch {epoch + 1}; lower its learning rate.")
            record.append({"epoch": epoch + 1, **averages, "seconds": round(time.perf_counter() - started, 2)})
            log.info("%s", ", ".join(f"{name} {value:.5g}" for name, value in record[-1].items()))
            _keep(task, checkpoint, made_with, record)
    table = _save(task, output, record)
    checkpoint.unlink(missing_ok=True)
    return table


def _epoch(task: Task, plan: Plan, epoch: int, images: Tensor, labels: Tensor, progress: tqdm) -> dict[str, float]:
    """One pass over the training images in a new order; the averages of what the steps return."""
    generator = compute.generator("training", plan.seed, epoch)
    order = compute.sent(torch.randperm(len(images), generator=generator), images.device).split(plan.batch_size)
    values: dict[str, list[Tensor]] = {}
    for index, rows in enumerate(order):
        number = epoch * len(order) + index
        multiple = SCHEDULES[plan.schedule]((number + 0.5) / (plan.epochs * len(order)))
        for group in (group for optimiser in task.optimisers for group in optimiser.param_groups):
            group["lr"] = group.setdefault("peak_lr", group["lr"]) * multiple
        if len(rows) > 1:  # batch-norm cannot normalise a single image
            for name, value in task.step(Batch(images[rows], labels[rows], number, generator)).items():
                values.setdefault(name, []).append(value.detach())
        progress.update()
    return {name: torch.stack(batches).mean().item() for name, batches in values.items()}


def descend(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    """One step of the optimiser down the gradient of a scalar loss."""
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()


def _keep(task: Task, checkpoint: Path, made_with: str, record: list[dict[str, float]]) -> None:
    state = {
        "made_with": made_with,
        "record": record,
        "module": task.module.state_dict(),
        "optimisers": [optimiser.state_dict() for optimiser in task.optimisers],
    }
    with atomic(checkpoint) as temporary:
        torch.save(state, temporary)


def _resume(task: Task, checkpoint: Path, made_with: str) -> list[dict[str, float]]:
    """Loads a checkpoint of the same training, if there is one; the record of the epochs done."""
    if not checkpoint.exists():
        return []
    try:
        state = torch.load(checkpoint, map_location=compute.device(), weights_only=True)
    except (RuntimeError, UnpicklingError, EOFError) as error:
        log.warning("%s is damaged (%s): training starts afresh", checkpoint, error)
        return []
    if state["made_with"] != made_with:
        log.info("%s was made with other settings: training starts afresh", checkpoint)
        return []
    task.module.load_state_dict(state["module"])
    for optimiser, optimiser_state in zip(task.optimisers, state["optimisers"], strict=True):
        optimiser.load_state_dict(optimiser_state)
    log.info("resuming after epoch %d, from %s", len(state["record"]), checkpoint)
    return state["record"]
