"""The methods as their users meet them: what they accept, what they refuse, and the files they write."""

import numpy as np
import pytest
import torch
from small_world import CLASSES, SIZE, world
from torch import nn

from deduce import JSMA, REVISE, DeDUCE
from deduce.errors import InputError
from deduce.methods.common import answered, timed
from deduce.shards import Pairs, Shard


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class NoFeatures(nn.Module):
    def forward(self, images):
        return images.flatten(1)[:, :CLASSES]


def changed(images, value):
    images = images.clone()
    images[2, 0, 3, 3] = value
    return images


GENERATE = {
    "deduce": lambda images, targets: DeDUCE().generate(world().ddu, world().densities, images, targets),
    "jsma": lambda images, targets: JSMA().generate(world().plain, images, targets),
    "revise": lambda images, targets: REVISE().generate(world().plain, world().vae, images, targets),
}


@pytest.mark.parametrize("method", GENERATE)
@pytest.mark.parametrize(
    "spoil, message",
    [
        (lambda images, targets: (changed(images, 1.5), targets), r"image 2 has values outside \[0, 1\]"),
        (lambda images, targets: (changed(images, -0.1), targets), r"image 2 has values outside \[0, 1\]"),
        (lambda images, targets: (changed(images, float("nan")), targets), "image 2 .* NaN"),
        (lambda images, targets: (images[:, 0], targets), r"must have shape \(n, channels, height, width\)"),
        (
            lambda images, targets: (images.repeat(1, 3, 1, 1), targets),
            r"does not accept images of shape \(3, 12, 12\)",
        ),
        (lambda images, targets: (images, targets[:-1]), "one whole number per image"),
        (lambda images, targets: (images, targets.float()), "one whole number per image"),
        (lambda images, targets: (images, targets.clone().fill_(CLASSES)), r"target 5 of image 0 is outside 0\.\.4"),
        (lambda images, targets: (images, targets.clone().fill_(-1)), "target -1 of image 0 is outside"),
        (lambda images, targets: (images, torch.arange(4) // 4), "already predicts target 0 for image 0"),
        (lambda images, targets: (None, targets), "images must be a tensor"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(method, spoil, message):
    images, targets = spoil(world().images[:4], world().targets[:4])
    with pytest.raises(InputError, match=message):
        GENERATE[method](images, targets)


def test_deduce_needs_features():
    images, targets = world().images[:2], world().targets[:2]
    with pytest.raises(InputError, match=r"\(NoFeatures\) has no 'features'"):
        DeDUCE().generate(NoFeatures(), world().densities, images, targets)
    JSMA(max_iterations=1).generate(NoFeatures(), images, targets, allow_reached=True)  # which needs logits only


@pytest.mark.parametrize(
    "settings", [dict(target_confidence=0), dict(target_confidence=1.2), dict(max_iterations=-1), dict(batch_size=0)]
)
def test_impossible_settings_are_refused(settings):
    with pytest.raises(InputError):
        DeDUCE(**settings)


@pytest.mark.parametrize("method", ["deduce", "jsma"])
def test_a_target_already_reached_is_its_own_answer_after_no_iterations(method):
    w = world()
    images, own = (
        w.images[::4],
        w.ddu(w.images[::4]).argmax(1) if method == "deduce" else w.plain(w.images[::4]).argmax(1),
    )
    if method == "deduce":
        result = DeDUCE(max_iterations=3).generate(w.ddu, w.densities, images, own, allow_reached=True)
    else:
        result = JSMA(max_iterations=3).generate(w.plain, images, own, allow_reached=True)
    reached = result.iterations == 0
    assert reached.float().mean() > 0.8  # the rest is predicted with less than the target confidence
    assert result.found[reached].all() and (result.confidence[reached] >= 0.5).all()
    assert torch.equal(result.counterfactual[reached], images[reached])


class ColourNetwork(nn.Module):
    """Not one of ours: another size, three channels, no batch-norm, features of its own."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 6, 3, 2, 1), nn.Tanh(), nn.Conv2d(6, 12, 3, 2, 1), nn.Tanh())
        self.top = nn.Linear(12, 3)

    def features(self, images):
        return self.body(images).mean((2, 3))

    def head(self, features):
        return self.top(features)

    def forward(self, images):
        return self.head(self.features(images))


def test_any_classifier_with_features_on_any_images_with_densities_fitted_on_the_way():
    torch.manual_seed(0)
    labels = torch.arange(300) % 3
    images = 0.5 * torch.rand(300, 3, 20, 14)
    images[torch.arange(300), labels] += 0.4  # the class is the colour
    network = ColourNetwork()
    optimiser = torch.optim.Adam(network.parameters(), 0.02)
    for _ in range(60):
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(images), labels).backward()
        optimiser.step()
    method = DeDUCE(pixels_per_step=8, step_size=0.5, max_iterations=200)
    result = method.generate(network, (images, labels), images[:6], (labels[:6] + 1) % 3)
    assert result.counterfactual.shape == (6, 3, 20, 14)
    assert result.found.all()
    with torch.no_grad():
        assert (network(result.counterfactual).softmax(1)[range(6), (labels[:6] + 1) % 3] >= 0.5 - 1e-5).all()
    assert (result.counterfactual != images[:6]).flatten(1).sum(1).max() <= 8 * result.iterations.max()
    with pytest.raises(InputError, match="300 training images came with 299 labels"):
        method.generate(network, (images, labels[1:]), images[:1], torch.tensor([1]))


def pairs(rows=slice(0, 12)) -> Pairs:
    w = world()
    targets = w.targets[rows].numpy()
    return Pairs(
        image=np.arange(len(targets)) // 4,
        label=(np.arange(len(targets)) // 4) % CLASSES,
        target=targets,
        original=w.images[rows].numpy(),
        classes=np.array(CLASSES),
    )


def generate(method):
    return lambda images, targets, progress=False: method.generate(
        world().ddu, world().densities, images, targets, allow_reached=True, progress=progress
    )


def test_the_shard_answers_its_pairs_and_is_the_same_file_every_time(tmp_path):
    method = DeDUCE(max_iterations=20)
    for name in ("one", "other"):
        answered(method, generate(method), pairs(), "abc", world().ddu).save(tmp_path / f"{name}.npz")
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "other.npz").read_bytes()
    shard = Shard.load(tmp_path / "one.npz")  # which checks the contract
    shard.answers(pairs(), "here")
    assert shard.counterfactual.shape == (12, 1, SIZE, SIZE)
    with torch.no_grad():
        sure = world().ddu(torch.from_numpy(pairs().original)).softmax(1).numpy()
    np.testing.assert_allclose(shard.confidence_before, sure[np.arange(12), pairs().target], rtol=1e-4)
    assert shard.metadata["method"] == "deduce" and shard.metadata["display_name"] == "DeDUCE"
    assert shard.metadata["settings"]["max_iterations"] == 20 and shard.metadata["source"] == "abc"


def test_a_job_without_pairs_has_an_empty_shard(tmp_path):
    answered(DeDUCE(), generate(DeDUCE()), pairs(slice(0, 0)), source="").save(tmp_path / "empty.npz")
    assert len(Shard.load(tmp_path / "empty.npz")) == 0


def test_times_are_per_pair_and_say_where_they_were_taken():
    method = DeDUCE(max_iterations=5)
    times = timed(method, generate(method), pairs(slice(0, 3)), seed=4)
    assert list(times) == ["method", "seed", "image", "target", "found", "iterations", "seconds", "machine"]
    assert len(times) == 3 and (times.seconds > 0).all() and (times.seed == 4).all()
    assert "thread" in times.machine[0]
