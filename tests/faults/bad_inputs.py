"""The table of bad inputs: what a user might write, and the sentence that answers it.

Every entry has the input and a part of the sentence. Inputs are configs, config files, command lines, files of pairs,
shards and scores, manifests, and calls of the library.
"""

import io
import json
import math
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from small_world import world
from torch import nn

from deduce import JSMA, REVISE, VLK, DeDUCE
from deduce.density import ClassDensities
from deduce.methods.nearest_image import NearestImage

NAN, INF, HUGE = math.nan, math.inf, 10**29


def sweep(**changes) -> dict:
    return {"sweeps": {"mine": {"method": "jsma", "vary": {"step_size": [0.1]}} | changes}}


FINITE = "that is finite"
WHOLE = "a value of type integer"
CONFIGS: list[tuple[dict, str]] = [
    ({"ddu": {"learning_rate": NAN}}, FINITE),
    ({"ddu": {"learning_rate": INF}}, FINITE),
    ({"ddu": {"learning_rate": 0}}, "more than 0"),
    ({"ddu": {"learning_rate": 10**12}}, "at most 1,000,000,000"),
    ({"ddu": {"coefficient": -INF}}, FINITE),
    ({"ddu": {"width": 1e9}}, WHOLE),
    ({"ddu": {"width": 10**9}}, "at most 1024"),
    ({"ddu": {"width": 0}}, "at least 1"),
    ({"ddu": {"epochs": 3.0}}, WHOLE),
    ({"ddu": {"epochs": 10**8}}, "at most 100000"),
    ({"ddu": {"schedule": "cosine"}}, "allowed: constant"),
    ({"ddu": {"training_images": 99}}, "at least 100"),
    ({"ddu": None}, "'ddu' is None"),
    ({"ddu": []}, "'ddu' is []"),
    ({"plain": {"batch_size": True}}, WHOLE),
    ({"plain": {"batch_size": "64"}}, WHOLE),
    ({"vae": {"annealing_epochs": NAN}}, FINITE),
    ({"vae": {"latent": 10**7}}, "at most 10000"),
    ({"wgan": {"averaging": 1.5}}, "at most 1"),
    ({"wgan": {"averaging": NAN}}, FINITE),
    ({"wgan": {"critic_learning_rate": -1}}, "more than 0"),
    ({"realism": {"anogan": {"step_size": NAN}}}, FINITE),
    ({"realism": {"anogan": {"steps": 250.0}}}, WHOLE),
    ({"realism": {"anogan": {"steps": 10**7}}}, "at most 1000000"),
    ({"realism": {"anogan": {"seed": HUGE}}}, "at most 1,000,000,000"),
    ({"realism": {"emnist_folder": 5}}, "a value of type string or null"),
    ({"ensemble": {"members": 10**5}}, "at most 1000"),
    ({"realism": None}, "'realism' is None"),
    ({"deduce": {"step_size": NAN}}, FINITE),
    ({"deduce": {"step_size": INF}}, FINITE),
    ({"deduce": {"step_size": -0.2}}, "more than 0"),
    ({"deduce": {"step_size": "0.2"}}, "a value of type number"),
    ({"deduce": {"target_confidence": 1}}, "less than 1"),
    ({"deduce": {"pixels_per_step": 785}}, "at most 784"),
    ({"deduce": {"pixels_per_step": 1.0}}, WHOLE),
    ({"deduce": {"objective": "foo"}}, "allowed: relative, weighted"),
    ({"deduce": {"momentum_in_selection": 1}}, "a value of type boolean"),
    ({"deduce": {"batch_size": 10**7}}, "at most 50000"),
    ({"deduce": 5}, "'deduce' is 5"),
    ({"jsma": {"classifier": "vae"}}, "allowed: ddu, plain"),
    ({"jsma": {"max_iterations": 10**10}}, "at most 1,000,000,000"),
    ({"jsma": {"target_confidence": 10**5000}}, "thousands of digits"),
    ({"vlk": {"learning_rate": NAN}}, FINITE),
    ({"vlk_alibi": {"order": 7}}, "allowed: race"),
    ({"nearest_image": {"norm": 3}}, "allowed: 1, 2"),
    ({"seeds": [1.0]}, WHOLE),
    ({"seeds": [0]}, "at least 1"),
    ({"seeds": [1, 1]}, "without repetitions"),
    ({"seeds": []}, "not empty"),
    ({"seeds": 1}, "a value of type array"),
    ({"images_per_seed": 3.0}, WHOLE),
    ({"images_per_seed": "3"}, WHOLE),
    ({"images_per_seed": 101}, "at most 100"),
    ({"shards_per_seed": 100_000}, "at most 900"),
    ({"shards_per_seed": 900, "seeds": list(range(1, 101))}, "too many to plan"),
    ({"timing": {"pairs": 10**15}}, "at most"),
    ({"timing": {"pairs": 0}}, "at least 1"),
    ({"timing": None}, "'timing' is None"),
    ({"name": "ok\n"}, "'name' is"),
    ({"name": "a" * 300}, "'name' is"),
    ({"name": "../up"}, "'name' is"),
    ({"name": ""}, "'name' is"),
    ({"name": "a b"}, "'name' is"),
    ({"name": "README.md"}, "'name' is"),
    ({"name": "data"}, "'name' is"),
    ({"name": "environments"}, "'name' is"),
    ({"name": 5}, "a value of type string"),
    ({"name": None}, "a value of type string"),
    ({"artifacts": 5}, "a value of type string or array or null"),
    ({"artifacts": [1]}, "'artifacts[0]' is 1"),
    ({"artifacts": "/nowhere"}, "no such folder or file"),
    ({"artifacts": "/dev/null"}, "/dev/null"),
    ({"artifacts": "a" * 400}, "no such folder or file"),
    ({"artifacts": ["a\0"]}, "no such folder or file"),
    ({"published": "a" * 400}, "no such folder"),
    ({"published": 5}, "a value of type string or null"),
    ({"published": "/nowhere"}, "no such folder"),
    ({"methods": None}, "a value of type array"),
    ({"methods": ["deduce", "jsam"]}, "did you mean 'jsma'"),
    ({"methods": [5]}, "'methods[0]' is 5"),
    ({"methods": []}, "not empty"),
    ({"dataset": "cifar"}, "'dataset' is 'cifar'"),
    ({"dataset": None}, "'dataset' is None"),
    ({"sources": "npm"}, "a value of type array"),
    ({"sources": ["ftp"]}, "'sources[0]' is 'ftp'"),
    ({"extras": None}, "a value of type array"),
    ({"nmae": "x"}, "did you mean 'name'"),
    ({5: 6}, "not text"),
    ({"autoencoder": {"\n": None}}, "the key '\\n' is not a line"),
    ({"a" * 9999: 1}, "is not a line"),
    ({"sweeps": 5}, "a value of type object"),
    ({"sweeps": {5: {}}}, "not text"),
    ({"sweeps": {"Mine": {"method": "jsma", "vary": {"step_size": [1]}}}}, "small letters"),
    ({"sweeps": {"m" * 100: {"method": "jsma", "vary": {"step_size": [1]}}}}, "at most 64"),
    ({"sweeps": {"table1": {"method": "jsma", "vary": {"step_size": [1]}}}}, "a table has this one"),
    (sweep(method="foo"), "there is no method 'foo'"),
    (sweep(vary={"step_size": [NAN]}), FINITE),
    (sweep(vary={"step_size": [7]}), "at most 1"),
    (sweep(vary={"pixels_per_step": [785]}), "at most 784"),
    (sweep(vary={"pixels_per_step": [1.0]}), WHOLE),
    (sweep(vary={"step_size": [0.1] * 1000, "max_iterations": list(range(1000))}), "1000000 points"),
    (sweep(vary={}), "at least one key"),
    (sweep(vary={"step_size": None}), "has no points"),
    (sweep(vary={"stepsize": [1]}), "stepsize"),
    (sweep(vary={"../../up": [1]}), "cannot be varied"),
    (sweep(vary={"a": {"x": {"step_size": "b c"}}}), "one word"),
    (sweep(reference="no such"), "none of its points"),
    (sweep(compare_on=["other"]), "not a sweep on the same"),
    (sweep(on=["validatoin"]), "sweeps.mine.on"),
    (sweep(leave_out_failing_above=NAN), FINITE),
    ({"sweeps": {"mine": {"method": "jsma"}}}, "'vary' is a required property"),
    ({"comparisons": {"mine": {"methods": ["vlk", "vkl"], "pairs": 3}}}, "there is no method 'vkl'"),
    ({"comparisons": {"mine": {"methods": ["vlk"], "pairs": 3}}}, "comparisons.mine.methods"),
    ({"comparisons": {"mine": {"methods": ["vlk", "jsma"], "pairs": 10**9}}}, "at most 900"),
    ({"comparisons": []}, "a value of type object"),
    ({"same_classifier": {"methods": ["jsma"]}}, "a list of at least 2"),
    ({"same_classifier": {"methods": ["jsma", "jsma"]}}, "without repetitions"),
    ({"dependence": {"training_seeds": []}}, "not empty"),
    ({"dependence": {"training_seeds": [NAN]}}, WHOLE),
    ({"dependence": {"curves": {"width": {"jsma": {"plain.width": [NAN]}}}}}, FINITE),
    ({"dependence": {"curves": {"width": {"jsma": {"plain.width": [2000]}}}}}, "at most 1024"),
    ({"dependence": {"curves": {"width": {"jsam": {"plain.width": [4]}}}}}, "there is no method 'jsam'"),
    ({"dependence": {"curves": {"width": {"jsma": {"plain.wdth": [4]}}}}}, "wdth"),
    ({"dependence": {"fewer_trainings": {"ddu.width=64": 0}}}, "at least 1"),
    ({"conviction": {"sweeps": ["no such"]}}, "not among the sweeps"),
    ({"conviction": {"rates": [INF]}}, FINITE),
    ({"conviction": {"rates": [2]}}, "at most 1"),
    ({"replicated": ["no such"]}, "'replicated[0]' is 'no such'"),
    ({"training_seeds": [-1]}, "at least"),
]


