"""Realism: the fast AnoGAN against the textbook, its independence of batches, and the scores beside it."""

import logging
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from textbook_anogan import textbook_scores
from torch import nn

from deduce import compute, models
from deduce.density import ClassDensities
from deduce.evaluation.metrics import METRICS, ROLES, SCORES, Metric
from deduce.models.class_autoencoders import ClassAutoencoders, ClassAutoencoding
from deduce.models.oracles import Oracles
from deduce.models.resnet import SpectralResNet
from deduce.models.wgan import WGAN
from deduce.realism import opinions
from deduce.realism.anogan import AnoGAN, AutodiffGAN
from deduce.realism.fast_wgan import FastWGAN, product_scheme
from deduce.realism.opinions import interpretability
from deduce.realism.score import Images, choice, score
from deduce.shards import ContractError, Scores
from deduce.training import Plan, train

ROOT = Path(__file__).parent.parent


def setting(name: str) -> dict:
    """The `realism.anogan` section of the default config under an overlay."""
    section = yaml.safe_load((ROOT / "config.yaml").read_text())["realism"]["anogan"]
    overlay = yaml.safe_load((ROOT / "config" / f"{name}.yaml").read_text())
    return section | overlay.get("realism", {}).get("anogan", {})


def example_wgan(width: int = 16, contrast: float = 0.3) -> WGAN:
    """A WGAN whose normalisations have statistics that matter, and whose images vary."""
    torch.manual_seed(0)
    wgan = WGAN(64, 1, width, 16)
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
def images(wgan: WGAN) -> torch.Tensor:
    """Sixty images, from nearly what the generator can make to noise."""
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        generated = wgan(torch.randn(60, wgan.generator.latent, generator=random))
    noise = torch.rand(generated.shape, generator=random)
    return torch.lerp(generated, noise, torch.linspace(0.1, 1, 60)[:, None, None, None])


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
def test_the_fast_path_is_the_automatic_one(width):
    """In double precision nothing but rounding separates the fast loss and gradient from automatic differentiation."""
    wgan = example_wgan(width).double()
    fast, automatic = FastWGAN(wgan, 0.3, torch.float64), AutodiffGAN(wgan, 0.3)
    random = torch.Generator().manual_seed(2)
    latent = torch.randn(7, 64, generator=random, dtype=torch.float64)
    images = torch.rand(7, 1, 28, 28, generator=random, dtype=torch.float64)
    with torch.no_grad():
        features = wgan.critic.features(images)
        difference = wgan.critic.features(wgan(latent)) - features
        losses = (wgan(latent) - images).abs().sum((1, 2, 3)) + 0.3 * difference.abs().sum((1, 2, 3))
        prepared = automatic.prepare(images)
        gradient = automatic.gradient(latent, *prepared)
        assert torch.allclose(automatic.loss(latent, *prepared), losses, rtol=1e-10)
        prepared = fast.prepare(images)
        for _ in range(2):  # the buffers of the first call must not leak into the second
            assert torch.allclose(fast.gradient(latent, *prepared), gradient, rtol=1e-9, atol=1e-12)
            assert torch.allclose(fast.loss(latent, *prepared), losses, rtol=1e-10)
    assert gradient.abs().max() > 1e-3 and not gradient.requires_grad


def test_both_paths_give_the_same_scores(wgan, images, monkeypatch):
    anogan, keys = AnoGAN(**setting("test")), [(row,) for row in range(12)]
    assert FastWGAN.supports(wgan)
    fast = anogan.score(wgan, images[:12], keys)
    monkeypatch.setattr(FastWGAN, "supports", staticmethod(lambda gan: False))
    monkeypatch.setattr(FastWGAN, "__init__", None)  # calling it would fail
    assert (anogan.score(wgan, images[:12], keys) - fast).abs().max() < 1e-3


