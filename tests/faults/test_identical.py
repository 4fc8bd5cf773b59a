"""Two clones of the repository, one with two cores and one with one, make the same bytes, but for measured times."""

import pytest
from conftest import ROOT
from run import TIMES, differences, digests, is_time
from tally import count

pytestmark = [pytest.mark.faults, pytest.mark.workflow]


def test_two_clones_with_one_and_two_cores_make_the_same_bytes(finished, clean_checkout, tmp_path):
    other = clean_checkout.copy(tmp_path / "another place" / "clone")
    data = f"sources=['folder:{finished.root / 'results/data'}']"
    run = other.snakemake("--config", data, cores=1)
    assert run.returncode == 0, run.stdout[-5000:]
    one, two = (digests(checkout.root / "results") for checkout in (finished, other))
    assert differences(one, two) == []
    same = sum(not is_time(name) for name in one)
    assert same > 150
    assert not [name for name in two if "unfinished" in name]
    count("two clones, 1 and 2 cores", "files without a measured time", "the same bytes", same)
    count("two clones, 1 and 2 cores", "files with a measured time", "not compared", len(one) - same)


def test_the_list_of_times_is_in_the_docs():
    page = (ROOT / "docs/results.md").read_text()
    assert all(f"`{pattern}`" in page for pattern in TIMES)