def _bomb(kind: str) -> str:
    pair, base = {"map": ("{{{}}}", "{k: 1}"), "list": ("[{}]", "[1]")}[kind]
    lines = [f"a0: &a0 {base}"]
    for level in range(1, 12):
        inside = ", ".join(f"k{n}: *a{level - 1}" if kind == "map" else f"*a{level - 1}" for n in range(10))
        lines.append(f"a{level}: &a{level} {pair.format(inside)}")
    return "\n".join(lines)


# The bytes of a config file (None: no such file).
CONFIG_FILES: dict[str, tuple[bytes | None, str]] = {
    "missing": (None, "no such file"),
    "binary": (bytes(range(256)), "UTF-8"),
    "utf-16": ("name: x\n".encode("utf-16"), "UTF-8"),
    "latin-1": (b"name: \xe9\n", "UTF-8"),
    "empty": (b"", "key: value"),
    "a list": (b"- a\n", "key: value"),
    "a word": (b"hello", "key: value"),
    "a recursive anchor": (b"sweeps: &a\n  x: *a\n", "'sweeps.x' contains itself"),
    "a recursive list": (b"seeds: &a [1, *a]\n", "contains itself"),
    "a bomb of maps": (_bomb("map").encode(), "more than"),
    "a bomb of lists": (_bomb("list").encode(), "more than"),
    "deep brackets": (b"name: " + b"[" * 5000 + b"]" * 5000, "nested too deeply"),
    "deep blocks": (b"".join(b" " * n + b"a:\n" for n in range(60)), "nested too deeply"),
    "deep lists": (b"- " * 400_000, "nested too deeply"),
    "deep keys": (b"? " * 400_000, "nested too deeply"),
    "deep maps in lists": (b"[{" * 20_000, "nested too deeply"),
    "a million values": (b"seeds: [" + b"1," * 400_000 + b"1]", "more than"),
    "many megabytes": (b"# " + b"x" * 2_000_000, "larger than"),
    "open brackets": (b"name: [x\nb: }", "line 2: is not valid YAML"),
    "a tab": (b"name:\n\tx: 1\n", "not valid YAML"),
    "code in a tag": (b"name: !!python/object/apply:os.system ['true']", "has no meaning"),
    "code in an expression": (b"__use_yte__: true\nname: ?__import__('os').getcwd()\n", "would run code"),
    "a key twice": (b"name: a\nname: b\n", "line 2: 'name' is there already"),
    "a key that is a list": (b"? [a]\n: 1\n", "a key must be one word"),
    "NUL bytes": (b"name: a\0b\n", "not valid YAML"),
}

