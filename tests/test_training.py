"""Training: the same seed gives the same weights, also after a kill."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from deduce import compute, models, training
from deduce.datasets import DATASETS
from deduce.density import ClassDensities
from deduce.errors import InputError
from deduce.evaluation import figures
from deduce.fold import features_of
from deduce.models.autoencoder import Autoencoder, Autoencoding
from deduce.models.class_autoencoders import ClassAutoencoders, ClassAutoencoding
from deduce.models.resnet import Classification, PlainResNet, SpectralResNet
from deduce.models.spectral import operator_norms
from deduce.models.vae import VAE, VariationalAutoencoding
from deduce.models.wgan import WGAN, AdversarialGeneration
from deduce.training import SCHEDULES, Batch, Plan, train

ROOT = Path(__file__).resolve().parent.parent
# β is annealed over 2.5 epochs of 4 batches: 10 batches.
VAE_SETTINGS = {"learning_rate": 1e-3, "annealing_epochs": 2.5, "training_images": 96, "batch_size": 24}
CLASSIFIER_SETTINGS = {"learning_rate": 0.05, "precision": "float32"}
BFLOAT16_SETTINGS = CLASSIFIER_SETTINGS | {"precision": "bfloat16"}
WGAN_SETTINGS = {"learning_rate": 1e-3, "critic_learning_rate": 1e-3, "critic_steps": 2, "averaging": 0.9}
TASKS = {
    "ddu": lambda: Classification(SpectralResNet(2, 1, 3, 28), CLASSIFIER_SETTINGS),
    "ddu in bfloat16": lambda: Classification(SpectralResNet(2, 1, 3, 28), BFLOAT16_SETTINGS),
    "plain": lambda: Classification(PlainResNet(2, 1, 3), CLASSIFIER_SETTINGS),
    "vae": lambda: VariationalAutoencoding(VAE(4, 1, 28), VAE_SETTINGS),
    "autoencoder": lambda: Autoencoding(Autoencoder(1), {"learning_rate": 1e-3}),
    "wgan": lambda: AdversarialGeneration(WGAN(8, 1, 4, 4), WGAN_SETTINGS),
    "class_autoencoders": lambda: ClassAutoencoding(ClassAutoencoders(3, 784, 8, 4), {"learning_rate": 1e-3}),
}


def patterns(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Three classes that differ in where a bright bar is."""
    labels = torch.arange(count) % 3
    images = 0.2 * torch.rand(count, 1, 28, 28, generator=torch.Generator().manual_seed(seed))
    for image, label in zip(images, labels, strict=True):
        image[:, 8 * label : 8 * label + 6] += 0.7
    return images, labels


def run(kind: str, output: Path, epochs: int = 2, count: int = 72, **options) -> dict[str, torch.Tensor]:
    compute.deterministic(7)
    plan = Plan(epochs, 24, 7, "one_cycle")
    task = TASKS[kind]()
    train(task, plan, task.arranged(*patterns(count, 1)), task.arranged(*patterns(60, 2)), output, **options)
    return load_file(output)


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("kind", TASKS)
def test_same_seed_same_weights(kind, tmp_path):
    first = run(kind, tmp_path / "first.safetensors")
    torch.rand(3)  # other code may draw random numbers too
    assert same(first, run(kind, tmp_path / "second.safetensors"))
    assert not list(tmp_path.glob("*.checkpoint"))
    models.load(tmp_path / "first.safetensors")


@pytest.mark.parametrize("kind", ["ddu", "ddu in bfloat16"])
def test_a_classifier_learns_within_the_bound(kind, tmp_path):
    tensors = run(kind, tmp_path / "ddu.safetensors", epochs=6, count=240)
    assert {tensor.dtype for tensor in tensors.values()} <= {torch.float32, torch.int64}
    network = models.load(tmp_path / "ddu.safetensors")
    assert network.precision == ("bfloat16" if "bfloat16" in kind else "float32")
    images, labels = patterns(90, 3)
    assert (network(images).argmax(1) == labels).float().mean() > 0.9
    assert max(operator_norms(network).values()) <= 4 * 1.05
    record = (tmp_path / "ddu.csv").read_text().splitlines()
    assert record[0] == "epoch,loss,accuracy,validation_accuracy,seconds" and len(record) == 7


def test_bfloat16_changes_the_products_but_not_the_power_iteration():
    singular_vectors, gradients = {}, {}
    for kind in ("ddu", "ddu in bfloat16"):
        torch.manual_seed(3)
        task = TASKS[kind]()
        task.step(Batch(*patterns(24, 1), 0, torch.Generator()))
        state = task.module.state_dict()
        singular_vectors[kind] = {name: state[name] for name in state if name.endswith((".left", ".right"))}
        gradients[kind] = torch.cat([parameter.grad.flatten() for parameter in task.module.parameters()])
    assert same(*singular_vectors.values()) and len(singular_vectors["ddu"]) == 2 * 17
    full, reduced = gradients.values()
    assert not torch.equal(full, reduced) and torch.cosine_similarity(full, reduced, dim=0) > 0.9


