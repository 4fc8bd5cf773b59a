"""VLK by alibi itself: `CounterfactualProto` on Keras copies of the trained networks, one pair at a time.

deduce/methods/vlk.py is compared with this reference. It needs an environment with alibi and TensorFlow
(envs/alibi.txt), which has no torch: weights are read as numpy arrays.
"""

import os
import time
from pathlib import Path
from typing import Any, Literal

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
from alibi.explainers import CounterfactualProto
from safetensors.numpy import load_file

from deduce.artifacts import load_json
from deduce.errors import InputError

tf.compat.v1.disable_v2_behavior()  # alibi builds a static graph
layers, Model = tf.keras.layers, tf.keras.Model
# Weights are given as initializers, because setting them later would rebuild TensorFlow's session for every layer.
_constant = tf.compat.v1.constant_initializer

EPSILON = 1e-5  # of torch's batch normalisation; the default of Keras is a hundred times larger
Order = Literal["race", "image_first", "point_first"]
"""The order in which alibi assigns its iterate and the point of its next gradient. `race`: left to chance, as in alibi.
`image_first`: the iterate first, which makes the momentum vanish. `point_first`: the point first, as intended."""


class Alibi:
    """`CounterfactualProto` with the arguments that correspond to the settings of deduce.methods.vlk.VLK."""

    def __init__(
        self,
        classifier: str | Path,
        autoencoder: str | Path,
        training_images: np.ndarray,
        settings: dict[str, Any],
        order: Order = "race",
        threads: int = 1,
    ) -> None:
        """classifier, autoencoder: saved weights. training_images: (m, channels, height, width) in [0, 1]."""
        tf.compat.v1.keras.backend.clear_session()  # drops the graph of an earlier explainer
        options = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
        tf.compat.v1.keras.backend.set_session(tf.compat.v1.Session(config=options))
        shape = _channels_last(training_images).shape[1:]
        self.classifier = keras_classifier(classifier, shape)
        self.encoder, self.autoencoder = keras_autoencoder(autoencoder, shape)
        self.neighbours = settings["neighbours"]
        self.explainer = CounterfactualProto(
            self.classifier,
            (1, *shape),
            kappa=settings["confidence_margin"],
            beta=settings["sparsity"],
            gamma=settings["autoencoder_weight"],
            theta=settings["prototype_weight"],
            ae_model=self.autoencoder,
            enc_model=self.encoder,
            feature_range=(0.0, 1.0),  # alibi's example has -0.5 to 0.5, which makes no difference
            max_iterations=settings["max_iterations"],
            c_init=settings["initial_loss_weight"],
            c_steps=settings["loss_weight_steps"],
            learning_rate_init=settings["learning_rate"],
            clip=(-settings["gradient_clip"], settings["gradient_clip"]),
        )
        _set_order(self.explainer, order)
        self.explainer.fit(_channels_last(training_images))
        # A warm-up of one iteration: what TensorFlow does once per process must not count as the first pair's time.
        self.explainer.max_iterations = 1
        self.explainer.explain(_channels_last(training_images[:1]), k=self.neighbours)
        self.explainer.max_iterations = settings["max_iterations"]

    def probabilities(self, images: np.ndarray) -> np.ndarray:
        """images: (n, channels, height, width) in [0, 1] → (n, classes)."""
        return self.classifier.predict(_channels_last(images), verbose=0)

    def generate(self, images: np.ndarray, targets: np.ndarray) -> dict[str, np.ndarray]:
        """The arrays of a shard for images (n, channels, height, width) in [0, 1] and targets (n,), row for row."""
        n = len(images)
        answer = {"counterfactual": np.empty(images.shape, np.float32), "found": np.empty(n, bool)}
        answer |= {"confidence": np.empty(n, np.float32), "iterations": np.empty(n, np.int64), "seconds": np.empty(n)}
        for row, (image, target) in enumerate(zip(images, targets, strict=True)):
            start = time.perf_counter()
            end, found, confidence, iterations = self._explain(image[None], int(target))
            values = end[0].clip(0, 1), found, confidence, iterations, time.perf_counter() - start
            for array, value in zip(answer.values(), values, strict=True):
                array[row] = value
            print(f"pair {row + 1} of {n}: {values[-1]:.1f} s", flush=True)
        return answer

    def _explain(self, image: np.ndarray, target: int) -> tuple[np.ndarray, bool, float, int]:
        probabilities = self.probabilities(image)[0]
        if probabilities.argmax() == target:  # alibi would find nothing; other methods return the image too
            return image, True, probabilities[target], 0
        explanation = self.explainer.explain(_channels_last(image), target_class=[target], k=self.neighbours)
        found = explanation.cf is not None
        answer = explanation.cf["X"] if found else self.explainer.sess.run(self.explainer.adv)
        answer = np.moveaxis(answer, 3, 1)
        iterations = self.explainer.c_steps * self.explainer.max_iterations
        return answer, found, self.probabilities(answer)[0, target], iterations


