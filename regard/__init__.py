"""Regard: sequence-to-sequence learning with attention that you can see.

import regard
translator = regard.load("runs/first")
print(translator.translate("나는 빵을 먹고 있었다")[0].text)
"""

from regard.errors import RegardError
from regard.pipeline import Translation, Translator, load
from regard.training.recipe import presets

__version__ = "0.1.0"
__all__ = ["RegardError", "Translation", "Translator", "__version__", "load", "presets"]