@pytest.mark.parametrize("native", [True, False])
def test_the_precision_auto_is_bfloat16_only_where_that_is_faster(native, monkeypatch):
    monkeypatch.setattr(compute, "multiplies_bfloat16", lambda: native)

    def chosen(network):
        return Classification(network, CLASSIFIER_SETTINGS | {"precision": "auto"}).network.precision

    for make in (lambda width: SpectralResNet(width, 1, 3, 28), lambda width: PlainResNet(width, 1, 3)):
        assert chosen(make(2)) == "float32"
        assert chosen(make(32)) == ("bfloat16" if native else "float32")


def test_emulated_bfloat16_is_not_used(monkeypatch):
    monkeypatch.setenv("DEDUCE_DEVICE", "cpu")
    supported = {"_is_avx512_bf16_supported": False, "_is_amx_tile_supported": False}
    for instructions in supported:
        for name, value in (supported | {instructions: True}).items():
            monkeypatch.setattr(torch.cpu, name, lambda value=value: value, raising=False)
        assert compute.multiplies_bfloat16()
    for name in supported:
        monkeypatch.setattr(torch.cpu, name, lambda: False, raising=False)
    assert not compute.multiplies_bfloat16()


CHILD = """
import sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
import torch
torch.set_num_threads(1)
import test_training
from deduce import training
keep = training._keep
def slow(*arguments):
    keep(*arguments)
    time.sleep({pause})
training._keep = slow
test_training.run({kind!r}, Path({output!r}), epochs=4)
"""


def test_killed_and_resumed_ends_in_the_same_weights(tmp_path):
    kind, output = "ddu", tmp_path / "model.safetensors"

    def child(pause: float) -> subprocess.Popen:
        code = CHILD.format(tests=str(ROOT / "tests"), pause=pause, kind=kind, output=str(output))
        environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        return subprocess.Popen([sys.executable, "-c", code], env=environment, stderr=subprocess.PIPE, text=True)

    process = child(pause=300)  # so that the kill comes after the first epoch and before the last
    deadline = time.monotonic() + 120
    checkpoint = tmp_path / "model.checkpoint"
    while not checkpoint.exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not output.exists()
    assert len(torch.load(checkpoint, weights_only=True)["record"]) == 1
    _, messages = child(pause=0).communicate(timeout=180)
    assert " 25%" in messages  # the bar starts where the first run was killed
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert same(load_file(output), run(kind, tmp_path / "uninterrupted.safetensors", epochs=4))
    finally:
        torch.set_num_threads(threads)
    assert not checkpoint.exists()


@pytest.mark.parametrize("kind", ["vae", "wgan"])
def test_a_crash_between_epochs_changes_nothing(kind, tmp_path, monkeypatch):
    keep = training._keep

    def keep_and_crash(task, checkpoint, made_with, record):
        keep(task, checkpoint, made_with, record)
        if len(record) == 2:
            raise KeyboardInterrupt

    output = tmp_path / "model.safetensors"
    with monkeypatch.context() as patch:
        patch.setattr(training, "_keep", keep_and_crash)
        with pytest.raises(KeyboardInterrupt):
            run(kind, output, epochs=3)
    assert same(run(kind, output, epochs=3), run(kind, tmp_path / "uninterrupted.safetensors", epochs=3))