# Arguments of `snakemake`, tried for real.
COMMAND_LINES: list[tuple[list[str], str]] = [
    (["--configfile", "missing.yaml"], "missing.yaml: the config file cannot be read"),
    (["--configfile", "binary.yaml"], "UTF-8"),
    (["--configfile", "bomb.yaml"], "more than"),
    (["--configfile", "recursive.yaml"], "contains itself"),
    (["--configfile", "yte.yaml"], "would run code"),
    (["--config", "artifacts=5"], "'artifacts' is 5"),
    (["--config", "artifacts=[1]"], "'artifacts[0]' is"),
    (["--config", "published=5"], "'published' is 5"),
    (["--config", "training_seeds=1e29"], "'training_seeds' is 1e+29"),
    (["--config", "timing={pairs: 1e15}"], "'timing.pairs' is"),
    (["--config", "ddu={learning_rate: .nan}"], FINITE),
    (["--config", "deduce={pixels_per_step: 785}"], "at most 784"),
    (["--config", "name=README.md"], "'name' is 'README.md'"),
    (["--config", "shards_per_seed=100000"], "at most 900"),
    (["--config", "sweeps={mine: {method: foo, vary: {x: [1]}}}"], "there is no method 'foo'"),
    (["--config", "sweeps=&a {x: *a}"], "contains itself"),
    (["--config", "images_per_seed=3.0"], WHOLE),
]


