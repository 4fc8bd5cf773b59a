"""Records what alibi's CEM does; test_cem.py runs this in alibi's environment: python alibi_cem_case.py FOLDER.

FOLDER has the networks, `inputs.npz` (images) and `cases.json`: name → settings, mode and order. This script writes
`recorded.npz`: every iterate of each case in 64 bits, what was found, and the answers.
"""

import json
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
from alibi.explainers import cem
from alibi_recorder import Double, Recorder

sys.path.insert(0, str(Path(__file__).parent.parent))

from deduce.alibi_reference import _set_order, keras_autoencoder, keras_classifier

folder = Path(sys.argv[1])
with np.load(folder / "inputs.npz") as arrays:
    images = np.moveaxis(arrays["images"], 1, 3).astype(np.float64)
tf.keras.backend.set_floatx("float64")
cem.tf = Double()
blank, recorded = np.zeros((1, *images.shape[1:])), {}
for name, case in json.loads((folder / "cases.json").read_text()).items():
    tf.compat.v1.keras.backend.clear_session()
    # TensorFlow gives Python's numbers 32 bits.
    numbers = {key: np.float64(value) if isinstance(value, float) else value for key, value in case["settings"].items()}
    explainer = cem.CEM(
        keras_classifier(folder / "plain.safetensors", images.shape[1:]),
        case["mode"],
        (1, *images.shape[1:]),
        kappa=numbers["confidence_margin"],
        beta=numbers["sparsity"],
        feature_range=(0.0, 1.0),
        gamma=numbers["autoencoder_weight"],
        ae_model=keras_autoencoder(folder / "autoencoder.safetensors", images.shape[1:])[1],
        learning_rate_init=numbers["learning_rate"],
        max_iterations=numbers["max_iterations"],
        c_init=numbers["initial_loss_weight"],
        c_steps=numbers["loss_weight_steps"],
        clip=(-numbers["gradient_clip"], numbers["gradient_clip"]),
        no_info_val=blank,
    )
    _set_order(explainer, case["order"])
    recorder = Recorder(explainer)
    answers = [explainer.explain(image[None]).data[case["mode"]] for image in images[: case["images"]]]
    iterates = np.stack(recorder.images)
    recorded[f"{name}_iterates"] = iterates.reshape(len(answers), -1, *iterates.shape[1:])
    recorded[f"{name}_found"] = np.array([answer is not None for answer in answers])
    answers = [blank if answer is None else answer for answer in answers]
    recorded[f"{name}_answers"] = np.moveaxis(np.concatenate(answers), 3, 1)
np.savez(folder / "recorded.npz", **recorded)
