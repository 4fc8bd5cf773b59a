"""The authors' stored results give the paper's numbers, digit for digit."""

import io
import os
import pickle
import shutil
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from artefacts import make_pairs, make_shard

from deduce.artifacts import save_csv
from deduce.errors import InputError
from deduce.evaluation import catalogue, paper, results, statistics, summary, tables
from deduce.evaluation.run import Run
from deduce.published import PUBLISHED, audit, importer
from deduce.published.archive import _rebuild, load_array
from deduce.shards import ContractError

CLONE = Path(os.environ.get("DEDUCE_PUBLISHED", Path(__file__).parent.parent / "../shared/published"))
needs_clone = pytest.mark.skipif(not CLONE.is_dir(), reason="no clone of the authors' repository (DEDUCE_PUBLISHED)")


@pytest.fixture(scope="module")
def imported():
    return {seed: importer.import_seed(CLONE, seed) for seed in importer.SEEDS}


@pytest.fixture(scope="module")
def table(imported) -> pd.DataFrame:
    parts = []
    for seed, (pairs, shards, scores) in imported.items():
        for method, shard in shards.items():
            shard.check(method)
            parts.append(results.rows(method, seed, pairs, shard, scores[method], method))
    return results.order(pd.concat(parts), importer.METHODS)


@pytest.fixture(scope="module")
def tests(table) -> pd.DataFrame:
    return statistics.tests(table[["method", *summary.PAIR, "found", "agan", "l0", "l1"]])


@pytest.fixture(scope="module")
def defects(imported) -> pd.DataFrame:
    frames = [
        audit.defects(method, seed, shard)
        for seed, (_, shards, _) in imported.items()
        for method, shard in shards.items()
    ]
    return pd.concat(frames, ignore_index=True)


@needs_clone
def test_table1_has_31_of_the_32_printed_figures(table):
    frame = summary.table1(table).set_index("method")
    differing = {}
    for method, printed in paper.TABLE1.items():
        for metric, (value, spread) in printed.items():
            for name, figure in ((metric, value), (f"{metric}_std", spread)):
                if f"{frame.loc[method, name]:.2f}" != f"{figure:.2f}":
                    differing[method, name] = f"{frame.loc[method, name]:.2f}"
    assert differing == {("jsma", "l0"): "25.59"}
    assert f"{frame.loc['jsma', 'l0_std']:.2f}" == "0.65"


@needs_clone
def test_common_pairs_and_found_pairs(table):
    pairs = summary.per_seed(table, []).loc["deduce", "pairs"]
    assert pairs.tolist() == [634, 647, 649, 639, 661]
    found = table.groupby(["method", "seed"]).found.sum()
    assert found["jsma"].tolist() == [876, 873, 870, 870, 872]
    assert found["vlk"].tolist() == [896, 900, 900, 900, 900]
    assert found["revise"].tolist() == [650, 659, 661, 651, 673]
    assert len(table) == 18_000


@needs_clone
def test_each_test_set_is_as_in_the_authors_own_summary(table):
    columns = ["agan", "l0", "l1", "failure"]
    authors = importer.summaries(CLONE).set_index(["method", "seed"])[columns]
    assert len(authors) == 20
    recomputed = summary.per_seed(table, columns[:-1]).droplevel("training_seed").loc[authors.index, columns]
    np.testing.assert_allclose(recomputed, authors, rtol=1e-6, atol=1e-6)


@needs_clone
@pytest.mark.parametrize("mask, scope, n, p", [
    ("both", "all", 4361, [7.1e-44, 1.45e-172, 8.0e-186, 1.5e-32]),
    ("common", "all", 3230, [1.3e-20, 1.5e-109, 2.7e-117, 1.5e-32]),
    ("both", "1", 876, [8.1e-12, 2.9e-40, 1.5e-44, 8.3e-7]),
    ("common", "1", 634, [9.4e-6, 8.4e-25, 9.4e-29, 8.3e-7]),
    ("common", "means", 5, [1.5e-3, 5.5e-6, 2.2e-5, 1.5e-5]),
])  # fmt: skip
def test_p_values_of_deduce_against_jsma(tests, mask, scope, n, p):
    for metric, expected in zip(("agan", "l0", "l1", "failure"), p, strict=True):
        row = statistics.row(tests, "deduce", "jsma", metric, "all" if metric == "failure" else mask, scope)
        assert row["p"] == pytest.approx(expected, rel=0.04), metric
        assert metric == "failure" or row["n"] == n


