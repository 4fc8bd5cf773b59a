"""The page of what was injected counts every line once, and only a complete run writes it."""

import json

import pytest

import report
from report import LEAST, TITLES, page


@pytest.fixture
def counts(tmp_path):
    lines = [[kind, "x", "named", LEAST.get(kind, 1)] for kind in TITLES if kind != "kills"]
    lines += [["kills", "train", "SIGKILL to master", 1]] * 2 + [["kills", "fetch", "SIGINT to job", 98]]
    lines += [["kills", "a second run", "refused", 3], ["two clones, 1 and 2 cores", "times", "not compared", 7]]
    path = tmp_path / "faults.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_the_page_counts_what_was_injected(counts):
    text = page(counts, [{"seconds": 1776, "processor_seconds": 3000, "load": 2.1}])
    assert "| `train` | 2 | 2 × SIGKILL to master |" in text and "## Kills: 100\n" in text
    assert (
        "- a second run: refused, 3 times" in text
        and "took 30 minutes" in text
        and "50 minutes of processor time" in text
    )
    assert "## Flipped bytes: 500\n" in text and "with two: 1\n" in text and "| times | not compared | 7 |" in text


def test_an_incomplete_run_writes_no_page(counts):
    counts.write_text(counts.read_text().replace('"SIGINT to job", 98', '"SIGINT to job", 97'))
    with pytest.raises(SystemExit, match="has 99 kills, so the run was not complete"):
        page(counts, [{"seconds": 1776, "processor_seconds": 3000, "load": 2.1}])


def test_a_run_in_parts_keeps_what_passed_and_says_so(tmp_path, monkeypatch):
    for name in ("COUNTS", "PARTS", "FAILED"):
        monkeypatch.setattr(report, name, tmp_path / name)
    lines = [json.dumps(["kills", "x", "SIGKILL to job", 1, test]) + "\n" for test in ("t.py::one", "t.py::two[a b]")]
    report.COUNTS.write_text("".join(lines))
    report.FAILED.write_text(json.dumps({"t.py::two[a b]": True}))
    report.begin(again=True)
    assert report.COUNTS.read_text() == lines[0]
    parts = [{"seconds": 60 * n, "processor_seconds": 30 * n, "load": 1000 * n} for n in (8, 2)]
    text = report.about(parts)
    assert "took 10 minutes" in text and "It had 2 parts" in text and "its load was up to 8000" in text
    report.begin(again=False)
    assert not report.COUNTS.exists()
