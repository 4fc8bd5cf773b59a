"""Realism: the fast AnoGAN against the textbook, its independence of batches, and the scores beside it."""

import gzip
import logging
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from textbook_anogan import textbook_scores
from torch import nn

from deduce import compute, models
from deduce.density import ClassDensities
from deduce.errors import InputError
from deduce.models.class_autoencoders import ClassAutoencoders
from deduce.models.resnet import SpectralResNet
from deduce.models.wgan import WGAN
from deduce.realism import sanity
from deduce.realism.anogan import AnoGAN
from deduce.realism.frozen import FrozenWGAN, product_scheme
from deduce.realism.opinions import interpretability
from deduce.realism.score import Judges, score
from deduce.training import Plan, train
from deduce.training.class_autoencoders import ClassAutoencoding, side_by_side

ROOT = Path(__file__).parent.parent


def setting(name: str) -> dict:
    """The `realism.anogan` section of the default config under an overlay."""
    section = yaml.safe_load((ROOT / "config.yaml").read_text())["realism"]["anogan"]
    overlay = yaml.safe_load((ROOT / "config" / f"{name}.yaml").read_text())
    return section | overlay.get("realism", {}).get("anogan", {})


def example_wgan(width: int = 16, contrast: float = 0.3) -> WGAN:
    """A WGAN whose normalisations have statistics that matter, and whose images vary."""
    torch.manual_seed(0)
    wgan = WGAN(width=width)
    for layer in wgan.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.uniform_(layer.weight, 0.5, 1.5)
            nn.init.normal_(layer.bias, 0, 0.3)
    nn.init.normal_(wgan.generator.layers[-2].weight, 0, contrast)
    nn.init.constant_(wgan.generator.layers[-2].bias, -1)
    wgan.train()
    with torch.no_grad():
        for _ in range(20):
            wgan.critic(wgan(torch.randn(64, wgan.generator.latent)))
    return wgan.eval()


@pytest.fixture(scope="module")
def wgan() -> WGAN:
    return example_wgan()


@pytest.fixture(scope="module")
def images(wgan: WGAN) -> np.ndarray:
    """Sixty images, from nearly what the generator can make to noise."""
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        made = wgan(torch.randn(60, wgan.generator.latent, generator=random))
    noise = torch.rand(made.shape, generator=random)
    return torch.lerp(made, noise, torch.linspace(0.1, 1, 60)[:, None, None, None]).numpy()


def starts(anogan: AnoGAN, keys: list, latent: int = 64) -> torch.Tensor:
    draws = [
        [
            torch.randn(latent, generator=compute.generator("anogan", anogan.seed, *key, r))
            for r in range(anogan.restarts)
        ]
        for key in keys
    ]
    return torch.stack([torch.stack(rows) for rows in draws])


@pytest.mark.parametrize("width", [16, 64])
def test_the_frozen_networks_are_the_networks(width):
    """In double precision nothing but rounding separates loss and gradient from automatic differentiation."""
    wgan = example_wgan(width).double()
    frozen = FrozenWGAN(wgan, rows=7, feature_weight=0.3, dtype=torch.float64)
    random = torch.Generator().manual_seed(2)
    latent = torch.randn(7, 64, generator=random, dtype=torch.float64, requires_grad=True)
    images = torch.rand(7, 1, 28, 28, generator=random, dtype=torch.float64)
    difference = wgan.critic.features(wgan(latent)) - wgan.critic.features(images)
    losses = (wgan(latent) - images).abs().sum((1, 2, 3)) + 0.3 * difference.abs().sum((1, 2, 3))
    (gradient,) = torch.autograd.grad(losses.sum(), latent)
    prepared = frozen.prepare(images)
    for _ in range(2):  # the buffers of the first call must not leak into the second
        found = frozen.gradient(latent.detach(), *prepared)
        assert torch.allclose(found, gradient, rtol=1e-9, atol=1e-12)
        assert torch.allclose(frozen.loss(latent.detach(), *prepared), losses, rtol=1e-10)
    assert gradient.abs().max() > 1e-3


@pytest.mark.parametrize(("side", "kernel"), [(3, 4), (2, 2), (4, 3)])
def test_products_of_polynomials_are_convolutions(side, kernel):
    image, taps = np.random.default_rng(0).normal(size=(2, 6))
    image, taps = image[:side], taps[:kernel]
    at_points, taps_at_points, result = product_scheme(side, kernel)
    assert np.allclose(result @ ((at_points @ image) * (taps_at_points @ taps)), np.convolve(image, taps))


CHANGES = [(60, {}), (12, {"restarts": 3}), (12, {"restarts": 2, "reset_step_per_restart": True})]


