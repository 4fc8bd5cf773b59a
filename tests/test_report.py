"""The page's parts without a browser: what is packed, said and listed."""

import base64
import json
import re
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from artefacts import make_pairs, make_shard
from report_case import PATH_METHOD, make_page, replayed, table_files

from deduce.evaluation import comparison
from deduce.evaluation.claims import CLAIMS
from deduce.evaluation.run import Run
from deduce.evaluation.tables import frame_table
from deduce.models import ORACLES
from deduce.report import answer, gallery, page

ROOT = Path(__file__).parent.parent
NAMES = {"deduce": "DeDUCE", "jsma": "JSMA"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_page(tmp_path_factory.mktemp("page"))


def unpacked(packet: gallery.Packet) -> tuple[dict, bytes]:
    content = zlib.decompress(base64.b64decode(packet.data))
    length = int.from_bytes(content[:4], "little")
    return json.loads(content[4 : 4 + length]), content[4 + length :]


def array(header: dict, body: bytes, name: str, kind=np.uint8) -> np.ndarray:
    start, size = header["arrays"][name]
    return np.frombuffer(body[start : start + size], kind)


def check_pictures(test_set: gallery.TestSet, header: dict, body: bytes) -> None:
    """Originals and counterfactuals of a packet are those of the pairs and shards."""
    size = int(np.prod(header["shape"]))
    originals = array(header, body, "originals").reshape(-1, size)
    for row, (image, target) in enumerate(zip(header["image"], header["target"], strict=True)):
        pair = (test_set.pairs.image == header["images"][image]) & (test_set.pairs.target == target)
        assert (originals[image] == np.rint(255 * test_set.pairs.original[pair].ravel())).all()
        for method, shard in test_set.shards.items():
            delta = array(header, body, f"{method}/delta").reshape(-1, size)[row]
            assert (originals[image] + delta == np.rint(255 * shard.counterfactual[pair].ravel())).all()


def test_a_packet_gives_back_pictures_numbers_and_paths(data):
    test_set = next(gallery.test_sets(data.run))
    header, body = unpacked(gallery.packets([test_set])[0])
    check_pictures(test_set, header, body)
    originals = array(header, body, "originals").reshape(-1, 784)
    lengths = array(header, body, f"{PATH_METHOD}/steps", "<u4")
    ends = np.cumsum(lengths)
    for row, (image, target) in enumerate(zip(header["image"], header["target"], strict=True)):
        pair = (test_set.pairs.image == header["images"][image]) & (test_set.pairs.target == target)
        steps = slice(ends[row] - lengths[row], ends[row])
        pixels = array(header, body, f"{PATH_METHOD}/pixel", "<u4")[steps]
        values = array(header, body, f"{PATH_METHOD}/value")[steps]
        last = np.rint(255 * test_set.shards[PATH_METHOD].counterfactual[pair].ravel())
        assert (replayed(originals[image], pixels, values) == last).all()
    rows = test_set.results[test_set.results["method"] == "jsma"].sort_values(["image", "target"])
    assert header["methods"]["jsma"]["l1"] == rows["l1"].tolist()
    assert header["methods"]["jsma"]["found"] == rows["found"].astype(int).tolist()


def test_a_packet_of_colour_images_has_all_channels(tmp_path):
    test_set = next(gallery.test_sets(make_page(tmp_path, colour=True).run))
    header, body = unpacked(gallery.packets([test_set])[0])
    assert header["shape"] == [3, 28, 28]
    check_pictures(test_set, header, body)


def test_the_page_says_which_images_do_not_fit(data):
    sets = list(gallery.test_sets(data.run))
    whole = gallery.packets(sets)
    assert [packet.images for packet in whole] == [4, 4]
    assert page._omitted(data.run.results, whole) == ""
    limit = len(whole[0].data) + len(whole[1].data) // 2
    fitting = gallery.packets(sets, limit)
    assert fitting[0].images == 4 and len(fitting) <= 2 and sum(len(packet.data) for packet in fitting) <= limit
    kept = sum(packet.images for packet in fitting)
    assert f"{kept} of the 8 images" in page._omitted(data.run.results, fitting)


def test_values_outside_the_range_are_clipped():
    assert gallery.quantised(np.array([-2.0, 0.0, 0.5, 1.0, 1.7])).tolist() == [0, 0, 128, 255, 255]


def test_three_sentences_with_the_numbers_of_the_tables(data):
    results = data.run.results
    sentences = answer.sentences(data.run, data.frame("claims"), data.frame("tests"))
    assert len(sentences) == 4 and sentences[3].startswith(f"{len(ORACLES)} oracles, which no method explains, see")
    rate = 100 * results[results["method"] == "deduce"]["found"].mean()
    assert f"DeDUCE found {rate:.1f}" in sentences[0]
    table1 = data.frame("table1").set_index("method")
    assert f"{table1.loc['deduce', 'l0']:.1f} pixels" in sentences[1]
    assert f"{table1.loc['deduce', 'agan']:.1f} in realism" in sentences[2]
    assert f"of the paper's {len(data.frame('claims'))} claims" in sentences[2]


def test_the_scale_note_speaks_of_the_classifiers_that_the_methods_explain(data):
    results, methods = data.run.results, {"methods": ["first", "second"]}
    assert "72 of the paper's 4,500 pairs; its" in answer.scale_note(results, methods)
    config = methods | {"first": {"classifier": "a"}, "second": {"classifier": "b"}}
    config |= {"a": {"width": 8, "epochs": 50}, "b": {"width": 16, "epochs": 50}, "unused": {"width": 4, "epochs": 1}}
    assert "classifiers with width 8 and 16 instead of 64; its" in answer.scale_note(results, config)


def test_the_answer_says_what_one_training_does_not_decide(data):
    caveat = "One training of each network stands behind this; another may decide otherwise."
    text = answer.sentences(data.run, data.frame("claims"), data.frame("tests"))[1]
    assert text.endswith(caveat) and text.count("undecided") == 2
    one_network = {method: {"classifier": "plain"} for method in ("deduce", "jsma")}
    run = Run(data.run.experiment | one_network, data.run.artifacts)
    tests = data.frame("tests")
    of_l0 = (tests["metric"] == "l0") & (tests["mask"] == "common") & (tests["scope"] == "all")
    for low, high, word in ((-9.0, -2.0, "fewer"), (2.0, 9.0, "more"), (-3.0, 4.0, "undecided")):
        tests.loc[of_l0, ["low", "high"]] = low, high
        text = answer.sentences(run, data.frame("claims"), tests)[1]
        ends = f"{low:+.1f} to {high:+.1f}".replace("-", "−")
        assert f"; {word}, 95\u00a0% interval of the difference {ends})" in text and caveat not in text


def test_every_verdict_is_marked_and_every_interval_drawn(data):
    claims, html = data.frame("claims"), page.render(data)
    drawn = claims[["low", "high", "threshold"]].notna().all(axis=1)
    assert html.count('<svg class="strip') == drawn.sum() > 3
    for result, (_, kind, sign) in page.MARKS.items():
        assert html.count(f'<span class="verdict {kind}">{sign}&nbsp;{result}') == (claims["result"] == result).sum()
    row = {"result": "holds", "low": -3.0, "high": -1.0, "estimate": -2.0, "threshold": 0.0}
    assert page._claim(row)["strip"] == {"low": 5, "high": 65, "estimate": 35, "threshold": 95}


@pytest.mark.parametrize("rate, text", [(100, "100"), (99.99, "99.99"), (0, "0"), (0.02, "0.02"), (73.2, "73.2")])
def test_a_rate_is_not_rounded_to_all_or_nothing(rate, text):
    assert answer._percent(rate) == f"{text}\u00a0%"


def test_a_run_without_scores_or_common_pairs_still_gets_an_answer(data):
    run = Run(data.run.experiment, {})
    run.results, run.references = data.run.results.assign(found=False, agan=np.nan), pd.DataFrame()
    sentences = answer.sentences(run, data.frame("claims"), data.frame("tests"))
    assert "No pair" in sentences[1] and "Realism was not measured" in sentences[2]


def test_a_score_that_fails_its_check_is_not_trusted():
    sanity = pd.DataFrame({"against": ["fashion_mnist", "emnist_letters"], "auroc": [0.61, np.nan]})
    assert "from Fashion-MNIST with an AUROC of only 0.61" in answer.realism_note(sanity)
    assert answer.realism_note(sanity.assign(auroc=[0.99, np.nan])) == ""
    assert answer.realism_note(pd.DataFrame()) == ""


def test_differences_say_which_reading_this_run_has():
    entries = {entry["topic"]: entry for entry in page.differences({"deduce": {"momentum_in_selection": True}})}
    assert entries["Momentum in DeDUCE"]["switch"]["here"] is True
    assert entries["REVISE's update"]["switch"]["here"] is None
    assert len(entries) >= 15 and all({"paper", "code", "numbers"} <= set(entry) for entry in entries.values())
    sweeps = {
        "readings": {"method": "deduce", "vary": {"momentum_in_selection": [False, True]}},
        "bounds": {"method": "deduce", "vary": {"setting": {"c = 3": {"ddu.coefficient": 3}, "c = 2": None}}},
        "other": {"method": "jsma", "vary": {"momentum_in_selection": [False, True]}},
    }
    linked = {entry["topic"]: entry.get("switch", {}) for entry in page.differences({"sweeps": sweeps}, sweeps)}
    assert linked["Momentum in DeDUCE"]["sweeps"] == ["readings"]
    assert linked["Strength of the spectral normalisation"]["sweeps"] == ["bounds"]
    assert linked["REVISE's update"]["sweeps"] == []


def test_switches_are_keys_of_the_config():
    config = yaml.safe_load((ROOT / "config.yaml").read_text())
    for entry in page.differences(config):
        assert entry.get("switch", {}).get("here", "no switch") is not None, entry["topic"]


def test_durations_are_summed_per_rule_and_over_variants(tmp_path):
    seconds = {"deduce/1-000": 2, "deduce/2-000": 3, "realism/jsma-1": 5, "train/ddu": 7, "train/ddu@coefficient=3": 1}
    seconds |= {"pack": 1, "jsma@step_size=0.1/1-000": 4, "jsma@step_size=0.4/1-000": 8}
    for name, value in seconds.items():
        path = tmp_path / f"{name}.tsv"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"s\th:m:s\tmax_rss\n{value}\t0:00:02\t-\n")
    frame = page.durations(tmp_path).set_index("rule")
    assert frame["seconds"].to_dict() == {"jsma (variants)": 12, "train": 8, "deduce": 5, "realism": 5, "pack": 1}
    assert frame.loc["deduce", "jobs"] == 2 and frame.loc["deduce", "longest_job_in_s"] == 3
    assert page.durations(tmp_path / "absent").empty


