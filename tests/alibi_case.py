"""Records what alibi does; test_vlk.py runs this in alibi's environment: python alibi_case.py FOLDER.

FOLDER has the networks, `inputs.npz` (training, images, targets) and `cases.json`: name → settings, order and bits.
This script writes `recorded.npz`: every iterate of `CounterfactualProto` in each case, and the networks' outputs for
the training images.
"""

import json
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
from alibi.explainers import cfproto
from alibi_recorder import Double, Recorder

sys.path.insert(0, str(Path(__file__).parent.parent))

from deduce.alibi_reference import Alibi

folder = Path(sys.argv[1])
with np.load(folder / "inputs.npz") as arrays:
    training, images, targets = arrays["training"], arrays["images"], arrays["targets"]
recorded = {}
for name, case in json.loads((folder / "cases.json").read_text()).items():
    tf.keras.backend.set_floatx(f"float{case['bits']}")
    cfproto.tf = Double() if case["bits"] == 64 else tf.compat.v1
    kind = np.dtype(f"float{case['bits']}").type  # TensorFlow gives Python numbers 32 bits
    numbers = {key: kind(value) if isinstance(value, float) else value for key, value in case["settings"].items()}
    networks = (folder / "plain.safetensors", folder / "autoencoder.safetensors")
    alibi = Alibi(*networks, training, numbers, case["order"])
    recorder = Recorder(alibi.explainer)
    recorded |= {f"{name}_{part}": array for part, array in alibi.generate(images, targets).items()}
    length = len(recorder.images) // len(images)
    recorded[f"{name}_iterates"] = np.stack(recorder.images).reshape(len(images), length, *images.shape[1:])
    recorded[f"{name}_probabilities"] = np.stack(recorder.probabilities).reshape(len(images), length, -1)

channels_last = np.moveaxis(training, 1, 3)
np.savez(
    folder / "recorded.npz",
    probabilities=alibi.probabilities(training),
    encodings=np.moveaxis(alibi.encoder.predict(channels_last), 3, 1),
    reconstructions=np.moveaxis(alibi.autoencoder.predict(channels_last), 3, 1),
    **recorded,
)
