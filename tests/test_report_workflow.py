"""The page that the default target leaves, of a run that trained and searched, in headless Chromium."""

import json
import re

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
            expected = quantised(shard.counterfactual[row]).ravel()
            assert (np.array(card.locator("canvas").first.evaluate(PIXELS)) == expected).all(), method
            line = results.query("method == @method and seed == 2 and image == @image and target == @target").iloc[0]
            assert card.locator("dd[data-name=l1]").inner_text() == f"{line['l1']:.2f}"
            if shard.path_offset is not None and shard.path_offset[row + 1] > shard.path_offset[row]:
                slider = card.locator("input[type=range]")
                slider.press("Home")
                slider.press("End")
                assert (np.array(card.locator("canvas").first.evaluate(PIXELS)) == expected).all(), method
        assert tab.locator("#stage input[type=range]").count() > 0
    assert not complaints


def test_a_comparison_belongs_to_the_page_and_the_archive_where_the_config_says_so(finished, tmp_path):
    checkout = finished.copy(tmp_path / "repository")
    folder = checkout.root / "results/test"
    assert 'id="comparisons"' not in (folder / "report.html").read_text()
    comparisons = (
        "comparisons={vlk_parity: null, two: {description: Two of a kind, methods: [vlk, nearest_image], pairs: 4}}"
    )
    fewer = "methods=[vlk,nearest_image]"
    run = checkout.snakemake("report", "archive", "--config", "extras=[comparisons]", comparisons, fewer)
    assert run.returncode == 0, run.stdout[-5000:]
    check_comparison(folder / "report.html", "two", "Two of a kind")
    archive = folder / "archive/test.tar.gz"
    run = checkout.snakemake("report", "--config", f"artifacts={archive}", "name=again")
    assert run.returncode == 0, run.stdout[-5000:]
    check_comparison(checkout.root / "results/again/report.html", "two", "Two of a kind")


def test_the_comparison_with_alibi(finished, alibi_python, tmp_path):
    checkout = finished.copy(tmp_path / "repository")
    run = checkout.snakemake("parity", DEDUCE_ALIBI_PYTHON=str(alibi_python))
    assert run.returncode == 0, run.stdout[-5000:]
    table = json.loads((checkout.root / "results/test/tables/vlk_parity.json").read_text())
    assert table["title"] == "Does the batched VLK do what alibi does?"
    assert re.search(r"Of the same 4 pairs, VLK \(alibi\) found \d and VLK \d\. .* times as fast\.", table["lead"])


def check_comparison(page, name, title):
    table = pd.read_csv(page.parent / f"tables/{name}.csv").set_index("measure")
    text = page.read_text().split('<section id="comparisons"')[1].split("</section>")[0]
    assert f"<h3>{title}</h3>" in text and "Of the same 4 pairs, " in text
    assert f"{table.loc['speed_up', 'b']:.0f} times as fast" in text
    assert f'id="table-{name}_pairs"' in text and f'id="figure-{name}"' in text


def test_alibi_can_stand_beside_the_batched_version(finished, alibi_python, tmp_path):
    checkout, environment = finished.copy(tmp_path / "repository"), {"DEDUCE_ALIBI_PYTHON": str(alibi_python)}
    folder = checkout.root / "results/test"
    run = checkout.snakemake("tables", "--config", "seeds=[1]", "methods=[deduce,vlk,vlk_alibi]", **environment)
    assert run.returncode == 0, run.stdout[-5000:]
    assert list(pd.read_csv(folder / "tables/table1.csv")["method"]) == ["deduce", "vlk", "vlk_alibi"]
    assert (pd.read_csv(folder / "tables/table2.csv")["seconds"] > 0).all(), "alibi is timed as every other method"
    batched, alibi = (Shard.load(folder / f"counterfactuals/{method}/1.npz") for method in ("vlk", "vlk_alibi"))
    assert not np.array_equal(alibi.counterfactual, batched.counterfactual)
    assert (batched.metadata["display_name"], alibi.metadata["display_name"]) == ("VLK", "VLK (alibi)")
    assert alibi.found.sum() == pytest.approx(batched.found.sum(), abs=2)