@needs_clone
def test_p_values_against_the_others(tests):
    assert statistics.row(tests, "deduce", "vlk", "agan", "both", "1")["p"] == pytest.approx(0.991, abs=5e-4)
    assert statistics.row(tests, "deduce", "vlk", "agan", "common")["p"] == pytest.approx(0.064, abs=5e-4)
    assert statistics.row(tests, "deduce", "vlk", "agan", "both")["p"] == pytest.approx(1.2e-4, rel=0.05)
    revise = statistics.row(tests, "deduce", "revise", "agan", "common")
    assert revise["mean_difference"] == pytest.approx(2.43, abs=0.01)
    assert revise["p"] == pytest.approx(7.7e-44, rel=0.05)


@needs_clone
def test_table3_is_the_papers_but_for_the_slip(table):
    frame = tables.table3(table, paper.TABLE3_PAIRS)
    compared = tables.table3_beside_paper(frame)
    off = compared[(compared.run.round(2) - compared.paper).abs() > 0.011]
    assert off[["method", "image", "target", "metric"]].to_numpy().tolist() == [
        ["revise", 6, 9, "agan"], ["revise", 6, 9, "l1"],
    ]  # fmt: skip
    assert off.run.round(2).tolist() == [17.60, 39.74]
    failed = compared[compared.paper.isna()]
    assert len(failed) == 3 and failed.run.isna().all()  # REVISE found none for the fourth pair
    assert frame.label[frame.method == "deduce"].tolist() == [4, 0, 9, 2, 4, 5]


@needs_clone
def test_the_defective_rows_are_found(defects):
    vlk = defects[defects.method == "vlk"]
    assert vlk.groupby("seed").size().to_dict() == {2: 2, 3: 4, 4: 7, 5: 8}
    pairs = {seed: list(zip(part.position, part.target, strict=True)) for seed, part in vlk.groupby("seed")}
    assert pairs[2] == [(47, 1), (87, 6)]
    assert pairs[5] == [(13, 6), (41, 9), (45, 0), (47, 3), (49, 5), (51, 6), (64, 6), (68, 6)]
    rest = defects[defects.method != "vlk"]
    assert rest[["method", "seed", "position", "target", "defect"]].to_numpy().tolist() == [
        ["revise", 2, 90, 6, audit.EMPTY]
    ]


@needs_clone
def test_table1_without_the_defective_rows(table, defects):
    cleaned = audit.cleaned(table, defects)
    assert summary.per_seed(cleaned, []).loc["deduce", "pairs"].tolist() == [634, 645, 649, 635, 657]
    frame = summary.table1(cleaned).round(2).set_index("method")
    assert frame.loc["deduce"].tolist() == [22.51, 0.71, 21.15, 0.45, 10.72, 0.09, 0.0, 0.0]
    assert frame.loc["jsma"].tolist() == [23.88, 0.40, 25.59, 0.65, 12.63, 0.26, 3.09, 0.28]
    assert frame.loc["vlk"].tolist() == [22.73, 0.73, 153.74, 3.06, 38.50, 1.05, 0.56, 0.27]
    assert frame.loc["revise"].tolist() == [20.09, 0.87, 752.80, 5.03, 53.85, 0.60, 26.82, 1.03]


@needs_clone
def test_l0_at_thresholds(table):
    wide = summary.thresholded(table).pivot(index="method", columns="threshold", values="l0").round(2)
    assert wide.loc["revise"].tolist() == [752.46, 507.48, 355.94, 212.43, 126.31]
    assert wide.loc["deduce"].tolist() == [21.16, 21.15, 21.15, 20.55, 19.67]


@needs_clone
def test_originals_and_reconstructions(imported):
    parts = [results.references(kind, seed, scores[kind])
             for seed, (_, _, scores) in imported.items() for kind in ("original", "reconstruction")]  # fmt: skip
    frame = summary.reference_scores(pd.concat(parts)).set_index("kind").round(2)
    assert frame.loc["original", ["agan", "std0"]].tolist() == [13.87, 0.34]
    assert frame.loc["reconstruction", ["agan", "std0"]].tolist() == [14.65, 0.23]


