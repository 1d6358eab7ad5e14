"""Tokenizers of plug-ins: their registry, and the vocabulary of their tokens."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from regard.common.errors import PluginError
from regard.common.plugins import Registry, place_in, plugin_of, short
from regard.common.reading import parse_json
from regard.data.marian_vocab import SPECIAL
from regard.data.text import clean
from regard.data.vocabulary import UNK, NamedVocabulary, Vocabulary, normalised_line

C = TypeVar("C")
TOKENIZERS: Registry[str, Any] = Registry("tokenizer")
"""Class of each kind of tokenizer; those of the package are vocabularies of SentencePiece."""
TOKENIZERS.update(dict.fromkeys(("unigram", "bpe", "char", "whitespace"), Vocabulary))


def register_tokenizer(name: str) -> Callable[[C], C]:
    """Return a decorator that registers a class of tokenizers as a new `tokenizer.kind`.

    - `tokens`: distinct texts, of which a model folder keeps the list. The id of a token is its
      position. One that begins with "▁" begins a word, in figures and alignments.
    - `__init__(tokens)`: makes the tokenizer from its tokens alone.
    - `train(lines, size)`: class method that returns a tokenizer for the lines of the training
      text, the same for the same lines. `size` is the setting `tokenizer.size`, or None.
    - `encode(text)`: returns the ids of any line, also with characters that training did not have.
    - `decode(ids)`: returns the text of any ids; that of `encode(text)` is `text`.

    Several threads may call a tokenizer at the same time. Raises ConfigurationError if the name is
    taken.
    """
    return TOKENIZERS.register(name)


def train_plugin(kind: str, lines: Sequence[str], size: int | None) -> PluginVocabulary:
    """Learn the vocabulary of a plug-in's tokenizer. Raises PluginError if its tokens cannot be
    used.
    """
    with _naming(kind, "train"):
        tokens = [*TOKENIZERS[kind].train(lines, size).tokens]
        model = json.dumps(tokens, ensure_ascii=False).encode()
        return PluginVocabulary(model, kind)


class PluginVocabulary(NamedVocabulary):
    """Vocabulary of a plug-in's tokenizer; its tokens follow the special ones.

    Raises ValueError if `model` is no list of tokens in JSON, and PluginError if the plug-in raises
    an exception or returns ids or text that cannot be used.
    """

    def __init__(self, model: bytes, kind: str) -> None:
        self.model = model
        tokens = parse_json(model)
        are_texts = isinstance(tokens, list) and {*map(type, tokens)} == {str}
        if not are_texts or len({"", *SPECIAL, *tokens}) <= len(SPECIAL) + len(tokens):
            raise ValueError(
                f"wanted a list of distinct texts as tokens, not {' '.join(SPECIAL)}"
            )
        self._names = [*SPECIAL, *tokens]
        self._scores = {}  # SentencePiece segments nothing
        self.surface_bytes = [b""] * len(self)  # only the plug-in knows
        self._kind = kind
        with _naming(kind, "__init__"):
            self._tokenizer = TOKENIZERS[kind](tokens)

    def encode(self, text: str) -> list[int]:
        """Encode a line, without BOS and EOS, and check that its ids are those of its text."""
        line = normalised_line(text)
        with _naming(self._kind, f"encode of {line!r:.40}"):
            positions = [*map(operator.index, self._tokenizer.encode(line))]
            ids = [len(SPECIAL) + position for position in positions]
            if ids and not len(SPECIAL) <= min(ids) <= max(ids) < len(self):
                raise ValueError(
                    f"wanted ids from 0 to {len(self) - len(SPECIAL) - 1}, got "
                    f"{min(positions)} to {max(positions)}"
                )
            decoded = self.decode(ids)
            if decoded != clean(line):
                raise ValueError(f"`decode` returns another text, {decoded!r:.40}")
        return ids

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """Encode many lines, without BOS and EOS."""
        return [*map(self.encode, texts)]

    def _join(self, ids: Sequence[int], unknown: str) -> str:
        """Decode ids of text; UNK, which no text has, is left out."""
        del unknown
        positions = [token - len(SPECIAL) for token in ids if token != UNK]
        with _naming(self._kind, f"decode of {positions!r:.40}"):
            return str(self._tokenizer.decode(positions))


@contextmanager
def _naming(kind: str, call: str) -> Iterator[None]:
    """Name the plug-in of a tokenizer in an exception of a block. Raises PluginError."""
    try:
        yield
    except PluginError:
        raise
    except Exception as problem:
        raise PluginError(
            f"plug-in {short(str(plugin_of(TOKENIZERS[kind])))}: tokenizer {kind!r}, {call}: "
            f"{type(problem).__name__}: {problem} ({place_in(TOKENIZERS[kind], problem)}); mend it "
            "there"
        ) from problem
