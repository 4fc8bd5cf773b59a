"""The oracles and what is said of their votes."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from small_world import CLASSES, SIZE, world
from torch import nn

from deduce import compute, models
from deduce.evaluation import oracles, statistics
from deduce.evaluation.attributes import attributes, changes, natural_changes
from deduce.evaluation.metrics import ORACLE_COLUMNS
from deduce.methods.nearest_image import NearestImage
from deduce.models.oracles import Oracles, OracleTraining
from deduce.realism.closeness import CommonPairs, RealImages, target_distances
from deduce.realism.score import score
from deduce.shards import Pairs, Shard
from deduce.training import Plan, train


def voted(votes: dict[str, np.ndarray], images: int, names=ORACLE_COLUMNS) -> pd.DataFrame:
    """A results table of methods whose votes (pairs, oracles) are given; the pairs are those of `images` images."""
    parts = []
    for method, array in votes.items():
        image, target = np.divmod(np.arange(len(array)), len(array) // images)
        columns = {
            "method": method,
            "training_seed": 1,
            "seed": 1,
            "image": image,
            "target": target,
            "label": -1,
            "found": True,
        }
        parts.append(pd.DataFrame(columns | dict(zip(names, array.T.astype(float), strict=True))))
    table = pd.concat(parts, ignore_index=True)
    return table.assign(oracle=table[[*names]].mean(axis=1))


def test_the_oracles_learn_as_if_each_were_alone_and_have_densities(tmp_path):
    """Bright above or below: every oracle tells them apart; an image of neither class has a low density."""
    compute.deterministic(0)
    labels = torch.arange(600) % 2
    images = 0.3 * torch.rand(600, 1, 12, 12)
    images[labels == 0, :, :6] += 0.6
    images[labels == 1, :, 6:] += 0.6
    task = OracleTraining(Oracles(1, 2, 12), {"learning_rate": 0.004})
    data = task.arranged(images, labels)
    record = train(task, Plan(3, 30, 0), data, task.arranged(images[:100], labels[:100]), tmp_path / "o.safetensors")
    assert record["validation_accuracy"].iloc[-1] > 0.99
    network = models.load(tmp_path / "o.safetensors")
    assert network.seen(images).shape == (len(models.ORACLES), 600)
    assert (network.seen(images) == labels).double().mean(1).min() > 0.98
    noise = torch.rand(100, 1, 12, 12, generator=torch.Generator().manual_seed(1))
    for number, density in enumerate(network.densities):
        inside, outside = density(network.all_features(images)[number]), density(network.all_features(noise)[number])
        assert inside.median() > outside.median() + 5, models.ORACLES[number]


def test_rates_are_counts_and_their_intervals_wilsons():
    votes = np.zeros((40, len(ORACLE_COLUMNS)))
    votes[:10] = 1
    votes[10:20, 0] = 1
    frame = oracles.rates(voted({"deduce": votes}, 20)).set_index("oracle")
    assert frame.loc["all", "rate"] == pytest.approx(votes.mean())
    assert frame.loc[models.ORACLES[0], "rate"] == 0.5 and frame.loc["majority", "rate"] == 0.25
    expected = stats.binomtest(10, 40).proportion_ci(method="wilson")
    assert frame.loc["majority", ["low", "high"]].tolist() == pytest.approx([expected.low, expected.high])


def test_the_interval_is_wider_where_the_oracles_disagree():
    """The same share of votes: either every oracle believes half of the images, or half of the oracles believe all."""
    random = np.random.default_rng(0)
    count = len(ORACLE_COLUMNS)
    believers = np.tile(np.arange(count) < 2, (400, 1))
    alike = np.repeat((random.random((400, 1)) < 2 / count), count, axis=1)
    width = {}
    for name, votes in (("oracles", believers), ("images", alike)):
        row = oracles.rates(voted({"deduce": votes}, 400)).iloc[0]
        width[name] = row["high"] - row["low"]
    assert width["oracles"] > 4 * width["images"] > 0


def test_the_sentence_says_who_convinces_more_and_what_is_undecided():
    random = np.random.default_rng(0)
    shape = (180, len(ORACLE_COLUMNS))
    own = random.random(shape) < 0.1
    table = voted({"deduce": own, "jsma": random.random(shape) < 0.1, "vlk": random.random(shape) < 0.5}, 20)
    names = {"deduce": "DeDUCE", "jsma": "JSMA", "vlk": "VLK"}
    text = oracles.sentence(table, names)
    assert f"see the target in {100 * own.mean():.1f} % of what DeDUCE found" in text
    assert "; on the pairs that both found, less often than in VLK’s (−" in text
    assert "neither less nor more often, as far as this run can tell, than in JSMA’s (" in text
    assert oracles.sentence(table.drop(columns=list(ORACLE_COLUMNS)), names) == ""


def test_methods_are_compared_by_the_pairs_that_convince_most_oracles():
    votes = np.zeros((40, len(ORACLE_COLUMNS)))
    others = votes.copy()
    votes[:3], others[10:24] = 1, 1
    table = voted({"deduce": votes, "jsma": others}, 20).assign(agan=1.0, l0=1, l1=1.0)
    row = statistics.row(statistics.tests(table), "deduce", "jsma", "oracle", "both")
    assert row["mcnemar_p"] == pytest.approx(statistics.mcnemar(3, 14))


# --- known answers, in a world where every network is right


@pytest.fixture(scope="module")
def judges(tmp_path_factory) -> dict:
    w = world()
    compute.deterministic(0)
    task = OracleTraining(Oracles(1, CLASSES, SIZE), {"learning_rate": 0.004})
    data = task.arranged(w.training_images, w.training_labels)
    file = tmp_path_factory.mktemp("oracles") / "oracles.safetensors"
    train(task, Plan(8, 30, 0), data, data, file)
    return {"oracles": models.load(file), "explained": w.plain, "training": (w.training_images, w.training_labels)}


SETTINGS = {"robustness": {"noise": 0.1, "draws": 4}}


def adversarial(classifier, images: torch.Tensor, targets: torch.Tensor, size: float = 0.12) -> torch.Tensor:
    """Steps along the sign of the gradient of the classifier alone; no pixel changes by more than `size`."""
    changed = images.clone()
    for _ in range(40):
        changed.requires_grad_()
        loss = nn.functional.cross_entropy(classifier(changed), targets, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, changed)
        changed = (changed - 0.01 * gradient.sign()).detach()
        changed = images + (changed - images).clamp(-size, size)
        changed = changed.clamp(0, 1)
    return changed


def scored(judges: dict, images: torch.Tensor, rows: torch.Tensor | None = None) -> dict[str, np.ndarray]:
    """The scores of images made of the world's pairs, for some rows of them."""
    w = world()
    rows = torch.arange(len(images)) if rows is None else rows
    index, zeros = rows.numpy(), np.zeros(len(rows), np.int64)
    wanted = np.ones(len(rows), bool)
    arrays = images[rows].numpy(), w.images[rows].numpy(), index, zeros, w.targets[rows].numpy(), wanted
    return score(judges, SETTINGS, *arrays).values


