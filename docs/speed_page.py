"""Writes docs/speed.md and docs/speed.png from the measurements of `make bench` (results/benchmarks/*.json).

python docs/speed_page.py
"""

import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

ROOT = Path(__file__).resolve().parent.parent
NAMES = {"deduce": "DeDUCE", "jsma": "JSMA", "revise": "REVISE", "vlk": "VLK", "anogan": "AnoGAN score"}
PANELS = {
    "width": ("width of the network", "ms per image and step"),
    "pairs": ("pairs (20 steps each, width 8)", "seconds"),
    "iterations": ("steps (50 pairs, width 8)", "seconds"),
}
INTRODUCTION = """# Speed

`make bench` measures all of this and writes this page. Ratios compare two ways in one run on the same machine, which
take turns; of each, the least processor time counts. Networks have random weights, which cost what trained ones do.

## A step

On {machine}, networks of width {width}, batches of {batch_size}. *Textbook* is one image in a plain loop through the
network as it was trained ([tests/textbook.py](../tests/textbook.py)). *Automatic* is the same batch through the same
folded networks by automatic differentiation; what the library does instead is in
[deduce/kernels.py](../deduce/kernels.py). Finished rows leave the batch, which the table of a step does not show.

"""
PEAK = """
The peak is {peak:.0f} billion operations per second: the best that a product of large matrices (by torch or by oneDNN)
or a large convolution reached in the same run. Useful operations are those of the networks' forward and backward
passes in the image, without taps of kernels that meet padding. What is below the peak are layers with few channels,
activations and sums, which wait for memory, and the steps of the methods themselves. The AnoGAN score needs a quarter
of the multiplications in its largest layer that are counted for it.
"""
ART = """
`SaliencyMapMethod` of the adversarial-robustness-toolbox takes {toolbox_milliseconds:.1f} ms per image and step on the
same network (as it was trained), {faster_than_toolbox:.0f} times as long as JSMA's step here. Its step changes two
pixels.
"""
OTHER_TRAININGS = """
Other ways were measured and are not used. Against a step of `ddu` as it is (width {other_ways[width]}, float32,
channels last), one with contiguous images is {other_ways[contiguous]:.2f} times as fast, and one with PyTorch's fused
optimiser {other_ways[fused]:.2f} times. The WGAN (width {wgan[width]}) would be {wgan[bfloat16_is_faster_by]:.2f} times
as fast in bfloat16. A second thread makes a step of `ddu` {two_threads[faster_by]:.2f} times as fast on the clock;
after three steps, the weights have {bytes} with one thread. So a training has one thread, and trainings run side by
side.
"""


def table(columns: list[str], rows: list[list[str]]) -> str:
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def of_steps(report: dict[str, Any]) -> str:
    def cell(values: dict[str, float], key: str, form: str) -> str:
        return form.format(values[key]) if key in values else ""

    columns = ["method", "ms per image", "textbook", "automatic", "useful operations", "share of peak", "memory"]
    rows = [
        [
            NAMES[name],
            cell(values, "library_milliseconds", "{:.2f}"),
            cell(values, "faster_than_textbook", "{:.1f} × faster"),
            cell(values, "faster_than_automatic", "{:.2f} × faster"),
            f"{values['operations_per_second'] / 1e9:.0f} billion/s",
            cell(values, "share_of_peak", "{:.0%}"),
            cell(report["peak_megabytes"], name, "{:.0f} MB"),
        ]
        for name, values in sorted(report["steps"].items(), key=lambda item: list(NAMES).index(item[0]))
    ]
    text = INTRODUCTION.format(**report) + table(columns, rows)
    text += PEAK.format(peak=report["peak_operations_per_second"] / 1e9)
    jsma = report["steps"]["jsma"]
    return text + (ART.format(**jsma) if "toolbox_milliseconds" in jsma else "")


def of_growth() -> str:
    return """
## Growth

Time grows in proportion to pairs and steps. In narrow networks, what does not depend on the width weighs more: the
generative model of REVISE, the autoencoder of VLK, and the start of every operation.

![Milliseconds by width, seconds by pairs and steps](speed.png)
"""


def of_search(report: dict[str, Any]) -> str:
    rows = [[name, f"{ratio:.1f} ×"] for name, ratio in report["engine_is_faster_by"].items()]
    return (
        f"\n## A whole search\n\nDeDUCE on {report['pairs']} pairs of made images, networks of width 4, and\n"
        f"the limit of 700 steps; the library is faster by these ratios ({report['machine']}).\n\n"
        + table(["than", "ratio"], rows)
    )


def of_vlk(reports: list[dict[str, Any]]) -> str:
    rows = [
        [
            str(report["width"]),
            f"{report['batched_seconds_per_counterfactual']:.2f} s",
            f"{report['alibi_seconds_per_counterfactual']:.1f} s",
            f"{report['speed_up_in_processor_time']:.0f} ×",
        ]
        for report in reports
        if "speed_up" in report
    ]
    columns = ["width", "here", "alibi", "ratio in processor time"]
    heading = f"\n## VLK against alibi\n\nA counterfactual of 2 × 1,000 iterations ({reports[0]['machine']}).\n\n"
    return heading + table(columns, rows) if rows else ""


def of_realism(report: dict[str, Any]) -> str:
    return (
        "\n## AnoGAN scores against the textbook\n\nA batched loop with automatic differentiation, as released, takes\n"
        f"{report['speedup_in_processor_time']:.1f} times the processor time of the library for the same scores.\n"
    )


def of_training(report: dict[str, Any]) -> str:
    rows = [
        [name, *(f"{values[f'images_per_second_{kind}']:.0f}" for kind in ("float32", "bfloat16")),
         f"{values['share_of_peak_float32']:.0%}", f"{values['bfloat16_is_faster_by']:.2f} ×"]
        for name, values in report.items() if isinstance(values, dict) and "bfloat16_is_faster_by" in values
    ]  # fmt: skip
    columns = ["model", "float32, images/s", "bfloat16, images/s", "share of float32's peak", "faster by"]
    text = f"\n## Training\n\nOn {report['machine']}, batches of 128.\n\n" + table(columns, rows)
    if "two_threads" not in report:
        return text
    same = "the same bytes as" if report["two_threads"]["equal_bytes"] else "other bytes than"
    return text + OTHER_TRAININGS.format(**report, bytes=same)


def draw(growth: dict[str, Any], path: Path) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
    for axis, (kind, (label, unit)) in zip(axes, PANELS.items(), strict=True):
        for name, points in growth[kind].items():
            axis.loglog([int(x) for x in points], list(points.values()), marker="o", markersize=4, label=NAMES[name])
        ticks = [int(x) for x in next(iter(growth[kind].values()))]
        axis.set_xticks(ticks, [str(tick) for tick in ticks])
        axis.minorticks_off()
        axis.set(xlabel=label, ylabel=unit)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)


def main() -> None:
    folder, docs = ROOT / "results" / "benchmarks", ROOT / "docs"
    parts = {"steps": of_steps, "search": of_search, "vlk": of_vlk, "realism": of_realism, "training": of_training}
    text = ""
    for name, part in parts.items():
        if (path := folder / f"{name}.json").exists():
            report = json.loads(path.read_text())
            text += part(report)
            if name == "steps":
                text += of_growth()
                points = report["growth"]
                draw({kind: {name: dict(sorted(values.items(), key=lambda item: int(item[0]))) for name, values in
                             methods.items()} for kind, methods in points.items()}, docs / "speed.png")  # fmt: skip
    (docs / "speed.md").write_text(text)


if __name__ == "__main__":
    main()
