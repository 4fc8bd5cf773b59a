"""The page as a person uses it: opened from disk in headless Chromium, no console error, no network."""

import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from report_case import PATH_METHOD, assembled, chromium, make_page

from deduce.evaluation import results
from deduce.published import importer
from deduce.report import gallery, page
from deduce.report.gallery import quantised

CLONE = Path(os.environ.get("DEDUCE_PUBLISHED", Path(__file__).parent.parent / "../shared/published"))
PIXELS = """canvas => [...canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data]
  .filter((_, i) => i % 4 == 0)"""  # of red, green, blue and opacity the first: the pictures are grey


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture
def visit(browser, tmp_path):
    """visit(data, fragment, **context): the page, ready; fails at the end if anything was logged or fetched."""
    complaints, contexts = [], []

    def opened(data, fragment="", width=1280, **options):
        path = tmp_path / "report.html"
        path.write_text(page.render(data), encoding="utf-8")
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}, **options))
        tab = contexts[-1].new_page()
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on(
            "request",
            lambda request: request.url.startswith(("file:", "data:", "blob:")) or complaints.append(request.url),
        )
        tab.goto(path.as_uri() + fragment)
        tab.wait_for_selector("body[data-ready]")
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert not complaints


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_page(tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def authors(tmp_path_factory):
    """The authors' first test set."""
    if not CLONE.is_dir():
        pytest.skip("no clone of the authors' repository (DEDUCE_PUBLISHED)")
    pairs, shards, scores = importer.import_seed(CLONE, 1)
    references = pd.concat([results.references(kind, 1, scores[kind]) for kind in ("original", "reconstruction")])
    experiment = {"name": "published", "dataset": "mnist", "methods": list(shards), "seeds": [1], "training_seeds": [1]}
    folder = tmp_path_factory.mktemp("authors")
    return assembled(folder, [(1, pairs, shards, scores)], references, experiment, mode="published")


def pick(tab, seed, image, target):
    tab.select_option("#pick-set", str(seed))
    option = tab.locator("#pick-image option", has_text=re.compile(rf"^{image} \("))  # waits for the unpacking
    tab.select_option("#pick-image", option.get_attribute("value"))
    tab.select_option("#pick-target", label=str(target))


def picture(tab, method, which=0):
    return np.array(tab.eval_on_selector(f".card[data-method={method}] figure:nth-child({which + 1}) canvas", PIXELS))


def check_against_results(tab, data, seed, image, target):
    """Every card's picture and numbers are those of the shard and of the results table."""
    test_set = next(test_set for test_set in gallery.test_sets(data.run) if test_set.seed == seed)
    row = int(np.flatnonzero((test_set.pairs.image == image) & (test_set.pairs.target == target))[0])
    original = np.array(tab.eval_on_selector(".card.original canvas", PIXELS))
    assert (original == quantised(test_set.pairs.original[row]).ravel()).all()
    lines = test_set.results.set_index(["method", "image", "target"])
    for method, shard in test_set.shards.items():
        assert (picture(tab, method) == quantised(shard.counterfactual[row]).ravel()).all(), method
        line = lines.loc[method, image, target]
        card = tab.locator(f".card[data-method={method}]")
        texts = {
            name: card.locator(f"dd[data-name={name}]").inner_text() for name in ("agan", "l0", "l1", "confidence")
        }
        assert texts["agan"] == f"{line['agan']:.2f}" and texts["l1"] == f"{line['l1']:.2f}", method
        assert texts["l0"] == f"{line['l0']:.0f}"
        if not np.isnan(line["confidence"]):
            before = f"{line['confidence_before']:.3f}" if "confidence_before" in line else "–"
            assert texts["confidence"] == f"{before} → {line['confidence']:.3f}"
        assert card.locator(".badge").inner_text() == ("✓ found" if line["found"] else "✕ not found")
        assert ("failed" in card.get_attribute("class")) == (not line["found"])


def test_a_picked_pair_shows_its_pictures_and_numbers(visit, data):
    tab = visit(data)
    before = picture(tab, "jsma")
    for seed, image, target in ((1, 2, 5), (2, 103, 0)):
        pick(tab, seed, image, target)
        check_against_results(tab, data, seed, image, target)
        assert tab.url.endswith(f"#gallery/{seed}/{image}/{target}")
    assert (picture(tab, "jsma") != before).any()


def test_the_slider_goes_from_the_original_to_the_counterfactual(visit, data):
    tab = visit(data, "#gallery/1/3/7")
    check_against_results(tab, data, 1, 3, 7)  # by the address alone
    end = picture(tab, PATH_METHOD)
    slider = tab.locator(f".card[data-method={PATH_METHOD}] input[type=range]")
    original = np.array(tab.eval_on_selector(".card.original canvas", PIXELS))
    slider.focus()
    tab.keyboard.press("Home")
    assert (picture(tab, PATH_METHOD) == original).all()
    tab.keyboard.press("ArrowRight")
    assert (picture(tab, PATH_METHOD) != original).sum() <= 1
    tab.keyboard.press("End")
    assert slider.input_value() == slider.get_attribute("max")
    assert (picture(tab, PATH_METHOD) == end).all() and (end != original).any()
    assert tab.locator(".card[data-method=jsma] input[type=range]").count() == 0  # it kept no path


def test_failures_are_shown_as_failures_and_filters_find_them(visit, data):
    tab = visit(data)
    failed = data.run.results.query("method == 'jsma' and not found and seed == 1")
    tab.select_option("#filter-method", "jsma")
    tab.select_option("#filter-found", "0")
    assert tab.locator("#filter-count").inner_text().startswith(f"{len(failed)} of 36")
    seen = set()
    for _ in range(len(failed)):
        card = tab.locator(".card[data-method=jsma]")
        assert "failed" in card.get_attribute("class") and "where it ended" in card.inner_text()
        _, image, target = tab.url.split("#gallery/")[1].split("/")
        check_against_results(tab, data, 1, int(image), int(target))
        seen.add((int(image), int(target)))
        tab.click("#next")
    assert seen == set(failed[["image", "target"]].itertuples(index=False, name=None))
    tab.click("#filter-clear")
    tab.select_option("#filter-label", "2")
    tab.select_option("#filter-target", "8")
    assert "From 2 to 8" in tab.locator("#headline").inner_text()
    for _ in range(3):
        tab.click("#surprise")
        assert "From 2 to 8" in tab.locator("#headline").inner_text()


def test_the_sheet_and_the_keyboard_choose_too(visit, data):
    tab = visit(data, "#gallery/1/1/4")
    tab.focus("#stage")
    tab.keyboard.press("ArrowRight")
    assert tab.url.endswith("#gallery/1/1/5")
    tab.locator("#sheet button").first.press("Enter")
    assert tab.url.endswith("#gallery/1/1/0")
    check_against_results(tab, data, 1, 1, 0)


def test_tables_sort_and_copy(visit, data):
    tab = visit(data, permissions=["clipboard-read", "clipboard-write"])
    table = tab.locator("#table-table1 table")
    column = table.locator("thead tr:last-child th").nth(3)
    expected = data.frame("table1")["l0"]
    for order in (sorted(expected), sorted(expected, reverse=True)):
        column.locator("button").click()
        values = [float(cell.get_attribute("data-value")) for cell in table.locator("tbody td:nth-child(4)").all()]
        assert values == order
    assert column.get_attribute("aria-sort") == "descending"
    for form, part in (("csv", "method,agan"), ("tex", r"\toprule"), ("md", "| :-- |")):
        tab.click(f"#table-table1 [data-format={form}]")
        assert part in tab.evaluate("navigator.clipboard.readText()")
    with tab.expect_download() as download:
        tab.click("#figure-points_l1 a[download$=png]")
    assert download.value.path().read_bytes() == data.figures["points_l1"]["png"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_it_all_without_scrolling_sideways(visit, data, scheme):
    tab = visit(data, width=390, color_scheme=scheme)
    assert tab.evaluate("document.documentElement.scrollWidth") == 390
    for name in ("deduce", "jsma"):
        box = tab.locator(f".card[data-method={name}]").bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 390


def test_the_theme_can_be_switched(visit, data):
    tab = visit(data, color_scheme="light")
    background = "getComputedStyle(document.body).backgroundColor"
    light = tab.evaluate(background)
    tab.click("#theme")
    assert tab.evaluate(background) != light
    tab.emulate_media(media="print")
    assert tab.evaluate(background) == "rgb(255, 255, 255)"
    assert not tab.locator("nav").is_visible()


CONTRAST = (Path(__file__).parent / "contrast.js").read_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast_and_pictures_have_words(visit, data, scheme):
    tab = visit(data, color_scheme=scheme)
    assert tab.evaluate(CONTRAST) == []
    assert tab.evaluate("[...document.images].every(image => image.alt.length > 10)")
    unnamed = (
        "[...document.querySelectorAll('canvas[role=img], #sheet button, input, .scroll')].filter(e => !e.ariaLabel)"
    )
    assert tab.evaluate(f"{unnamed}.length") == 0


def test_a_run_of_any_methods(visit, tmp_path):
    """No path, and a method that the paper does not know; confidences recorded before the search too."""
    data = make_page(tmp_path, ("jsma", "a_new_method"))
    data.run.results["confidence_before"] = 0.0123
    tab = visit(data, "#gallery/2/101/9")
    check_against_results(tab, data, 2, 101, 9)
    assert tab.locator("#stage .card").count() == 3 and tab.locator("#stage input[type=range]").count() == 0
    assert "a_new_method" in tab.locator("#table-table1").inner_text()


def test_classes_have_the_names_of_the_dataset(visit, tmp_path):
    tab = visit(make_page(tmp_path, dataset="fashion_mnist"), "#gallery/1/2/9")
    assert "From Pullover to Ankle boot" in tab.locator("#headline").inner_text()
    assert "Ankle boot" in tab.locator("#sheet thead").inner_text()
    tab.select_option("#filter-label", label="Trouser")
    assert "From Trouser to" in tab.locator("#headline").inner_text()
    assert tab.url.endswith("#gallery/1/1/0")


def test_colour_images_are_drawn_in_colour(visit, tmp_path):
    data = make_page(tmp_path, colour=True)
    tab = visit(data, "#gallery/1/2/9")
    colours = tab.eval_on_selector(".card.original canvas", PIXELS.replace("i % 4 == 0", "i % 4 < 3"))
    pairs = next(gallery.test_sets(data.run)).pairs
    expected = quantised(pairs.original[(pairs.image == 2) & (pairs.target == 9)][0])
    assert (np.array(colours).reshape(28, 28, 3) == expected.transpose(1, 2, 0)).all()


def test_the_authors_results(visit, authors):
    tab = visit(authors, "#gallery/1/4/9")
    check_against_results(tab, authors, 1, 4, 9)
    assert "not recorded" in tab.locator(".card[data-method=vlk]").inner_text()
    pick(tab, 1, 1, 6)  # REVISE's failure in the paper's figure 3: an image of zeros
    check_against_results(tab, authors, 1, 1, 6)
    assert "No image was kept" in tab.locator(".card[data-method=revise]").inner_text()
    assert "Run times were not stored" in tab.locator("#times").inner_text()
    assert tab.locator("#models").count() == 0
