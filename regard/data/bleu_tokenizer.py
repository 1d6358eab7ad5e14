"""Tokenizers of sacreBLEU: choose how BLEU splits a language into words."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal, get_args

from regard.common.errors import UsageError
from regard.data.language_codes import base_language, script_of

BleuTokenizer = Literal["13a", "zh", "char", "intl", "none", "ja-mecab", "ko-mecab"]
_UNSPACED: dict[str, BleuTokenizer] = {
    "th": "char",
    "lo": "char",
    "km": "char",
    "my": "char",
}
"""Tokenizers of languages without spaces between words, for which the tokenizer 13a would give a
BLEU of 0 or 100.
"""
_CHINESE = ("Hans", "Hant", "Hani")
"""Scripts of Chinese languages, such as Mandarin and Cantonese, unless they are romanised."""
_PACKAGES = {"ja-mecab": ("MeCab", "ja"), "ko-mecab": ("mecab_ko", "ko")}
"""The module that a tokenizer needs, and the extra of sacreBLEU that installs it."""


def bleu_tokenizer(language: str, chosen: BleuTokenizer | None = None) -> BleuTokenizer:
    """Return sacreBLEU's tokenizer for a target language: the one that was `chosen`, or else the
    one for the language code.

    Japanese is split into words if MeCab is installed, otherwise into characters. Raises UsageError
    if the tokenizer is not installed.
    """
    base = base_language(language)
    if chosen is None and base == "ja":
        return "ja-mecab" if find_spec(_PACKAGES["ja-mecab"][0]) else "char"
    tokenizer: BleuTokenizer = "zh" if script_of(language) in _CHINESE else "13a"
    tokenizer = chosen or _UNSPACED.get(base) or tokenizer
    module, extra = _PACKAGES.get(tokenizer, ("", ""))
    if module and find_spec(module) is None:
        raise UsageError(
            f"BLEU by {tokenizer} needs a package: pip install 'sacrebleu[{extra}]'; or take "
            f"another tokenizer, such as char (there are {', '.join(get_args(BleuTokenizer))})"
        )
    return tokenizer
