"""Run by test_vlk.py in the environment of alibi: python alibi_case.py INPUT.npz MODELS OUTPUT.npz SETTINGS ORDER.

Records every iterate of `CounterfactualProto` on the given pairs, and the networks' outputs on the given images.
"""

import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from deduce.alibi_reference import Alibi, Recorder

given, models, output, settings, order = sys.argv[1:]
with np.load(given) as arrays:
    training, images, targets = arrays["training"], arrays["images"], arrays["targets"]
alibi = Alibi(f"{models}/plain.safetensors", f"{models}/autoencoder.safetensors", training, json.loads(settings), order)
recorder = Recorder(alibi.explainer)
answer = alibi.generate(images, targets)
np.savez(
    output,
    probabilities=alibi.probabilities(training),
    encodings=np.moveaxis(alibi.encoder.predict(np.moveaxis(training, 1, 3)), 3, 1),
    reconstructions=np.moveaxis(alibi.autoencoder.predict(np.moveaxis(training, 1, 3)), 3, 1),
    iterates=np.stack(recorder.images).reshape(len(images), -1, *images.shape[1:]),
    iterate_probabilities=np.stack(recorder.probabilities).reshape(
        len(images), len(recorder.images) // len(images), -1
    ),
    **answer,
)
