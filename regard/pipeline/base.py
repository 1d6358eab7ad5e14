"""What translators and captioners have in common: how a search is asked for, and how what it found is judged."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.attention import Attention
from regard.data.tokenizer import Tokenizer
from regard.data.vocabulary import Vocabulary
from regard.engine import DecodeRequest, Engine
from regard.errors import LineWarning, UsageError
from regard.model_folder import FolderSettings
from regard.models import Ensemble, Model, SourceInput, source_length
from regard.pipeline.translation import AlignmentChoice
from regard.search import (
    ConstraintEncoder,
    Constraints,
    Hypothesis,
    SearchSettings,
    Task,
    check_constraints,
    coverage,
    find_repetition,
    mbr_utility,
)
from regard.search.forced_decoding import force_decode

__all__ = ["BasePipeline", "texts_of"]

Repeats = tuple[str, int]  # what was written again and again, and how often


class BasePipeline:
    """A model that writes text, its vocabularies, and how it searches."""

    def __init__(
        self,
        model: Model | Ensemble,
        tokenizer: Tokenizer,
        settings: FolderSettings,
        choice: AlignmentChoice | None = None,
        engine: Engine | None = None,
    ) -> None:
        self.model, self.tokenizer, self.settings, self.choice = model, tokenizer, settings, choice
        self.engine = engine or Engine(model)
        self._wording = ConstraintEncoder(tokenizer.target)

    def _search(self, nbest: int, **asked: Any) -> SearchSettings:
        """The settings of the folder with what is asked for now. Of samples there are as many as are wanted."""
        told = {name: value for name, value in asked.items() if value is not None}
        if told.get("sample") and not told.get("mbr") and "beam" not in told:
            told["beam"] = nbest
        settings = SearchSettings.parse({**self.settings.search.model_dump(), **told}, "search")
        if settings.coverage_penalty and not self._cross:
            raise UsageError("coverage_penalty: this model does not look at its source with attention; leave it at 0")
        if not 1 <= nbest <= settings.beam:
            raise UsageError(
                f"nbest: {nbest} best of a beam of {settings.beam}: ask for 1 to {settings.beam}, or widen the beam"
            )
        return settings

    @property
    def _cross(self) -> list[str]:
        """The reads of the source."""
        modules = self.model.named_modules()
        return [name for name, module in modules if isinstance(module, Attention) and module.role == "cross"]

    def _wishes(
        self, wishes: Constraints | Sequence[Constraints], count: int, settings: SearchSettings, what: str
    ) -> list[Constraints]:
        """A wish for each of `count` sources, which are called `what`. Raises UsageError with all that is wrong."""
        each = [wishes] * count if isinstance(wishes, Constraints) else list(wishes)
        if len(each) != count:
            raise UsageError(f"there are {len(each)} wishes for {count} {what}s; give one a {what}, or one for all")
        check_constraints(each, self._wording)
        if any(wish.terms for wish in each) and (settings.sample or settings.groups > 1):
            other = "sample" if settings.sample else "groups"
            raise UsageError(f"terms and {other}: the beam is shared out among the terms; leave one of them out")
        return each

    def _task(self, source: SourceInput, name: bytes, wish: Constraints, settings: SearchSettings) -> DecodeRequest:
        """A source to decode; what `name` says decides what is drawn where samples are asked for."""
        wording = self._wording
        prefix, terms = wording.encode_prefix(wish.prefix), wording.encode_terms(wish.terms)
        least = len(prefix) + sum(len(term.forms[0]) for term in terms)
        longest = settings.max_steps(source_length(source), self.model.max_target, least)
        if least and least >= longest:
            asked = ", ".join(map(repr, (wish.prefix, *wish.terms)[not wish.prefix :]))
            raise UsageError(
                f"{asked}: {least} pieces are asked for, and at most {longest - 1} are to be written (max_length, or "
                "as many as the model can); allow more, or ask for less"
            )
        key = int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little")
        return DecodeRequest(source, Task(0, longest, prefix, terms, wording.encode_forbidden(wish.forbid), key))

    def _ordered(self, source: SourceInput, found: list[Hypothesis], settings: SearchSettings) -> list[Hypothesis]:
        """Hypotheses in another order than that of their scores, if one is asked for."""
        if settings.mbr:
            texts = [self.tokenizer.target.decode(h.ids) for h in found]
            # Samples come as often as they are likely; what a beam holds is weighed by its probability.
            best = max(h.log_prob for h in found)
            shares = [1.0 if settings.sample else math.exp(h.log_prob - best) for h in found]
            worth = mbr_utility(texts, shares)
        elif settings.coverage_penalty:
            read = self._coverage(source, found)
            worth = [h.score + settings.coverage_penalty * r for h, r in zip(found, read, strict=True)]
        else:
            return found
        order = sorted(range(len(found)), key=lambda i: (not found[i].complete, -worth[i]))
        return [found[i] for i in order]

    def _coverage(self, source: SourceInput, found: list[Hypothesis]) -> list[float]:
        """How much of the source each hypothesis has left unread, by the mean of all reads of it."""
        read = force_decode(self.model, [source] * len(found), [h.ids for h in found])
        means = [np.stack([each.weights[name].mean(0) for name in self._cross]).mean(0) for each in read]
        ends = [each.grid is None for each in read]  # the end of a sentence is no part of the text
        return [coverage(mean[:, :-1] if has_end else mean) for mean, has_end in zip(means, ends, strict=True)]

    def _repeats(self, ids: Sequence[int], source: Sequence[int] = ()) -> Repeats | None:
        """What a target says again and again, and how often, where its source does not."""
        again = find_repetition(ids, source)
        return None if again is None else (self.tokenizer.target.decode(again.ids), again.times)

    def _warn(self, place: int, repeats: Repeats | None, best: Hypothesis, wish: Constraints, what: str) -> None:
        """Say what is wrong with what was written, which is called `what`, if something is."""
        if repeats is not None:
            text, times = repeats
            said = f"the {what} repeats {text!r} {times} times and is probably wrong; no_repeat_ngram = 4 forbids that"
            warnings.warn(LineWarning(place, said), stacklevel=4)
        if not best.complete:
            missing = ", ".join(map(repr, wish.terms))
            said = f"not every term is in the {what} ({missing}); a wider beam or more max_extra may find room"
            warnings.warn(LineWarning(place, said), stacklevel=4)


def texts_of(vocabulary: Vocabulary, ids: Sequence[int], words: Sequence[int]) -> tuple[str, ...]:
    """The text of each word, whatever pieces it is spelt with."""
    count = max(words, default=-1) + 1
    return tuple(
        vocabulary.decode([piece for piece, own in zip(ids, words, strict=True) if own == word])
        for word in range(count)
    )
