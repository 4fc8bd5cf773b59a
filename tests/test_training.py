"""Training: the same weights for the same seed, also after a kill."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from deduce import compute, models, training
from deduce.errors import InputError
from deduce.models.autoencoder import Autoencoder
from deduce.models.resnet import PlainResNet, SpectralResNet
from deduce.models.spectral import operator_norms
from deduce.models.vae import VAE
from deduce.models.wgan import WGAN
from deduce.training import SCHEDULES, Batch, Plan, train
from deduce.training.autoencoder import Autoencoding
from deduce.training.classifier import Classification
from deduce.training.vae import VariationalAutoencoding
from deduce.training.wgan import AdversarialGeneration

ROOT = Path(__file__).resolve().parent.parent
TASKS = {
    "ddu": lambda: Classification(SpectralResNet(2, classes=3), 0.05),
    "plain": lambda: Classification(PlainResNet(2, classes=3), 0.05),
    "vae": lambda: VariationalAutoencoding(VAE(4), 1e-3, 10),
    "autoencoder": lambda: Autoencoding(Autoencoder(), 1e-3),
    "wgan": lambda: AdversarialGeneration(WGAN(8, 1, 4, 4), 1e-3, 1e-3, 2, 0.9),
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
    train(TASKS[kind](), plan, patterns(count, 1), patterns(60, 2), output, **options)
    return load_file(output)


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("kind", TASKS)
def test_same_seed_same_weights(kind, tmp_path):
    first = run(kind, tmp_path / "first.safetensors")
    torch.rand(3)  # whatever else draws random numbers
    assert same(first, run(kind, tmp_path / "second.safetensors"))
    assert not list(tmp_path.glob("*.checkpoint"))
    models.load(tmp_path / "first.safetensors")


def test_a_classifier_learns_within_the_bound(tmp_path):
    run("ddu", tmp_path / "ddu.safetensors", epochs=6, count=240)
    network = models.load(tmp_path / "ddu.safetensors")
    images, labels = patterns(90, 3)
    assert (network(images).argmax(1) == labels).float().mean() > 0.9
    assert max(operator_norms(network).values()) <= 4 * 1.05
    record = (tmp_path / "ddu.csv").read_text().splitlines()
    assert record[0] == "epoch,loss,accuracy,validation_accuracy,seconds" and len(record) == 7


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
    output.with_suffix(".checkpoint").write_bytes(b"not a checkpoint")
    assert same(clean, run("plain", output, settings={"a": 2}))
    assert "damaged" in caplog.text


def test_divergence_is_an_error_that_says_so(tmp_path):
    compute.deterministic(0)
    with pytest.raises(InputError, match="'model' diverged in epoch 1"):
        task = Classification(PlainResNet(2, classes=3), float("inf"))
        train(task, Plan(1, 24, 0), patterns(48, 1), patterns(30, 2), tmp_path / "model.safetensors")


def test_schedules():
    paper = [SCHEDULES["paper"]((epoch * 391 + 0.5) / (50 * 391)) for epoch in range(50)]
    assert paper == [1.0] * 25 + [0.1] * 15 + [0.01] * 10
    cycle = [SCHEDULES["one_cycle"]((step + 0.5) / 1000) for step in range(1000)]
    assert max(cycle) == pytest.approx(1, abs=0.01) and 0 < cycle[0] < 0.01 and 0 < cycle[-1] < 0.01


def test_the_beta_of_the_vae_is_annealed():
    task = VariationalAutoencoding(VAE(4), 1e-3, annealing=10)
    for number, beta in [(0, 0.11), (4, 0.51), (20, 1.0)]:
        values = task.step(Batch(*patterns(24, 1), number, torch.Generator()))
        assert values["beta"].item() == pytest.approx(beta)
        torch.testing.assert_close(values["loss"], values["squared_error"] + values["beta"] * values["kl"])


def test_figures(tmp_path):
    from deduce.model_figures import picture_grid, training_curves

    compute.deterministic(0)
    plan = Plan(2, 24, 0)
    record = train(TASKS["plain"](), plan, patterns(48, 1), patterns(30, 2), tmp_path / "plain.safetensors")
    figure = training_curves({"plain": record})
    assert [axis.get_title() for axis in figure.axes] == ["plain: loss", "plain: accuracy"]
    assert len(figure.axes[1].lines) == 2  # training and validation
    picture = picture_grid(patterns(6, 0)[0], 3, ["above", "below"]).axes[0].get_images()[0].get_array()
    assert picture.shape == (56, 84)
