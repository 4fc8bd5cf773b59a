"""The authors' repository (github.com/benedikthoeltgen/DeDUCE): import and audit of the results that it stores."""

from typing import Any

# The experiment of these results, as a config describes it.
PUBLISHED: dict[str, Any] = {
    "name": "published",
    "dataset": "mnist",
    "methods": ["deduce", "jsma", "vlk", "revise"],
    "seeds": [1, 2, 3, 4, 5],
    "images_per_seed": 100,
    "training_seeds": [1],  # one training of each model, whose seed is not known
    "replicated": [],
    # The networks that the methods explain; VLK has one of its own, which was trained with another library.
    "deduce": {"classifier": "ddu"},
    "jsma": {"classifier": "plain"},
    "revise": {"classifier": "plain"},
    "vlk": {"classifier": "vlk_resnet"},
}
