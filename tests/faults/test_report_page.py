"""The page of what was injected counts every line once, and only a complete run writes it."""

import json

import pytest

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
    text = page(counts, 1776, 3000)
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
        page(counts, 1776, 3000)