class OtherGAN(nn.Module):
    """A generator and a critic of another architecture, for images of 3 × 16 × 16."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.generator = nn.Sequential(nn.Linear(5, 768), nn.Sigmoid(), nn.Unflatten(1, (3, 16, 16)))
        self.generator.latent = 5
        self.critic = nn.Module()
        self.critic.features = nn.Conv2d(3, 4, 3, 2)


def test_any_generator_can_score_images_of_any_size():
    """An image that the generator can make is found; noise is not."""
    gan = OtherGAN().eval()
    random = torch.Generator().manual_seed(3)
    with torch.no_grad():
        generated = gan.generator(torch.randn(3, 5, generator=random))
    images = torch.cat([generated, torch.rand(3, 3, 16, 16, generator=random)])
    anogan, keys = AnoGAN(steps=300, step_size=0.003), [(row,) for row in range(6)]
    assert not FastWGAN.supports(gan)
    scores = anogan.score(gan, images, keys)
    before = replace(anogan, steps=1).score(gan, images, keys)
    assert (scores[:3] < 0.3 * before[:3]).all() and (scores[3:] > 3 * scores[:3].max()).all()
    assert all(parameter.requires_grad for parameter in gan.parameters())  # the descent works on a copy


def test_no_scorer_mixes_devices(wgan, images):
    """The meta device has no numbers, but refuses to mix with the CPU as a GPU does."""
    meta = AutodiffGAN(example_wgan().to("meta"), 0.1)
    latent, pixels = torch.randn(6, 64, device="meta"), images[:6].to("meta")
    assert meta.gradient(latent, *meta.prepare(pixels)).shape == latent.shape
    assert not FastWGAN.supports(meta.gan)
    autoencoders = ClassAutoencoders(10, 784, 16, 4).to("meta")
    rows = Images(pixels, pixels, *torch.zeros(3, 6, dtype=torch.int64, device="meta"))
    for scorer in (opinions.im1, opinions.im2):
        assert scorer(rows, {"class_autoencoders": autoencoders}, {}).device.type == "meta"


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
    expected = textbook_scores(wgan, images, starts(anogan, keys), **arguments)
    scores = anogan.score(wgan, images, keys)
    assert (scores - expected).abs().max() < 1e-3
    before = AnoGAN(**(settings | {"steps": 1})).score(wgan, images, keys)
    assert (scores < before).all() and (before - scores).mean() > 0.2  # far more than the tolerance


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
        AnoGAN, "_descend_block", lambda self, objective, image, latent, sizes: seen.update(sizes=sizes) or latent[:, 0]
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
    assert torch.equal(anogan.score(wgan, images[order], [keys[i] for i in order]), scores[order])
    assert torch.equal(anogan.score(wgan, images[41:44], keys[41:44]), scores[41:44])
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


def test_unusual_images_do_not_stop_the_others(wgan, images, caplog):
    unusual = images[:4].clone()
    unusual[1, 0, 3, 3], unusual[2] = torch.nan, 0
    anogan, keys = AnoGAN(steps=20), [(index,) for index in range(4)]
    with caplog.at_level(logging.WARNING):
        scores = anogan.score(wgan, unusual, keys)
    assert scores.isnan().tolist() == [False, True, False, False]
    assert torch.equal(scores[[0, 3]], anogan.score(wgan, images[[0, 3]], [keys[0], keys[3]]))
    assert "1 images have pixels that are not finite" in caplog.text and "(rows 1)" in caplog.text
    assert "1 images are zero everywhere" in caplog.text
    assert anogan.score(wgan, images[:0], []).shape == (0,)


SETTINGS = {"anogan": {"steps": 5, "restarts": 1}, "robustness": {"noise": 0.1, "draws": 3}}


@pytest.fixture(scope="module")
def judges(wgan: WGAN) -> dict[str, nn.Module]:
    torch.manual_seed(0)
    autoencoders, classifier = ClassAutoencoders(10, 784, 16, 4), SpectralResNet(4, 1, 10, 28).eval()
    roles = {"wgan": wgan, "class_autoencoders": autoencoders, "density": ClassDensities(10, 32)}
    roles |= {"classifier": classifier, "oracles": Oracles(1, 10, 28).eval()}
    roles |= {"explained": classifier, "retrained": SpectralResNet(4, 1, 10, 28).eval()}
    return roles | {"training": (torch.rand(50, 1, 28, 28), torch.arange(50) % 10)}


def test_only_found_rows_are_scored(judges, images):
    images = images.numpy()
    found = np.array([True, False, True, True, False])
    index, label, target = np.arange(5), np.array([0, 1, 2, 3, 4]), np.array([5, 6, 2, 8, 9])
    scores = score(judges, SETTINGS, images[:5], images[:5], index, label, target, found)
    assert tuple(scores.values) == SCORES and set(ROLES) == set(judges)
    for name in ("agan", "im2", "log_density", "oracle", "oracle_residual"):
        assert np.array_equal(np.isfinite(scores.values[name]), found)
    assert np.isfinite(scores.values["im1"]).tolist() == [
        True,
        False,
        False,
        True,
        False,
    ]  # row 2's target is its label
    alone = score(judges, SETTINGS, images[3:4], images[3:4], index[3:4], label[3:4], target[3:4], found[3:4])
    assert alone.values["agan"][0] == scores.values["agan"][3]
    nothing = score(judges, SETTINGS, images[:5], images[:5], index, label, target, np.zeros(5, bool))
    assert np.isnan(nothing.values["agan"]).all() and len(nothing) == 5
    empty = score(judges, SETTINGS, images[:0], images[:0], index[:0], label[:0], target[:0], found[:0])
    empty.check("an empty shard")
    assert len(empty) == 0


def test_a_metric_is_a_function_and_a_line_of_the_registry(judges, images, tmp_path, monkeypatch):
    """Nothing else changes: the new metric is scored with the models that it names, stored and read back."""
    (tmp_path / "ink.py").write_text("def ink(images, models, settings):\n    return images.pixels.sum((1, 2, 3))\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setitem(METRICS, "ink", Metric("ink", "ink", "ink", scorer="ink:ink"))
    rows, pixels = np.arange(3), images[:3].numpy()
    scores = score(judges, SETTINGS, pixels, pixels, rows, rows, rows + 1, np.ones(3, bool))
    scores.save(tmp_path / "scores.npz")
    loaded = Scores.load(tmp_path / "scores.npz")
    assert list(loaded.values) == [*SCORES, "ink"]
    assert list(score({}, SETTINGS, pixels, pixels, rows, rows, rows + 1, np.ones(3, bool), ["ink"]).values) == ["ink"]
    np.testing.assert_allclose(loaded.values["ink"], pixels.sum((1, 2, 3)), rtol=1e-6)


@pytest.mark.parametrize("column", [np.array(["a", "b"]), np.ones(2, complex), np.ones(3), np.ones((2, 1))])
def test_scores_are_columns_of_floats(tmp_path, column):
    Scores(np.arange(2), np.arange(2), ink=column).save(tmp_path / "scores.npz")
    with pytest.raises(ContractError, match=r"scores.npz: 'ink' must be float of shape \(2,\)"):
        Scores.load(tmp_path / "scores.npz")


def test_interpretability_is_that_of_its_definition(images):
    torch.manual_seed(1)
    autoencoders = ClassAutoencoders(10, 784, 16, 4)
    im1, im2 = interpretability(autoencoders, images[:1], torch.tensor([2]), torch.tensor([7]))
    pixels = images[:1].flatten(1)
    with torch.no_grad():
        rebuilt = autoencoders(pixels.expand(11, -1, -1))[:, 0]
    target, label, every = rebuilt[7], rebuilt[2], rebuilt[10]
    ratio = (pixels - target).square().sum() / (pixels - label).square().sum()
    assert im1.item() == pytest.approx(ratio.item(), rel=1e-4)
    assert im2.item() == pytest.approx(((target - every).square().sum() / pixels.sum()).item(), rel=1e-4)


def test_each_autoencoder_learns_its_own_class(tmp_path):
    """Stripes across in one class, down in the other: each network is better at its own."""
    compute.deterministic(0)
    labels = torch.arange(400) % 2
    images = torch.rand(400, 1, 4, 1).repeat_interleave(7, dim=2).repeat_interleave(28, dim=3)
    images[labels == 1] = images[labels == 1].transpose(2, 3)
    task = ClassAutoencoding(ClassAutoencoders(2, 784, 64, 8), {"learning_rate": 0.005})
    rows = task.arranged(images, labels)
    assert rows[0].shape == (200, 2, 28, 28)
    train(task, Plan(30, 50, 0), rows, rows, tmp_path / "model.safetensors")
    network = models.load(tmp_path / "model.safetensors")
    im1, _ = interpretability(network, images, 1 - labels, labels)
    assert (im1 < 1).float().mean() > 0.95
    assert interpretability(network, images, labels, labels)[0].isnan().all()


def test_the_same_images_are_chosen_every_time():
    chosen = choice("mnist", 1000, 50)
    assert len(set(chosen)) == 50 and np.array_equal(chosen, choice("mnist", 1000, 50))
    assert np.array_equal(choice("mnist", 10, 50), np.arange(10))
