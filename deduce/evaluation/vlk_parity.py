"""How closely the batched VLK follows alibi: both on the same pairs, networks and settings."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from deduce.errors import InputError
from deduce.evaluation.figures import GREY, PALETTE
from deduce.evaluation.metrics import distances
from deduce.evaluation.statistics import compare, mcnemar
from deduce.shards import Pairs, Shard

NAMES = {"l0": "L0", "l1": "L1", "confidence": "confidence in the target"}
OTHERS = {"found": "share found", "seconds": "seconds for a pair", "speed_up": "times as fast"}
BACKENDS = {"alibi": "alibi", "torch": "batched"}
SIGNIFICANT = 0.05
# As the page shows them: caption, columns with their headings (none: all of them), and how to write them.
TABLES: dict[str, tuple[str, dict[str, str], dict[str, Any]]] = {
    "vlk_parity": (
        "The batched VLK beside alibi. Distances and confidence are means over the pairs that both found.",
        {"measure": "measure", "alibi": "alibi", "alibi_std": "sd", "torch": "batched", "torch_std": "sd",
         "difference": "batched − alibi", "difference_std": "sd", "p": "paired p", "pairs": "pairs"},
        {"p": ("p",), "decimals": 3},
    ),
    "vlk_parity_pairs": ("Every pair of that comparison.", {}, {"decimals": 3}),
}  # fmt: skip


def measured(pairs: Pairs, alibi: Shard, torch: Shard) -> pd.DataFrame:
    """One row per pair: found, L0, L1 and confidence of each backend, e.g. in the column `l0_alibi`."""
    columns: dict[str, Any] = {"image": pairs.image, "label": pairs.label, "target": pairs.target}
    for backend, shard in (("alibi", alibi), ("torch", torch)):
        shard.answers(pairs, backend)
        distance = distances(pairs.original, shard.counterfactual)
        columns |= {f"{name}_{backend}": distance[name] for name in ("l0", "l1")}
        columns |= {f"confidence_{backend}": shard.confidence, f"found_{backend}": shard.found}
    return pd.DataFrame(columns)


def table(rows: pd.DataFrame, seconds: dict[str, dict[str, float]]) -> pd.DataFrame:
    """One row per measure; distances and confidences of the pairs that both found, with a paired test.

    seconds: of each backend, what all pairs took together (`seconds`) and on how many `threads`.
    """
    both = rows[rows.found_alibi & rows.found_torch]
    if len(both) < 2:
        raise InputError(f"alibi and the batched VLK have {len(both)} counterfactuals in common: too few to compare.")
    lines = []
    for name in NAMES:
        alibi, torch = (both[f"{name}_{backend}"].to_numpy(float) for backend in BACKENDS)
        lines.append(
            {
                "measure": name,
                "alibi": alibi.mean(),
                "alibi_std": alibi.std(ddof=1),
                "torch": torch.mean(),
                "torch_std": torch.std(ddof=1),
                "difference": (torch - alibi).mean(),
                "difference_std": (torch - alibi).std(ddof=1),
                "p": _p(torch, alibi),
                "pairs": len(both),
            }
        )
    alibi_only, torch_only = (rows.found_alibi & ~rows.found_torch).sum(), (rows.found_torch & ~rows.found_alibi).sum()
    lines.append(
        {
            "measure": "found",
            "alibi": rows.found_alibi.mean(),
            "torch": rows.found_torch.mean(),
            "difference": rows.found_torch.mean() - rows.found_alibi.mean(),
            "p": mcnemar(int(alibi_only), int(torch_only)),
            "pairs": len(rows),
        }
    )
    each = {backend: facts["seconds"] / len(rows) for backend, facts in seconds.items()}
    lines.append({"measure": "seconds", **each, "difference": each["torch"] - each["alibi"], "pairs": len(rows)})
    lines.append({"measure": "speed_up", "torch": each["alibi"] / each["torch"], "pairs": len(rows)})
    return pd.DataFrame(lines)


def _p(a: np.ndarray, b: np.ndarray) -> float:
    """Of a paired t-test; one where nothing differs."""
    return 1.0 if (a == b).all() else float(compare(a, b)["p"])


def readable(summary: pd.DataFrame) -> pd.DataFrame:
    """The table with its measures in words."""
    return summary.assign(measure=summary["measure"].replace(NAMES | OTHERS))


def sentence(summary: pd.DataFrame) -> str:
    """What the table says, in words."""
    by = summary.set_index("measure")
    pairs, seconds = by.loc["found", "pairs"], by.loc["seconds"]
    found = {backend: f"{by.loc['found', backend] * pairs:.0f}" for backend in BACKENDS}
    distances = " and ".join(
        f"{NAMES[name]} {by.loc[name, 'torch']:.{digits}f} instead of {by.loc[name, 'alibi']:.{digits}f} "
        f"(paired p = {by.loc[name, 'p']:.2f})"
        for name, digits in (("l0", 1), ("l1", 2))
    )
    apart = " and ".join(text for name, text in NAMES.items() if by.loc[name, "p"] < SIGNIFICANT)
    return (
        f"Of the same {pairs:.0f} pairs, with the same networks and settings, alibi found {found['alibi']} and the "
        f"batched version {found['torch']}. On those that both found, the batched version has {distances}. "
        f"{f'The tests tell them apart by {apart}' if apart else 'No test tells the two apart'}. "
        f"alibi took {seconds['alibi']:.3g} s for a pair, the batched version {seconds['torch']:.3g} s: "
        f"{by.loc['speed_up', 'torch']:.0f} times as fast."
    )


def figure(rows: pd.DataFrame, summary: pd.DataFrame) -> Figure:
    """Above, the distributions of both backends; below, pair by pair; at the right, the seconds of each."""
    both = rows[rows.found_alibi & rows.found_torch]
    drawing, axes = plt.subplots(2, 4, figsize=(11, 5.2), width_ratios=[1, 1, 1, 0.6])
    for column, (name, text) in enumerate(NAMES.items()):
        values = {backend: both[f"{name}_{backend}"].to_numpy(float) for backend in BACKENDS}
        above, below = axes[:, column]
        for colour, (backend, label) in zip(PALETTE, BACKENDS.items(), strict=False):
            steps = np.arange(1, len(both) + 1) / len(both)
            above.step(np.sort(values[backend]), steps, where="post", color=colour, label=label)
        p = summary.set_index("measure").loc[name, "p"]
        above.set(xlabel=text, ylabel="share of pairs", title=f"paired p = {p:.2f}")
        below.axline((values["alibi"].mean(),) * 2, slope=1, color=GREY, linewidth=0.8)
        below.plot(values["alibi"], values["torch"], ".", color=PALETTE[2])
        below.set(xlabel=f"{text}, alibi", ylabel=f"{text}, batched")
    axes[0, 0].legend(frameon=False)
    numbers = summary.set_index("measure")
    for axis, measure, text in ((axes[0, 3], "seconds", "seconds each"), (axes[1, 3], "found", "found")):
        values = numbers.loc[measure, list(BACKENDS)].to_numpy(float)
        axis.bar_label(axis.bar(list(BACKENDS.values()), values, color=PALETTE[:2]), fmt="%.3g")
        axis.set(ylabel=text, ylim=(0, 1.15 * max(values)))
    axes[0, 3].set_title(f"{numbers.loc['speed_up', 'torch']:.0f} times as fast")
    return drawing
