"""How closely one implementation of a method follows another on the same pairs.

In column names, *a* is the reference and *b* the implementation that should agree with it.
"""

from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from deduce.errors import InputError
from deduce.evaluation.figures import GREY, PALETTE
from deduce.evaluation.metrics import METRICS, distances
from deduce.evaluation.statistics import SIGNIFICANT, compare, mcnemar
from deduce.evaluation.tables import Table, frame_table
from deduce.shards import Pairs, Shard

MEASURES = {"l0": METRICS["l0"].text, "l1": METRICS["l1"].text, "confidence": "confidence in the target"}
OTHERS = {"found": "share found", "seconds": "seconds for a pair", "speed_up": "times as fast"}
ALTERNATIVE = (
    "Distributions of L0, L1 and confidence of both implementations, each pair’s values against each other, seconds "
    "and success rates."
)
CAPTION = "Above: distributions. Below: pair by pair, on the line where both are equal."


def display_names(a: Shard, b: Shard) -> list[str]:
    return [shard.metadata.get("display_name", shard.metadata["method"]) for shard in (a, b)]


def measured(pairs: Pairs, a: Shard, b: Shard) -> pd.DataFrame:
    """One row per pair: L0, L1, confidence, found and seconds of each implementation, e.g. in the column `l0_a`."""
    columns: dict[str, Any] = {"image": pairs.image, "label": pairs.label, "target": pairs.target}
    for side, shard in (("a", a), ("b", b)):
        method = shard.metadata["method"]
        shard.answers(pairs, method)
        if shard.seconds is None:
            raise InputError(f"The shard of {method} does not record 'seconds', which a comparison needs.")
        distance = distances(pairs.original, shard.counterfactual)
        columns |= {f"{name}_{side}": distance[name] for name in ("l0", "l1")}
        columns |= {f"{name}_{side}": getattr(shard, name) for name in ("confidence", "found", "seconds")}
    return pd.DataFrame(columns)


def compared(rows: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """One row per measure; distances and confidences of the pairs that both found, with a paired test."""
    both = rows[rows.found_a & rows.found_b]
    if len(both) < 2:
        raise InputError(f"{' and '.join(names)} have {len(both)} counterfactuals in common: too few to compare.")
    lines = []
    for name in MEASURES:
        a, b = (both[f"{name}_{side}"].to_numpy(float) for side in "ab")
        line: dict[str, Any] = {"measure": name}
        for column, values in (("a", a), ("b", b), ("difference", b - a)):
            line |= {column: values.mean(), f"{column}_std": values.std(ddof=1)}
        lines.append(line | {"p": 1.0 if (a == b).all() else float(compare(b, a)["p"]), "pairs": len(both)})
    only_a, only_b = (rows.found_a & ~rows.found_b).sum(), (rows.found_b & ~rows.found_a).sum()
    for name, p in (("found", mcnemar(int(only_a), int(only_b))), ("seconds", np.nan)):
        a, b = (rows[f"{name}_{side}"].mean() for side in "ab")
        lines.append({"measure": name, "a": a, "b": b, "difference": b - a, "p": p, "pairs": len(rows)})
    lines.append({"measure": "speed_up", "b": lines[-1]["a"] / lines[-1]["b"], "pairs": len(rows)})
    return pd.DataFrame(lines)


def as_table(frame: pd.DataFrame, names: list[str], title: str) -> Table:
    a, b = names
    headings = {"measure": "measure", "a": a, "a_std": "sd", "b": b, "b_std": "sd", "difference": f"{b} − {a}"}
    headings |= {"difference_std": "sd", "p": "paired p", "pairs": "pairs"}
    caption = f"{b} beside {a}. Distances and confidence are means over the pairs that both found."
    table = frame_table(frame, caption, headings, MEASURES | OTHERS, p=("p",), decimals=3)
    return replace(table, title=title, lead=sentence(frame, names))


def sentence(frame: pd.DataFrame, names: list[str]) -> str:
    """The table in words."""
    a, b = names
    l0, l1, _, found, seconds, speed_up = frame.to_dict("records")
    means = (
        f"L0 {l0['b']:.1f} instead of {l0['a']:.1f} (paired p = {l0['p']:.2f}) and "
        f"L1 {l1['b']:.2f} instead of {l1['a']:.2f} (paired p = {l1['p']:.2f})"
    )
    differing = frame.loc[frame["measure"].isin(MEASURES) & (frame["p"] < SIGNIFICANT), "measure"]
    apart = " and ".join(MEASURES[name] for name in differing)
    return (
        f"Of the same {found['pairs']:.0f} pairs, {a} found {found['a'] * found['pairs']:.0f} and {b} "
        f"{found['b'] * found['pairs']:.0f}. On the pairs that both found, {b} has {means}. "
        f"{f'The tests tell them apart by {apart}' if apart else 'No test tells the two apart'}. "
        f"{a} took {seconds['a']:.3g} s for a pair, {b} {seconds['b']:.3g} s: "
        f"{speed_up['b']:.0f} times as fast."
    )


def picture(rows: pd.DataFrame, frame: pd.DataFrame, names: list[str]) -> Figure:
    """Above, the distributions of both; below, pair by pair; at the right, the seconds of each and its success."""
    both, numbers = rows[rows.found_a & rows.found_b], frame.set_index("measure")
    figure, axes = plt.subplots(2, 4, figsize=(11, 5.2), width_ratios=[1, 1, 1, 0.6])
    steps = np.arange(1, len(both) + 1) / len(both)
    for (above, below), (name, text) in zip(axes.T, MEASURES.items(), strict=False):
        a, b = (both[f"{name}_{side}"].to_numpy(float) for side in "ab")
        for values, label, colour in zip((a, b), names, PALETTE, strict=False):
            above.step(np.sort(values), steps, where="post", color=colour, label=label)
        above.set(xlabel=text, ylabel="share of pairs", title=f"paired p = {numbers.loc[name, 'p']:.2f}")
        below.axline((a.mean(),) * 2, slope=1, color=GREY, linewidth=0.8)
        below.plot(a, b, ".", color=PALETTE[2])
        below.set(xlabel=f"{text}, {names[0]}", ylabel=f"{text}, {names[1]}")
    axes[0, 0].legend(frameon=False)
    for axis, measure, text in ((axes[0, 3], "seconds", "seconds each"), (axes[1, 3], "found", "found")):
        values = numbers.loc[measure, ["a", "b"]].to_numpy(float)
        axis.bar_label(axis.bar(names, values, color=PALETTE[:2]), fmt="%.3g")
        axis.set(ylabel=text, ylim=(0, 1.15 * max(values)))
    axes[0, 3].set_title(f"{numbers.loc['speed_up', 'b']:.0f} times as fast")
    return figure
