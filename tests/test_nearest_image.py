"""The nearest training image of the target class."""

import torch

from deduce.methods.nearest_image import NearestImage


class Brightness(torch.nn.Module):
    """Class 1 where an image's mean is above one half, more confidently the brighter it is."""

    def forward(self, images):
        mean = images.flatten(1).mean(1)
        return torch.stack([10 * (0.5 - mean), 10 * (mean - 0.5)], 1)


def constant(*values):
    return torch.tensor(values).view(-1, 1, 1, 1).expand(-1, 1, 4, 4)


def test_the_nearest_image_of_the_target_that_the_classifier_is_confident_of():
    known, labels = constant(0.1, 0.3, 0.45, 0.6, 0.9), torch.tensor([0, 0, 1, 1, 1])
    result = NearestImage().generate(Brightness(), (known, labels), constant(0.2, 0.95), torch.tensor([1, 0]))
    # 0.45 is nearer and labelled 1, but the classifier says 0.
    torch.testing.assert_close(result.counterfactual, constant(0.6, 0.3).contiguous())
    assert result.found.all() and result.iterations.tolist() == [2, 1]
    torch.testing.assert_close(result.confidence, Brightness()(result.counterfactual).softmax(1)[[0, 1], [1, 0]])


def test_the_most_confident_candidate_is_not_found_where_none_is_confident_enough():
    known, labels = constant(0.1, 0.3, 0.45), torch.tensor([0, 0, 1])
    result = NearestImage().generate(Brightness(), (known, labels), constant(0.2), torch.tensor([1]))
    assert not result.found.any() and result.confidence.item() < 0.5
    torch.testing.assert_close(result.counterfactual, constant(0.45).contiguous())


def test_the_norm_decides_which_image_is_nearest():
    black, spread, concentrated = torch.zeros(1, 16), torch.full((1, 16), 0.55), torch.zeros(1, 16)
    concentrated[0, :8], concentrated[0, 8] = 1, 0.4  # L1: 8.4 against 8.8; L2: 2.9 against 2.2
    known, labels = torch.cat([spread, concentrated]).view(2, 1, 4, 4), torch.tensor([1, 1])
    for norm, nearest in ((1, 1), (2, 0)):
        method = NearestImage(norm=norm)
        result = method.generate(Brightness(), (known, labels), black.view(1, 1, 4, 4), torch.tensor([1]))
        torch.testing.assert_close(result.counterfactual, known[[nearest]])
