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
