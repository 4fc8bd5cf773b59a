"""The page of what was injected counts every line once."""

import json

from report import page


def test_the_page_counts_what_was_injected(tmp_path):
    lines = [
        ["kills", "train", "SIGKILL to master", 1, 0], ["kills", "train", "SIGKILL to master", 1, 0],
        ["kills", "train", "SIGINT to after the end", 1, 0], ["kills", "a second run", "refused", 1, 0],
        ["flipped bytes", "weights", "named", 30, 0], ["session", "", "", 1, 120],
    ]  # fmt: skip
    (tmp_path / "faults.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    text = page(tmp_path / "faults.jsonl")
    assert "| `train` | 2 | 1 × SIGINT to after the end, 2 × SIGKILL to master |" in text
    assert "## Flipped bytes: 30" in text and "2 minutes" in text and "- a second run: refused, 1 times" in text
