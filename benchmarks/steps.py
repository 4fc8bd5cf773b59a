"""What a step of each method costs: against the textbook's loop, against automatic differentiation through the same
folded networks, against the machine's peak; how it grows; and how much memory it takes.

`python benchmarks/steps.py [--quick]` measures all of it in one run, on one thread, and writes
results/benchmarks/steps.json. The ways to be compared take turns, and the least processor time of each counts: other
work on the machine hurts all of them alike. JSMA is also compared with adversarial-robustness-toolbox, which `make
bench` installs into a folder of its own.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import MultivariateNormal
from torch.nn import functional as F

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
sys.path.append(str(ROOT / "results/environments/art"))

import textbook  # noqa: E402

from deduce import JSMA, REVISE, VLK, DeDUCE, kernels  # noqa: E402
from deduce.artifacts import save_json  # noqa: E402
from deduce.density import ClassDensities  # noqa: E402
from deduce.fold import fold  # noqa: E402
from deduce.methods import machine  # noqa: E402
from deduce.methods.deduce import DensityModels  # noqa: E402
from deduce.methods.revise import GenerativeModels  # noqa: E402
from deduce.methods.vlk import INFINITE, AutoencoderModels, ProtoRows  # noqa: E402
from deduce.models.autoencoder import Autoencoder  # noqa: E402
from deduce.models.resnet import PlainResNet, SpectralResNet  # noqa: E402
from deduce.models.vae import VAE  # noqa: E402
from deduce.models.wgan import WGAN  # noqa: E402
from deduce.realism.anogan import CPU_ROWS, AutodiffGAN  # noqa: E402
from deduce.realism.fast_wgan import FastWGAN  # noqa: E402
from deduce.search import Models, Rows, frozen_beside, gradient_of, search  # noqa: E402

SHAPE = (1, 28, 28)
OUT_OF_REACH = 1 - 1e-9  # a confidence that no search attains: all rows take all steps
METHODS = {"deduce": DeDUCE, "jsma": JSMA, "revise": REVISE, "vlk": VLK}
Ways = dict[str, Callable[[], object]]


def least_seconds(ways: Ways, turns: int) -> dict[str, float]:
    """The least processor time of each way; they take turns, and the first turn warms up."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(turns + 1):
        for name, way in ways.items():
            start = time.process_time()
            way()
            if turn:
                taken[name].append(time.process_time() - start)
    return {name: min(values) for name, values in taken.items()}


def peak(turns: int) -> float:
    """Operations per second: the best of products by torch and by oneDNN, and of a large convolution."""
    left, right = torch.rand(1536, 1536), torch.rand(1536, 1536)
    images, weight = torch.rand(50, 256, 14, 14), torch.rand(256, 256, 3, 3)
    images, weight = (tensor.contiguous(memory_format=torch.channels_last) for tensor in (images, weight))
    ways: Ways = {
        "torch": lambda: F.linear(left, right),
        "oneDNN": lambda: kernels.product(left, right),
        "convolution": lambda: F.conv2d(images, weight),
    }
    work = {"torch": 2 * 1536**3, "oneDNN": 2 * 1536**3, "convolution": 2 * 50 * 12 * 12 * 9 * 256**2}
    return max(work[name] / seconds for name, seconds in least_seconds(ways, turns).items())


def useful_operations(modules: list[nn.Module], run: Callable[[], object]) -> int:
    """Operations of all products in `run` and in its backward pass, but for taps of kernels that meet padding."""
    total = 0

    def count(module: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal total
        image = inputs[0]
        if isinstance(module, nn.Linear):
            total += image.numel() * module.out_features
        else:
            large, small = (output, image) if isinstance(module, nn.ConvTranspose2d) else (image, output)
            meetings = 1
            for axis in (0, 1):
                taps = torch.arange(small.shape[2 + axis])[:, None] * module.stride[axis] - module.padding[axis]
                taps = taps + torch.arange(module.kernel_size[axis])
                meetings *= int(((taps >= 0) & (taps < large.shape[2 + axis])).sum())
            total += len(image) * module.in_channels * module.out_channels * meetings

    layers = [layer for module in modules for layer in module.modules()]
    layers = [layer for layer in layers if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d | nn.Linear)]
    hooks = [layer.register_forward_hook(count) for layer in layers]
    run()
    for hook in hooks:
        hook.remove()
    return 2 * 2 * total  # a multiplication and an addition; forwards and backwards