def test_other_settings_or_a_damaged_checkpoint_start_afresh(tmp_path, monkeypatch, caplog):
    clean = run("plain", tmp_path / "clean.safetensors", settings={"a": 2})
    output = tmp_path / "model.safetensors"
    with monkeypatch.context() as patch:
        patch.setattr(models, "save", lambda *arguments: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run("plain", output, settings={"a": 1})
    assert output.with_suffix(".checkpoint").exists()
    with caplog.at_level("INFO"):
        assert same(clean, run("plain", output, settings={"a": 2}))
    assert "other settings" in caplog.text
    with monkeypatch.context() as patch:  # as on a machine where `auto` is another precision
        patch.setattr(models, "save", lambda *arguments: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run("ddu in bfloat16", output)
    assert same(run("ddu", tmp_path / "other.safetensors"), run("ddu", output))
    output.with_suffix(".checkpoint").write_bytes(b"not a checkpoint")
    assert same(clean, run("plain", output, settings={"a": 2}))
    assert "damaged" in caplog.text


def test_divergence_is_an_error_that_says_so(tmp_path):
    compute.deterministic(0)
    with pytest.raises(InputError, match="'model' diverged in epoch 1"):
        task = Classification(PlainResNet(2, 1, 3), CLASSIFIER_SETTINGS | {"learning_rate": float("inf")})
        train(task, Plan(1, 24, 0), patterns(48, 1), patterns(30, 2), tmp_path / "model.safetensors")


def test_schedules():
    paper = [SCHEDULES["paper"]((epoch * 391 + 0.5) / (50 * 391)) for epoch in range(50)]
    assert paper == [1.0] * 25 + [0.1] * 15 + [0.01] * 10
    cycle = [SCHEDULES["one_cycle"]((step + 0.5) / 1000) for step in range(1000)]
    assert max(cycle) == pytest.approx(1, abs=0.01) and 0 < cycle[0] < 0.01 and 0 < cycle[-1] < 0.01


def test_the_beta_of_the_vae_is_annealed():
    task = VariationalAutoencoding(VAE(4, 1, 28), VAE_SETTINGS)
    for number, beta in [(0, 0.11), (4, 0.51), (20, 1.0)]:
        values = task.step(Batch(*patterns(24, 1), number, torch.Generator()))
        assert values["beta"].item() == pytest.approx(beta)
        torch.testing.assert_close(values["loss"], values["squared_error"] + values["beta"] * values["kl"])


@pytest.fixture
def dataset(monkeypatch):
    """Three classes of 28 × 28 pixels: 300 training and 60 validation images."""
    splits = {"train": patterns(300, 1), "validation": patterns(60, 2)}
    monkeypatch.setattr(
        training, "load", lambda root, name, split, count: tuple(part[:count] for part in splits[split])
    )
    return replace(DATASETS["mnist"], classes=("upper", "middle", "lower"))


SETTINGS = {"training_images": 240, "epochs": 1, "batch_size": 24, "schedule": "constant"} | CLASSIFIER_SETTINGS


def test_a_model_is_trained_by_its_registered_name(dataset, tmp_path):
    settings = SETTINGS | {"width": 2, "coefficient": 3.0}
    record = training.fit("ddu", settings, dataset, "data", tmp_path / "ddu.safetensors", seed=7)
    network = models.load(tmp_path / "ddu.safetensors")
    assert network.arguments == {"width": 2, "channels": 1, "classes": 3, "size": 28, "coefficient": 3.0}
    assert list(record["epoch"]) == [1] and list(pd.read_csv(tmp_path / "ddu.csv")) == list(record)
    again = training.fit("ddu", settings, dataset, "data", tmp_path / "again.safetensors", seed=7)
    assert same(load_file(tmp_path / "ddu.safetensors"), load_file(tmp_path / "again.safetensors"))
    assert again.drop(columns="seconds").equals(record.drop(columns="seconds"))
    training.fit("ddu", settings, dataset, "data", tmp_path / "other.safetensors", seed=8)
    assert not same(load_file(tmp_path / "ddu.safetensors"), load_file(tmp_path / "other.safetensors"))


def test_a_task_uses_as_many_images_as_configured(dataset, tmp_path, monkeypatch):
    counts = {}

    def count(task, plan, training, validation, output, settings):
        counts[type(task).__name__] = len(training[0]), len(validation[0])

    monkeypatch.setattr(training, "train", count)
    training.fit("autoencoder", SETTINGS, dataset, "data", tmp_path / "a.safetensors", seed=1)
    class_settings = SETTINGS | {"hidden": 8, "latent": 4, "training_images": 90}
    training.fit("class_autoencoders", class_settings, dataset, "data", tmp_path / "c.safetensors", seed=1)
    # A fifth as many validation images: 48. Class autoencoders use all, in rows of one image of each of three classes.
    assert counts == {"Autoencoding": (240, 48), "ClassAutoencoding": (30, 20)}


def test_densities_are_fitted_without_epochs(dataset, tmp_path):
    """They are fitted on features of the classifier that they need; their record has no epochs to draw."""
    torch.manual_seed(0)
    classifier = PlainResNet(2, 1, 3).eval()
    output = tmp_path / "density.safetensors"
    record = training.fit("density", {"training_images": 240}, dataset, "data", output, seed=1, classifier=classifier)
    assert list(record) == ["jitter", "lower_quartile", "median", "upper_quartile"] and len(record) == 1
    images, labels = (part[:240] for part in patterns(300, 1))
    features = features_of(classifier, images)
    expected = ClassDensities.fit(features, labels, 3)
    assert same(load_file(output), expected.state_dict())
    quartiles = np.quantile(expected.log_density(features, labels), [0.25, 0.5, 0.75])
    np.testing.assert_allclose(record.iloc[0, 1:].to_numpy(float), quartiles, rtol=1e-9)
    assert not output.with_suffix(".checkpoint").exists()


def test_training_curves_and_pictures(tmp_path):
    compute.deterministic(0)
    plan = Plan(2, 24, 0)
    record = train(TASKS["plain"](), plan, patterns(48, 1), patterns(30, 2), tmp_path / "plain.safetensors")
    without_epochs = pd.DataFrame({"jitter": [0.0]})
    figure = figures.training(SimpleNamespace(records={"plain": record, "density": without_epochs}))
    assert [axis.get_title() for axis in figure.axes] == ["plain: loss", "plain: accuracy"]
    assert len(figure.axes[1].lines) == 2  # training and validation
    pictures = dict.fromkeys(("originals", "vae", "autoencoder"), patterns(3, 0)[0].numpy())
    figure = figures.reconstructions(SimpleNamespace(pictures=pictures))
    assert figure.axes[0].get_images()[0].get_array().shape == (3 * (28 + 3), 3 * (28 + 3) - 3, 3)
