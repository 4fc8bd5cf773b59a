"""Pages of synthetic runs, or of the authors' first test set, made as the rules make them; and headless Chromium."""

import json
import shutil
from collections.abc import Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from artefacts import NAMES, make_pairs, make_scores, make_shard

from deduce.artifacts import save_csv
from deduce.evaluation import catalogue, figures, results, tables
from deduce.evaluation.run import Run
from deduce.report.page import Files, PageData, by_name
from deduce.shards import Pairs, Scores, Shard

PATH_METHOD = "deduce"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
FLAGS += ["--disable-sync", "--no-first-run"]
Answers = tuple[int, Pairs, dict[str, Shard], dict[str, Scores]]  # seed, and by method its shard and scores


def make_page(
    folder: Path,
    methods: tuple[str, ...] = ("deduce", "jsma"),
    names: dict[str, str] | None = None,
    dataset: str = "mnist",
    colour: bool = False,
) -> PageData:
    """Two test sets of four images; the first method records paths, and every method fails on some pairs."""
    sets = []
    for seed in (1, 2):
        pairs = make_pairs(seed)
        shards = {method: make_shard(method, seed, pairs) for method in methods}
        if PATH_METHOD in shards:
            shards[PATH_METHOD] = with_path(shards[PATH_METHOD], pairs, seed)
        for method, shard in shards.items():
            shard.metadata["display_name"] = (names or NAMES).get(method, method)
            if colour:
                shard.counterfactual, shard.path_offset = coloured(shard.counterfactual), None
                shard.path_pixel = shard.path_value = None
        if colour:
            pairs.original = coloured(pairs.original)
        scores = {method: make_scores(pairs.image, pairs.target, seed) for method in methods}
        sets.append((seed, pairs, shards, scores))
    references = pd.DataFrame({"kind": "original", "seed": [1, 2], "image": [0, 100], "agan": [10.0, 12.0]})
    experiment = {
        "name": "synthetic",
        "dataset": dataset,
        "methods": list(methods),
        "seeds": [1, 2],
        "training_seeds": [1],
    }
    return assembled(folder, sets, references, experiment | {"deduce": {"step": 0.2}})


def coloured(images: np.ndarray) -> np.ndarray:
    """Grey images (n, 1, height, width) as (n, 3, height, width), each channel with other values."""
    return np.concatenate([images, 1 - images, images / 2], axis=1)


def with_path(shard: Shard, pairs: Pairs, seed: int) -> Shard:
    """The same answer with the order of its changes; a third of the pixels change twice."""
    random = np.random.default_rng(seed)
    offset, pixel, value = [0], [], []
    for before, after in zip(
        pairs.original.reshape(len(pairs), -1), shard.counterfactual.reshape(len(pairs), -1), strict=True
    ):
        changed = random.permutation(np.flatnonzero(before != after))
        again = changed[: len(changed) // 3]
        pixel += [*again, *changed]
        value += [*random.random(len(again)), *after[changed]]
        offset.append(len(pixel))
    shard.path_offset = np.array(offset)
    shard.path_pixel, shard.path_value = np.array(pixel, np.int32), np.array(value, np.float32)
    shard.check("made for a test")
    return shard


def assembled(
    folder: Path, sets: Iterable[Answers], references: pd.DataFrame, experiment: dict[str, Any], mode: str = "run"
) -> PageData:
    """The page of these shards, with all tables of the catalogue and one of its figures, written to `folder`."""
    artifacts: dict[str, Any] = {"realism": ["scored"], "results": folder / "results.csv"}
    artifacts |= {"references": folder / "references.csv", "pairs": [], "counterfactuals": []}
    parts = []
    for seed, pairs, shards, scores in sets:
        artifacts["pairs"].append(folder / f"pairs/{seed}.npz")
        pairs.save(artifacts["pairs"][-1])
        for method, shard in shards.items():
            artifacts["counterfactuals"].append(folder / f"counterfactuals/{method}/{seed}.npz")
            shard.save(artifacts["counterfactuals"][-1])
            parts.append(results.rows(method, seed, pairs, shard, scores[method], method))
    save_csv(artifacts["results"], results.order(pd.concat(parts), experiment["methods"]))
    save_csv(artifacts["references"], references)
    run = Run(experiment, artifacts, mode)
    table_items = catalogue.items(catalogue.TABLES, run)
    for item in table_items:
        tables.write(folder / "tables" / item.name, *item.build(run), section=item.entry.section, fold=item.entry.fold)
    item = next(item for item in catalogue.items(catalogue.FIGURES, run) if item.name == "points_l1")
    figures.draw(folder / "figures" / item.name, item.figure_data(run), item.build, run)
    return PageData(
        run=run,
        tables=by_name(path for item in table_items for path in folder.glob(f"tables/{item.name}.*")),
        figures=by_name(folder.glob("figures/*")),
        manifest={"command": "snakemake archive", "versions": {"python": "3"}, "host": {"system": "Linux"}},
        sums=64 * "0" + "  pairs/1.npz\n",
    )


def table_files(name: str, frame: pd.DataFrame, table: tables.Table, section: str, fold: str = "") -> Files:
    """The files of a table as `tables.write` writes them."""
    texts = {"csv": frame.to_csv(index=False), "md": table.markdown(), "tex": table.tex(name)}
    texts["json"] = json.dumps(table.data(name, section, fold))
    return {kind: text.encode() for kind, text in texts.items()}


def replayed(original: np.ndarray, pixels: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The original after all changes, flattened."""
    image = original.copy()
    for pixel, value in zip(pixels, values, strict=True):
        image[pixel] = value
    return image


@contextmanager
def chromium():
    """Debian's Chromium, driven by playwright; skips where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, headless=True, args=FLAGS)
        yield browser
        browser.close()
