"""The README's example is run as printed, and prints what its comments say; commands keep their targets."""

import re
import shlex
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

ROOT = Path(__file__).parent.parent
EXAMPLE = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)[0]


def test_the_readme_has_an_example_of_about_ten_lines():
    assert len([line for line in EXAMPLE.splitlines() if line.strip()]) <= 16


def test_the_readmes_example_prints_what_its_comments_say():
    expected = re.findall(r"# prints (.+)$", EXAMPLE, re.M)
    assert len(expected) == len(re.findall(r"^print\(", EXAMPLE, re.M)) > 0, "`# prints …` follows every print"
    command = [sys.executable, "-c", EXAMPLE]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == expected


def test_no_command_of_a_page_gives_its_targets_to_an_option():
    """Both options take all words up to the next option, targets too."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    blocks = [block for page in pages for block in re.findall(r"^```\w*\n(.*?)^```", page.read_text(), re.M | re.S)]
    commands = re.findall(r"^\S*snakemake .*", "\n".join(blocks), re.M)
    assert len(commands) > 20
    for command in commands:
        words = shlex.split(command, comments=True)
        for option, ending in (("--configfile", r".*\.yaml"), ("--config", r"\w+=.*")):
            values = words[words.index(option) + 1 :] if option in words else []
            for value in takewhile(lambda word: not word.startswith("-"), values):
                assert re.fullmatch(ending, value), f"{command}: {option} takes {value}"
