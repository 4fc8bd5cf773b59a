"""Is it any good? What the models can do, measured, beside what is known of the authors' models."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from deduce import compute
from deduce.density import ClassDensities
from deduce.frechet import frechet_distance, sample_distance
from deduce.models.autoencoder import Autoencoder
from deduce.models.resnet import PlainResNet, SpectralResNet, accuracy, all_features
from deduce.models.spectral import operator_norms
from deduce.models.vae import VAE, divergence
from deduce.models.wgan import WGAN

ACTIVE = 0.01  # variance of a latent dimension's mean over the test images, above which it carries something
SAMPLES = 10_000  # the whole test set: its halves differ, the first has fainter digits


@dataclass
class Models:
    """The models that a card describes, evaluated and on one device."""

    ddu: SpectralResNet
    density: ClassDensities
    plain: PlainResNet
    vae: VAE
    autoencoder: Autoencoder
    wgan: WGAN


@torch.no_grad()
def model_card(
    models: Models, test: tuple[Tensor, Tensor], train: Tensor, outliers: Tensor, mnist: bool
) -> pd.DataFrame:
    """One row per quantity: `model, quantity, value, reference, note`.

    `test` and `train` are the dataset's images, `outliers` another dataset's; all (n, channels, height, width) in
    [0, 1]. The references are of the authors' models and are left out unless the dataset is MNIST.
    """
    rows = [
        *_classifiers(models, *test),
        *_density(models, test[0], outliers),
        *_vae(models.vae, test[0]),
        *_autoencoder(models.autoencoder, test[0]),
        *_wgan(models, test[0], train),
    ]
    card = pd.DataFrame(rows, columns=["model", "quantity", "value", "reference", "note"])
    return card if mnist else card.assign(reference=None)


Row = tuple[str, str, float, Any, str]


def _classifiers(models: Models, images: Tensor, labels: Tensor) -> Iterator[Row]:
    note = "reference: of the first 500 test images"
    yield "ddu", "test accuracy", accuracy(models.ddu, images, labels), 0.996, note
    norms = operator_norms(models.ddu)
    largest = max(norms, key=lambda name: norms[name])
    bound = models.ddu.arguments["coefficient"]
    yield "ddu", "largest operator norm", norms[largest], bound, f"of {largest}; reference: the bound c"
    yield "ddu", "parameters", _parameters(models.ddu), 10_998_986, "reference: width 64"
    yield "plain", "test accuracy", accuracy(models.plain, images, labels), 0.992, note
    yield "plain", "parameters", _parameters(models.plain), 11_175_370, "reference: width 64"


def _density(models: Models, images: Tensor, outliers: Tensor) -> Iterator[Row]:
    inside, outside = (models.density(all_features(models.ddu, some)).cpu() for some in (images, outliers))
    known = torch.cat([torch.ones(len(inside)), torch.zeros(len(outside))])
    auroc = float(roc_auc_score(known, torch.cat([inside, outside])))
    yield "density", "AUROC against the other dataset", auroc, None, "test images of both; should be at least 0.95"
    yield "density", "median log-density, test images", inside.median().item(), None, ""
    yield "density", "median log-density, other dataset", outside.median().item(), None, ""
    yield "density", "jitter", models.density.jitter.item(), None, "added to the variances of the features"


def _vae(vae: VAE, images: Tensor) -> Iterator[Row]:
    mean, log_variance = (torch.cat(parts) for parts in zip(*map(vae.encode, images.split(1000)), strict=True))
    difference = torch.cat([vae.decode(some) for some in mean.split(1000)]) - images
    active = int((mean.var(0) > ACTIVE).sum())
    note = "per test image, decoding the mean"
    yield "vae", "squared error", difference.square().flatten(1).sum(1).mean().item(), 8.63, note
    yield "vae", "absolute error", difference.abs().flatten(1).sum(1).mean().item(), 30.08, note
    yield "vae", "KL divergence", divergence(mean, log_variance).sum(1).mean().item(), 12.9, "per test image"
    yield "vae", "active dimensions", active, 13, f"of {mean.shape[1]}: variance of the mean above {ACTIVE}"


def _autoencoder(autoencoder: Autoencoder, images: Tensor) -> Iterator[Row]:
    errors = [(autoencoder(some) - some).square().sum() for some in images.split(1000)]
    yield "autoencoder", "squared error per pixel", (sum(errors) / images.numel()).item(), 0.00156, "test images"


def _wgan(models: Models, images: Tensor, train: Tensor) -> Iterator[Row]:
    images, train = images[:SAMPLES], train[:SAMPLES]
    samples = wgan_samples(models.wgan, SAMPLES)
    yield "wgan", "mean pixel of samples", samples.mean().item(), 0.133, f"test images: {images.mean():.4f}"
    floor = sample_distance(train, images)
    note = f"Fréchet, 50 principal components of the pixels; training to test images: {floor:.3g}"
    yield "wgan", "distance of samples to test images (pixels)", sample_distance(samples, images), None, note
    features, real, other = (all_features(models.ddu, some) for some in (samples, images, train))
    note = f"Fréchet, features of the ddu classifier; training to test images: {frechet_distance(other, real):.3g}"
    yield "wgan", "distance of samples to test images (features)", frechet_distance(features, real), None, note
    sure = (models.ddu.head(features).softmax(1).amax(1) > 0.9).double().mean().item()
    yield "wgan", "samples classified with confidence above 0.9", sure, None, "by the ddu classifier"


@torch.no_grad()
def wgan_samples(wgan: WGAN, count: int) -> Tensor:
    """Images (count, channels, 28, 28) from latent vectors that are always the same."""
    latent = torch.randn(count, wgan.generator.latent, generator=compute.generator("samples"))
    device = next(wgan.parameters()).device
    return torch.cat([wgan.generator(some.to(device)) for some in latent.split(1000)])


def _parameters(network: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())
