"""The models of `translate.py`, and the systems that decode them."""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["FORCED", "MODELS", "NATURAL", "TABLES", "TRANSLATORS", "Translator"]

FORCED = 15
"""Steps of every sentence at forced length: Multi30k's references have 14.3 tokens and an end of
sentence.
"""

NATURAL = 60
"""Longest target in tokens at natural length, end of sentence included."""

MODELS = {
    "tiny": "Transformer, 4 + 4 layers of 128",
    "base": "Transformer, 6 + 6 layers of 512",
    "hybrid-tiny": "encoder of tiny, GRU decoder of 256",
    "hybrid-base": "encoder of base, GRU decoder of 512",
    "rnn": "rnn-bahdanau: GRU encoder of 2 × 256, GRU decoder of 512",
}


@dataclass(frozen=True)
class Translator:
    """An adapter of peers/ and its options."""

    label: str
    adapter: str
    peer: str | None = None  # the environment; None: Regard's own
    precision: str = "float32"
    models: tuple[str, ...] = ("tiny", "base")
    forced: bool = True  # can be made to take a given number of steps
    natural: bool = False  # takes the weights of a run
    quick: bool = False  # is part of --quick
    whole: bool = False  # translates every sentence, however long it takes
    rounds: int | None = None  # at most

    @property
    def ours(self) -> bool:
        """True for this checkout."""
        return self.adapter == "regard_translate"


def _ours(precision: str, whole: bool = False) -> Translator:
    return Translator(
        "Regard",
        "regard_translate",
        precision=precision,
        models=tuple(MODELS),
        natural=True,
        quick=True,
        whole=whole,
    )


def _ctranslate2(precision: str, whole: bool = False) -> Translator:
    return Translator(
        "CTranslate2",
        "ctranslate2_translate",
        "ctranslate2",
        precision,
        natural=True,
        quick=True,
        whole=whole,
    )


TRANSLATORS = {
    "regard": _ours("int8", whole=True),
    "regard-bfloat16": replace(_ours("bfloat16"), models=("tiny", "base")),
    "regard-float32": _ours("float32"),
    "ctranslate2": _ctranslate2("best", whole=True),
    "ctranslate2-float32": _ctranslate2("float32"),
    "hf": Translator(
        "transformers generate", "hf_translate", "hf", natural=True, rounds=1
    ),
    "opennmt": Translator("OpenNMT-py", "opennmt_translate", "opennmt", rounds=1),
    "eole": Translator("eole", "eole_translate", "eole", rounds=1),
    "joeynmt": Translator("JoeyNMT", "joeynmt_translate", "joeynmt", rounds=1),
    "spine": Translator(
        "Regard's first search", "spine_translate", models=("rnn",), rounds=1
    ),
}
"""In the order of the first round; the next is reversed. Slow systems run once."""

TABLES = {
    "tiny": ("tiny", "hybrid-tiny"),
    "base": ("base", "hybrid-base"),
    "rnn": ("rnn",),
}
"""Models that share a table."""