def test_text_from_a_run_is_escaped_and_nothing_is_loaded_from_elsewhere(tmp_path):
    html = page.render(make_page(tmp_path, names={"deduce": "<script>alert(1)</script>"}))
    assert "<script>alert" not in html and "&lt;script&gt;alert" in html
    for attribute in ('src="', 'href="'):
        targets = {part.split('"')[0] for part in html.split(attribute)[1:]}
        assert all(target.startswith(("#", "data:")) for target in targets), targets


def shown_sections(html: str) -> list[str]:
    sections = re.findall(r'<section id="(\w+)"', html)
    assert sections == re.findall(r'<li><a href="#(\w+)"', html), "the navigation lists the sections"
    return sections


def test_sections_without_content_are_left_out_or_say_why(data):
    html = page.render(data)
    assert shown_sections(html) == ["answer", "gallery", "claims", "metrics", "times", "differences", "made"]
    assert "Run times were not measured." in html and "did not measure" not in html


def test_any_two_implementations_that_were_compared_get_a_section(tmp_path):
    data, pairs, names = make_page(tmp_path), make_pairs(1), ["Thorough", "Swift"]
    shards = [make_shard(name, 1, pairs) for name in names]
    for shard, seconds in zip(shards, (3.0, 1.5), strict=True):
        shard.seconds = np.full(len(pairs), seconds)
    rows = comparison.measured(pairs, *shards)
    frame = comparison.compared(rows, names)
    table = comparison.as_table(frame, names, "Is Swift as good as Thorough?")
    data.tables["swift"] = table_files("swift", frame, table, "comparisons")
    data.tables["swift_pairs"] = table_files(
        "swift_pairs", rows, frame_table(rows, "Every pair."), "comparisons", "Pairs"
    )
    html = page.render(data)
    assert "comparisons" in shown_sections(html)
    section = html.split('<section id="comparisons"')[1].split("</section>")[0]
    for text in ("<h3>Is Swift as good as Thorough?</h3>", "2 times as fast", 'id="table-swift"'):
        assert text in section
    assert 'id="table-swift_pairs"' in section.split("<summary>Pairs</summary>")[1]


