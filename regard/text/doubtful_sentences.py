"""Sentences that a model has probably not learnt: by the score of their translation, or by their
text.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import TYPE_CHECKING

from regard.data.copy_tokens import COPY_CHARACTERS
from regard.data.spans import KEPT, find_spans
from regard.data.text import clean, unknown_share
from regard.text.mnemonics import Encode

if TYPE_CHECKING:
    from regard.data.seen_token_pairs import SeenTokenPairs

_MOST_UNKNOWN = 0.5
"""Share of a line's characters that may be unknown before it is in a script that training has not
seen.
"""


class DoubtfulSentences:
    """Tells which sentences a model has probably not learnt.

    `encode`, `tokens`: the token ids of a source, without the end of sentence, and the texts of
    ids. `familiar`: the pairs of tokens that training has seen, if they are few.
    """

    def __init__(
        self,
        encode: Encode,
        tokens: Callable[[list[int]], list[str]],
        familiar: SeenTokenPairs | None,
    ) -> None:
        self._encode = encode
        self._tokens = tokens
        self._familiar = familiar
        # Letters with a token, and what is no letter: a line of these need not be encoded.
        self._known = set[str]()

    def is_doubtful(self, source: str, score: float, threshold: float | None) -> bool:
        """Return whether a translation scores below a threshold, or its source is unlike the text
        of training.

        It is if it has letters, or more pairs of neighbouring tokens, that training has not seen.
        regard.js does the same. Without letters a sentence is copied, and never doubtful.
        """
        if (threshold is not None and score < threshold) or self.unknown_share(source):
            return True
        if self._familiar is None or not any(map(str.isalpha, source)):
            return False
        ids = self._encode(source)
        pairs = zip(ids, self._tokens(ids), strict=True)
        unseen = self._familiar.unseen(
            [-1 if token in COPY_CHARACTERS else index for index, token in pairs]
        )
        return unseen > self._familiar.most

    def unknown_share(self, line: str) -> float:
        """Return the share of a line's characters (spaces aside) without a token; 0 if each of its
        letters has one.
        """
        if self._known.issuperset(line):
            return 0.0
        new = set(line).difference(self._known)
        self._known.update(
            letter for letter in new if not (letter.isalpha() and self._share(letter))
        )
        return 0.0 if self._known.issuperset(new) else self._share(line)

    def is_of_unknown_script(self, line: str) -> bool:
        """Return whether training has seen most of a line's characters in no form: small or
        capital, or without marks.

        Only letters outside of what is kept count, such as those of addresses: the model reads no
        others.
        """
        if self.unknown_share(line) <= _MOST_UNKNOWN:
            return False
        for span in reversed(find_spans(line)):
            if span.kind in KEPT:
                line = f"{line[: span.start]} {line[span.end :]}"
        known = "".join(map(self._known_form, clean(line)))
        return (
            any(map(str.isalpha, known)) and self.unknown_share(known) > _MOST_UNKNOWN
        )

    def _known_form(self, letter: str) -> str:
        """Return a letter, or the form of it that training has seen."""
        forms = (
            letter,
            letter.lower(),
            letter.upper(),
            unicodedata.normalize("NFD", letter)[0].lower(),
        )
        return next((form for form in forms if not self.unknown_share(form)), letter)

    def _share(self, text: str) -> float:
        return unknown_share(clean(text), self._tokens(self._encode(text)))