def test_an_adversarial_example_convinces_its_network_and_no_other_but_a_real_image_convinces_all(judges):
    w = world()
    attack = adversarial(w.plain, w.images, w.targets)
    fooled = w.plain(attack).argmax(1) == w.targets
    nearest = NearestImage().generate(w.plain, (w.training_images, w.training_labels), w.images, w.targets, True)
    assert fooled.double().mean() > 0.5 and nearest.found.double().mean() > 0.9
    of_attack, of_images = scored(judges, attack), scored(judges, nearest.counterfactual)
    most = {"images": of_images["oracle"][nearest.found] > 0.5, "attack": of_attack["oracle"][fooled] > 0.5}
    assert most["images"].mean() > 0.95 and most["attack"].mean() < 0.1
    assert of_images["oracle"].mean() > 0.9 and of_attack["oracle"][fooled.numpy()].mean() < 0.1
    assert np.median(of_attack["oracle_log_density"]) < np.median(of_images["oracle_log_density"]) - 10
    assert of_attack["nearest_training"].min() > 0.5 and of_images["nearest_training"].max() < 0.01
    assert of_attack["kept_noise"].mean() < of_images["kept_noise"].mean()


def test_a_score_does_not_depend_on_batch_order_and_shard(judges):
    w = world()
    images = adversarial(w.plain, w.images, w.targets)
    whole = scored(judges, images)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    shuffled = scored(judges, images, order)
    parts = [scored(judges, images, rows) for rows in torch.arange(len(images)).split(70)]
    assert {"oracle", "kept_shift", "kept_rounding", "oracle_log_mixture_before", *ORACLE_COLUMNS} <= whole.keys()
    for name, values in whole.items():
        rounding = 1e-6 if "log" in name or name == "nearest_training" else 0
        np.testing.assert_allclose(shuffled[name], values[order.numpy()], rtol=rounding, atol=rounding, err_msg=name)
        joined = np.concatenate([part[name] for part in parts])
        np.testing.assert_allclose(joined, values, rtol=rounding, atol=rounding, err_msg=name)
    assert 0 < whole["kept_noise"].mean() < 1 and 0 < whole["kept_shift"].mean() < 1


