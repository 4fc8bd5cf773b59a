"""How a classifier learns (section 4.1; the last epoch's weights are kept)."""

import torch
from torch import Tensor
from torch.nn import functional as F

from deduce.models.resnet import PlainResNet, SpectralResNet, accuracy
from deduce.training import Batch, Task, descend


class Classification(Task):
    """Cross-entropy by stochastic gradient descent, with momentum 0.9 and no weight decay."""

    def __init__(self, network: SpectralResNet | PlainResNet, learning_rate: float) -> None:
        self.module = self.network = network
        self.optimisers = [torch.optim.SGD(network.parameters(), learning_rate, momentum=0.9)]

    def step(self, batch: Batch) -> dict[str, Tensor]:
        logits = self.module(batch.images)
        loss = F.cross_entropy(logits, batch.labels)
        descend(self.optimisers[0], loss)
        return {"loss": loss, "accuracy": (logits.argmax(1) == batch.labels).float().mean()}

    def evaluate(self, images: Tensor, labels: Tensor) -> dict[str, float]:
        return {"validation_accuracy": accuracy(self.network, images, labels)}