def npz(**arrays) -> bytes:
    """The bytes of an `.npz`; a value in bytes goes into the archive as it is."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in arrays.items():
            content = array
            if not isinstance(array, bytes):
                part = io.BytesIO()
                np.save(part, np.asarray(array))
                content = part.getvalue()
            archive.writestr(f"{name}.npy", content)
    return stream.getvalue()


def header(text: str) -> bytes:
    """An array in numpy's format with any text as its header."""
    padded = text.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded


def shard(**changes) -> bytes:
    n = 3
    metadata = {"method": "example", "target_confidence": 0.5, "classes": 3}
    arrays = {
        "image": np.arange(n), "label": np.zeros(n, int), "target": np.ones(n, int),
        "counterfactual": np.full((n, 1, 4, 4), 0.5, np.float32), "found": np.ones(n, bool),
        "confidence": np.full(n, 0.6, np.float32), "iterations": np.arange(n),
        "metadata": np.array(json.dumps(metadata)),
    }  # fmt: skip
    return npz(**{name: value for name, value in (arrays | changes).items() if value is not None})


def described(**changes) -> np.ndarray:
    return np.array(json.dumps({"method": "example", "target_confidence": 0.5, "classes": 3} | changes))


PATH = {"path_offset": np.array([0, 1, 1, 1]), "path_pixel": np.array([3]), "path_value": np.array([0.5], np.float32)}
SHAPED = "{{'descr': '<f8', 'fortran_order': False, 'shape': {}, }}"
SHARDS: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "not a readable .npz"),
    "text": (b"hello", "not a readable .npz"),
    "half a file": (shard()[:700], "not a readable .npz"),
    "a pickle": (npz(image=np.array([object()], dtype=object)), "not a readable .npz without pickles"),
    "a huge array": (
        npz(image=header("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }")),
        "image",
    ),
    "a negative size": (npz(image=header(SHAPED.format("(-1,)"))), "image"),
    "a deep header": (npz(image=header("(" * 5000)), "not a readable .npz"),
    "a header of code": (npz(image=header("__import__('os').getcwd()")), "not a readable .npz"),
    "no arrays": (npz(), "missing"),
    "an unknown array": (shard(extra=np.ones(3)), "unknown array 'extra'"),
    "no images": (shard(counterfactual=None), "counterfactual"),
    "flat images": (shard(counterfactual=np.zeros((3, 16), np.float32)), "must be float32 of shape"),
    "images of doubles": (shard(counterfactual=np.zeros((3, 1, 4, 4))), "must be float32"),
    "images without pixels": (shard(counterfactual=np.zeros((3, 1, 0, 4), np.float32)), "must be float32 of shape"),
    "infinite images": (shard(counterfactual=np.full((3, 1, 4, 4), INF, np.float32)), "outside [0, 1]"),
    "images of text": (shard(counterfactual=np.full((3, 1, 4, 4), "x")), "must be float32"),
    "one number": (shard(image=np.array(5)), "fit together"),
    "confidence of text": (shard(confidence=np.full(3, "high")), "must be float"),
    "complex confidence": (shard(confidence=np.full(3, 1j)), "must be float"),
    "infinite seconds": (shard(seconds=np.full(3, INF)), "'seconds' is inf"),
    "whole numbers as doubles": (shard(iterations=np.ones(3)), "must be integer"),
    "metadata of bytes": (shard(metadata=np.array(b"{}")), "metadata"),
    "metadata of a list": (shard(metadata=np.array("[]")), "metadata"),
    "metadata that is deep": (shard(metadata=np.array("[" * 100_000)), "metadata"),
    "metadata with NaN": (shard(metadata=np.array('{"method": "x", "target_confidence": NaN}')), "metadata"),
    "metadata of a huge number": (
        shard(metadata=np.array('{"method": "x", "target_confidence": 1e999}'), found=np.zeros(3, bool)),
        "1e999",
    ),
    "a confidence of text": (shard(metadata=described(target_confidence="half")), "target_confidence"),
    "classes of text": (shard(metadata=described(classes="ten")), "classes"),
    "no classes": (shard(metadata=described(classes=0, target_confidence=None)), "fit together"),
    "settings of a list": (shard(metadata=described(settings=[])), "settings"),
    "a method of a number": (shard(metadata=described(method=5)), "method"),
    "a path of two dimensions": (shard(**PATH | {"path_pixel": np.array([[3]])}), "do not fit together"),
    "a path of floats": (shard(**PATH | {"path_pixel": np.array([3.0])}), "do not fit together"),
    "an infinite path": (shard(**PATH | {"path_value": np.array([INF], np.float32)}), "do not fit together"),
    "a path that goes back": (shard(**PATH | {"path_offset": np.array([0, 1, 0, 1])}), "do not fit together"),
    "offsets of text": (shard(**PATH | {"path_offset": np.array(list("0111"))}), "fit together"),
}
PAIRS = {"image": np.arange(2), "label": np.zeros(2, int), "target": np.ones(2, int)}
PAIRS |= {"original": np.zeros((2, 1, 4, 4), np.float32), "classes": np.array(3)}
PAIR_FILES: dict[str, tuple[bytes, str]] = {
    "no classes": (npz(**PAIRS | {"classes": np.array(0)}), "'classes' must be"),
    "classes of text": (npz(**PAIRS | {"classes": np.array("3")}), "'classes' must be"),
    "many classes": (npz(**PAIRS | {"classes": np.array([3, 3])}), "'classes' must be"),
    "a target outside": (npz(**PAIRS | {"target": np.full(2, 3)}), "is outside 0..2"),
    "a label outside": (npz(**PAIRS | {"label": np.array([0, -1])}), "'label' is outside 0..2"),
}
SCORES = {"image": np.arange(2), "target": np.ones(2, int)}
SCORE_FILES: dict[str, tuple[bytes, str]] = {
    "scores of text": (npz(**SCORES, agan=np.array(["a", "b"])), "must be float"),
    "complex scores": (npz(**SCORES, agan=np.array([1j, 2])), "must be float"),
    "infinite scores": (npz(**SCORES, agan=np.array([1.0, INF])), "'agan' is infinite in row 1"),
    "scores of other rows": (npz(**SCORES, agan=np.ones(3)), "must be float of shape (2,)"),
}

