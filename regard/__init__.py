"""Regard: sequence-to-sequence learning with attention that you can see.

import regard

translator = regard.load("runs/first")
print(translator.translate("나는 빵을 먹고 있었다")[0].text)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.common.errors import RegardError
from regard.common.lazy import lazy_names
from regard.common.version import __version__

if TYPE_CHECKING:
    from regard import documents
    from regard.attention.ablation import ablate
    from regard.attention.normalisers import register_normaliser
    from regard.attention.recorder import watch
    from regard.attention.scores import register_score
    from regard.comparison import Comparison, compare
    from regard.data.plugin_vocabulary import register_tokenizer
    from regard.explain.publication import Publication, publish
    from regard.models import register_decoder, register_encoder, register_positions
    from regard.pipeline import Caption, Captioner, Translator
    from regard.pipeline.model_loading import load
    from regard.reproduction import Reproduction, reproduce
    from regard.run import Run, train
    from regard.text.translation import Translation
    from regard.training.callbacks import Callback, TrainingContext
    from regard.training.recipe import presets

__all__ = [
    "Callback",
    "Caption",
    "Captioner",
    "Comparison",
    "Publication",
    "RegardError",
    "Reproduction",
    "Run",
    "TrainingContext",
    "Translation",
    "Translator",
    "__version__",
    "ablate",
    "compare",
    "documents",
    "load",
    "presets",
    "publish",
    "register_decoder",
    "register_encoder",
    "register_normaliser",
    "register_positions",
    "register_score",
    "register_tokenizer",
    "reproduce",
    "train",
    "watch",
]

_MODULES = {
    "attention.ablation": ("ablate",),
    "attention.normalisers": ("register_normaliser",),
    "attention.recorder": ("watch",),
    "attention.scores": ("register_score",),
    "common.errors": ("RegardError",),
    "common.version": ("__version__",),
    "comparison": ("Comparison", "compare"),
    "data.plugin_vocabulary": ("register_tokenizer",),
    "documents": (),
    "explain.publication": ("Publication", "publish"),
    "models": ("register_decoder", "register_encoder", "register_positions"),
    "pipeline": ("Caption", "Captioner", "Translator"),
    "pipeline.model_loading": ("load",),
    "reproduction": ("Reproduction", "reproduce"),
    "run": ("Run", "train"),
    "text.translation": ("Translation",),
    "training.callbacks": ("Callback", "TrainingContext"),
    "training.recipe": ("presets",),
}

# The modules are imported at their first use, so that `regard --help` does not wait for PyTorch.
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
