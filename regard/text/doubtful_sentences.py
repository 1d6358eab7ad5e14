"""Recognise sentences that a model has probably not learnt, by the quality of their translation or
by their text.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import TYPE_CHECKING

from regard.data.copy_tokens import COPY_CHARACTERS
from regard.data.spans import KEPT, find_spans
from regard.data.text import clean, unknown_share
from regard.text.mnemonics import Encode
from regard.text.quality import DOUBTFUL, Trust

if TYPE_CHECKING:
    from regard.data.seen_token_pairs import SeenTokenPairs

_MOST_UNKNOWN = 0.5
"""Share of unknown characters up to which a line counts as written in a known script."""


class DoubtfulSentences:
    """Recogniser of sentences that a model has probably not learnt.

    `encode` returns the token ids of a source, without the end of sentence; `tokens` returns the
    texts of ids. `familiar` holds the pairs of tokens seen in training, if these are few.
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
        # Characters that are known or no letters. A line of these need not be encoded.
        self._known = set[str]()

    def judge(
        self, source: str, text: str, score: float, trust: Trust
    ) -> tuple[bool, float | None]:
        """Return whether the translation of a sentence is doubtful, and its quality. It is doubtful
        if the quality is low or its source is unlike the training data.

        If the quality is unknown, a low score counts instead. A source is unlike the training data
        if it has unknown letters, or too many pairs of neighbouring tokens that were not seen in
        training. regard.js does the same.
        """
        if trust.quality is None:
            quality = None
            is_low = trust.threshold is not None and score < trust.threshold
        else:
            quality = trust.quality.probability(source, text, score)
            is_low = quality < DOUBTFUL
        is_doubtful = (
            is_low
            or self.unknown_share(source) > 0
            or (
                self._familiar is not None
                and self._has_unseen_pairs(source, self._familiar)
            )
        )
        return is_doubtful, quality

    def _has_unseen_pairs(self, source: str, familiar: SeenTokenPairs) -> bool:
        """Return whether too many pairs of neighbouring tokens were not seen in training; a
        sentence without letters, which is copied, has none.
        """
        if not any(map(str.isalpha, source)):
            return False
        ids = self._encode(source)
        without_copies = [
            -1 if token in COPY_CHARACTERS else index
            for index, token in zip(ids, self._tokens(ids), strict=True)
        ]
        return familiar.unseen(without_copies) > familiar.most

    def unknown_share(self, line: str) -> float:
        """Return the share of a line's characters, spaces excluded, that have no token.

        It is 0 if every letter has a token.
        """
        if self._known.issuperset(line):
            return 0.0
        new = set(line).difference(self._known)
        for character in new:
            if not character.isalpha() or not self._share(character):
                self._known.add(character)
        return 0.0 if self._known.issuperset(new) else self._share(line)

    def is_of_unknown_script(self, line: str) -> bool:
        """Return whether most characters of a line were not seen in training, in either case, with
        or without diacritics.

        Letters of kept spans, such as addresses, do not count, since the model does not read them.
        """
        if self.unknown_share(line) <= _MOST_UNKNOWN:
            return False
        for span in reversed(find_spans(line)):
            if span.kind in KEPT:
                line = f"{line[: span.start]} {line[span.end :]}"
        forms = "".join(map(self._known_form, clean(line)))
        has_letters = any(map(str.isalpha, forms))
        return has_letters and self.unknown_share(forms) > _MOST_UNKNOWN

    def is_unread(self, line: str) -> bool:
        """Return whether a line is of an unknown script, even if only its letters count."""
        letters = "".join(letter if letter.isalpha() else " " for letter in line)
        return all(map(self.is_of_unknown_script, (line, letters)))

    def _known_form(self, letter: str) -> str:
        """Return the first form of a letter that was seen in training, else the letter itself."""
        forms = (
            letter,
            letter.lower(),
            letter.upper(),
            unicodedata.normalize("NFD", letter)[0].lower(),
        )
        return next((form for form in forms if not self.unknown_share(form)), letter)

    def _share(self, text: str) -> float:
        return unknown_share(clean(text), self._tokens(self._encode(text)))
