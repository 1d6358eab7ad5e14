"""Tokenizers of sacreBLEU: the choice of how BLEU splits a language into words."""

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
"""Languages without spaces between words: BLEU of their words as 13a splits them would be 0 or
100.
"""
_CHINESE = ("Hans", "Hant", "Hani")
"""Scripts of Chinese languages, such as Mandarin and Cantonese, unless they are romanised."""
_PACKAGES = {"ja-mecab": ("MeCab", "ja"), "ko-mecab": ("mecab_ko", "ko")}
"""The module that a tokenizer needs, and the extra of sacreBLEU that brings it."""


def bleu_tokenizer(language: str, chosen: BleuTokenizer | None = None) -> BleuTokenizer:
    """Return the tokenizer of sacreBLEU for a target language: the one that was `chosen`, else by
    its code.

    Japanese is split into words if MeCab is installed, else into characters. Raises UsageError for
    one that is not installed.
    """
    language, script = base_language(language), script_of(language)
    if chosen is None and language == "ja":
        return "ja-mecab" if find_spec(_PACKAGES["ja-mecab"][0]) else "char"
    tokenizer = (
        chosen or _UNSPACED.get(language) or ("zh" if script in _CHINESE else "13a")
    )
    module, extra = _PACKAGES.get(tokenizer, ("", ""))
    if module and find_spec(module) is None:
        raise UsageError(
            f"BLEU by {tokenizer} needs a package: pip install 'sacrebleu[{extra}]'; or take "
            f"another tokenizer, such as char (there are {', '.join(get_args(BleuTokenizer))})"
        )
    return tokenizer
