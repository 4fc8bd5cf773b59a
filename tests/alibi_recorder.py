"""What the scripts that run alibi for the tests share: 64 bits, and a record of every iterate."""

from typing import Any

import numpy as np
import tensorflow as tf


class Double:
    """Takes TensorFlow's place in alibi's module, with 64 bits where alibi uses 32 or names no precision."""

    float32 = tf.float64

    def __getattr__(self, name):
        return getattr(tf.compat.v1, name)

    def Variable(self, value, dtype=tf.float64, **options):
        return tf.compat.v1.Variable(value, dtype=dtype, **options)

    def maximum(self, a, b):
        return tf.maximum(tf.cast(a, tf.float64), b)


class Recorder:
    """Takes the place of an explainer's session and keeps every iterate that it tests, with its probabilities."""

    def __init__(self, explainer: Any) -> None:
        self.session, self.explainer = explainer.sess, explainer
        self.images: list[np.ndarray] = []
        self.probabilities: list[np.ndarray] = []
        explainer.sess = self

    def run(self, fetches: Any, feed_dict: Any = None) -> Any:
        values = self.session.run(fetches, feed_dict=feed_dict)
        if isinstance(fetches, list) and fetches[-1] is self.explainer.adv:
            self.probabilities.append(values[-2][0])
            self.images.append(np.moveaxis(values[-1], 3, 1)[0])
        return values