class Case:
    """A method with networks of random weights, which cost what trained ones do, and a batch of rows."""

    def __init__(self, name: str, width: int, rows: int) -> None:
        torch.manual_seed(0)
        self.name, self.rows = name, rows
        self.images, self.targets = torch.rand(rows, *SHAPE), torch.arange(rows) % 10
        self.network = (SpectralResNet(width, 1, 10, 28) if name == "deduce" else PlainResNet(width, 1, 10)).eval()
        classifier: Any = fold(self.network, SHAPE)
        self.densities = ClassDensities(10, 8 * width)
        self.vae, self.autoencoder = VAE(10, 1, 28).eval(), Autoencoder(1).eval()
        self.models: Any = {
            "deduce": lambda: DensityModels(classifier, self.densities),
            "jsma": lambda: Models(classifier),
            "revise": lambda: GenerativeModels(classifier, frozen_beside(self.vae, classifier)),
            "vlk": lambda: AutoencoderModels(classifier, frozen_beside(self.autoencoder, classifier)),
        }[name]()
        self.networks = [value for value in vars(self.models).values() if hasattr(value, "chains")]
        self.method: Any = METHODS[name](**({} if name == "vlk" else {"target_confidence": OUT_OF_REACH}))
        zeros = torch.zeros(rows)
        if name == "vlk":
            labels = (self.targets + 1) % 10
            prototype = self.models.autoencoder.encode(self.images)
            bounds = zeros + 1, zeros, zeros + INFINITE
            self.state: Any = ProtoRows(self.images, self.targets, labels, prototype, *bounds, self.images, zeros,
                                        self.images, zeros + INFINITE, zeros)  # fmt: skip
        else:
            start = Rows(torch.arange(rows), self.images.clone(), self.targets, zeros.long(), zeros, zeros.bool())
            with torch.no_grad():
                self.state = self.method.start(self.models, start)

    def step(self) -> None:
        if self.name == "vlk":
            self.method.gradient(self.models, self.state, self.images)
            return
        gradient = gradient_of(self.method, self.models, self.state)
        with torch.no_grad():
            self.method.step(self.state, gradient)

    def automatically(self, run: Callable[[], object]) -> None:
        """Runs with the networks' own functions in place of the passes that are written out."""
        written = [
            (network, name, network.__dict__.pop(name)) for network in self.networks for name in network.chains()
        ]
        run()
        for network, name, function in written:
            network.__dict__[name] = function

    def one_by_one(self, steps: int) -> None:
        """The textbook on one image; the last of its passes only tests the confidence."""
        settings = {"target_confidence": OUT_OF_REACH, "max_iterations": steps}
        if self.name == "deduce":
            dimension = self.densities.mean.shape[1]
            gaussian = MultivariateNormal(torch.zeros(dimension).double(), torch.eye(dimension).double())
            textbook.deduce(self.network, [gaussian] * 10, self.images[0], 0, **settings)
        elif self.name == "jsma":
            textbook.jsma(self.network, self.images[0], 0, **settings)
        else:
            textbook.revise(self.network, self.vae, self.images[0], 0, **settings)


def compared(case: Case, top: float, turns: int) -> dict[str, float]:
    steps = 3
    ways: Ways = {"library": case.step, "automatic": lambda: case.automatically(case.step)}
    if case.name != "vlk":
        ways["textbook"] = lambda: case.one_by_one(steps)
    seconds = least_seconds(ways, turns)
    operations = useful_operations(case.networks, lambda: case.automatically(case.step))
    each = {"library": seconds["library"] / case.rows, "automatic": seconds["automatic"] / case.rows}
    if "textbook" in seconds:
        each["textbook"] = seconds["textbook"] / (steps + 1)
    result = {f"{name}_milliseconds": 1e3 * value for name, value in each.items()}
    result |= {f"faster_than_{name}": each[name] / each["library"] for name in each if name != "library"}
    speed = operations / seconds["library"]
    return result | {"operations_per_second": speed, "share_of_peak": speed / top}


def objectives() -> dict[str, Any]:
    torch.manual_seed(0)
    wgan = WGAN(64, 1, 64, 16).eval()
    return {"library": FastWGAN(wgan, 0.1), "automatic": AutodiffGAN(wgan, 0.1)}


def gradients(of: dict[str, Any]) -> Ways:
    """A step of a block of descents."""
    images, latent = torch.rand(CPU_ROWS, *SHAPE), torch.randn(CPU_ROWS, 64)
    with torch.no_grad():
        prepared = {name: objective.prepare(images) for name, objective in of.items()}

    def gradient(name: str) -> Tensor:
        with torch.no_grad():
            return of[name].gradient(latent, *prepared[name])

    return {name: partial(gradient, name) for name in of}