CSV_FILES: dict[str, tuple[bytes, str]] = {  # in the place of models/card.csv
    "nothing": (b"", "not a readable CSV file"),
    "bytes": (bytes(range(256)), "not a readable CSV file"),
    "ragged lines": (b"model,quantity,value\na,b\nc,d,e,f,g\n", "not a readable CSV file"),
    "an open quote": (b'model,quantity,value,reference,note\n"a,b,1,2,3\n', "not a readable CSV file"),
    "other columns": (b"model,quantity\nddu,accuracy\n", "has no column 'value'"),
}

CONFIG = {"name": "stored", "dataset": "mnist", "seeds": [1], "images_per_seed": 4, "methods": ["deduce"]}
MANIFESTS: dict[str, tuple[str, str]] = {
    "not JSON": ("{", "not a manifest"),
    "a number": ("5", "not a manifest"),
    "deep": ("[" * 100_000, "not a manifest"),
    "no config": ("{}", "not a manifest"),
    "a config of text": (json.dumps({"config": "x"}), "not a manifest"),
    "no methods": (json.dumps({"config": {key: CONFIG[key] for key in CONFIG if key != "methods"}}), "not a manifest"),
    "methods of null": (json.dumps({"config": CONFIG | {"methods": None}}), "'methods' is not a list of names"),
    "methods of numbers": (json.dumps({"config": CONFIG | {"methods": [5]}}), "'methods' is not a list of names"),
    "seeds of text": (json.dumps({"config": CONFIG | {"seeds": "12"}}), "'seeds' is '12'"),
    "a name that climbs": (json.dumps({"config": CONFIG | {"name": "../up"}}), "'name' is '../up'"),
    "an unknown dataset": (json.dumps({"config": CONFIG | {"dataset": "x"}}), "'dataset' is 'x'"),
    "a section of a number": (json.dumps({"config": CONFIG | {"deduce": 5}}), "'deduce' is 5"),
    "sweeps of a list": (json.dumps({"config": CONFIG | {"sweeps": []}}), "'sweeps' is []"),
    "NaN": ('{"config": {"images_per_seed": NaN, ' + json.dumps(CONFIG)[1:].replace('"images_per_seed": 4, ', "") + "}",
            "'images_per_seed' is nan"),
}  # fmt: skip


