"""The page's parts without a browser: what is packed, said and listed."""

import base64
import json
import zlib

import numpy as np
import pandas as pd
import pytest
from artefacts import make_pairs
from report_case import PATH_METHOD, make_run, replayed

from deduce.report import answer, gallery, page, views


@pytest.fixture(scope="module")
def run():
    return make_run()


def unpacked(packet: gallery.Packet) -> tuple[dict, bytes]:
    content = zlib.decompress(base64.b64decode(packet.data))
    length = int.from_bytes(content[:4], "little")
    return json.loads(content[4 : 4 + length]), content[4 + length :]


def array(header: dict, body: bytes, name: str, kind=np.uint8) -> np.ndarray:
    start, size = header["arrays"][name]
    return np.frombuffer(body[start : start + size], kind)


def test_a_packet_gives_back_pictures_numbers_and_paths(run):
    one = run.sets[0]
    header, body = unpacked(gallery.packets([one])[0])
    originals = array(header, body, "originals").reshape(-1, 784)
    lengths = array(header, body, f"{PATH_METHOD}/steps", "<u4")
    ends = np.cumsum(lengths)
    for row, (image, target) in enumerate(zip(header["image"], header["target"], strict=True)):
        pair = (one.pairs.image == header["images"][image]) & (one.pairs.target == target)
        assert (originals[image] == np.rint(255 * one.pairs.original[pair].ravel())).all()
        for method, shard in one.shards.items():
            delta = array(header, body, f"{method}/delta").reshape(-1, 784)[row]
            assert (originals[image] + delta == np.rint(255 * shard.counterfactual[pair].ravel())).all()
        steps = slice(ends[row] - lengths[row], ends[row])
        pixels = array(header, body, f"{PATH_METHOD}/pixel", "<u4")[steps]
        values = array(header, body, f"{PATH_METHOD}/value")[steps]
        last = np.rint(255 * one.shards[PATH_METHOD].counterfactual[pair].ravel())
        assert (replayed(originals[image], pixels, values) == last).all()
    mine = one.results[one.results["method"] == "jsma"].sort_values(["image", "target"])
    assert header["methods"]["jsma"]["l1"] == mine["l1"].tolist()
    assert header["methods"]["jsma"]["found"] == mine["found"].astype(int).tolist()


def test_what_does_not_fit_is_left_out_and_said(run):
    whole = gallery.packets(run.sets)
    assert [packet.images for packet in whole] == [4, 4]
    assert page._omitted(run.results, whole) == ""
    limit = len(whole[0].data) + len(whole[1].data) // 2
    some = gallery.packets(run.sets, limit)
    assert some[0].images == 4 and len(some) <= 2 and sum(len(packet.data) for packet in some) <= limit
    kept = sum(packet.images for packet in some)
    assert f"{kept} of the 8 images" in page._omitted(run.results, some)


def test_values_outside_the_range_are_clipped_to_be_seen():
    assert gallery.quantised(np.array([-2.0, 0.0, 0.5, 1.0, 1.7])).tolist() == [0, 0, 128, 255, 255]


def test_three_sentences_with_the_numbers_of_the_tables(run):
    sentences = answer.sentences(
        run.results, run.tables["claims"], run.tables["references"], {"deduce": "DeDUCE", "jsma": "JSMA"}
    )
    assert len(sentences) == 3
    rate = 100 * run.results[run.results["method"] == "deduce"]["found"].mean()
    assert f"DeDUCE found {rate:.1f}" in sentences[0]
    table1 = run.tables["table1"].set_index("method")
    assert f"{table1.loc['deduce', 'l0']:.1f} pixels" in sentences[1]
    assert f"{table1.loc['deduce', 'agan']:.1f} in realism" in sentences[2]
    assert "72 of the paper's 4,500 pairs" in answer.scale_note(run.results, {})
    narrow = {"ddu": {"width": 8, "epochs": 50}, "plain": {"width": 16, "epochs": 50}}
    assert "classifiers with width 8 and 16 instead of 64; its" in answer.scale_note(run.results, narrow)


@pytest.mark.parametrize("rate, text", [(100, "100"), (99.99, "99.99"), (0, "0"), (0.02, "0.02"), (73.2, "73.2")])
def test_a_rate_is_not_rounded_to_all_or_nothing(rate, text):
    assert answer._percent(rate) == f"{text}\u00a0%"