def anogan(top: float, turns: int) -> dict[str, float]:
    of = objectives()
    ways = gradients(of)
    seconds = least_seconds(ways, turns)
    gan = of["automatic"].gan
    features = [gan.critic.convolution1, gan.critic.convolution2]
    operations = useful_operations([gan.generator, *features], ways["automatic"])
    speed = operations / seconds["library"]
    return {
        "library_milliseconds": 1e3 * seconds["library"] / CPU_ROWS,
        "automatic_milliseconds": 1e3 * seconds["automatic"] / CPU_ROWS,
        "faster_than_automatic": seconds["automatic"] / seconds["library"],
        "operations_per_second": speed,
        "share_of_peak": speed / top,
    }


def toolbox(case: Case, turns: int) -> dict[str, float]:
    """JSMA's step against that of adversarial-robustness-toolbox, per image; its steps change two pixels."""
    from art.attacks.evasion import SaliencyMapMethod
    from art.estimators.classification import PyTorchClassifier

    rows, gradients = 25, 0
    network = PyTorchClassifier(case.network, nn.CrossEntropyLoss(), SHAPE, 10, clip_values=(0, 1), device_type="cpu")
    class_gradient = network.class_gradient

    def counted(x: Any, *arguments: Any, **settings: Any) -> Any:
        nonlocal gradients
        gradients += len(x)
        return class_gradient(x, *arguments, **settings)

    network.class_gradient = counted
    attack = SaliencyMapMethod(network, theta=0.2, gamma=8 / 784, batch_size=rows, verbose=False)
    targets = torch.eye(10)[case.targets[:rows]].numpy()
    run = lambda: attack.generate(case.images[:rows].numpy(), targets)  # noqa: E731
    run()
    each_run, gradients = gradients, 0
    run()
    each_run = gradients
    seconds = least_seconds({"toolbox": run, "library": case.step}, turns)
    library = seconds["library"] / case.rows
    theirs = seconds["toolbox"] / each_run
    return {"toolbox_milliseconds": 1e3 * theirs, "toolbox_steps": each_run, "faster_than_toolbox": theirs / library}


def growth(quick: bool) -> dict[str, dict[str, dict[int, float]]]:
    """Milliseconds per image and step by width; seconds of whole searches by pairs and by iterations, at width 8."""
    turns, names = (1, ("jsma",)) if quick else (1, tuple(METHODS))

    def of_step(name: str, width: int) -> float:
        return 1e3 * least_seconds({"step": Case(name, width, 100).step}, turns)["step"] / 100

    widths = {name: {width: of_step(name, width) for width in (4, 8, 16, 32, 64)} for name in names}

    def of_search(name: str, pairs: int, iterations: int) -> float:
        case = Case(name, 8, pairs)
        method = METHODS[name](target_confidence=OUT_OF_REACH, max_iterations=iterations)
        run = lambda: search(method, case.models, case.images, case.targets, allow_reached=True)  # noqa: E731
        return least_seconds({"search": run}, turns)["search"]

    searched = [name for name in names if name != "vlk"]
    by_pairs = {name: {pairs: of_search(name, pairs, 20) for pairs in (25, 50, 100, 200, 400)} for name in searched}
    by_limit = {name: {limit: of_search(name, 50, limit) for limit in (10, 20, 40, 80)} for name in searched}
    return {"width": widths, "pairs": by_pairs, "iterations": by_limit}


def memory(name: str) -> float:
    """Megabytes of a process at their peak, after three steps at width 64 in batches of 100."""
    command = [sys.executable, __file__, "--memory", name]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer turns and networks of width 16")
    parser.add_argument("--memory", choices=[*METHODS, "anogan"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.memory:
        step = gradients(objectives())["library"] if options.memory == "anogan" else Case(options.memory, 64, 100).step
        for _ in range(3):
            step()
        highest = re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())
        print(int(highest[1]) / 1024 if highest else "nan")
        return
    width, turns = (16, 2) if options.quick else (64, 6)
    top = peak(5 * turns)
    report: dict[str, Any] = {"machine": machine(), "threads": 1, "width": width, "batch_size": 100}
    report["steps"] = {}
    for name in METHODS:
        case = Case(name, width, 100)
        report["steps"][name] = compared(case, top, turns if name != "deduce" else max(2, turns // 3))
        if name == "jsma":
            try:
                report["steps"][name] |= toolbox(case, max(2, turns // 3))
            except ImportError:
                print("adversarial-robustness-toolbox is not installed: `make bench` does it", file=sys.stderr)
        print(name, json.dumps(report["steps"][name]), flush=True)
    report["steps"]["anogan"] = anogan(top, 5 * turns)
    report["peak_operations_per_second"] = top
    report["growth"] = growth(options.quick)
    report["peak_megabytes"] = {name: memory(name) for name in (*METHODS, "anogan")}
    save_json(ROOT / "results" / "benchmarks" / "steps.json", report)


if __name__ == "__main__":
    main()
