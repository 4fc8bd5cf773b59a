"""A world small enough to train in seconds: five classes of 12 × 12 images, and the paper's networks for them."""

import functools
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deduce.density import ClassDensities
from deduce.models.autoencoder import Autoencoder
from deduce.models.ensemble import AdversarialClassification, Ensemble
from deduce.models.resnet import PlainResNet, SpectralResNet
from deduce.models.vae import VAE
from deduce.training import Batch

CLASSES, SIZE = 5, 12


@dataclass
class World:
    ddu: SpectralResNet
    plain: PlainResNet
    vae: VAE
    densities: ClassDensities
    training_images: Tensor
    training_labels: Tensor
    images: Tensor  # one row per pair
    targets: Tensor


def drawn(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Images (n, 1, 12, 12) of a soft blob, whose place tells the class, on a noisy ground; labels (n,)."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % CLASSES
    places = torch.tensor([[3, 3], [3, 8], [8, 3], [8, 8], [5.5, 5.5]])
    centres = (places[labels] + 0.7 * torch.randn(n, 2, generator=generator))[:, :, None, None]
    grid = torch.arange(SIZE)
    square = (grid[:, None] - centres[:, 0]) ** 2 + (grid - centres[:, 1]) ** 2
    images = 0.7 * torch.exp(-square / 3) + 0.3 * torch.rand(n, SIZE, SIZE, generator=generator)
    return images[:, None], labels


@functools.cache
def world() -> World:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    images, labels = drawn(1500, seed=1)
    ddu = SpectralResNet(4, 1, CLASSES, SIZE)
    plain = PlainResNet(4, 1, CLASSES)
    vae = VAE(8, 1, SIZE)
    trained(ddu, lambda batch, wanted: F.cross_entropy(ddu(batch), wanted), images, labels, rate=0.01, steps=40)
    trained(plain, lambda batch, wanted: F.cross_entropy(plain(batch), wanted), images, labels, rate=0.01, steps=60)
    trained(vae, lambda batch, _: squared_error(vae, batch).sum() / len(batch), images, labels, rate=0.004, steps=150)
    with torch.no_grad():
        densities = ClassDensities.fit(ddu.features(images), labels, CLASSES)
    torch.set_num_threads(threads)
    return World(ddu, plain, vae, densities, images, labels, *pairs_of(50, seed=2))


@functools.cache
def autoencoder() -> Autoencoder:
    """The autoencoder of VLK for this world."""
    w = world()
    torch.manual_seed(0)
    network, data = Autoencoder(1, width=4), (w.training_images, w.training_labels)
    trained(network, lambda batch, _: squared_error(network, batch).mean(), *data, rate=0.01, steps=150)
    return network


class Drawing(nn.Module):
    """The decoder of the VAE in the place of a GAN: `generator(latent)`, and `generator.latent`, the dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = world().vae.decoder
        self.generator.latent = 8


@functools.cache
def ensemble() -> Ensemble:
    """Four small classifiers for this world, trained by their task."""
    w, settings = world(), {"adversarial_step": 0.05, "learning_rate": 0.005}
    torch.manual_seed(0)
    task = AdversarialClassification(Ensemble(4, SIZE * SIZE, 20, CLASSES), settings)
    for number in range(60):
        rows = torch.randint(len(w.training_images), (64,))
        task.step(Batch(w.training_images[rows], w.training_labels[rows], number, torch.Generator()))
    task.module.eval()
    return task.result()


def squared_error(network: nn.Module, images: Tensor) -> Tensor:
    return (network(images) - images).square()


def pairs_of(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """The images and targets of all pairs of n images: (4 n, 1, 12, 12) and (4 n,)."""
    images, labels = drawn(n, seed)
    targets = torch.tensor([[target for target in range(CLASSES) if target != label] for label in labels.tolist()])
    return images.repeat_interleave(CLASSES - 1, 0), targets.flatten()


def trained(network: nn.Module, loss, images: Tensor, labels: Tensor, rate: float, steps: int) -> None:
    optimiser = torch.optim.Adam(network.parameters(), rate)
    for _ in range(steps):
        rows = torch.randint(len(images), (32,))
        optimiser.zero_grad()
        loss(images[rows], labels[rows]).backward()
        optimiser.step()
    network.eval()
