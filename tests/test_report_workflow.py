"""The page that the default target leaves, of a run that trained and searched, in headless Chromium."""

import numpy as np
import pandas as pd
import pytest
from report_case import chromium
from test_report_browser import PIXELS

from deduce.report.gallery import quantised
from deduce.shards import Pairs, Shard

pytestmark = pytest.mark.workflow


def test_the_page_of_a_finished_run(finished):
    folder = finished.root / "results/test"
    assert (folder / "report.html").stat().st_size < 15e6
    results = pd.read_csv(folder / "results.csv")
    methods = list(results["method"].drop_duplicates())
    pairs, row = Pairs.load(folder / "pairs/2.npz"), 5
    image, target = int(pairs.image[row]), int(pairs.target[row])
    complaints = []
    with chromium() as browser:
        tab = browser.new_page()
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("request", lambda request: request.url.startswith(("file:", "data:")) or complaints.append(request.url))
        tab.goto((folder / "report.html").as_uri() + f"#gallery/2/{image}/{target}")
        tab.wait_for_selector("body[data-ready]")
        for section in ("answer", "gallery", "claims", "metrics", "times", "sanity", "models", "differences", "made"):
            assert tab.locator(f"#{section}").is_visible(), section
        for method in methods:
            shard = Shard.load(folder / f"counterfactuals/{method}/2.npz")
            card = tab.locator(f".card[data-method={method}]")
            wanted = quantised(shard.counterfactual[row]).ravel()
            assert (np.array(card.locator("canvas").first.evaluate(PIXELS)) == wanted).all(), method
            line = results.query("method == @method and seed == 2 and image == @image and target == @target").iloc[0]
            assert card.locator("dd[data-name=l1]").inner_text() == f"{line['l1']:.2f}"
            if shard.path_offset is not None and shard.path_offset[row + 1] > shard.path_offset[row]:
                slider = card.locator("input[type=range]")
                slider.press("Home")
                slider.press("End")
                assert (np.array(card.locator("canvas").first.evaluate(PIXELS)) == wanted).all(), method
        assert tab.locator("#stage input[type=range]").count() > 0
    assert not complaints


def test_a_comparison_with_alibi_belongs_to_the_page_once_it_was_made(finished, alibi_python, tmp_path):
    checkout = finished.copy(tmp_path / "repository")
    page = checkout.root / "results/test/report.html"
    assert 'id="parity"' not in page.read_text()
    for target in ("parity", "report", "archive"):
        run = checkout.snakemake(target, DEDUCE_ALIBI_PYTHON=str(alibi_python))
        assert run.returncode == 0, run.stdout[-5000:]
    table = pd.read_csv(checkout.root / "results/test/tables/vlk_parity.csv").set_index("measure")
    text = page.read_text()
    assert "Of the same 4 pairs, with the same networks and settings, alibi found" in text
    assert f"{table.loc['speed_up', 'torch']:.0f} times as fast" in text and 'id="figure-vlk_parity"' in text
    archive = checkout.root / "results/test/archive/test.tar.gz"
    run = checkout.snakemake("report", "--config", f"artifacts={archive}", "name=again")
    assert run.returncode == 0, run.stdout[-5000:]
    assert 'id="parity"' in (checkout.root / "results/again/report.html").read_text()


def test_alibi_can_stand_beside_the_batched_version_and_in_its_place(finished, alibi_python, tmp_path):
    checkout, given = finished.copy(tmp_path / "repository"), {"DEDUCE_ALIBI_PYTHON": str(alibi_python)}
    folder = checkout.root / "results/test"
    batched = Shard.load(folder / "counterfactuals/vlk/1.npz")
    short = "seeds=[1]"
    run = checkout.snakemake("tables", "--config", short, "methods=[deduce,vlk,vlk_alibi]", **given)
    assert run.returncode == 0, run.stdout[-5000:]
    assert list(pd.read_csv(folder / "tables/table1.csv")["method"]) == ["deduce", "vlk", "vlk_alibi"]
    shard = folder / "counterfactuals/vlk/1.npz"
    run = checkout.snakemake(str(shard.relative_to(checkout.root)), "--config", short, "vlk={backend: alibi}", **given)
    assert run.returncode == 0, run.stdout[-5000:]
    alibi = Shard.load(shard)
    assert not np.array_equal(alibi.counterfactual, batched.counterfactual)
    assert alibi.metadata["display_name"] == batched.metadata["display_name"] == "VLK"
    assert alibi.found.sum() == pytest.approx(batched.found.sum(), abs=2)
