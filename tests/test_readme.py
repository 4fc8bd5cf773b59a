"""The README's example is run as it is printed, and prints what its comments say."""

import re
import subprocess
import sys
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