def test_what_was_not_found_and_an_empty_shard_have_no_score(judges):
    w, nothing = world(), np.zeros(3, bool)
    keys = np.arange(3), np.zeros(3, np.int64), w.targets[:3].numpy()
    images = w.images[:3].numpy()
    values = score(judges, SETTINGS, images, images, *keys, nothing).values
    assert values["oracle"].shape == (3,) and all(np.isnan(column).all() for column in values.values())
    empty = score(judges, SETTINGS, images[:0], images[:0], *(key[:0] for key in keys), nothing[:0]).values
    assert all(column.shape == (0,) for column in empty.values())
    without = score({"oracles": judges["oracles"]}, {}, images, images, *keys, ~nothing).values
    assert "oracle" in without and "kept_noise" not in without and "agan" not in without


# --- sets of counterfactuals beside real images


def real_images() -> RealImages:
    w = world()
    return RealImages(w.training_images, w.training_labels)


def common(images: torch.Tensor, n: int | None = None) -> CommonPairs:
    """One method's counterfactuals of the world's pairs, all of them found."""
    w = world()
    rows = len(images) if n is None else n
    pairs = Pairs(np.arange(200) // 4, np.zeros(200, int), w.targets.numpy(), w.images.numpy(), np.array(CLASSES))
    found, zeros = np.ones(200, bool), np.zeros(200, np.float32)
    shard = Shard(pairs.image, pairs.label, pairs.target, images.numpy(), found, zeros, zeros.astype(int))
    pairs, shard.found = pairs.rows(slice(rows)), found[:rows]
    shard.counterfactual = shard.counterfactual[:rows]
    result = CommonPairs()
    result.add(pairs, {"method": shard})
    return result


def test_real_images_are_as_close_as_real_images_and_adversarial_ones_are_not(judges):
    w = world()
    nearest = NearestImage().generate(w.plain, (w.training_images, w.training_labels), w.images, w.targets, True)
    sets = {"nearest": nearest.counterfactual, "attack": adversarial(w.plain, w.images, w.targets)}
    distance = {}
    for name, images in sets.items():
        frame = target_distances(judges["oracles"], real_images(), common(images)).set_index("method")
        assert frame["low"].le(frame["distance"]).all() and frame["high"].ge(frame["distance"]).all()
        distance |= {name: frame.loc["method", "distance"], "real": frame.loc["real", "distance"]}
        distance["unchanged"] = frame.loc["original", "distance"]
    assert distance["real"] < distance["nearest"] < distance["attack"] < 1.5 * distance["unchanged"]
    assert distance["attack"] > 5 * distance["nearest"]


@pytest.mark.parametrize("n", [0, 1, 2, 3, 8])
def test_few_pairs_have_a_distance_or_none_but_never_stop_the_job(judges, n):
    w = world()
    frame = target_distances(judges["oracles"], real_images(), common(w.images, n)).set_index("method")
    assert list(frame.index) == ["original", "method", "real"] and (frame["pairs"] == n).all()
    assert frame["distance"].notna().all() if n >= 2 else frame["distance"].isna().all()
    assert (frame["components"] == n // 2).all()


def test_a_pair_that_one_method_did_not_find_is_in_no_set():
    w = world()
    pairs = Pairs(np.arange(4), np.zeros(4, int), w.targets[:4].numpy(), w.images[:4].numpy(), np.array(CLASSES))
    found = np.array([[1, 1, 0, 1], [1, 0, 1, 1]], bool)
    zeros = np.zeros(4, np.float32)
    keys = pairs.image, pairs.label, pairs.target
    a, b = (Shard(*keys, pairs.original + step, rows, zeros, zeros.astype(int)) for step, rows in enumerate(found))
    result = CommonPairs()
    for _ in range(2):  # two test sets
        result.add(pairs, {"a": a, "b": b})
    assert result.original.tolist() == [0, 3, 0, 3] and result.targets.tolist() == w.targets[[0, 3, 0, 3]].tolist()
    np.testing.assert_array_equal(result.images["a"], w.images[[0, 3, 0, 3]].numpy())
    assert (result.images["b"] == 1).all()  # what lies outside the range is clipped


# --- attributes of an image


def test_attributes_of_bars_worked_out_by_hand():
    images = np.zeros((4, 1, 40, 40), np.float32)
    images[0, 0, :, 10:14] = 1  # a bar of width 4 through the whole image
    images[1, 0, :, 10:16] = 0.8
    for row in range(40):  # one that leans to the right by one column in two rows: an angle of arctan(1/2)
        images[2, 0, row, 28 - row // 2 : 32 - row // 2] = 1
    found = attributes(images)
    assert found["ink"].tolist() == pytest.approx([160, 0.8 * 240, 160, 0], rel=1e-5)
    assert found["thickness"][:2] == pytest.approx([4, 6], rel=0.05) and np.isnan(found["thickness"][3])
    assert found["slant"][:2] == pytest.approx([0, 0], abs=1e-9) and np.isnan(found["slant"][3])
    assert found["slant"][2] == pytest.approx(np.degrees(np.arctan(0.5)), abs=0.2)


def test_regions_are_connected_across_corners_and_count_visible_changes_alone():
    original = np.zeros((3, 1, 6, 6), np.float32)
    changed = original.copy()
    changed[0, 0, 0, 0] = changed[0, 0, 1, 1] = changed[0, 0, 2, 2] = 1  # along a diagonal: one region
    changed[0, 0, 5, 0] = 0.5
    changed[0, 0, 5, 5] = 0.05  # too little to be seen
    changed[1] = 0.05
    columns = changes(original, changed)
    assert columns["regions"].tolist() == [2, 0, 0]
    assert columns["largest_region"][0] == 0.75 and np.isnan(columns["largest_region"][1:]).all()
    assert columns["ink_change"][0] == pytest.approx(3.55)
    assert all(column.shape == (0,) for column in changes(original[:0], changed[:0]).values())


def test_natural_changes_are_those_of_all_pairs_of_two_classes():
    random = np.random.default_rng(0)
    images, labels = random.random((30, 1, 8, 8)), np.arange(30) % 3
    frame = natural_changes(images, labels).set_index(["label", "target", "attribute"])
    ink = images.sum((1, 2, 3))
    before, after = ink[labels == 2], ink[labels == 0]
    assert len(frame) == 6 * 3
    assert frame.loc[(2, 0, "ink"), "difference"] == pytest.approx(after.mean() - before.mean())
    sizes = [abs(b - a) for a in before for b in after]
    assert frame.loc[(2, 0, "ink"), "size"] == pytest.approx(np.mean(sizes))


def test_the_interval_covers_the_rate_of_all_images_and_all_oracles():
    """In experiments whose images and oracles are drawn anew; an interval over pairs alone covers it far less often."""
    random, count, images = np.random.default_rng(0), len(ORACLE_COLUMNS), 20

    def chance(oracle: np.ndarray, image: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(0.4 + 0.8 * oracle + 1.2 * image))

    truth = chance(*random.normal(size=(2, 200_000))).mean()
    covered, by_pairs = [], []
    for _ in range(200):
        rates = chance(random.normal(size=count), random.normal(size=(images, 1)))
        votes = random.random((9 * images, count)) < np.repeat(rates, 9, axis=0)
        low, high = oracles.conviction(voted({"deduce": votes}, images)).rate_interval()
        covered.append(low <= truth <= high)
        alone = stats.binomtest(int(votes.sum()), votes.size).proportion_ci(method="wilson")
        by_pairs.append(alone.low <= truth <= alone.high)
    assert np.mean(covered) > 0.9 and np.mean(by_pairs) < 0.5
