"""The networks: exactly the paper's shapes, the spectral bound, and saving without executing anything."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch
import yaml
from torch import nn
from torch.nn import functional as F

from deduce import model_card, models
from deduce.artifacts import load_json, save_json
from deduce.datasets import DATASETS
from deduce.density import ClassDensities
from deduce.errors import InputError
from deduce.fold import features_of
from deduce.frechet import PrincipalComponents, frechet_distance
from deduce.models.autoencoder import Autoencoder
from deduce.models.oracles import Oracles
from deduce.models.resnet import PlainResNet, SpectralBlock, SpectralResNet, accuracy
from deduce.models.spectral import SoftSpectralBound, bounded, operator_norms
from deduce.models.vae import VAE, divergence
from deduce.models.wgan import WGAN, Critic, Generator
from deduce.training import Task

ROOT = Path(__file__).parent.parent


def parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def test_parameters_of_the_spectral_network():
    convolutions = 9 * (1 * 64)  # stem
    convolutions += 9 * (4 * 64 * 64)  # stage 1: two blocks of two
    convolutions += sum(
        9 * (inputs * outputs + 3 * outputs**2) for inputs, outputs in [(64, 128), (128, 256), (256, 512)]
    )
    normalisations = 2 * (64 + 4 * (64 + 128 + 256 + 512))
    assert parameters(SpectralResNet(64, 1, 10, 28)) == convolutions + normalisations + 512 * 10 + 10 == 10_998_986


def test_parameters_of_the_plain_network():
    shortcuts = sum(inputs * outputs + 2 * outputs for inputs, outputs in [(64, 128), (128, 256), (256, 512)])
    stem = 49 * 64 - 9 * 64  # 7×7 instead of 3×3
    assert parameters(PlainResNet(64, 1, 10)) == 10_998_986 + shortcuts + stem == 11_175_370


def test_parameters_of_the_generative_models():
    encoder = (25 * 32 + 32) + (25 * 32 * 64 + 64) + (3136 * 64 + 64)
    decoder = (32 * 3136 + 3136) + (25 * 64 * 32 + 32) + (25 * 32 * 32 + 32) + (9 * 32 + 1)
    assert parameters(VAE(32, 1, 28)) == encoder + decoder
    half = (9 * 16 + 16) + (9 * 16 * 16 + 16) + (9 * 16 + 1)
    assert parameters(Autoencoder(1)) == 2 * half
    layers = 9 * 64 * 256 + 16 * 256 * 128 + 9 * 128 * 64 + (16 * 64 + 1)
    assert parameters(Generator(64, 1, 64)) == layers + 2 * (256 + 128 + 64)
    assert parameters(Critic(1, 16)) == 25 * (16 + 16 * 32 + 32) + 2 * (16 + 32)


@pytest.mark.parametrize("network", [SpectralResNet(64, 1, 10, 28), PlainResNet(64, 1, 10)], ids=["spectral", "plain"])
def test_sizes_inside_the_classifiers(network):
    sizes = []
    for block in network.blocks:
        block.register_forward_hook(lambda block, inputs, output: sizes.append(tuple(output.shape[1:])))
    network.eval()
    images = torch.rand(2, 1, 28, 28)
    features = network.features(images)
    sides = [28, 28, 14, 14, 7, 7, 4, 4] if isinstance(network, SpectralResNet) else [7, 7, 4, 4, 2, 2, 1, 1]
    assert sizes == [(64 * 2 ** (i // 2), side, side) for i, side in enumerate(sides)]
    assert features.shape == (2, 512)
    assert torch.equal(network(images), network.head(features))
    if isinstance(network, SpectralResNet):  # average pooling over 4×4, as the reference has it
        out = F.leaky_relu(network.normalisation(network.stem(images)))
        torch.testing.assert_close(features, F.avg_pool2d(network.blocks(out), 4).flatten(1))


def test_classifiers_take_images_of_other_shapes():
    for network in (SpectralResNet(4, 3, 7, 33), PlainResNet(4, 3, 7)):
        assert network(torch.rand(2, 3, 33, 33)).shape == (2, 7)


def test_shortcut_averages_even_sides_and_subsamples_odd_ones():
    block = SpectralBlock(2, 4, 2, 8, 4.0)
    images = torch.rand(1, 2, 8, 8)
    assert torch.equal(block.shortcut(images)[:, :2], F.avg_pool2d(images, 2))
    assert not block.shortcut(images)[:, 2:].any()
    odd = torch.rand(1, 2, 7, 7)
    assert torch.equal(block.shortcut(odd)[:, :2], odd[:, :, ::2, ::2])


def test_shapes_of_the_generative_models():
    images = torch.rand(3, 1, 28, 28)
    vae, wgan, autoencoder = VAE(32, 1, 28), WGAN(64, 1, 64, 16), Autoencoder(1)
    mean, log_variance = vae.encode(images)
    assert mean.shape == log_variance.shape == (3, 32)
    assert vae.decode(mean).shape == images.shape
    assert autoencoder.encode(images).shape == (3, 1, 14, 14) and autoencoder(images).shape == images.shape
    assert wgan.generator(torch.randn(3, 64)).shape == images.shape
    assert wgan.critic.features(images).shape == (3, 32, 7, 7) and wgan.critic(images).shape == (3, 4)


def test_divergence_agrees_with_torch():
    mean, log_variance = torch.randn(4, 5), torch.randn(4, 5)
    posterior = torch.distributions.Normal(mean, (log_variance / 2).exp())
    expected = torch.distributions.kl_divergence(posterior, torch.distributions.Normal(0.0, 1.0))
    torch.testing.assert_close(divergence(mean, log_variance), expected)


@pytest.mark.parametrize("stride", [1, 2])
def test_norm_is_the_largest_singular_value_of_the_operator(stride):
    torch.manual_seed(0)
    convolution = nn.Conv2d(2, 3, 3, stride, 1, bias=False).double()
    with torch.no_grad():
        convolution.weight *= 10
    basis = torch.eye(2 * 5 * 5, dtype=torch.float64).reshape(-1, 2, 5, 5)
    exact = torch.linalg.matrix_norm(convolution(basis).flatten(1), 2)
    bound = SoftSpectralBound(convolution, 5, 4.0)
    bound.iterate(convolution.weight, 2000)
    torch.testing.assert_close(bound.norm(convolution.weight), exact, rtol=1e-6, atol=0)


def test_bound_is_soft():
    small, large = nn.Conv2d(1, 1, 1, bias=False), nn.Conv2d(1, 1, 1, bias=False)
    nn.init.constant_(small.weight, 2.0)
    nn.init.constant_(large.weight, 10.0)
    small, large = bounded(small, 4, 4.0), bounded(large, 4, 4.0)
    assert small.weight.item() == pytest.approx(2.0 / (1 + 1e-5), rel=1e-6)  # within the bound: not changed
    assert large.weight.item() == pytest.approx(10.0 / (2.5 + 1e-5), rel=1e-6)


def test_one_power_iteration_per_training_forward_and_none_in_evaluation():
    network = SpectralResNet(2, 1, 10, 28)
    bound = network.stem.parametrizations.weight[0]
    weight = network.stem.parametrizations.weight.original
    left, right = bound.left.clone(), bound.right.clone()
    network.eval()(torch.rand(2, 1, 28, 28))
    assert torch.equal(bound.left, left) and torch.equal(bound.right, right)
    network.train()(torch.rand(2, 1, 28, 28))
    adjoint = F.conv_transpose2d(left, weight, padding=1)
    torch.testing.assert_close(bound.right, adjoint / adjoint.norm())


def test_two_training_forwards_before_one_backward():
    network = SpectralResNet(2, 1, 10, 28)
    (network(torch.rand(2, 1, 28, 28)).sum() + network(torch.rand(2, 1, 28, 28)).sum()).backward()


def test_operator_norms_keep_to_the_bound_after_training():
    """The bound holds to 5 %, by a long power iteration from another start, after steps large enough to exceed it."""
    torch.manual_seed(0)
    network = SpectralResNet(2, 1, 10, 28, coefficient=1.0)
    optimiser = torch.optim.SGD(network.parameters(), 0.1, momentum=0.9)
    images, labels = torch.rand(8, 1, 28, 28), torch.randint(10, (8,))
    for _ in range(80):
        optimiser.zero_grad()
        F.cross_entropy(network(images), labels).backward()
        optimiser.step()
    norms = operator_norms(network.eval())
    assert len(norms) == 17
    assert max(norms.values()) <= 1.05
    unbounded = [
        layer.parametrizations.weight.original for layer in network.modules() if hasattr(layer, "parametrizations")
    ]
    assert max(weight.flatten(1).norm() for weight in unbounded) > 1.05  # the bound had something to do


MODELS = [SpectralResNet(2, 3, 4, 16, 2.0), PlainResNet(2, 3, 4), VAE(3, 3, 16), Autoencoder(3, 2), WGAN(5, 1, 2, 2)]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_model_is_loaded_as_it_was_saved(model, tmp_path):
    path = tmp_path / "model.safetensors"
    models.save(path, model)
    loaded = models.load(path)
    path.with_suffix(".json").unlink()
    by_header = models.load(path)  # as in a job that gets only the files that its rule names
    for read in (loaded, by_header):
        assert not read.training and read.arguments == model.arguments
        assert all(torch.equal(value, read.state_dict()[name]) for name, value in model.state_dict().items())


def test_loading_names_what_is_wrong(tmp_path):
    path = tmp_path / "model.safetensors"
    with pytest.raises(InputError, match="no such file"):
        models.load(path)
    models.save(path, PlainResNet(2, 1, 10))
    description = load_json(path.with_suffix(".json"))
    save_json(path.with_suffix(".json"), description | {"class": "os.system"})
    with pytest.raises(InputError, match="unknown class 'os.system'"):
        models.load(path)
    save_json(path.with_suffix(".json"), description | {"arguments": {"width": 3}})
    with pytest.raises(InputError, match="not the one"):
        models.load(path)
    path.with_suffix(".json").write_text(json.dumps(description))
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(InputError, match="not a saved model"):
        models.load(path)
    with pytest.raises(InputError, match="cannot be saved"):
        models.save(path, nn.Linear(1, 1))


@pytest.mark.parametrize("name", models.REGISTRY)
def test_every_registered_model_can_be_built_trained_and_saved(name, tmp_path):
    """Its module has the class and the task, and the default config suffices to build it for any dataset."""
    model, settings = models.REGISTRY[name], yaml.safe_load((ROOT / "config.yaml").read_text())[name]
    module = import_module(model.module)
    architecture = getattr(module, model.architecture)
    assert issubclass(architecture, nn.Module) and issubclass(getattr(module, model.task), Task)
    for dataset in (dataset for dataset in DATASETS.values() if "train" in dataset.splits):
        task = model.training_task(settings, dataset, **{role: PlainResNet(2, 1, 10) for role in model.needs})
        assert isinstance(task.result(), architecture)
    models.save(tmp_path / "model.safetensors", task.result())
    assert isinstance(models.load(tmp_path / "model.safetensors"), architecture)


def test_the_registry_names_each_class_once_and_needs_only_known_roles():
    assert len(models.ARCHITECTURES) == len(models.REGISTRY)
    known = {"classifier", *models.REGISTRY}
    assert all(set(model.needs) <= known for model in models.REGISTRY.values())
    assert models.classifiers() == [name for name, model in models.REGISTRY.items() if model.classifies]


def test_the_registry_is_read_without_torch():
    """The workflow reads it before any environment is installed."""
    code = "import sys; from deduce import experiment, models; models.REGISTRY; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_accuracy_counts_all_batches():
    network = PlainResNet(2, 1, 10).eval()
    images = torch.rand(1500, 1, 28, 28)
    labels = network(images).argmax(1)
    labels[:15] = (labels[:15] + 1) % 10
    assert accuracy(network, images, labels) == pytest.approx(0.99)


def test_frechet_distance_of_known_gaussians():
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(20_000, 3, generator=generator, dtype=torch.float64)
    noise = (noise - noise.mean(0)) @ torch.linalg.inv(torch.linalg.cholesky(noise.T.cov())).T
    # d² = |shift|² + Σ (σ₁ - σ₂)², for diagonal covariances
    assert frechet_distance(noise, 2 * noise + 1) == pytest.approx(3 + 3)
    assert frechet_distance(noise, noise) == pytest.approx(0, abs=1e-9)
    images = torch.rand(500, 1, 8, 8, generator=generator)
    components = PrincipalComponents(images, 5)
    assert components.distance(images) < 1e-9 < components.distance(images * 0.9)


def test_model_card(monkeypatch):
    monkeypatch.setattr(model_card, "SAMPLES", 200)
    torch.manual_seed(0)
    images, outliers = torch.rand(200, 1, 28, 28) * 0.2, torch.rand(200, 1, 28, 28)
    ddu, plain = SpectralResNet(2, 1, 10, 28).eval(), PlainResNet(2, 1, 10).eval()
    labels = torch.arange(200) % 10
    density = ClassDensities.fit(features_of(ddu, images), labels, 10)
    generative = VAE(32, 1, 28).eval(), Autoencoder(1).eval(), WGAN(8, 1, 2, 2).eval()
    described = model_card.Models(ddu, density, ddu, plain, *generative, Oracles(1, 10, 28).eval())
    card = model_card.model_card(described, (images, labels), images, [outliers], references=True)
    assert list(card.columns) == ["model", "quantity", "value", "reference", "note"]
    assert card["value"].notna().all() and set(card["model"]) == set(vars(described)) - {"classifier"}
    value = card.set_index(["model", "quantity"])["value"]
    assert value["plain", "test accuracy"] == accuracy(plain, images, labels)
    assert value["density", "AUROC against the other dataset"] > 0.95
    error = (described.autoencoder(images) - images).square().mean().item()
    assert value["autoencoder", "squared error per pixel"] == pytest.approx(error, rel=1e-4)
    elsewhere = model_card.model_card(described, (images, labels), images, [], references=False)
    assert elsewhere["reference"].isna().all() and not elsewhere["quantity"].str.contains("other dataset").any()
