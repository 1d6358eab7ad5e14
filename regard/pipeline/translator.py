"""Lines go in, translations come out, with what the model looked at."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from regard.attention import Read
from regard.attention.alignment import Link, Readings, links_between
from regard.checkpoint import FolderSettings
from regard.data.text import clean
from regard.data.tokenizer import EOS, Tokenizer, Vocabulary
from regard.engine import Engine, Job
from regard.errors import LineWarning, UsageError
from regard.models import Batch, Ensemble, Model
from regard.pipeline.cutting import Cutter
from regard.pipeline.translation import AlignmentChoice, Translation, joined, last_layer, without_readings
from regard.search import (
    NOTHING,
    Hypothesis,
    SearchSettings,
    Task,
    Wish,
    Wording,
    checked,
    coverage,
    is_complete,
    likeness,
    runaway,
)
from regard.search.forced import Forced, forced
from regard.search.record import Moment, record

__all__ = ["Translator"]


class Translator:
    """Translates raw text: `regard.load(folder).translate("나는 집에 간다")`."""

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
        self._wording = Wording(tokenizer.target)

    def translate(
        self,
        texts: str | Sequence[str],
        beam: int | None = None,
        nbest: int = 1,
        length_penalty: float | None = None,
        alignments: bool = False,
        readings: bool = False,
        wishes: Wish | Sequence[Wish] = NOTHING,
        **search: Any,
    ) -> list[Translation]:
        """Translate a line or many; the result has one translation a line, in their order. Empty lines stay empty.

        `wishes` are words that a translation begins with, must hold, or must not: for all lines, or one a line.
        `search` are other `SearchSettings`, such as sample=True. `readings` come from one more pass over the winner's
        own pieces, so they are those of the result whatever the search did. Raises UsageError, with all reasons, for
        what contradicts itself or cannot be had.
        """
        lines = [texts] if isinstance(texts, str) else list(texts)
        settings = self._search(nbest, beam=beam, length_penalty=length_penalty, **search)
        self.model.eval()
        asked = self._wishes(wishes, len(lines), settings)
        cuts = [self._cut(line, place, wish) for place, (line, wish) in enumerate(zip(lines, asked, strict=True))]
        sentences = [text for cut in cuts for text, _ in cut]
        jobs = [self._job(text, wish, settings) for cut in cuts for text, wish in cut]
        jobs = [replace(job, task=replace(job.task, name=name)) for name, job in enumerate(jobs)]
        decoded = self.engine.decode(jobs, settings)
        decoded = [self._ordered(text, some, settings) for text, some in zip(sentences, decoded, strict=True)]
        seen: Sequence[Sequence[Readings]] = [()] * len(sentences)
        if alignments or readings:
            seen = self._seen(sentences, [hypotheses[:nbest] for hypotheses in decoded])
        found = iter(zip(sentences, decoded, seen, strict=True))
        results = []
        for place, cut in enumerate(cuts):
            parts = []
            for _, wish in cut:
                text, hypotheses, read = next(found)
                parts.append(self._translation(text, hypotheses, read, nbest, alignments))
                self._warn(place, parts[-1], hypotheses[0], wish)
            texts_of_parts = [text for text, _ in cut]
            results.append(parts[0] if len(parts) == 1 else joined(parts, texts_of_parts, alignments))
        return results if readings else [without_readings(result) for result in results]

    def stream(self, text: str, wish: Wish = NOTHING, **search: Any) -> Iterator[str]:
        """The translation of a line, word by word as it is written: put together it is that of a beam of 1.

        It is greedy; with `sample=True`, drawn.
        """
        settings = self._search(1, **{**search, "beam": 1, "groups": 1, "mbr": False, "coverage_penalty": 0.0})
        self.model.eval()
        (asked,) = self._wishes(wish, 1, settings)
        begun = False
        for part, own in self._cut(text, 0, asked):
            for number, more in enumerate(self._increments(self._job(part, own, settings), settings, own)):
                yield f" {more}" if begun and number == 0 else more
                begun = True

    def _increments(self, job: Job, settings: SearchSettings, wish: Wish) -> Iterator[str]:
        """What a translation grows by: whole words, and in the end the rest."""
        target, told = self.tokenizer.target, ""
        ids: tuple[int, ...] = ()
        for ids in self.engine.follow(job, settings):
            words = target.words(target.pieces(ids))
            whole = target.decode(ids[: words.index(words[-1])]) if words else ""
            if len(whole) > len(told) and whole.startswith(told):
                yield whole[len(told) :]
                told = whole
        if rest := target.decode(ids)[len(told) :]:
            yield rest
        best = Hypothesis(ids, 0.0, 0.0, is_complete(ids, job.task.terms))
        self._warn(0, self._text(best, job.pieces), best, wish)

    def readings(self, source: str, target: Sequence[int]) -> Readings:
        """What the model looks at when it is made to write these target pieces (without end of sentence)."""
        return self.read_all([source], [target])[0]

    def read_all(self, sources: Sequence[str], targets: Sequence[Sequence[int]]) -> list[Readings]:
        """The same for many, in batches."""
        ids = [self._encode(source) for source in sources]
        return [self._readings(*each) for each in zip(ids, targets, forced(self.model, ids, targets), strict=True)]

    def encode(self, text: str) -> list[int]:
        """The pieces of a line as the model reads it, end of sentence last."""
        return self._encode(clean(text))

    def record(self, text: str, **search: Any) -> tuple[list[Hypothesis], list[Moment]]:
        """How a translation of a line is found, step by step; the line is taken whole, and searched by PyTorch."""
        settings = self._search(1, **search)
        self.model.eval()
        job = self._job(clean(text), NOTHING, settings)
        verbs: Any = self.model  # an ensemble's sources and states are tuples, which a search hands on unseen
        source = verbs.encode(Batch(torch.tensor([job.source], device=verbs.device)))
        return record(verbs, source, job.task, settings)

    def score(self, source: str, target: str) -> float:
        """The log-probability of a given target, end of sentence included."""
        return self._forced(source, self.tokenizer.target.encode(target))

    def _forced(self, source: str, ids: Sequence[int]) -> float:
        """The log-probability of given target pieces and the end of sentence after them."""
        return float(forced(self.model, [self._encode(source)], [ids], watched=False)[0].likely.sum())

    def _readings(self, source: Sequence[int], target: Sequence[int], found: Forced) -> Readings:
        pieces = self.tokenizer.source.pieces(source), self.tokenizer.target.pieces([*target, EOS])
        words = self.tokenizer.source.words(pieces[0]), self.tokenizer.target.words(pieces[1])
        return Readings(
            tuple(pieces[0]),
            tuple(pieces[1]),
            tuple(words[0]),
            tuple(words[1]),
            found.weights,
            found.roles,
            _texts(self.tokenizer.source, source, words[0]),
            _texts(self.tokenizer.target, [*target, EOS], words[1]),
        )

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

    def _encode(self, text: str) -> list[int]:
        return [*self.tokenizer.source.encode(text), EOS]

    def _length(self, text: str) -> int:
        return len(self._encode(text))

    @property
    def _cross(self) -> list[str]:
        """The reads of the source."""
        modules = self.model.named_modules()
        return [name for name, module in modules if isinstance(module, Read) and module.role == "cross"]

    def _wishes(self, wishes: Wish | Sequence[Wish], lines: int, settings: SearchSettings) -> list[Wish]:
        """A wish for each line. Raises UsageError with all that is wrong with them."""
        each = [wishes] * lines if isinstance(wishes, Wish) else list(wishes)
        if len(each) != lines:
            raise UsageError(f"there are {len(each)} wishes for {lines} lines; give one a line, or one for all")
        checked(each, self._wording)
        if any(wish.terms for wish in each) and (settings.sample or settings.groups > 1):
            other = "sample" if settings.sample else "groups"
            raise UsageError(f"terms and {other}: the beam is shared out among the terms; leave one of them out")
        return each

    def _job(self, text: str, wish: Wish, settings: SearchSettings) -> Job:
        """A sentence to decode, in pieces."""
        source, wording = self._encode(text), self._wording
        prefix, terms = wording.prefix(wish.prefix), wording.terms(wish.terms)
        longest = settings.longest(len(source), self.model.limit, len(prefix) + sum(len(t.forms[0]) for t in terms))
        key = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
        return Job(source, Task(0, longest, prefix, terms, wording.words(wish.forbid), key))

    def _cut(self, line: str, place: int, wish: Wish) -> list[tuple[str, Wish]]:
        """The parts of a line that is longer than anything seen in training; any other line whole.

        What is asked of its beginning is asked of the first part; a line with terms stays whole, because nobody knows
        which part they belong to.
        """
        line, longest = clean(line), self.settings.search.longest_source
        if not line or longest is None or wish.terms:
            return [(line, wish)] if line else []
        first, *others = Cutter(self._length, longest).cut(line, place)
        return [(first, wish), *((part, replace(wish, prefix="")) for part in others)]

    def _ordered(self, source: str, found: list[Hypothesis], settings: SearchSettings) -> list[Hypothesis]:
        """Hypotheses in another order than that of their scores, if one is asked for."""
        if settings.mbr:
            texts = [self.tokenizer.target.decode(h.ids) for h in found]
            # Samples come as often as they are likely; what a beam holds is weighed by its probability.
            best = max(h.log_probability for h in found)
            shares = [1.0 if settings.sample else math.exp(h.log_probability - best) for h in found]
            worth = likeness(texts, shares)
        elif settings.coverage_penalty:
            read = self._coverage(source, found)
            worth = [h.score + settings.coverage_penalty * r for h, r in zip(found, read, strict=True)]
        else:
            return found
        order = sorted(range(len(found)), key=lambda i: (not found[i].complete, -worth[i]))
        return [found[i] for i in order]

    def _coverage(self, source: str, found: list[Hypothesis]) -> list[float]:
        """How much of the source each hypothesis has left unread, by the mean of all reads of it."""
        read = forced(self.model, [self._encode(source)] * len(found), [h.ids for h in found])
        means = [np.stack([each.weights[name].mean(0) for name in self._cross]).mean(0) for each in read]
        return [coverage(mean[:, :-1]) for mean in means]  # the end is no part of the text

    def _warn(self, place: int, translation: Translation, best: Hypothesis, wish: Wish) -> None:
        """Say what is wrong with a translation, if something is."""
        if translation.repeats is not None:
            text, times = translation.repeats
            said = f"the translation repeats {text!r} {times} times and is probably wrong; no_repeat = 4 forbids that"
            warnings.warn(LineWarning(place, said), stacklevel=4)
        if not best.complete:
            missing = ", ".join(map(repr, wish.terms))
            said = f"not every term is in the translation ({missing}); a wider beam or more max_extra may find room"
            warnings.warn(LineWarning(place, said), stacklevel=4)

    def _seen(self, sentences: Sequence[str], found: Sequence[Sequence[Hypothesis]]) -> list[list[Readings]]:
        """What the model looks at as it writes each hypothesis of each sentence."""
        pairs = [(text, each.ids) for text, some in zip(sentences, found, strict=True) for each in some]
        read = iter(self.read_all([text for text, _ in pairs], [ids for _, ids in pairs]))
        return [[next(read) for _ in some] for some in found]

    def _translation(
        self, source: str, found: list[Hypothesis], seen: Sequence[Readings], nbest: int, alignments: bool
    ) -> Translation:
        ids = self._encode(source)
        some = [self._text(hypothesis, ids) for hypothesis in found[:nbest]]
        if seen:
            some = [
                replace(text, readings=read, alignments=tuple(self.align(read)) if alignments else None)
                for text, read in zip(some, seen, strict=True)
            ]
        return replace(some[0], nbest=tuple(map(without_readings, some))) if nbest > 1 else some[0]

    def align(self, readings: Readings) -> list[Link]:
        """The links between words, from the layer, head and row that were chosen for them.

        Raises UsageError for a model without attention.
        """
        choice = self.choice or last_layer(readings)
        return links_between(readings.words(choice.layer, choice.head, choice.consumed).weights, choice.symmetry)

    def _text(self, hypothesis: Hypothesis, source: Sequence[int]) -> Translation:
        target, again = self.tokenizer.target, runaway(hypothesis.ids, source)
        repeats = None if again is None else (target.decode(again.ids), again.times)
        text, tokens = target.decode(hypothesis.ids), tuple(target.pieces(hypothesis.ids))
        return Translation(text, tokens, hypothesis.score, repeats=repeats)


def _texts(vocabulary: Vocabulary, ids: Sequence[int], words: Sequence[int]) -> tuple[str, ...]:
    """The text of each word, whatever pieces it is spelt with."""
    count = max(words, default=-1) + 1
    return tuple(
        vocabulary.decode([piece for piece, own in zip(ids, words, strict=True) if own == word])
        for word in range(count)
    )