@pytest.mark.parametrize(("count", "changes"), CHANGES)
def test_the_fast_path_gives_the_textbooks_scores(wgan, images, count, changes):
    """To 1e-3, after all steps of the test scale."""
    settings = setting("test") | changes
    images, anogan, keys = images[:count], AnoGAN(**settings), [(index, 3) for index in range(count)]
    arguments = {name: settings[name] for name in ("steps", "step_size", "feature_weight", "reset_step_per_restart")}
    expected = textbook_scores(wgan, torch.as_tensor(images), starts(anogan, keys), **arguments)
    found = anogan.score(wgan, images, keys)
    assert np.abs(found - expected.numpy()).max() < 1e-3
    before = AnoGAN(**(settings | {"steps": 1})).score(wgan, images, keys)
    assert (found < before).all() and (before - found).mean() > 0.2  # far more than the tolerance


def test_the_schedule_is_the_released_one(wgan, images):
    """4000 steps of 0.03: 3201 of the first size, then a tenth; the last step is judged before its update."""
    sizes = []

    class Spy:
        def prepare(self, images):
            return images, images

        def gradient(self, latent, *_):
            return torch.ones_like(latent)

        def loss(self, latent, *_):
            sizes.append(-latent[:, 0])
            return latent[:, 0]

    anogan = AnoGAN()
    start = torch.tensor([0.03, 0.003, 0.0003], dtype=torch.float64)
    anogan._descend_block(Spy(), torch.zeros(3), torch.zeros(3, 1, dtype=torch.float64), start)
    assert np.allclose(sizes[0].numpy(), [0.03 * 10.0**-r * (3201 + 798 / 10) for r in range(3)])


def test_restarts_keep_the_divided_step_unless_it_is_reset(wgan, images, monkeypatch):
    seen = {}
    monkeypatch.setattr(
        AnoGAN, "_descend_block", lambda self, frozen, image, latent, sizes: seen.update(sizes=sizes) or latent[:, 0]
    )
    for reset, expected in ((False, [0.03, 0.003, 0.0003]), (True, [0.03] * 3)):
        AnoGAN(reset_step_per_restart=reset).score(wgan, images[:2], [(0, 1), (1, 1)])
        assert np.allclose(seen["sizes"][:6], expected * 2)


def test_a_score_depends_on_its_image_and_key_alone(wgan, images):
    """The same to the last bit in any order and any batch; another seed or target is another score."""
    anogan = AnoGAN(steps=30, restarts=2)
    keys = [(index, index % 10) for index in range(len(images))]
    scores = anogan.score(wgan, images, keys)
    order = np.random.default_rng(0).permutation(len(images))
    assert np.array_equal(anogan.score(wgan, images[order], [keys[i] for i in order]), scores[order])
    assert np.array_equal(anogan.score(wgan, images[41:44], keys[41:44]), scores[41:44])
    assert not np.isclose(anogan.score(wgan, images[:1], [(0, 9)]), scores[:1])
    assert not np.isclose(AnoGAN(steps=30, restarts=2, seed=1).score(wgan, images[:1], keys[:1]), scores[:1])


def test_a_score_does_not_depend_on_the_number_of_threads(wgan, images):
    anogan, keys, before = AnoGAN(steps=8, restarts=3), [(row,) for row in range(60)], torch.get_num_threads()
    scores = {}
    try:
        for threads in (1, 2):  # 180 descents are several blocks: two threads work on two of them at a time
            torch.set_num_threads(threads)
            scores[threads] = anogan.score(wgan, images, keys)
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert (scores[1] == scores[2]).all()


def test_nothing_odd_stops_the_others(wgan, images, caplog):
    odd = images[:4].copy()
    odd[1, 0, 3, 3], odd[2] = np.nan, 0
    anogan, keys = AnoGAN(steps=20), [(index,) for index in range(4)]
    with caplog.at_level(logging.WARNING):
        scores = anogan.score(wgan, odd, keys)
    assert np.isnan(scores).tolist() == [False, True, False, False]
    assert np.array_equal(scores[[0, 3]], anogan.score(wgan, images[[0, 3]], [keys[0], keys[3]]))
    assert "1 images have pixels that are not finite" in caplog.text and "(rows 1)" in caplog.text
    assert "1 images are zero everywhere" in caplog.text
    assert anogan.score(wgan, images[:0], []).shape == (0,)


@pytest.fixture(scope="module")
def judges(wgan: WGAN) -> Judges:
    torch.manual_seed(0)
    return Judges(wgan, ClassAutoencoders(hidden=16, latent=4), SpectralResNet(width=4).eval(), ClassDensities(10, 32))


def test_only_found_rows_are_scored(judges, images):
    found = np.array([True, False, True, True, False])
    index, label, target = np.arange(5), np.array([0, 1, 2, 3, 4]), np.array([5, 6, 2, 8, 9])
    anogan = AnoGAN(steps=5, restarts=1)
    scores = score(judges, anogan, images[:5], index, label, target, found)
    for values in (scores.agan, scores.im2, scores.log_density):
        assert np.array_equal(np.isfinite(values), found)
    assert np.isfinite(scores.im1).tolist() == [True, False, False, True, False]  # row 2's target is its label
    alone = score(judges, anogan, images[3:4], index[3:4], label[3:4], target[3:4], found[3:4])
    assert alone.agan[0] == scores.agan[3]
    nothing = score(judges, anogan, images[:5], index, label, target, np.zeros(5, bool))
    assert np.isnan(nothing.agan).all() and len(nothing) == 5
    empty = score(judges, anogan, images[:0], index[:0], label[:0], target[:0], found[:0])
    empty.check("an empty shard")
    assert len(empty) == 0


