"""The contract between methods and everything after them."""

import re

import numpy as np
import pytest

from deduce.shards import ContractError, Pairs, Scores, Shard, merge


def make_pairs(n: int = 6) -> Pairs:
    images = np.random.default_rng(0).random((n, 1, 4, 4), dtype=np.float32)
    return Pairs(np.arange(n), np.zeros(n, int), np.arange(n) % 2 + 1, images, np.array(3))


def make_shard(pairs: Pairs, **changes) -> Shard:
    n = len(pairs)
    shard = Shard(
        pairs.image,
        pairs.label,
        pairs.target,
        pairs.original.copy(),
        found=np.arange(n) % 3 != 0,
        confidence=np.where(np.arange(n) % 3 != 0, 0.6, 0.2).astype(np.float32),
        iterations=np.arange(n),
        metadata={"method": "example", "target_confidence": 0.5, "classes": 3},
        path_offset=np.arange(n + 1),
        path_pixel=np.arange(n),
        path_value=pairs.original.reshape(n, 16)[np.arange(n), np.arange(n)],
    )
    for name, value in changes.items():
        setattr(shard, name, value)
    return shard


def test_a_shard_comes_back_as_it_was_saved(tmp_path):
    shard = make_shard(make_pairs())
    shard.save(tmp_path / "a.npz")
    again = Shard.load(tmp_path / "a.npz")
    for name, value in vars(shard).items():
        np.testing.assert_array_equal(getattr(again, name), value)
    shard.save(tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes(), "saving must be reproducible"


def broken_image(value):
    def change(shard):
        shard.counterfactual[2, 0, 1, 1] = value

    return change


BROKEN = {
    "NaN pixel": (broken_image(np.nan), r"row 2 \(image 2, target 1\): 'counterfactual' has values outside"),
    "pixel above one": (broken_image(1.5), "'counterfactual' has values outside"),
    "pixel below zero": (broken_image(-0.1), "'counterfactual' has values outside"),
    "found without confidence": (lambda s: s.confidence.fill(0.1), "row 1 .* 'found' is True but confidence is 0.1000"),
    "confidence without found": (lambda s: s.found.fill(False), "row 1 .* 'found' is False but confidence is 0.6000"),
    "confidence NaN": (lambda s: s.confidence.fill(np.nan), "'confidence' is nan"),
    "negative iterations": (lambda s: s.iterations.fill(-1), "'iterations' is -1"),
    "found as numbers": (lambda s: setattr(s, "found", s.found.astype(float)), "'found' must be bool"),
    "images as doubles": (lambda s: setattr(s, "counterfactual", s.counterfactual.astype(float)), "must be float32"),
    "no method": (lambda s: s.metadata.pop("method"), "must name its 'method'"),
    "a row too few": (lambda s: setattr(s, "confidence", s.confidence[:-1]), "'confidence' must be float"),
    "seconds too few": (lambda s: setattr(s, "seconds", np.ones(5)), r"'seconds' must be float of shape \(6,\)"),
    "seconds as integers": (lambda s: setattr(s, "seconds", np.ones(6, int)), "'seconds' must be float"),
    "negative seconds": (lambda s: setattr(s, "seconds", np.full(6, -1.0)), "row 0 .*'seconds' is -1.0"),
    "seconds NaN": (lambda s: setattr(s, "seconds", np.full(6, np.nan)), "'seconds' is nan"),
    "half a path": (lambda s: setattr(s, "path_value", None), "come together or not at all"),
    "a path that does not fit": (lambda s: s.path_pixel.fill(99), "do not fit together"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_shard_is_named_with_what_is_wrong(how, tmp_path):
    change, message = BROKEN[how]
    shard = make_shard(make_pairs())
    change(shard)
    shard.save(tmp_path / "bad.npz")
    with pytest.raises(ContractError, match=re.escape(str(tmp_path / "bad.npz")) + ".*" + message):
        Shard.load(tmp_path / "bad.npz")


def test_unreadable_files_are_named(tmp_path):
    path = tmp_path / "x.npz"
    with pytest.raises(ContractError, match="no such file"):
        Shard.load(path)
    make_shard(make_pairs()).save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ContractError, match="not a readable"):
        Shard.load(path)
    np.savez(path, image=np.array([object()], dtype=object))
    with pytest.raises(ContractError, match="not a readable .npz without pickles"):
        Shard.load(path)
    np.savez(path, image=np.arange(2))
    with pytest.raises(ContractError, match="missing"):
        Shard.load(path)
    np.savez(path, imagee=np.arange(2))
    with pytest.raises(ContractError, match="unknown array 'imagee'"):
        Shard.load(path)


def test_a_method_that_cannot_prescribe_a_confidence(tmp_path):
    metadata = {"method": "example", "target_confidence": None, "classes": 3}
    shard = make_shard(make_pairs(), metadata=metadata, found=np.ones(6, bool))
    with pytest.raises(ContractError, match="'found' is True but confidence is 0.2000"):
        shard.check("x")  # below 1/3 the target cannot have been the largest
    shard.confidence = np.full(6, 0.4, np.float32)
    shard.check("x")


def test_a_shard_must_answer_its_pairs():
    pairs = make_pairs()
    make_shard(pairs).answers(pairs, "x")
    with pytest.raises(ContractError, match="has 6 rows, was asked 4"):
        make_shard(pairs).answers(pairs.rows(slice(4)), "x")
    other = make_shard(pairs, target=pairs.target[::-1].copy())
    with pytest.raises(ContractError, match="row 0 has target 2, was asked 1"):
        other.answers(pairs, "x")


def test_merging_parts_gives_the_file_of_the_undivided_run(tmp_path):
    pairs = make_pairs(7)
    whole = make_shard(pairs)
    parts = []
    for part in range(3):
        rows = np.arange(part, 7, 3)
        piece = make_shard(pairs.rows(rows))
        for name in ("found", "confidence", "iterations", "path_pixel", "path_value"):
            setattr(piece, name, getattr(whole, name)[rows])
        parts.append(piece)
    whole.seconds = np.arange(7.0)
    for part, piece in enumerate(parts):
        piece.seconds = whole.seconds[part::3]
    merge([whole], pairs).save(tmp_path / "whole.npz")
    merge(parts, pairs).save(tmp_path / "parts.npz")
    assert (tmp_path / "whole.npz").read_bytes() == (tmp_path / "parts.npz").read_bytes()
    parts[1].metadata = {**parts[1].metadata, "settings": {"momentum": 0}}
    with pytest.raises(ContractError, match="different settings"):
        merge(parts, pairs)


@pytest.mark.parametrize("name", ["path_offset", "seconds", "confidence_before"])
def test_parts_agree_on_what_they_record(name):
    """Only parts with rows count: a job without pairs records nothing."""
    pairs = make_pairs()
    halves = [slice(0, 3), slice(3, 6)]
    recorded = {"seconds": np.ones(3), "confidence_before": np.full(3, 0.5, np.float32)}
    without = {"path_offset": None, "path_pixel": None, "path_value": None}
    parts = [make_shard(pairs.rows(half), **recorded) for half in halves]
    merged = merge(parts, pairs)
    merged.check("merged")
    assert len(merged.path_pixel) == 6 and merged.seconds.tolist() == [1] * 6
    empty = make_shard(pairs.rows(slice(0, 0)), **without)
    assert len(getattr(merge([empty, *parts], pairs), name)) >= 6
    changes = without if name == "path_offset" else {name: None}
    parts[1] = make_shard(pairs.rows(halves[1]), **recorded | changes)
    with pytest.raises(ContractError, match=f"some parts of one shard have '{name}' and others do not"):
        merge(parts, pairs)
    parts[0] = make_shard(pairs.rows(halves[0]), **recorded | changes)
    assert getattr(merge(parts, pairs), name) is None


def test_scores_belong_to_their_rows(tmp_path):
    pairs = make_pairs()
    scores = Scores(pairs.image, pairs.target, agan=np.ones(6))
    scores.save(tmp_path / "s.npz")
    Scores.load(tmp_path / "s.npz").scores(pairs, "s")
    with pytest.raises(ContractError, match="other images"):
        Scores(pairs.image, pairs.target[::-1].copy(), agan=np.ones(6)).scores(pairs, "s")
    with pytest.raises(ContractError, match=r"'agan' must be float of shape \(6,\), is float64 \(5,\)"):
        Scores(pairs.image, pairs.target, agan=np.ones(5)).check("s")


def test_a_file_whose_directory_skips_arrays_is_named(tmp_path):
    path, at = tmp_path / "scores.npz", np.arange(3)
    Scores(at, at, agan=at.astype(float), im1=at.astype(float)).save(path)
    content = bytearray(path.read_bytes())
    second = content.index(b"PK\1\2", content.index(b"PK\1\2") + 1)
    content[second + 33] = 255  # the length of its comment
    path.write_bytes(content)
    with pytest.raises(ContractError, match="scores.npz: .*does not list all of its arrays"):
        Scores.load(path)