@needs_clone
def test_means_over_the_pairs_that_each_method_found_pooled(table):
    means = table[table.found].groupby("method")[["agan", "l0", "l1"]].mean().round(2)
    assert means.loc["deduce"].tolist() == [22.98, 23.84, 11.96]
    assert means.loc["jsma"].tolist() == [24.73, 28.78, 14.07]


@needs_clone
def test_the_audit_names_what_was_found(table, tests, defects, imported):
    references = pd.concat(
        results.references(kind, seed, scores[kind])
        for seed, (_, _, scores) in imported.items()
        for kind in ("original", "reconstruction")
    )
    findings = audit.findings(table, tests, references, defects, importer.summaries(CLONE))
    text = findings.to_string()
    for part in ("(47,1), (87,6)", "(90,6)", "25.591", "13.87 ± 0.34", "53 %", "failure in % 8.3e-07"):
        assert part in text
    differing = findings[findings.finding == "printed figure differs"]
    assert len(differing) == 4  # JSMA's L0, two of table 3, and the originals' score
    agreeing = findings[findings.finding == "printed figures that agree"]
    assert agreeing[["where", "paper", "stored"]].to_numpy().tolist()[0] == ["table 1", 32, 31]


def archive(path: Path, pickled: bytes, storage: bytes = b"") -> Path:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive/data.pkl", pickled)
        file.writestr("archive/data/0", storage)
    return path


class Hostile:
    def __reduce__(self):
        return os.system, ("touch executed",)