def test_interpretability_is_that_of_its_definition(images):
    torch.manual_seed(1)
    autoencoders = ClassAutoencoders(hidden=16, latent=4)
    im1, im2 = interpretability(autoencoders, images[:1], np.array([2]), np.array([7]))
    pixels = torch.as_tensor(images[:1]).flatten(1)
    with torch.no_grad():
        made = autoencoders(pixels.expand(11, -1, -1))[:, 0]
    assert im1[0] == pytest.approx((((pixels - made[7]) ** 2).sum() / ((pixels - made[2]) ** 2).sum()).item(), rel=1e-4)
    assert im2[0] == pytest.approx((((made[7] - made[10]) ** 2).sum() / pixels.sum()).item(), rel=1e-4)


def test_each_autoencoder_learns_its_own_class(tmp_path):
    """Stripes across in one class, down in the other: each network is better at its own."""
    compute.deterministic(0)
    labels = torch.arange(400) % 2
    images = torch.rand(400, 1, 4, 1).repeat_interleave(7, dim=2).repeat_interleave(28, dim=3)
    images[labels == 1] = images[labels == 1].transpose(2, 3)
    rows = side_by_side(images, labels, 2), torch.zeros(200)
    assert rows[0].shape == (200, 2, 28, 28)
    task = ClassAutoencoding(ClassAutoencoders(2, 784, 64, 8), 0.005)
    train(task, Plan(30, 50, 0), rows, rows, tmp_path / "model.safetensors")
    network = models.load(tmp_path / "model.safetensors")
    im1, _ = interpretability(network, images.numpy(), (1 - labels).numpy(), labels.numpy())
    assert (im1 < 1).mean() > 0.95
    assert np.isnan(interpretability(network, images.numpy(), labels.numpy(), labels.numpy())[0]).all()


def test_auroc_counts_pairs():
    random = np.random.default_rng(0)
    inside, outside = random.integers(0, 8, 40).astype(float), random.integers(3, 12, 30).astype(float)
    pairs = (outside[:, None] > inside) + 0.5 * (outside[:, None] == inside)
    assert sanity.auroc(inside, outside) == pytest.approx(pairs.mean())
    low, high = sanity.bootstrap(inside, outside, 300, 0)
    assert low < pairs.mean() < high <= 1
    assert sanity.bootstrap(inside, outside, 300, 0) == (low, high)


def test_what_is_absent_is_said(tmp_path):
    scores = {"mnist": np.array([1.0, 2, 3, np.nan]), "fashion_mnist": np.array([2.5, 9, 8])}
    table = sanity.table("mnist", scores, ["emnist_letters"], 50).set_index("against")
    assert table.loc["fashion_mnist", "auroc"] == pytest.approx(8 / 9)
    assert table.loc["fashion_mnist", "images"] == 3 and table.loc["fashion_mnist", "paper"] == 0.998
    assert np.isnan(table.loc["emnist_letters", "auroc"]) and "not here" in table.loc["emnist_letters", "note"]
    figure = sanity.roc_figure("mnist", scores, table.reset_index())
    figure.savefig(tmp_path / "roc.png")
    curve = figure.axes[0].lines[0].get_xydata()
    assert curve[0].tolist() == [0, 0] and curve[-1].tolist() == [1, 1]


def test_emnist_is_read_from_a_folder(tmp_path):
    with pytest.raises(InputError, match="realism.emnist_folder"):
        sanity.emnist_letters(tmp_path)
    pixels = np.arange(2 * 784, dtype=np.int64).astype(np.uint8)
    content = np.array([2051, 2, 28, 28], ">i4").tobytes() + pixels.tobytes()
    path = tmp_path / (sanity.EMNIST_FILE + ".gz")
    path.write_bytes(gzip.compress(content))
    images = sanity.emnist_letters(tmp_path)
    assert images.shape == (2, 1, 28, 28) and images.dtype == np.float32
    assert np.array_equal(images.ravel(), (pixels / np.float32(255)).astype(np.float32))
    path.write_bytes(gzip.compress(content[:-1]))
    with pytest.raises(InputError, match="not a whole IDX file"):
        sanity.emnist_letters(tmp_path)


def test_the_same_images_are_chosen_every_time():
    chosen = sanity.choice("mnist", 1000, 50)
    assert len(set(chosen)) == 50 and np.array_equal(chosen, sanity.choice("mnist", 1000, 50))
    assert np.array_equal(sanity.choice("mnist", 10, 50), np.arange(10))
