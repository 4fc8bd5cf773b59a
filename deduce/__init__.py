"""Counterfactual explanations by DeDUCE, and the baselines it is compared with.

The names below load torch only when they are used: tables are made from cached artefacts without it.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "DeDUCE": "deduce.methods.deduce",
    "JSMA": "deduce.methods.jsma",
    "REVISE": "deduce.methods.revise",
    "VLK": "deduce.methods.vlk",
    "Wachter": "deduce.methods.wachter",
    "Schut": "deduce.methods.schut",
    "CEM": "deduce.methods.cem",
    "PIECE": "deduce.methods.piece",
    "ClassDensities": "deduce.density",
    "Normalised": "deduce.tracing",
    "show": "deduce.plots",
}
__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'deduce' has no attribute {name!r}")