def test_a_table_has_its_fold_its_notes_and_its_groups_of_columns(data):
    frame = pd.DataFrame({"a": [1], "b": [2], "c": [3]})
    table = frame_table(frame, "A folded table.", notes=["One of its notes."])
    files = dict(table_files("folded", frame, table, "metrics", "More numbers"))
    description = json.loads(files["json"])
    description["columns"][1]["group"] = description["columns"][2]["group"] = "both"
    assert page._table({"json": json.dumps(description).encode()})["groups"] == [("", 1), ("both", 2)]
    data = page.PageData(data.run, data.tables | {"folded": files})
    html = page.render(data)
    fold = html.split("<summary>More numbers</summary>")[1].split("</details>")[0]
    assert 'id="table-folded"' in fold and "<li>One of its notes.</li>" in fold


def test_another_dataset_shows_its_classes_and_nothing_of_the_paper(data, tmp_path):
    html = page.render(make_page(tmp_path, dataset="fashion_mnist"))
    assert shown_sections(html) == ["answer", "gallery", "metrics", "times", "made"]
    assert "Fashion-MNIST" in html and '"Ankle boot"' in html
    of_paper = (
        "beside the paper",
        'number paper"',
        "of the paper&#39;s 4,500 pairs",
        f"of the paper&#39;s {len(CLAIMS)} claims",
    )
    assert not [text for text in of_paper if text in html]
    assert all(text in page.render(data) for text in of_paper)


def test_nothing_names_a_method():
    """Code and templates of the page show any methods. The package and the project are called as one method is."""
    methods = {path.stem for path in (ROOT / "rules/methods").glob("*.smk")}
    parts = {part for method in methods for part in method.split("_") if method.startswith(tuple(methods - {method}))}
    project = r"\b(from|import) deduce\b|\bdeduce[./]|DeDUCE"
    for path in (ROOT / "deduce/report").rglob("*"):
        if path.suffix in (".py", ".html", ".js", ".css"):
            text = re.sub(project, "", path.read_text()).lower()
            assert not [name for name in methods | parts if name in text], path