@pytest.mark.parametrize("content", [
    pickle.dumps(Hostile(), 2),
    pickle.dumps({"weights": [1, 2]}, 2),
    b"cposix\nsystem\n(S'touch executed'\ntR.",
    b"",
])  # fmt: skip
def test_a_hostile_or_strange_tensor_file_is_refused_and_not_run(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    path = archive(tmp_path / "bad.pt", content)
    with pytest.raises(InputError, match=r"bad\.pt"):
        load_array(path)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("content", [b"not a zip", pickle.dumps([1])])
def test_what_is_no_archive_is_refused(tmp_path, content):
    (tmp_path / "bad.pt").write_bytes(content)
    with pytest.raises(InputError, match=r"bad\.pt: not a plain array"):
        load_array(tmp_path / "bad.pt")


def test_tensors_are_read_as_torch_reads_them(tmp_path):
    torch = pytest.importorskip("torch")
    base = torch.arange(24.0).reshape(2, 3, 4)
    for number, tensor in enumerate(
        [base, base.permute(2, 0, 1), base[:, 1:, ::2], torch.arange(5), torch.tensor(3.0)]
    ):
        path = tmp_path / f"{number}.pt"
        torch.save(tensor, path)
        loaded = load_array(path)
        assert loaded.shape == tuple(tensor.shape) and (loaded == tensor.numpy()).all()


def test_a_view_beyond_its_storage_is_refused(tmp_path):
    torch = pytest.importorskip("torch")
    buffer = io.BytesIO()
    torch.save(torch.arange(4.0), buffer)
    with zipfile.ZipFile(buffer) as file:
        name = next(name for name in file.namelist() if name.endswith("data.pkl"))
        pickled = file.read(name)
    path = archive(tmp_path / "bad.pt", pickled, b"\0" * 8)  # two values where four were announced
    with pytest.raises(InputError, match="4 were announced"):
        load_array(path)


@pytest.mark.parametrize("offset, shape, strides", [
    (0, (5,), (1,)), (-1, (2,), (1,)), (3, (2,), (1,)), (0, (2,), (-1,)), (0, (2,), (9,)), (0, (-1,), (9,)), (4, (), ())
])  # fmt: skip
def test_no_view_reaches_beyond_its_storage(offset, shape, strides):
    with pytest.raises(ValueError):
        _rebuild(np.arange(4.0), offset, shape, strides)


@needs_clone
def test_a_pickle_in_place_of_an_array_is_named(tmp_path):
    shutil.copytree(CLONE / "_testset_results", tmp_path / "_testset_results")
    path = tmp_path / "_testset_results" / "VLK_AGAN_c0.npy"
    np.save(path, np.array([[Hostile()]], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match=r"VLK_AGAN_c0.npy: not a plain array"):
        importer.import_seed(tmp_path, 1)


def test_a_folder_that_is_no_clone_is_named(tmp_path):
    with pytest.raises(InputError, match="clone of the authors' repository"):
        importer.import_seed(tmp_path, 1)


def test_the_imported_methods_are_those_of_the_published_experiment():
    assert list(importer.METHODS) == PUBLISHED["methods"] == list(paper.TABLE1)


@pytest.fixture(scope="module")
def written(table, imported, tmp_path_factory) -> dict[str, Path]:
    """Every table that the catalogue has for the authors' results: its name and the stem of its files."""
    folder = tmp_path_factory.mktemp("tables")
    shards = []
    for method in importer.METHODS:
        for seed, (_, by_method, _) in imported.items():
            shards.append(folder / "counterfactuals" / method / f"{seed}.npz")
            by_method[method].save(shards[-1])
    save_csv(folder / "summaries.csv", importer.summaries(CLONE))
    artifacts = {"counterfactuals": shards, "summaries": folder / "summaries.csv", "realism": ["scored"]}
    run = Run(PUBLISHED, artifacts, "published")
    run.results, run.references = table, pd.concat(
        results.references(kind, seed, scores[kind])
        for seed, (_, _, scores) in imported.items()
        for kind in importer.REFERENCES.values()
    )  # fmt: skip
    stems = {}
    for item in catalogue.items(catalogue.TABLES, run):
        stems[item.name] = folder / item.name
        tables.write(stems[item.name], *item.build(run)[:2])
    return stems


@needs_clone
def test_the_catalogue_has_the_audit(written):
    assert {"table1", "table1_paper", "table3_paper", "claims", "audit", "table1_cleaned", "defects"} <= written.keys()
    assert "| printed figures that agree | table 1 | 32 | 31 |" in written["audit"].with_suffix(".md").read_text()
    assert len(pd.read_csv(written["defects"].with_suffix(".csv"))) == 22
    assert "22.73" in written["table1_cleaned"].with_suffix(".md").read_text()


LATEX = shutil.which("pdflatex")


@needs_clone
@pytest.mark.skipif(not LATEX and not os.environ.get("CI"), reason="no pdflatex")
def test_the_tables_compile(written, tmp_path):
    inputs = "\n".join(rf"\input{{{stem}.tex}}\clearpage" for stem in written.values())
    document = rf"\documentclass{{article}}\usepackage{{booktabs}}\begin{{document}}{inputs}\end{{document}}"
    (tmp_path / "all.tex").write_text(document)
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:]


def test_only_imported_results_may_leave_the_range_and_none_may_be_nan():
    shard = make_shard("vlk", 1, make_pairs(1))
    shard.counterfactual[3] = 1.5
    with pytest.raises(ContractError, match=r"outside \[0, 1\]"):
        shard.check("vlk.npz")
    shard.metadata |= {"as_published": True, "unknown": ["confidence"]}
    shard.confidence[:] = np.nan
    shard.check("vlk.npz")
    shard.counterfactual[3, 0, 0, 0] = np.nan
    with pytest.raises(ContractError, match="NaN"):
        shard.check("vlk.npz")
    shard.counterfactual[3] = 0.5
    shard.metadata["as_published"] = False
    with pytest.raises(ContractError, match="'confidence' is nan"):
        shard.check("vlk.npz")


@pytest.mark.workflow
def test_oracles_are_asked_about_the_stored_images_unless_the_config_says_no(clean_checkout, tmp_path):
    (tmp_path / "clone/_testset_results").mkdir(parents=True)
    checkout = clean_checkout.copy(tmp_path / "repository")
    clone = "published", "--config", f"published={tmp_path / 'clone'}"
    asked = checkout.planned(*clone, config="config.yaml")
    assert {"import_published", "fetch", "train", "judge_published", "yardsticks", "manifest"} <= asked
    stored = checkout.planned(*clone, "judge_published=False", config="config.yaml")
    assert {"import_published", "manifest", "results_table", "write_report"} <= stored
    assert not stored & {"fetch", "train", "judge_published", "yardsticks"}
