"""Runs to make pages of: synthetic, or the authors' first test set; and a page opened in headless Chromium."""

import shutil
from collections.abc import Iterable
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from artefacts import NAMES, make_pairs, make_scores, make_shard

from deduce.evaluation import claims, figures, paper_tables, results, statistics, summary
from deduce.report.gallery import TestSet
from deduce.report.page import Run
from deduce.report.plots import points
from deduce.shards import Pairs, Scores, Shard

PATH_METHOD = "deduce"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
FLAGS += ["--disable-sync", "--no-first-run"]


def make_run(methods: tuple[str, ...] = ("deduce", "jsma"), names: dict[str, str] | None = None) -> Run:
    """Two test sets of four images; the first method records paths, and every method fails on some pairs."""
    sets = []
    for seed in (1, 2):
        pairs = make_pairs(seed)
        shards = {method: make_shard(method, seed, pairs) for method in methods}
        if PATH_METHOD in shards:
            shards[PATH_METHOD] = with_path(shards[PATH_METHOD], pairs, seed)
        for method, name in (names or NAMES).items():
            if method in shards:
                shards[method].metadata["display_name"] = name
        scores = {method: make_scores(pairs.image, pairs.target, seed) for method in methods}
        sets.append((seed, pairs, shards, scores))
    references = pd.DataFrame({"kind": "original", "seed": [1, 2], "image": [0, 100], "agan": [10.0, 12.0]})
    experiment = {"name": "synthetic", "dataset": "mnist", "methods": list(methods), "deduce": {"step": 0.2}}
    return assembled(sets, methods, references, experiment)


def with_path(shard: Shard, pairs: Pairs, seed: int) -> Shard:
    """The same answer with the order of its changes, some pixels being changed twice."""
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
    sets: Iterable[tuple[int, Pairs, dict[str, Shard], dict[str, Scores]]],
    methods: Iterable[str],
    references: pd.DataFrame,
    experiment: dict,
    published: bool = False,
) -> Run:
    """A run with the tables and figures that the workflow would make of these shards."""
    sets = list(sets)
    parts = [
        results.rows(method, seed, pairs, shard, scores[method], method)
        for seed, pairs, shards, scores in sets
        for method, shard in shards.items()
    ]
    table = results.order(pd.concat(parts), methods).reset_index(drop=True)
    tests = statistics.tests(table[["method", "seed", "image", "target", "found", "agan", "l0", "l1"]])
    evidence = claims.Evidence(
        table1=summary.table1(table).set_index("method"),
        tests=tests,
        results=table,
        by_target=summary.by_target(table),
        references=summary.reference_scores(references).set_index("kind"),
        timing=pd.DataFrame(),
    )
    checked = claims.check_all(evidence)
    made = paper_tables.all_tables(table, references, None)
    texts = {
        name: {"csv": frame.to_csv(index=False), "md": text.markdown(), "tex": text.tex(name)}
        for name, (frame, text) in made.items()
    }
    texts["claims"] = {"csv": checked.to_csv(index=False), "md": "claims", "tex": "claims"}
    frames = {name: frame for name, (frame, _) in made.items()}
    frames |= {"claims": checked, "tests": tests, "references": references, "success": summary.success(table)}
    return Run(
        experiment=experiment,
        results=table,
        sets=[TestSet(seed, pairs, shards, table[table["seed"] == seed]) for seed, pairs, shards, _ in sets],
        tables=frames,
        texts=texts,
        figures=drawn(table),
        manifest={"command": "snakemake archive", "versions": {"python": "3"}, "host": {"system": "Linux"}},
        sums=64 * "0" + "  pairs/1.npz\n",
        published=published,
    )  # fmt: skip


def drawn(table: pd.DataFrame) -> dict[str, dict[str, bytes]]:
    """One figure, in both formats."""
    import tempfile

    from deduce.evaluation.metrics import METRICS

    with tempfile.TemporaryDirectory() as folder:
        stem = Path(folder, "points_l1")
        figures.draw(stem, points, table, results.display_names(table), METRICS["l1"])
        return {stem.name: {kind: stem.with_suffix(f".{kind}").read_bytes() for kind in ("png", "pdf")}}


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
