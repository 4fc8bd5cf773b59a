"""The README's example is run as it is printed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)


def test_the_readme_has_an_example_of_about_ten_lines():
    assert EXAMPLES and len([line for line in EXAMPLES[0].splitlines() if line.strip()]) <= 16


@pytest.mark.parametrize("example", EXAMPLES[:1], ids=["example"])
def test_the_readmes_example_runs(example, tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", example], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip(), "the example shows nothing"
