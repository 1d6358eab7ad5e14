"""Translator that decodes a model folder with PyTorch or the C library, by any kind of search."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from regard.attention.alignment import Link, Readings, extract_links
from regard.attention.recorder import check_role
from regard.common.errors import LineError, UsageError, repetition_note
from regard.data.given_words import given_words
from regard.data.language_id import LanguageId
from regard.data.languages import Languages
from regard.data.sentences import has_letters, has_spaces
from regard.data.text import clean, too_long
from regard.data.vocabulary import EOS
from regard.model_folder import load_language_id
from regard.pipeline.base import BasePipeline, read_side
from regard.pipeline.translator import Decoder, Translator
from regard.runtime.engine import DecodeRequest
from regard.search import Hypothesis, SearchOptions, SearchSettings, is_complete
from regard.search.forced_decoding import ForcedDecoding, force_decode
from regard.search.sampling import source_key
from regard.search.search_steps import SearchStep
from regard.text.constraints import NO_CONSTRAINTS, Constraints, missing_terms
from regard.text.doubtful_sentences import DoubtfulSentences
from regard.text.line_splitter import LineSplitter
from regard.text.quality import Trust
from regard.text.text_path import Request, Wanted
from regard.text.translation import (
    SPLIT,
    Translation,
    as_rows_of_ids,
    as_text,
    as_texts,
    as_token_ids,
    check_readings,
    default_choice,
    join_parts,
)

WORD_BY_WORD = 8
"""Parts of a split line that are streamed word by word. The following ones are streamed part by
part, which is still faster than a person reads.
"""
STREAMED_TOGETHER = 64
"""Parts that are decoded in one batch and then streamed part by part, in a fraction of the time
that separate decoding takes.
"""


@dataclass(frozen=True)
class _Segment:
    """A part of a line that is decoded as one source: a sentence, a part of a long one, or an
    entire line.

    `text` is the part of the line, including the space after it. `read` is the text that is
    tokenised, after a language code if there is one. `ids` are its token ids including EOS; a
    segment without ids has no letters, and is copied.
    """

    text: str
    read: str
    ids: list[int]
    constraints: Constraints


class FolderTranslator(BasePipeline, Translator):
    """A translator that decodes a model folder, or several as an ensemble.

    In addition to the methods of every translator, it scores and aligns given targets, and gives
    access to its parts; `regard.pipeline.load_translator` loads one, with this type.

    - `model`: the model, which may be changed or replaced by another.
    - `tokenizer`: its `source` and `target` are vocabularies, with `encode`, `decode`, `tokens`.
    - `settings`: those of `config.json`; `choice`: the head that shows alignments.
    - `folder`: the one that it was loaded from, of an ensemble the first; None if from none.
    """

    folder: Path | None = None

    @property
    def search(self) -> SearchSettings:
        return self.settings.search

    @property
    def languages(self) -> Languages:
        return self.settings.languages

    @cached_property
    def language_id(self) -> LanguageId | None:
        return load_language_id(self.folder) if self.folder else None

    @property
    def copies(self) -> str:
        return self.tokenizer.copies

    @cached_property
    def doubts(self) -> DoubtfulSentences:
        return DoubtfulSentences(
            self.tokenizer.source.encode,
            self.tokenizer.source.tokens,
            self.settings.familiar,
        )

    def _trust(self, settings: SearchSettings) -> Trust:
        """Return how far translations of this search are trusted."""
        is_calibrated = settings.scores_as(self.settings.search)
        quality = self.settings.quality if is_calibrated else None
        return Trust(settings.score_threshold, quality)

    @property
    def has_attention(self) -> bool:
        return bool(self.cross_attention())

    def _decoder(
        self,
        count: int,
        wanted: Wanted,
        constraints: Constraints | Sequence[Constraints],
        search: SearchOptions,
    ) -> Decoder:
        settings = self._search_settings(wanted.nbest, search)
        self.engine.evaluate()
        per_line = self._per_source(constraints, count, settings, "line")
        return _FolderDecoder(self, settings, per_line, wanted)

    def _translate_lines(
        self,
        request: Request,
        constraints: Sequence[Constraints],
        settings: SearchSettings,
        wanted: Wanted,
    ) -> list[Translation]:
        """Translate lines, each under its constraints."""
        _check_lengths(request.lines, settings)
        alignments = wanted.alignments or (request.links and self.has_attention)
        wanted = wanted._replace(alignments=alignments)
        notes: list[list[str]] = [[] for _ in request.lines]
        segments_of_lines = list[list[_Segment]]()
        pairs = zip(request.lines, constraints, strict=True)
        for number, (line, item) in enumerate(pairs):
            line_segments = self._segments(line, number, item, settings, notes[number])
            segments_of_lines.append(line_segments)

        segments = [
            segment
            for line_segments in segments_of_lines
            for segment in line_segments
            if segment.ids
        ]
        requests = [
            self._segment_request(index, segment, settings)
            for index, segment in enumerate(segments)
        ]
        hypotheses = self._decode(requests, settings)
        translations = iter(self._translations(segments, hypotheses, wanted))

        results = list[Translation]()
        lines = zip(request.lines, segments_of_lines, notes, strict=True)
        for line, line_segments, line_notes in lines:
            parts = list[Translation]()
            for segment in line_segments:
                if segment.ids:
                    parts.append(next(translations))
                else:
                    parts.append(self._copy(segment, wanted.nbest, alignments))
            joined = self._join(line_segments, parts, alignments)
            if line_notes:
                joined = replace(joined, notes=(*line_notes, *joined.notes))
            if alignments:
                joined = joined.with_given_words(given_words(line))
            results.append(joined.with_doubts(self.doubts, self._trust(settings)))
        return results

    def _stream(
        self, text: str, constraints: Constraints, search: SearchOptions
    ) -> Generator[str, None, tuple[str, ...]]:
        """Stream a line word by word, and after the first `WORD_BY_WORD` parts, part by part."""
        greedy: SearchOptions = {
            "beam": 1,
            "groups": 1,
            "mbr": False,
            "coverage_penalty": 0.0,
        }
        settings = self._search_settings(1, {**search, **greedy})
        self.engine.evaluate()
        (checked,) = self._per_source(constraints, 1, settings, "line")
        _check_lengths([text], settings)
        notes = list[str]()
        segments = self._segments(text, 0, checked, settings, notes)
        stream = self._segment_increments(segments, settings, notes)
        previous_texts = ("", *(segment.text for segment in segments))
        last = ""
        for previous, increments in zip(previous_texts, stream, strict=False):
            for number, increment in enumerate(filter(None, increments)):
                needs_space = (
                    number == 0
                    and last
                    and (previous.endswith(" ") or has_spaces(last[-1], increment[0]))
                )
                yield f" {increment}" if needs_space else increment
                last = increment
        return tuple(notes)

    def _trace(
        self, text: str, constraints: Constraints, search: SearchOptions
    ) -> tuple[Translation, list[SearchStep]]:
        settings = self._search_settings(1, search)
        self.engine.evaluate()
        (checked,) = self._per_source(constraints, 1, settings, "line")
        _check_lengths([text], settings)
        notes = list[str]()
        segments = self._segments(text, 0, checked, settings, notes)
        if len(segments) > 1:
            raise UsageError(SPLIT)
        if not segments or not segments[0].ids:
            raise UsageError(
                "the line is empty, or has no letters; give a line of text"
            )
        (segment,) = segments
        request = self._segment_request(0, segment, settings)
        candidates, steps = self.engine.trace(request, settings)
        hypotheses = self._rerank(request.source, candidates, settings)
        (translation,) = self._translations(
            segments, [hypotheses], Wanted(readings=True)
        )
        joined = self._join(segments, [translation], False)
        if joined.repetition:
            notes.append(repetition_note(joined.repetition))
        joined = replace(joined, notes=(*notes, *joined.notes))
        return joined.with_doubts(self.doubts, self._trust(settings)), steps

    def read_all(
        self,
        sources: Sequence[str],
        targets: Sequence[Sequence[int]],
        role: str | None = None,
    ) -> list[Readings]:
        """Teacher-force given targets, and return their attention readings in order.

        `targets` are token ids without the end of sentence. With `role` ("encoder", "decoder" or
        "cross"), only attention of this role is read. Raises LineError for pairs so long that their
        weights would not fit into memory.
        """
        check_role(role)
        rows = [self.encode(source) for source in as_texts(sources)]
        targets = as_rows_of_ids(targets, self.tokenizer.target)
        if len(rows) != len(targets):
            raise UsageError(
                f"`targets=`: got {len(targets)} for {len(rows)} sources; give one for each"
            )
        self._check_pairs(rows, targets)
        return self._read(rows, targets, role)

    def _check_pairs(
        self, rows: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> None:
        """Raise LineError for pairs so long that their weights would not fit into memory."""
        LineError.raise_all([*self._too_long(rows, targets)])

    def _too_long(
        self, rows: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> Iterator[tuple[int, str]]:
        """Yield the index of each pair that is too long, and a sentence on it."""
        limits = self.settings.search
        most = max(limits.max_whole, 2 * (limits.longest_source or 0))
        for index, pair in enumerate(zip(rows, targets, strict=True)):
            size = max(map(len, pair))
            if size > most:
                yield (
                    index,
                    f"has {size:,} tokens, and a pair is read whole, up to {most:,} tokens; give "
                    "its sentences in lines of their own",
                )

    def encode(self, text: str) -> list[int]:
        return [*self.tokenizer.source.encode(as_text(text)), EOS]

    def score(self, source: str, target: str | Sequence[int]) -> float:
        """Return the log-probability of a given target, text or token ids, including the end of
        sentence.

        Raises LineError for a pair that is too long.
        """
        vocabulary = self.tokenizer.target
        if isinstance(target, str):
            ids = vocabulary.encode(target)
        else:
            ids = as_token_ids(target, vocabulary)
        encoded = self.encode(source)
        self._check_pairs([encoded], [ids])
        (forced,) = force_decode(self._model, [encoded], [ids], with_attention=False)
        return float(forced.log_probs.sum())

    def mean_log_probs(
        self, sources: Sequence[str], targets: Sequence[str]
    ) -> npt.NDArray[np.float64]:
        """Return the mean log-probability of the tokens of each target, including the end of
        sentence; NaN for pairs that are too long.
        """
        rows = [*map(self.encode, sources)]
        ids = [*map(self.tokenizer.target.encode, targets)]
        too_long = {index for index, _ in self._too_long(rows, ids)}
        usable = [index for index in range(len(rows)) if index not in too_long]
        means = np.full(len(rows), np.nan)
        forced = force_decode(
            self._model,
            [rows[index] for index in usable],
            [ids[index] for index in usable],
            with_attention=False,
        )
        means[usable] = [decoding.log_probs.mean() for decoding in forced]
        return means

    def align(self, readings: Readings) -> list[Link]:
        """Extract word links from readings, by the chosen layer and head.

        Raises UsageError without attention.
        """
        check_readings(readings)
        choice = self.choice or default_choice(readings)
        words = readings.words(choice.layer, choice.head, choice.shifted)
        return extract_links(words.weights, choice.symmetry)

    def _segments(
        self,
        line: str,
        index: int,
        constraints: Constraints,
        settings: SearchSettings,
        notes: list[str],
    ) -> list[_Segment]:
        """Split a line into sentences, split those longer than any source in training, and tokenise
        each part.

        A line with required terms is not split, since it is unknown which part should contain them.
        With a prefix, which belongs to the first segment, sentences are not separated. Notes are
        added to `notes`. Raises LineError, with `index`, for a segment that cannot be split and is
        too long.
        """
        line = clean(line)
        longest = self.settings.search.longest_source
        if not line:
            return []
        code = self.tokenizer.source.language_code(line)
        encode = cache(self.encode)
        parts = [line.removeprefix(code)]
        is_constrained = bool(constraints.terms or constraints.prefix)
        if not constraints.terms:
            splitter = LineSplitter(
                lambda text: len(encode(code + text.rstrip())),
                longest or sys.maxsize,
                settings.splits_sentences and not constraints.prefix,
                self.settings.search.line_clauses,
            )
            parts = splitter.split(parts[0], notes)

        segments = list[_Segment]()
        for number, part in enumerate(parts):
            text = part
            read = part.rstrip()
            if number == 0:
                text = code + text
                read = code + read
            elif code:
                read = f"{code} {read}"
            ids = encode(read) if is_constrained or has_letters(part) else []
            is_long = len(ids) > max(settings.max_whole, longest or 0)
            if is_long and (constraints.terms or longest is None):
                why = "this model, which does not know its longest source,"
                if constraints.terms:
                    why = "a line with terms"
                raise LineError(
                    (index, whole_too_long(len(ids), settings.max_whole, why))
                )
            segment_constraints = constraints
            if number and constraints.prefix:
                segment_constraints = replace(constraints, prefix="")
            segments.append(_Segment(text, read, ids, segment_constraints))
        return segments

    def _segment_request(
        self, index: int, segment: _Segment, settings: SearchSettings
    ) -> DecodeRequest:
        key = source_key(segment.ids) if settings.sample else 0
        return self._request(index, segment.ids, key, segment.constraints, settings)

    def _translations(
        self,
        segments: Sequence[_Segment],
        hypotheses: Sequence[list[Hypothesis]],
        wanted: Wanted,
    ) -> list[Translation]:
        """Return the translation of each segment from its hypotheses, best first."""
        nbest = wanted.nbest
        pairs = [
            (segment, hypothesis)
            for segment, ranked in zip(segments, hypotheses, strict=True)
            for hypothesis in ranked[:nbest]
        ]
        results = [
            self._translation(segment, hypothesis) for segment, hypothesis in pairs
        ]
        if wanted.alignments or wanted.readings:
            sources = [segment.ids for segment, _ in pairs]
            targets = [hypothesis.ids for _, hypothesis in pairs]
            role = None if wanted.readings else "cross"
            readings = self._read(sources, targets, role)
            results = [
                replace(
                    result,
                    readings=item if wanted.readings else None,
                    alignments=tuple(self.align(item)) if wanted.alignments else None,
                )
                for result, item in zip(results, readings, strict=True)
            ]
        stream = iter(results)
        return [
            _with_nbest(list(islice(stream, len(ranked[:nbest]))), nbest)
            for ranked in hypotheses
        ]

    def _translation(self, segment: _Segment, hypothesis: Hypothesis) -> Translation:
        target = self.tokenizer.target
        ids = hypothesis.ids
        return Translation(
            target.decode(ids),
            tuple(target.tokens(ids)),
            hypothesis.score,
            repetition=self._repetition(ids, segment.ids),
            is_complete=hypothesis.complete,
            notes=missing_terms(
                hypothesis.complete, segment.constraints, "translation"
            ),
            ids=tuple(ids),
            source_tokens=tuple(self.tokenizer.source.tokens(segment.ids)),
        )

    def _copy(self, segment: _Segment, nbest: int, alignments: bool) -> Translation:
        """Return a segment without letters as its own translation."""
        code = self.tokenizer.source.language_code(segment.read)
        text = segment.text.removeprefix(code).strip()
        first = int(bool(code))
        links = tuple((first + word, word) for word in range(len(text.split(" "))))
        copy = Translation(text, (), 0.0, links if alignments else None)
        return copy if nbest == 1 else replace(copy, nbest=(copy,))

    def _join(
        self,
        segments: Sequence[_Segment],
        parts: Sequence[Translation],
        alignments: bool,
    ) -> Translation:
        """Join the translations of the segments of a line, which has none if it is empty."""
        code_words = 0
        if segments and self.tokenizer.source.language_code(segments[0].text):
            code_words = 1
        texts = [segment.text for segment in segments]
        joined = join_parts(parts, texts, alignments, code_words)
        if len(parts) == 1:
            return replace(parts[0], parts=joined.parts)
        return joined

    def _segment_increments(
        self, segments: Sequence[_Segment], settings: SearchSettings, notes: list[str]
    ) -> Iterator[Iterable[str]]:
        """Yield the streamed texts of each segment; add to the notes."""
        for segment in segments[:WORD_BY_WORD]:
            if segment.ids:
                yield self._increments(segment, settings, notes)
            else:
                yield [self._copy(segment, 1, False).text]
        for start in range(WORD_BY_WORD, len(segments), STREAMED_TOGETHER):
            group = segments[start : start + STREAMED_TOGETHER]
            # A sample depends on the seed and the text only, so batching does not change it.
            requests = [
                self._segment_request(index, segment, settings)
                for index, segment in enumerate(group)
                if segment.ids
            ]
            decoded = iter(self.engine.decode(requests, settings))
            for segment in group:
                if segment.ids:
                    result = self._translation(segment, next(decoded)[0])
                    notes += _all_notes(result)
                else:
                    result = self._copy(segment, 1, False)
                yield [result.text]

    def _increments(
        self, segment: _Segment, settings: SearchSettings, notes: list[str]
    ) -> Iterator[str]:
        """Yield the translation of a segment in complete words as it grows."""
        request = self._segment_request(0, segment, settings)
        target = self.tokenizer.target
        yielded = ""
        ids: tuple[int, ...] = ()
        for ids in self.engine.stream(request, settings):
            words = target.word_indices(target.tokens(ids))
            complete = target.decode(ids[: words.index(words[-1])]) if words else ""
            if len(complete) > len(yielded) and complete.startswith(yielded):
                yield complete[len(yielded) :]
                yielded = complete
        last_increment = target.decode(ids)[len(yielded) :]
        if last_increment:
            yield last_increment
        best = Hypothesis(ids, 0.0, 0.0, is_complete(ids, request.task.terms))
        notes += _all_notes(self._translation(segment, best))

    def _read(
        self,
        sources: Sequence[list[int]],
        targets: Sequence[Sequence[int]],
        role: str | None = None,
    ) -> list[Readings]:
        forced = force_decode(self._model, sources, targets, role=role)
        return [
            self._readings(*item) for item in zip(sources, targets, forced, strict=True)
        ]

    def _readings(
        self, source: Sequence[int], target: Sequence[int], forced: ForcedDecoding
    ) -> Readings:
        source_tokens, source_words, source_texts = read_side(
            self.tokenizer.source, source
        )
        target_tokens, target_words, target_texts = read_side(
            self.tokenizer.target, [*target, EOS]
        )
        return Readings(
            source_tokens,
            target_tokens,
            source_words,
            target_words,
            forced.weights,
            forced.roles,
            source_texts,
            target_texts,
            scores=forced.scores,
        )


def whole_too_long(tokens: int, max_whole: int, why: str) -> str:
    """Return the error for a source that cannot be split and has too many tokens, without a line
    number.
    """
    return (
        f"has {tokens:,} tokens, and {why} is translated whole, up to {max_whole:,} tokens; give "
        "its sentences in lines of their own, or raise that limit (`max_whole`)"
    )


def _check_lengths(lines: Sequence[str], settings: SearchSettings) -> None:
    """Raise LineError for lines of more characters than are allowed."""
    long = (index for index, line in enumerate(lines) if len(line) > settings.max_line)
    LineError.raise_all((index, too_long(settings.max_line)) for index in long)


def _with_nbest(translations: list[Translation], nbest: int) -> Translation:
    """Return the best translation, with all of them as `nbest`, without readings, if several are
    wanted.
    """
    best = translations[0]
    if nbest == 1:
        return best
    without_readings = [replace(item, readings=None) for item in translations]
    return replace(best, nbest=tuple(without_readings))


def _all_notes(result: Translation) -> list[str]:
    """Return the notes on a segment, including a note on its repetition."""
    notes = list(result.notes)
    if result.repetition:
        notes.insert(0, repetition_note(result.repetition))
    return notes


@dataclass(frozen=True)
class _FolderDecoder(Decoder):
    """Decoder of the lines of one call; `constraints` has one element per line, or none at all."""

    translator: FolderTranslator
    settings: SearchSettings
    constraints: Sequence[Constraints]
    wanted: Wanted

    @property
    def free(self) -> Sequence[bool]:
        return [item == NO_CONSTRAINTS for item in self.constraints]

    def __call__(self, request: Request) -> list[Translation]:
        constraints = [
            self.constraints[owner] if self.constraints else NO_CONSTRAINTS
            for owner in request.owners
        ]
        return self.translator._translate_lines(
            request, constraints, self.settings, self.wanted
        )
