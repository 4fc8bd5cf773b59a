"""Run by test_vlk.py in the environment of alibi: python alibi_case.py FOLDER.

FOLDER has the networks, `given.npz` (training, images, targets) and `cases.json`: name → settings, order and bits. For
each case, every iterate of `CounterfactualProto` is recorded; and once, what the networks give for the training images.
"""

import json
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
from alibi.explainers import cfproto

sys.path.insert(0, str(Path(__file__).parent.parent))

from deduce.alibi_reference import Alibi, Recorder


class Double:
    """TensorFlow as alibi's module sees it, with 64 bits where alibi asks for 32 or leaves it open."""

    float32 = tf.float64

    def __getattr__(self, name):
        return getattr(tf.compat.v1, name)

    def Variable(self, value, dtype=tf.float64, **options):
        return tf.compat.v1.Variable(value, dtype=dtype, **options)

    def maximum(self, a, b):
        return tf.maximum(tf.cast(a, tf.float64), b)


folder = Path(sys.argv[1])
with np.load(folder / "given.npz") as arrays:
    training, images, targets = arrays["training"], arrays["images"], arrays["targets"]
made = {}
for name, case in json.loads((folder / "cases.json").read_text()).items():
    tf.keras.backend.set_floatx(f"float{case['bits']}")
    cfproto.tf = Double() if case["bits"] == 64 else tf.compat.v1
    kind = np.dtype(f"float{case['bits']}").type  # TensorFlow takes a Python number to be of 32 bits
    numbers = {key: kind(value) if isinstance(value, float) else value for key, value in case["settings"].items()}
    networks = (folder / "plain.safetensors", folder / "autoencoder.safetensors")
    alibi = Alibi(*networks, training, numbers, case["order"])
    recorder = Recorder(alibi.explainer)
    made |= {f"{name}_{part}": array for part, array in alibi.generate(images, targets).items()}
    length = len(recorder.images) // len(images)
    made[f"{name}_iterates"] = np.stack(recorder.images).reshape(len(images), length, *images.shape[1:])
    made[f"{name}_probabilities"] = np.stack(recorder.probabilities).reshape(len(images), length, -1)

channels_last = np.moveaxis(training, 1, 3)
np.savez(
    folder / "made.npz",
    probabilities=alibi.probabilities(training),
    encodings=np.moveaxis(alibi.encoder.predict(channels_last), 3, 1),
    reconstructions=np.moveaxis(alibi.autoencoder.predict(channels_last), 3, 1),
    **made,
)
