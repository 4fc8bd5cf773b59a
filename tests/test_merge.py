"""Artefacts of several machines as one evaluation: runs that differ in their training seeds only are replicates."""

import json
from pathlib import Path

import pandas as pd
import pytest
from artefacts import evaluated, files, make_folder, make_pairs, make_shard, reseal

from deduce.errors import InputError
from deduce.evaluation import bundle
from deduce.evaluation.bundle import SUMS, Bundle
from deduce.evaluation.merge import stored
from deduce.experiment import Experiment

ROOT = Path(__file__).parent.parent
METHODS = ("deduce", "jsma")


def made(folder: Path, *training_seeds: int) -> Path:
    return make_folder(folder, METHODS, images=2, training_seeds=training_seeds)


def edit_config(folder: Path, **changes) -> Path:
    manifest = Bundle(folder).manifest
    bundle.seal(folder, files(folder), manifest | {"config": manifest["config"] | changes})
    return folder


def merged(tmp_path: Path, *folders: Path) -> Path:
    stored([str(folder) for folder in folders]).extract(tmp_path / "merged")
    return tmp_path / "merged"


@pytest.mark.parametrize("seeds", [[(1,), (2,)], [(1, 2), (3,)], [(1,), (3, 2)], [(1, 2), (2, 3)], [(1,), (2,), (3,)]])
def test_merged_runs_are_the_run_with_all_training_seeds(seeds, tmp_path):
    folders = [made(tmp_path / f"run{number}", *of_run) for number, of_run in enumerate(seeds)]
    everything = made(tmp_path / "everything", *dict.fromkeys(seed for of_run in seeds for seed in of_run))
    table, expected = (
        evaluated(folder, tmp_path / folder.name).results for folder in (merged(tmp_path, *folders), everything)
    )
    pd.testing.assert_frame_equal(table, expected)
    assert Bundle(tmp_path / "merged").sums.keys() == Bundle(everything).sums.keys()
    Bundle(tmp_path / "merged").extract(tmp_path / "again")  # the merged set is sealed, and can be stored in turn


def test_the_order_of_the_runs_decides_only_which_training_has_the_plain_names(tmp_path):
    a, b = made(tmp_path / "a", 1), made(tmp_path / "b", 2)
    one = evaluated(merged(tmp_path / "one", a, b), tmp_path / "x").results
    other = evaluated(merged(tmp_path / "other", b, a), tmp_path / "y").results
    pd.testing.assert_frame_equal(one, other)


def test_the_config_lists_the_runs_and_the_results_have_a_place_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    a, b = made(tmp_path / "a", 1), made(Path("results/stored"), 2)
    experiment = Experiment.load({"artifacts": [str(a), str(b)]}, ROOT)
    assert experiment.replicates == ["deduce", "jsma", "deduce@training_seed=2", "jsma@training_seed=2"]
    assert experiment.name == "stored-artifacts" and experiment.origin == (str(a), str(b))
    assert "counterfactuals/jsma@training_seed=2/2.npz" in experiment.artifact_names
    assert Experiment.load({"artifacts": [str(b)]}, ROOT).replicates == ["deduce", "jsma"]


def test_a_packed_file_merges_like_a_folder(tmp_path):
    a, b = made(tmp_path / "a", 1), made(tmp_path / "b", 2)
    bundle.pack(b, tmp_path / "b.tar.gz")
    assert stored([str(a), str(tmp_path / "b.tar.gz")]).sums == stored([str(a), str(b)]).sums


def test_another_setting_is_named_and_refused(tmp_path):
    a, b = (edit_config(made(tmp_path / str(seed), seed), ddu={"width": width}) for seed, width in ((1, 8), (2, 16)))
    with pytest.raises(
        InputError, match="cannot be merged: 'ddu.width' is 8 in one and 16 in the other; only training"
    ):
        stored([str(a), str(b)])
    for free in ({"name": "mine"}, {"shards_per_seed": 3}, {"sources": ["npm"]}):
        stored([str(a), str(edit_config(b, ddu={"width": 8}, **free))])


def test_two_different_results_for_one_training_seed_are_refused(tmp_path):
    a, b = made(tmp_path / "a", 1, 2), made(tmp_path / "b", 2)
    shard = make_shard("jsma", 2, make_pairs(2, 2), step=0.2)
    shard.save(b / "counterfactuals/jsma/2.npz")
    reseal(b)
    with pytest.raises(
        InputError, match=r"b/counterfactuals/jsma/2.npz: .*/a has other results for the same training seed"
    ):
        stored([str(a), str(b)])


def test_other_pairs_are_refused(tmp_path):
    a, b = made(tmp_path / "a", 1), made(tmp_path / "b", 2)
    pairs = make_pairs(2, 2)
    pairs.original[0, 0, 0, 0] = 1 - pairs.original[0, 0, 0, 0]
    pairs.save(b / "pairs/2.npz")
    reseal(b)
    with pytest.raises(InputError, match="b/pairs/2.npz: lists other pairs than .*a/pairs/2.npz"):
        merged(tmp_path, a, b)


def test_damage_in_any_of_the_sets_is_found(tmp_path):
    a, b = made(tmp_path / "a", 1), made(tmp_path / "b", 2)
    path = b / "counterfactuals/deduce/1.npz"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(InputError, match="b/counterfactuals/deduce/1.npz: its SHA-256 is not the one"):
        merged(tmp_path, a, b)


def test_the_manifest_says_where_each_training_was_made_and_whether_one_judge_scored_all(tmp_path):
    a, b, c = made(tmp_path / "a", 1), made(tmp_path / "b", 2), made(tmp_path / "c", 3)
    (c / "realism/original/1.npz").write_bytes((c / "realism/original/2.npz").read_bytes())
    reseal(c)
    about = json.loads((merged(tmp_path, a, b, c) / "manifest.json").read_text())
    assert about["config"]["training_seeds"] == [1, 2, 3]
    assert [source["training_seeds"] for source in about["merged"]] == [[1], [2], [3]]
    assert [source.get("same_judges") for source in about["merged"]] == [None, True, False]
    assert (tmp_path / "merged" / SUMS).exists()