def keras_classifier(path: str | Path, shape: tuple[int, ...]) -> Any:
    """The saved `PlainResNet`, with a softmax, for images of `shape` (height, width, channels)."""
    weights = _weights(path, "PlainResNet")
    image = layers.Input(shape)
    out = layers.ReLU()(_normalised(weights, "stem", "normalisation", 2, image))
    # torch pads the max-pool with -∞. Zeros do the same here, because nothing is negative after a ReLU.
    out = layers.MaxPooling2D(3, 2)(layers.ZeroPadding2D(1)(out))
    for block in range(sum(name.endswith("convolution1.weight") for name in weights)):
        out = _block(weights, f"blocks.{block}", out)
    out = layers.GlobalAveragePooling2D()(out)
    kernel, bias = weights["head.weight"].T, weights["head.bias"]
    logits = layers.Dense(len(bias), kernel_initializer=_constant(kernel), bias_initializer=_constant(bias))(out)
    return Model(image, layers.Softmax()(logits))


def keras_autoencoder(path: str | Path, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """The encoder of the saved `Autoencoder`, and the whole autoencoder."""
    weights = _weights(path, "Autoencoder")
    image = layers.Input(shape)
    out = _convolution(weights, "encoder.0", 1, image, "relu")
    out = _convolution(weights, "encoder.2", 1, out, "relu")
    encoding = _convolution(weights, "encoder.5", 1, layers.MaxPooling2D(2)(out))
    encoder = Model(image, encoding)
    encoding = layers.Input(encoder.output_shape[1:])
    out = layers.UpSampling2D(2)(_convolution(weights, "decoder.0", 1, encoding, "relu"))
    out = _convolution(weights, "decoder.3", 1, out, "relu")
    decoder = Model(encoding, _convolution(weights, "decoder.5", 1, out))
    return encoder, Model(image, decoder(encoder(image)))


def _block(weights: dict[str, np.ndarray], name: str, image: Any) -> Any:
    """A `PlainBlock`. Blocks that halve the image have a convolution on their shortcut."""
    stride = 2 if f"{name}.shortcut.0.weight" in weights else 1
    out = layers.ReLU()(_normalised(weights, f"{name}.convolution1", f"{name}.normalisation1", stride, image))
    out = _normalised(weights, f"{name}.convolution2", f"{name}.normalisation2", 1, out)
    if stride == 2:
        image = _normalised(weights, f"{name}.shortcut.0", f"{name}.shortcut.1", 2, image)
    return layers.ReLU()(layers.Add()([out, image]))


def _normalised(weights: dict[str, np.ndarray], convolution: str, name: str, stride: int, image: Any) -> Any:
    normalisation = layers.BatchNormalization(
        epsilon=EPSILON,
        fused=False if tf.keras.backend.floatx() == "float64" else None,  # the fused operation has 32 bits only
        gamma_initializer=_constant(weights[f"{name}.weight"]),
        beta_initializer=_constant(weights[f"{name}.bias"]),
        moving_mean_initializer=_constant(weights[f"{name}.running_mean"]),
        moving_variance_initializer=_constant(weights[f"{name}.running_var"]),
    )
    return normalisation(_convolution(weights, convolution, stride, image))


def _convolution(weights: dict[str, np.ndarray], name: str, stride: int, image: Any, activation: Any = None) -> Any:
    """A convolution with explicit padding, because with a stride the `same` of Keras pads other sides than torch."""
    kernel, bias = weights[f"{name}.weight"].transpose(2, 3, 1, 0), weights.get(f"{name}.bias")
    convolution = layers.Conv2D(
        kernel.shape[3],
        kernel.shape[0],
        stride,
        activation=activation,
        kernel_initializer=_constant(kernel),
        use_bias=bias is not None,
        bias_initializer="zeros" if bias is None else _constant(bias),
    )
    return convolution(layers.ZeroPadding2D(kernel.shape[0] // 2)(image))


def _weights(path: str | Path, expected: str) -> dict[str, np.ndarray]:
    name = load_json(Path(path).with_suffix(".json"))["class"]
    if name != expected:
        raise InputError(f"{path} holds a {name}; alibi can only run a {expected} here.")
    return load_file(path)


def _set_order(explainer: CounterfactualProto, order: Order) -> None:
    """Makes one of alibi's two assignments wait for the other, unless they may race."""
    if order == "image_first":
        explainer.adv_updater_s = tf.compat.v1.assign(explainer.adv_s, explainer.adv_updater)
    elif order == "point_first":
        with tf.control_dependencies([explainer.adv_updater_s]):
            explainer.adv_updater = tf.compat.v1.assign(explainer.adv, tf.identity(explainer.assign_adv))


def _channels_last(images: np.ndarray) -> np.ndarray:
    return np.moveaxis(images, 1, 3)