def test_a_run_without_scores_or_common_pairs_still_gets_an_answer(run):
    results = run.results.assign(found=False, agan=np.nan)
    sentences = answer.sentences(results, run.tables["claims"], pd.DataFrame(), {"deduce": "DeDUCE", "jsma": "JSMA"})
    assert "No pair" in sentences[1] and "Realism was not measured" in sentences[2]


def test_a_score_that_fails_its_check_is_not_trusted():
    sanity = pd.DataFrame({"against": ["fashion_mnist", "emnist_letters"], "auroc": [0.61, np.nan]})
    assert "from fashion_mnist with an AUROC of only 0.61" in answer.realism_note(sanity)
    assert answer.realism_note(sanity.assign(auroc=[0.99, np.nan])) == ""
    assert answer.realism_note(pd.DataFrame()) == ""


def test_differences_say_which_reading_this_run_has():
    listed = {item["topic"]: item for item in page.differences({"deduce": {"momentum_in_selection": True}})}
    assert listed["Momentum in DeDUCE"]["switch"]["here"] is True
    assert listed["REVISE's update"]["switch"]["here"] is None
    sweeps = {
        "readings": {"method": "deduce", "vary": {"momentum_in_selection": [False, True]}},
        "bounds": {"method": "deduce", "vary": {"setting": {"c = 3": {"ddu.coefficient": 3}}}},
    }
    linked = {item["topic"]: item.get("switch", {}) for item in page.differences({"sweeps": sweeps}, sweeps)}
    assert linked["Momentum in DeDUCE"]["sweeps"] == ["readings"]
    assert linked["Strength of the spectral normalisation"]["sweeps"] == ["bounds"]
    assert linked["REVISE's update"]["sweeps"] == []
    assert len(listed) >= 15 and all({"paper", "code", "numbers"} <= set(item) for item in listed.values())


def test_switches_are_keys_of_the_config():
    import yaml

    config = yaml.safe_load((page.FOLDER.parent.parent / "config.yaml").read_text())
    for item in page.differences(config):
        assert item.get("switch", {}).get("here", "no switch") is not None, item["topic"]


def test_durations_are_summed_per_rule(tmp_path):
    for name, seconds in {
        "deduce/1-000": 2,
        "deduce/2-000": 3,
        "realism/jsma-1": 5,
        "models/ddu": 7,
        "pack": 1,
    }.items():
        path = tmp_path / f"{name}.tsv"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"s\th:m:s\tmax_rss\n{seconds}\t0:00:02\t-\n")
    frame = page.durations(tmp_path).set_index("rule")
    assert frame["seconds"].to_dict() == {"models/ddu": 7, "deduce": 5, "realism/jsma": 5, "pack": 1}
    assert frame.loc["deduce", "jobs"] == 2 and frame.loc["deduce", "longest_job_in_s"] == 3
    assert page.durations(tmp_path / "absent").empty


def test_cells_read_well_and_sort_by_value():
    shown = [views.cell(value) for value in (1.234, 3, float("nan"), True, "text", 0.0001)]
    assert [cell.text for cell in shown] == ["1.23", "3", "–", "yes", "text", "0.0001"]
    assert [cell.value for cell in shown] == [1.234, 3.0, "", 1, "text", 0.0001]


def test_table1_is_copied_with_full_precision_and_the_papers_figures(run):
    frame = run.tables["table1"]
    view = views.table1(frame, {"deduce": "DeDUCE", "jsma": "JSMA"}, "Table 1.")
    assert repr(float(frame["l1"][0])) in view.texts["csv"] and "12.63" in view.texts["csv"]
    assert r"\toprule" in view.texts["tex"] and view.texts["md"].startswith("Table 1.")
    assert [text for text, span in view.groups if span == 2] == ["AGAN", "L0", "L1", "failure in %"]


def test_text_from_a_run_is_escaped_and_nothing_is_loaded_from_elsewhere(run):
    run = make_run(names={"deduce": "<script>alert(1)</script>"})
    html = page.render(run)
    assert "<script>alert" not in html and "&lt;script&gt;alert" in html
    for attribute in ('src="', 'href="'):
        targets = {part.split('"')[0] for part in html.split(attribute)[1:]}
        assert all(target.startswith(("#", "data:")) for target in targets), targets


def test_colour_images_fit_too():
    pairs = make_pairs(1, 2, side=8)
    colour = np.repeat(pairs.original, 3, axis=1)
    assert gallery.quantised(colour).shape[1:] == (3, 8, 8)
