"""Figure 2's plane is what it says: its line is the decision boundary, its ellipses are the class densities."""

from types import SimpleNamespace

import numpy as np
import torch
from artefacts import make_pairs, make_shard
from torch import nn

from deduce.density import ClassDensities
from deduce.evaluation import figures
from deduce.feature_map import choose_row, feature_map, states
from deduce.model_card import reconstructions
from deduce.models.vae import VAE


class Classifier(nn.Module):
    """A linear head on eight features of the pixels."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.head = nn.Linear(784, 8), nn.Linear(8, 3)

    def features(self, images):
        return self.embed(images.flatten(1))


def test_the_line_is_the_boundary_and_the_ellipses_are_the_densities():
    classifier = Classifier().eval()
    torch.manual_seed(1)
    images = {label: torch.rand(200, 1, 28, 28) * (0.5 + 0.2 * label) for label in (2, 0)}
    with torch.no_grad():
        features = torch.cat([classifier.features(batch) for batch in images.values()])
    labels = torch.tensor([2] * 200 + [0] * 200)
    densities = ClassDensities.fit(torch.cat([features, features[:20]]), torch.cat([labels, torch.ones(20).long()]), 3)
    path = torch.rand(4, 1, 28, 28)
    stored = feature_map(classifier, densities, images, path)
    with torch.no_grad():
        logits = classifier.head(features).double()
    a, b, c = stored["boundary"]
    side = stored["points"] @ [a, b] + c
    np.testing.assert_allclose(side, logits[:, 0] - logits[:, 2], atol=1e-4)  # 0 is the target, 2 the original's class
    for position, label in enumerate((2, 0)):
        points = stored["points"][stored["point_class"] == label]
        np.testing.assert_allclose(stored["covariances"][position], np.cov(points.T), rtol=1e-3, atol=1e-6)
        np.testing.assert_allclose(stored["means"][position], points.mean(0), atol=1e-4)
    assert stored["path"].shape == (4, 2)
    figure = figures.feature_map(SimpleNamespace(features=stored))
    assert any(np.array_equal(line.get_xydata(), stored["path"]) for line in figure.axes[0].lines)


def test_the_preferred_pair_is_shown_if_it_was_found():
    shard = make_shard("any_method", 1, make_pairs(1))
    found, failed = np.flatnonzero(shard.found), np.flatnonzero(~shard.found)
    assert len(found) > 3 and len(failed)
    median = found[np.argsort(shard.iterations[found], kind="stable")[len(found) // 2]]
    another = next(row for row in found if row != median)
    assert choose_row(shard, (int(shard.image[another]), int(shard.target[another]))) == another
    assert choose_row(shard, (int(shard.image[failed[0]]), int(shard.target[failed[0]]))) == median
    assert choose_row(shard) == median


def test_a_path_is_replayed_from_the_original_to_the_counterfactual():
    pairs = make_pairs(1)
    shard = make_shard("any_method", 1, pairs)
    changed = [
        np.flatnonzero(before.ravel() != after.ravel())
        for before, after in zip(pairs.original, shard.counterfactual, strict=True)
    ]
    assert all(map(len, changed))
    assert np.array_equal(states(shard, pairs, 5), [pairs.original[5], shard.counterfactual[5]])  # without a path
    shard.path_offset = np.concatenate([[0], np.cumsum([len(pixels) for pixels in changed])])
    shard.path_pixel = np.concatenate(changed)
    values = [image.ravel()[pixels] for image, pixels in zip(shard.counterfactual, changed, strict=True)]
    shard.path_value = np.concatenate(values)
    shard.check("shard")
    images = states(shard, pairs, 5)
    assert (images[0] == pairs.original[5]).all() and (images[-1] == shard.counterfactual[5]).all()
    assert ((images[1:] != images[:-1]).sum((1, 2, 3)) == 1).all()  # one pixel per step
    assert len(images) == len(changed[5]) + 1


def test_nothing_found_is_no_row():
    shard = make_shard("any_method", 1, make_pairs(1))
    shard.found[:] = False
    assert choose_row(shard, (0, 1)) is None


def test_reconstructions_are_seeded_and_drawn():
    torch.manual_seed(0)
    vae, images = VAE(4, 1, 28).eval(), torch.rand(5, 1, 28, 28)
    first, second = (reconstructions(vae, images, averaged=4) for _ in range(2))
    assert first["samples"].shape == (3, 5, 1, 28, 28)
    assert all((first[name] == second[name]).all() for name in first)
    assert (first["samples"][0] != first["samples"][1]).any()
    figure = figures.vae_reconstructions(SimpleNamespace(reconstructions=first))
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == [
        "original",
        "sample 1",
        "sample 2",
        "sample 3",
        "mean",
    ]
    (picture,) = figure.axes[0].images
    np.testing.assert_array_equal(picture.get_array()[3:31, :28, 0], first["original"][0, 0])
    np.testing.assert_array_equal(picture.get_array()[-28:, -28:, 2], first["mean"][-1, 0])
