"""The notebook runs from its first cell to its last, and the figure shows what it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import matplotlib
import nbformat
import numpy as np
import pytest
import torch

from deduce import show
from deduce.errors import InputError
from deduce.search import Result

ROOT = Path(__file__).parent.parent
matplotlib.use("Agg")


def test_the_notebook_runs_and_is_kept_without_outputs(tmp_path):
    notebook = nbformat.read(ROOT / "examples/quickstart.ipynb", as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in cells)
    script = "\n".join(cell.source for cell in cells) + f"\nfigure.savefig({str(tmp_path / 'figure.png')!r})"
    environment = os.environ | {"MPLBACKEND": "Agg"}
    run = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert int(re.search(r"training accuracy: (\d+)%", run.stdout)[1]) > 80
    assert "found: [True, True, True, True, True]" in run.stdout
    for name in ("DeDUCE", "JSMA"):
        assert re.search(rf"^{name}: 5 of 5 found, [\d.]+ pixels changed, L1 [\d.]+$", run.stdout, re.M), run.stdout
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def result(counterfactuals: torch.Tensor, found: list[bool]) -> Result:
    empty = Result.empty(counterfactuals)
    return Result(counterfactuals, torch.tensor(found), empty.confidence, empty.iterations)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_figure_shows_originals_changes_and_counterfactuals(channels):
    originals, others = torch.rand(2, 2, channels, 4, 5, generator=torch.Generator().manual_seed(0))
    figure = show(originals, {"A": result(others, [True, False]), "B": result(originals, [True, True])}, [7, 8])
    axes = np.reshape(figure.axes, (5, 2))
    assert [axis.get_ylabel() for axis in axes[:, 0]] == [
        "original", "A\nchange", "A\ncounterfactual", "B\nchange", "B\ncounterfactual"
    ]  # fmt: skip
    assert [axis.get_title() for axis in axes[2]] == ["→ 7", "not found"]

    def shown(row: int) -> np.ndarray:
        return np.array([axis.images[0].get_array() for axis in axes[row]])

    expected = (lambda images: images[:, 0]) if channels == 1 else (lambda images: images.permute(0, 2, 3, 1))
    np.testing.assert_array_equal(shown(0), expected(originals))
    np.testing.assert_allclose(shown(1), (others - originals).mean(1), atol=1e-6)
    np.testing.assert_array_equal(shown(2), expected(others))
    assert not shown(3).any()
    assert len(show(originals, result(others, [True, True])).axes) == 6


def test_images_of_another_result_are_refused():
    with pytest.raises(InputError, match=r"images: have shape \(1, 1, 4, 5\), but the counterfactuals \(2, 1, 4, 5\)"):
        show(torch.rand(1, 1, 4, 5), result(torch.rand(2, 1, 4, 5), [True, True]))
