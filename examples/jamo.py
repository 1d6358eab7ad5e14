"""Tokenizer that splits Hangul syllables into jamo: 각 is ㄱ, ㅏ and ㄱ, in three of 67 tokens.

    regard train --preset transformer-tiny --set tokenizer.kind=jamo \
                 --source train.ko --target train.en --plugin ./jamo.py --out runs/jamo

Other characters of the training text are tokens, too; any that it did not have is encoded as the
bytes of UTF-8.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

import regard

SPACE = "▁"  # begins a word, in figures and alignments
JAMO = [chr(code) for code in (*range(0x1100, 0x1113), *range(0x1161, 0x1176))]
JAMO += [chr(code) for code in range(0x11A8, 0x11C3)]  # the final ones
BYTES = {f"<0x{byte:02X}>": bytes([byte]) for byte in range(256)}
SYLLABLE = re.compile("[가-힣]")


@regard.register_tokenizer("jamo")
class JamoTokenizer:
    """Tokenizer of jamo, characters and bytes."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = tokens
        self.ids = {token: index for index, token in enumerate(tokens)}

    @classmethod
    def train(cls, lines: Sequence[str], size: int | None) -> JamoTokenizer:
        """Return a tokenizer of jamo, bytes, and the most frequent characters, `size` in all."""
        counts = Counter(character for line in lines for character in line)
        for character in [*counts]:
            if character in (" ", *JAMO) or SYLLABLE.match(character):
                del counts[character]
        # Of characters that are equally frequent, those with the smaller codes.
        characters = sorted(counts, key=lambda c: (-counts[c], c))
        fixed = [SPACE, *JAMO, *BYTES]
        room = None if size is None else max(0, size - len(fixed))
        return cls(fixed + characters[:room])

    def encode(self, text: str) -> list[int]:
        """Return the ids of a line."""
        return [self.ids[token] for c in text for token in self.split(c)]

    def split(self, character: str) -> list[str]:
        """Return the tokens of a character."""
        if SYLLABLE.match(character):
            return [*unicodedata.normalize("NFD", character)]
        if character == " ":
            return [SPACE]
        # Jamo of the text itself are bytes, so that they do not join a syllable.
        if character in self.ids and character not in JAMO:
            return [character]
        return [f"<0x{byte:02X}>" for byte in character.encode()]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; bytes that are no UTF-8 are left out."""
        tokens = [self.tokens[index] for index in ids]
        parts = [BYTES.get(token) or token.encode() for token in tokens]
        text = b"".join(parts).decode("utf-8", "ignore").replace(SPACE, " ")
        return unicodedata.normalize("NFC", text)
