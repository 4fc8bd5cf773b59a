"""How good the models are, compared with what is known of the authors' models, and pictures by the generative ones."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from deduce import compute
from deduce.auroc import auroc
from deduce.density import ClassDensities
from deduce.fold import BLOCK, device_of, features_of
from deduce.frechet import PrincipalComponents, frechet_distance
from deduce.models import ORACLES
from deduce.models.autoencoder import Autoencoder
from deduce.models.oracles import Oracles
from deduce.models.resnet import PlainResNet, SpectralResNet, accuracy
from deduce.models.spectral import operator_norms
from deduce.models.vae import VAE, divergence
from deduce.models.wgan import WGAN

ACTIVE = 0.01  # a latent dimension is active if the variance of its mean over the test images is above this
PICTURES, SAMPLE_ROWS = 20, 8  # pictures in a row, and rows of samples
SAMPLES = 10_000  # as many as the whole test set of the paper, whose halves differ: the first has fainter images


@dataclass
class Models:
    """The models that a card describes, in evaluation mode and on one device."""

    ddu: SpectralResNet
    density: ClassDensities
    classifier: SpectralResNet | PlainResNet  # its features are those of the densities
    plain: PlainResNet
    vae: VAE
    autoencoder: Autoencoder
    wgan: WGAN
    oracles: Oracles


@torch.no_grad()
def model_card(
    models: Models, test: tuple[Tensor, Tensor], train: Tensor, outliers: list[Tensor], references: bool
) -> pd.DataFrame:
    """One row per quantity: `model, quantity, value, reference, note`.

    `test` has the dataset's test images and their labels, `train` its training images, `outliers` the test images of at
    most one other dataset; all images are (n, channels, height, width) in [0, 1]. `references` says whether to show the
    values of the authors' models, which are comparable on the paper's dataset only.
    """
    images, labels = test
    features = features_of(models.ddu, images)
    rows = [
        *_classifiers(models, features, images, labels),
        *_density(models, features, images, outliers),
        *_autoencoders(models.vae, models.autoencoder, images),
        *_wgan(models, features, images, train),
        *_oracles(models.oracles, images, labels),
    ]
    card = pd.DataFrame(rows, columns=["model", "quantity", "value", "reference", "note"])
    return card if references else card.assign(reference=None)


Row = tuple[str, str, float, Any, str]


def _classifiers(models: Models, features: Tensor, images: Tensor, labels: Tensor) -> Iterator[Row]:
    note = "reference: of the first 500 test images"
    yield "ddu", "test accuracy", accuracy(models.ddu, images, labels, features), 0.996, note
    norms = operator_norms(models.ddu)
    largest, bound = max(norms, key=norms.__getitem__), models.ddu.arguments["coefficient"]
    yield "ddu", "largest operator norm", norms[largest], bound, f"of {largest}; reference: the bound c"
    yield _precision("ddu", models.ddu)
    yield "ddu", "parameters", sum(map(Tensor.numel, models.ddu.parameters())), 10_998_986, "reference: width 64"
    yield "plain", "test accuracy", accuracy(models.plain, images, labels), 0.992, note
    yield _precision("plain", models.plain)
    yield "plain", "parameters", sum(map(Tensor.numel, models.plain.parameters())), 11_175_370, "reference: width 64"


def _precision(name: str, network: SpectralResNet | PlainResNet) -> Row:
    bits = torch.finfo(getattr(torch, network.precision)).bits
    return name, "bits per factor in training", bits, None, network.precision


def _density(models: Models, of_ddu: Tensor, images: Tensor, outliers: list[Tensor]) -> Iterator[Row]:
    features = of_ddu if models.classifier is models.ddu else features_of(models.classifier, images)
    features_of_others = [features_of(models.classifier, batch) for batch in outliers]
    inside, *others = (models.density(batch).cpu() for batch in (features, *features_of_others))
    for outside in others:
        area = auroc(outside.numpy(), inside.numpy())  # other images should have lower densities
        yield "density", "AUROC against the other dataset", area, None, "test images of both; should be at least 0.95"
    yield "density", "median log-density, test images", inside.median().item(), None, ""
    for outside in others:
        yield "density", "median log-density, other dataset", outside.median().item(), None, ""
    yield "density", "jitter", models.density.jitter.item(), None, "added to the variances of the features"


def _autoencoders(vae: VAE, autoencoder: Autoencoder, images: Tensor) -> Iterator[Row]:
    mean, log_variance = (torch.cat(parts) for parts in zip(*map(vae.encode, images.split(BLOCK)), strict=True))
    difference = torch.cat([vae.decode(block) for block in mean.split(BLOCK)]) - images
    active, note = int((mean.var(0) > ACTIVE).sum()), "per test image, decoding the mean"
    yield "vae", "squared error", difference.square().flatten(1).sum(1).mean().item(), 8.63, note
    yield "vae", "absolute error", difference.abs().flatten(1).sum(1).mean().item(), 30.08, note
    yield "vae", "KL divergence", divergence(mean, log_variance).sum(1).mean().item(), 12.9, "per test image"
    yield "vae", "active dimensions", active, 13, f"of {mean.shape[1]}: variance of the mean above {ACTIVE}"

    error = torch.cat([autoencoder(block) - block for block in images.split(BLOCK)]).square().mean().item()
    yield "autoencoder", "squared error per pixel", error, 0.00156, "test images"


def _wgan(models: Models, features: Tensor, images: Tensor, train: Tensor) -> Iterator[Row]:
    images, train = images[:SAMPLES], train[:SAMPLES]
    samples = wgan_samples(models.wgan, SAMPLES)
    yield "wgan", "mean pixel of samples", samples.mean().item(), 0.133, f"test images: {images.mean():.4f}"
    components = PrincipalComponents(images)
    floor = components.distance(train)
    note = f"Fréchet, 50 principal components of the pixels; training to test images: {floor:.3g}"
    yield "wgan", "distance of samples to test images (pixels)", components.distance(samples), None, note
    generated, test, training = features_of(models.ddu, samples), features[:SAMPLES], features_of(models.ddu, train)
    note = f"Fréchet, features of the ddu classifier; training to test images: {frechet_distance(training, test):.3g}"
    yield "wgan", "distance of samples to test images (features)", frechet_distance(generated, test), None, note
    confident = (models.ddu.head(generated).softmax(1).amax(1) > 0.9).double().mean().item()
    yield "wgan", "samples classified with confidence above 0.9", confident, None, "by the ddu classifier"


def _oracles(oracles: Oracles, images: Tensor, labels: Tensor) -> Iterator[Row]:
    correct = (oracles.seen(images) == labels.to(images.device)).double().mean(1).tolist()
    for name, value in zip(ORACLES, correct, strict=True):
        yield "oracles", f"test accuracy, {name.replace('_', ' ')}", value, None, ""


@torch.no_grad()
def wgan_samples(wgan: WGAN, count: int) -> Tensor:
    """Images (count, channels, height, width) from seeded latent vectors."""
    latent = torch.randn(count, wgan.generator.latent, generator=compute.generator("samples")).to(device_of(wgan))
    return torch.cat([wgan.generator(block) for block in latent.split(BLOCK)])


@torch.no_grad()
def pictures(models: Models, images: Tensor) -> dict[str, np.ndarray]:
    """Samples of the WGAN; the first of the images (n, channels, height, width) and their reconstructions."""
    originals = images[:PICTURES]
    rows = {"samples": wgan_samples(models.wgan, SAMPLE_ROWS * PICTURES), "originals": originals}
    rows |= {"vae": models.vae(originals), "autoencoder": models.autoencoder(originals)}
    return {name: row.clamp(0, 1).cpu().numpy() for name, row in rows.items()}


@torch.no_grad()
def reconstructions(vae: VAE, images: Tensor, samples: int = 3, averaged: int = 50) -> dict[str, np.ndarray]:
    """Appendix B's figure: images, a few sampled reconstructions (samples, n, ...) of each, and the mean of many."""
    mean, log_variance = vae.encode(images)
    noise = torch.randn((averaged, *mean.shape), generator=torch.Generator().manual_seed(0)).to(mean)
    drawn = torch.stack([vae.decode(mean + (log_variance / 2).exp() * draw) for draw in noise])
    arrays = {"original": images, "samples": drawn[:samples], "mean": drawn.mean(0)}
    return {name: values.cpu().numpy().astype(np.float32) for name, values in arrays.items()}
