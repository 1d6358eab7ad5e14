"""Lines go in, translations come out, with what the model looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from regard.attention.alignment import Link, Readings, extract_links
from regard.data.text import clean
from regard.data.vocabulary import EOS
from regard.engine import DecodeRequest
from regard.models import Batch
from regard.pipeline.base import BasePipeline, texts_of
from regard.pipeline.line_splitter import LineSplitter
from regard.pipeline.translation import Translation, joined, last_layer, without_readings
from regard.search import (
    NO_CONSTRAINTS,
    Constraints,
    Hypothesis,
    SearchSettings,
    is_complete,
)
from regard.search.forced_decoding import ForcedDecoding, force_decode
from regard.search.search_trace import SearchStep, trace_search

__all__ = ["Translator"]


class Translator(BasePipeline):
    """Translates raw text: `regard.load(folder).translate("나는 집에 간다")`."""

    def translate(
        self,
        texts: str | Sequence[str],
        beam: int | None = None,
        nbest: int = 1,
        length_penalty: float | None = None,
        alignments: bool = False,
        readings: bool = False,
        constraints: Constraints | Sequence[Constraints] = NO_CONSTRAINTS,
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
        asked = self._wishes(constraints, len(lines), settings, "line")
        cuts = [self._cut(line, place, wish) for place, (line, wish) in enumerate(zip(lines, asked, strict=True))]
        sentences = [text for cut in cuts for text, _ in cut]
        jobs = [self._job(text, wish, settings) for cut in cuts for text, wish in cut]
        jobs = [replace(job, task=replace(job.task, id=id)) for id, job in enumerate(jobs)]
        decoded = self.engine.decode(jobs, settings)
        decoded = [self._ordered(job.source, some, settings) for job, some in zip(jobs, decoded, strict=True)]
        seen: Sequence[Sequence[Readings]] = [()] * len(sentences)
        if alignments or readings:
            best = [hypotheses[:nbest] for hypotheses in decoded]
            seen = self._seen(sentences, best, None if readings else "cross")
        found = iter(zip(sentences, decoded, seen, strict=True))
        results = []
        for place, cut in enumerate(cuts):
            parts = []
            for _, wish in cut:
                text, hypotheses, read = next(found)
                parts.append(self._translation(text, hypotheses, read, nbest, alignments))
                self._warn(place, parts[-1].repeats, hypotheses[0], wish, "translation")
            if len(parts) == 1:
                results.append(parts[0])
            else:
                coded = int(bool(cut and self.tokenizer.source.language_code(cut[0][0])))
                results.append(joined(parts, [text for text, _ in cut], alignments, coded))
        return results if readings else [without_readings(result) for result in results]

    def stream(self, text: str, constraints: Constraints = NO_CONSTRAINTS, **search: Any) -> Iterator[str]:
        """The translation of a line, word by word as it is written: put together it is that of a beam of 1.

        It is greedy; with `sample=True`, drawn.
        """
        settings = self._search(1, **{**search, "beam": 1, "groups": 1, "mbr": False, "coverage_penalty": 0.0})
        self.model.eval()
        (asked,) = self._wishes(constraints, 1, settings, "line")
        begun = False
        for part, own in self._cut(text, 0, asked):
            for number, more in enumerate(self._increments(self._job(part, own, settings), settings, own)):
                yield f" {more}" if begun and number == 0 else more
                begun = True

    def _increments(self, job: DecodeRequest, settings: SearchSettings, wish: Constraints) -> Iterator[str]:
        """What a translation grows by: whole words, and in the end the rest."""
        target, told = self.tokenizer.target, ""
        ids: tuple[int, ...] = ()
        for ids in self.engine.stream(job, settings):
            words = target.word_indices(target.tokens(ids))
            whole = target.decode(ids[: words.index(words[-1])]) if words else ""
            if len(whole) > len(told) and whole.startswith(told):
                yield whole[len(told) :]
                told = whole
        if rest := target.decode(ids)[len(told) :]:
            yield rest
        best = Hypothesis(ids, 0.0, 0.0, is_complete(ids, job.task.terms))
        self._warn(0, self._repeats(ids, job.source_ids), best, wish, "translation")

    def readings(self, source: str, target: Sequence[int]) -> Readings:
        """What the model looks at when it is made to write these target pieces (without end of sentence)."""
        return self.read_all([source], [target])[0]

    def read_all(
        self, sources: Sequence[str], targets: Sequence[Sequence[int]], role: str | None = None
    ) -> list[Readings]:
        """The same for many, in batches; with a `role` ("encoder", "decoder" or "cross") of the reads that have it."""
        ids = [self._encode(source) for source in sources]
        found = force_decode(self.model, ids, targets, role=role)
        return [self._readings(*each) for each in zip(ids, targets, found, strict=True)]

    def encode(self, text: str) -> list[int]:
        """The pieces of a line as the model reads it, end of sentence last."""
        return self._encode(clean(text))

    def trace(self, text: str, **search: Any) -> tuple[list[Hypothesis], list[SearchStep]]:
        """How a translation of a line is found, step by step; the line is taken whole, and searched by PyTorch."""
        settings = self._search(1, **search)
        self.model.eval()
        job = self._job(clean(text), NO_CONSTRAINTS, settings)
        verbs: Any = self.model  # an ensemble's sources and states are tuples, which a search hands on unseen
        source = verbs.encode(Batch.of([job.source], verbs.device))
        return trace_search(verbs, source, job.task, settings)

    def score(self, source: str, target: str) -> float:
        """The log-probability of a given target, end of sentence included."""
        return self._forced(source, self.tokenizer.target.encode(target))

    def _forced(self, source: str, ids: Sequence[int]) -> float:
        """The log-probability of given target pieces and the end of sentence after them."""
        return float(force_decode(self.model, [self._encode(source)], [ids], with_attention=False)[0].log_probs.sum())

    def _readings(self, source: Sequence[int], target: Sequence[int], found: ForcedDecoding) -> Readings:
        pieces = self.tokenizer.source.tokens(source), self.tokenizer.target.tokens([*target, EOS])
        words = self.tokenizer.source.word_indices(pieces[0]), self.tokenizer.target.word_indices(pieces[1])
        return Readings(
            tuple(pieces[0]),
            tuple(pieces[1]),
            tuple(words[0]),
            tuple(words[1]),
            found.weights,
            found.roles,
            texts_of(self.tokenizer.source, source, words[0]),
            texts_of(self.tokenizer.target, [*target, EOS], words[1]),
        )

    def _encode(self, text: str) -> list[int]:
        return [*self.tokenizer.source.encode(text), EOS]

    def _length(self, text: str) -> int:
        return len(self._encode(text))

    def _job(self, text: str, wish: Constraints, settings: SearchSettings) -> DecodeRequest:
        """A sentence to decode, in pieces."""
        return self._task(self._encode(text), text.encode(), wish, settings)

    def _cut(self, line: str, place: int, wish: Constraints) -> list[tuple[str, Constraints]]:
        """The parts of a line that is longer than anything seen in training; any other line whole.

        What is asked of its beginning is asked of the first part; a line with terms stays whole, because nobody knows
        which part they belong to.
        """
        line, longest = clean(line), self.settings.search.longest_source
        if not line or longest is None or wish.terms:
            return [(line, wish)] if line else []
        code = self.tokenizer.source.language_code(line)
        first, *others = LineSplitter(lambda text: self._length(code + text), longest).cut(
            line.removeprefix(code), place
        )
        spaced = f"{code} " if code else ""
        return [(code + first, wish), *((spaced + part, replace(wish, prefix="")) for part in others)]

    def _seen(
        self, sentences: Sequence[str], found: Sequence[Sequence[Hypothesis]], role: str | None
    ) -> list[list[Readings]]:
        """What the model looks at as it writes each hypothesis of each sentence."""
        pairs = [(text, each.ids) for text, some in zip(sentences, found, strict=True) for each in some]
        read = iter(self.read_all([text for text, _ in pairs], [ids for _, ids in pairs], role))
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
        return extract_links(readings.words(choice.layer, choice.head, choice.shifted).weights, choice.symmetry)

    def _text(self, hypothesis: Hypothesis, source: Sequence[int]) -> Translation:
        target, ids = self.tokenizer.target, hypothesis.ids
        repeats = self._repeats(ids, source)
        return Translation(target.decode(ids), tuple(target.tokens(ids)), hypothesis.score, repeats=repeats)