# --- calls of the library


class Beside(nn.Module):
    """A classifier that is unsuitable in one way."""

    def __init__(self, network: nn.Module, features: Callable | None = None, result: float = 1.0) -> None:
        super().__init__()
        self.network, self.result = network, result
        self.of = features or network.features

    def forward(self, images):
        return self.network(images) * self.result

    def features(self, images):
        return self.of(images)

    def head(self, features):
        return self.network.head(features)


class FirstRow(Beside):
    def forward(self, images):
        return self.network(images)[:1]


class Uncopyable(Beside):
    def __deepcopy__(self, memo):
        raise TypeError("cannot pickle this")


def call(method, **changes) -> Callable[[], object]:
    """A call of DeDUCE with a sensible argument for whatever `changes` does not name."""

    def run():
        w = world()
        arguments = {"classifier": w.ddu, "densities": w.densities, "images": w.images[:2], "targets": w.targets[:2]}
        if not isinstance(method, DeDUCE):
            arguments |= {"classifier": w.plain}
            del arguments["densities"]
        return method.generate(**arguments | {name: make(w) for name, make in changes.items()})

    return run


SHORT = DeDUCE(max_iterations=2)


def trained_on(data: Callable) -> Callable[[], object]:
    return call(SHORT, densities=data)


CALLS: dict[str, tuple[Callable[[], object], str]] = {
    **{
        f"{name} of {value!r}": ((lambda name=name, value=value: DeDUCE(**{name: value})), sentence)
        for name, value, sentence in (
            ("pixels_per_step", 0, "at least 1"), ("pixels_per_step", -1, "at least 1"),
            ("pixels_per_step", 1.5, "a whole number"), ("pixels_per_step", None, "a whole number"),
            ("pixels_per_step", True, "a whole number"), ("objective", "foo", "one of 'relative', 'weighted'"),
            ("step_size", NAN, "a finite number"), ("step_size", -0.2, "more than 0"), ("step_size", "0.2", "finite"),
            ("momentum", -1, "at least 0"), ("momentum", 2, "at most 1"), ("batch_size", 0, "at least 1"),
            ("cross_entropy_weight", INF, "a finite number"), ("max_iterations", -1, "at least 0"),
            ("target_confidence", 2, "at most 1"), ("target_confidence", 1, "between 0 and 1"),
            ("momentum_in_selection", "no", "True or False"), ("max_changes_per_pixel", 0, "at least 1"),
        )
    },
    "VLK without a rate": (lambda: VLK(learning_rate=0), "more than 0"),
    "VLK with NaN": (lambda: VLK(sparsity=NAN), "a finite number"),
    "VLK without iterations": (lambda: VLK(max_iterations=0), "at least 1"),
    "REVISE backwards": (lambda: REVISE(step_size=-1), "more than 0"),
    "a norm of zero": (lambda: NearestImage(norm=0), "more than 0"),
    "more pixels than there are": (call(DeDUCE(pixels_per_step=145)), "only 144 pixels"),
    "images of three dimensions": (call(SHORT, images=lambda w: w.images[:2, 0]), "must have shape"),
    "images of text": (call(SHORT, images=lambda w: "x"), "must be a tensor or an array"),
    "complex images": (call(SHORT, images=lambda w: w.images[:2] + 0j), "must be real numbers"),
    "images up to 255": (call(SHORT, images=lambda w: w.images[:2] * 255), "outside [0, 1]"),
    "images of NaN": (call(SHORT, images=lambda w: w.images[:2] * NAN), "outside [0, 1] or NaN"),
    "bytes of 0 and 1": (call(SHORT, images=lambda w: w.images[:2].round().byte()), "could mean two things"),
    "targets of floats": (call(SHORT, targets=lambda w: w.targets[:2] + 0.5), "one whole number per image"),
    "a target too few": (call(SHORT, targets=lambda w: w.targets[:1]), "one whole number per image"),
    "a target outside": (call(SHORT, targets=lambda w: torch.tensor([1, 5])), "is outside 0..4"),
    "no training data": (call(SHORT, densities=lambda w: None), "must be a pair"),
    "training images alone": (call(SHORT, densities=lambda w: w.training_images), "must be a pair"),
    "flat training images": (trained_on(lambda w: (w.training_images.flatten(1), w.training_labels)), "shape"),
    "training images up to 255": (trained_on(lambda w: (w.training_images * 255, w.training_labels)), "outside"),
    "labels between classes": (trained_on(lambda w: (w.training_images, w.training_labels + 0.5)), "whole"),
    "labels outside": (trained_on(lambda w: (w.training_images, w.training_labels + 1)), "is outside 0..4"),
    "soft labels": (trained_on(lambda w: (w.training_images, torch.full((1500, 5), 0.2))), "one-hot"),
    "too few labels": (trained_on(lambda w: (w.training_images, w.training_labels[:-1])), "training labels"),
    "one class": (trained_on(lambda w: (w.training_images[::5], w.training_labels[::5])), "at least 2"),
    "densities of other features": (call(SHORT, densities=lambda w: ClassDensities(5, 3)), "do not fit a classifier"),
    "densities of fewer classes": (call(SHORT, densities=lambda w: ClassDensities(2, 32)), "do not fit a classifier"),
    "densities that are none": (call(SHORT, densities=lambda w: nn.Linear(2, 2)), "no function 'log_density'"),
    "a classifier without features": (call(SHORT, classifier=lambda w: nn.Flatten()), "does not end in a linear layer"),
    "a classifier for other images": (call(SHORT, images=lambda w: w.images[:2].repeat(1, 3, 1, 1)), "does not accept"),
    "a classifier that cannot be copied": (call(SHORT, classifier=lambda w: Uncopyable(w.ddu)), "cannot be copied"),
    "features without gradient": (
        call(SHORT, classifier=lambda w: Beside(w.ddu, torch.no_grad()(w.ddu.features))), "gives no gradient"),
    "logits of NaN": (call(SHORT, classifier=lambda w: Beside(w.ddu, result=NAN)), "the classifier"),
    "a classifier that gives probabilities": (
        call(JSMA(max_iterations=2), classifier=lambda w: nn.Sequential(w.plain, nn.Softmax(1))), "its last softmax"),
    "logits of fewer rows": (call(JSMA(max_iterations=2), classifier=lambda w: FirstRow(w.plain)), "must give logits"),
    "a function as classifier": (call(JSMA(max_iterations=2), classifier=lambda w: abs), "does not accept"),
    "a generative model that is none": (
        call(REVISE(max_iterations=2), generative_model=lambda w: nn.Flatten()), "no function 'encode'"),
}  # fmt: skip


def write(content: bytes | None, path: Path) -> Path:
    if content is not None:
        path.write_bytes(content)
    return path
