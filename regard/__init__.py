"""Regard: sequence-to-sequence learning with attention that you can see.

import regard
translator = regard.load("runs/first")
print(translator.translate("나는 빵을 먹고 있었다")[0].text)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard.common.errors import RegardError
from regard.common.version import __version__

if TYPE_CHECKING:
    from regard.attention.recorder import watch
    from regard.comparison import Comparison, compare
    from regard.pipeline import Caption, Captioner, Translation, Translator
    from regard.pipeline.opening import load
    from regard.run import Run, train
    from regard.training.recipe import presets

__all__ = [
    "Caption",
    "Captioner",
    "Comparison",
    "RegardError",
    "Run",
    "Translation",
    "Translator",
    "__version__",
    "compare",
    "load",
    "presets",
    "train",
    "watch",
]

_MODULES = {
    "Caption": "regard.pipeline",
    "Captioner": "regard.pipeline",
    "Comparison": "regard.comparison",
    "Run": "regard.run",
    "Translation": "regard.pipeline",
    "Translator": "regard.pipeline",
    "compare": "regard.comparison",
    "load": "regard.pipeline.opening",
    "presets": "regard.training.recipe",
    "train": "regard.run",
    "watch": "regard.attention.recorder",
}


def __getattr__(name: str) -> Any:
    # Imported when first used: `regard --help` need not wait for PyTorch, which takes more than a second.
    if name not in _MODULES:
        raise AttributeError(f"module 'regard' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
