"""The autoencoder of VLK (Van Looveren and Klaise), whose encodings have a quarter of the pixels."""

from torch import Tensor, nn
from torch.nn import functional as F

from deduce.training import Batch, Task, descend


class Autoencoder(nn.Module):
    """Images (n, channels, height, width) in [0, 1], of even height and width; `width` counts the filters."""

    def __init__(self, channels: int, width: int = 16) -> None:
        super().__init__()
        self.arguments = dict(channels=channels, width=width)
        self.encoder = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 1, 3, padding=1),
        )
        self.decoder = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1),
            nn.ReLU(),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, channels, 3, padding=1),
        )

    def encode(self, images: Tensor) -> Tensor:
        """→ (n, 1, height / 2, width / 2), unbounded."""
        return self.encoder(images)

    def decode(self, latent: Tensor) -> Tensor:
        """→ images, roughly in [0, 1]: the last layer is linear."""
        return self.decoder(latent)

    def chains(self) -> dict[str, tuple[nn.Module, ...]]:
        return {"encode": (self.encoder,), "decode": (self.decoder,)}

    def forward(self, images: Tensor) -> Tensor:
        return self.decode(self.encode(images))


class Autoencoding(Task):
    """Mean squared error per pixel, by Adam."""

    def step(self, batch: Batch) -> dict[str, Tensor]:
        loss = F.mse_loss(self.module(batch.images), batch.images)
        descend(self.optimisers[0], loss)
        return {"loss": loss}

    def evaluate(self, images: Tensor, labels: Tensor) -> dict[str, float]:
        errors = [F.mse_loss(self.module(block), block) * len(block) for block in images.split(1000)]
        return {"validation_loss": float(sum(errors)) / len(images)}
