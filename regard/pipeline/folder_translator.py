"""FolderTranslator: a translator with PyTorch: its model, teacher forcing, any kind of search."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import islice

from regard.attention.alignment import Link, Readings, extract_links
from regard.attention.recorder import check_role
from regard.common.errors import LineError, UsageError, repetition_note
from regard.data.given_words import given_words
from regard.data.languages import Languages
from regard.data.sentences import has_letters, has_spaces
from regard.data.text import clean, too_long
from regard.data.vocabulary import EOS
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
from regard.text.text_path import Request, Wanted
from regard.text.translation import (
    SPLIT,
    Translation,
    as_rows_of_ids,
    as_text,
    as_texts,
    as_token_ids,
    check_readings,
    join_parts,
    last_layer,
)

WORD_BY_WORD = 8
"""Parts of a split line that are streamed word by word. Further ones follow part by part: nobody
reads so quickly.
"""
STREAMED_TOGETHER = 64
"""Parts decoded at once, and then streamed part by part: a batch takes a fraction of the time of
its parts alone.
"""


@dataclass(frozen=True)
class _Segment:
    """A sentence of a line, a part of a long one, or a whole line.

    It is decoded as one source, tokenised once: `ids` end with EOS. Without ids it has no letters,
    and is copied. `text`: as it is in the line, with the space behind it. `read`: what is
    tokenised, after a language code if any.
    """

    text: str
    read: str
    ids: list[int]
    constraints: Constraints


class FolderTranslator(BasePipeline, Translator):
    """A translator that stands on a model folder, or several as an ensemble.

    Beside what every translator does, it scores and aligns given targets, and has the model itself.
    """

    @property
    def search(self) -> SearchSettings:
        return self.settings.search

    @property
    def languages(self) -> Languages:
        return self.settings.languages

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
        return _FolderDecoder(
            self,
            settings,
            self._per_source(constraints, count, settings, "line"),
            wanted,
        )

    def _translate_lines(
        self,
        request: Request,
        each: Sequence[Constraints],
        settings: SearchSettings,
        wanted: Wanted,
    ) -> list[Translation]:
        """Translate lines under the constraints of each."""
        _check_lengths(request.lines, settings)
        alignments = wanted.alignments or (request.links and self.has_attention)
        notes: list[list[str]] = [[] for _ in request.lines]
        split = [
            self._segments(line, number, item, settings, notes[number])
            for number, (line, item) in enumerate(zip(request.lines, each, strict=True))
        ]
        segments = [segment for parts in split for segment in parts if segment.ids]
        requests = [
            self._segment_request(index, segment, settings)
            for index, segment in enumerate(segments)
        ]
        hypotheses = self._decode(requests, settings)
        parts = iter(
            self._translations(
                segments, hypotheses, wanted._replace(alignments=alignments)
            )
        )
        results = list[Translation]()
        for line, line_segments, line_notes in zip(
            request.lines, split, notes, strict=True
        ):
            line_parts = [
                next(parts)
                if segment.ids
                else self._copy(segment, wanted.nbest, alignments)
                for segment in line_segments
            ]
            joined = self._join(line_segments, line_parts, alignments)
            if line_notes:
                joined = replace(joined, notes=(*line_notes, *joined.notes))
            if alignments:
                joined = joined.with_given_words(given_words(line))
            results.append(joined.with_doubts(self.doubts, settings.score_threshold))
        return results

    def _stream(
        self, text: str, constraints: Constraints, search: SearchOptions
    ) -> Generator[str, None, tuple[str, ...]]:
        """Stream a line; of more than `WORD_BY_WORD` parts, the further ones part by part."""
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
        last = ""
        stream = self._segment_increments(segments, settings, notes)
        for before, increments in zip(
            ("", *(segment.text for segment in segments)), stream, strict=False
        ):
            for number, increment in enumerate(filter(None, increments)):
                is_next = (
                    number == 0
                    and last
                    and (before.endswith(" ") or has_spaces(last[-1], increment[0]))
                )
                yield f" {increment}" if is_next else increment
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
        return joined.with_doubts(self.doubts, settings.score_threshold), steps

    def read_all(
        self,
        sources: Sequence[str],
        targets: Sequence[Sequence[int]],
        role: str | None = None,
    ) -> list[Readings]:
        """Teacher-force given targets and return their attention readings, in order.

        `targets` are token ids without end of sentence. `role`: only attention of this role
        ("encoder", "decoder" or "cross"). Raises LineError for pairs so long that their weights
        would not fit into memory.
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
        limits = self.settings.search
        most = max(limits.max_whole, 2 * (limits.longest_source or 0))
        sizes = [
            max(len(source), len(target))
            for source, target in zip(rows, targets, strict=True)
        ]
        limit = (
            f"tokens, and a pair is read whole, up to {most:,} tokens; give its sentences in lines "
            "of their own"
        )
        LineError.raise_all(
            (index, f"has {size:,} {limit}")
            for index, size in enumerate(sizes)
            if size > most
        )

    def encode(self, text: str) -> list[int]:
        return [*self.tokenizer.source.encode(as_text(text)), EOS]

    def score(self, source: str, target: str | Sequence[int]) -> float:
        """Return the log-probability of a given target (text, or token ids), end of sentence
        included.

        Raises LineError for a pair that is too long for that.
        """
        vocabulary = self.tokenizer.target
        ids = (
            vocabulary.encode(target)
            if isinstance(target, str)
            else as_token_ids(target, vocabulary)
        )
        encoded = self.encode(source)
        self._check_pairs([encoded], [ids])
        return float(
            force_decode(self._model, [encoded], [ids], with_attention=False)[
                0
            ].log_probs.sum()
        )

    def align(self, readings: Readings) -> list[Link]:
        """Extract word links from readings, by the chosen layer and head. Raises UsageError without
        attention.
        """
        check_readings(readings)
        choice = self.choice or last_layer(readings)
        return extract_links(
            readings.words(choice.layer, choice.head, choice.shifted).weights,
            choice.symmetry,
        )

    def _segments(
        self,
        line: str,
        index: int,
        constraints: Constraints,
        settings: SearchSettings,
        notes: list[str],
    ) -> list[_Segment]:
        """Split a line into sentences, and those longer than any source in training further;
        tokenise each segment.

        The prefix is for the first segment; sentences of such a line stay together. A line with
        required terms stays whole, because nobody knows which segment they belong to. `notes` are
        added to. Raises LineError, with `index`, for what must stay whole and is too long for that.
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
            each = settings.splits_sentences and not constraints.prefix
            clauses = self.settings.search.line_clauses
            splitter = LineSplitter(
                lambda text: len(encode(code + text.rstrip())),
                longest or sys.maxsize,
                each,
                clauses,
            )
            parts = splitter.split(parts[0], notes)
        code_and_space = f"{code} " if code else ""
        segments = []
        for number, part in enumerate(parts):
            read = (code_and_space if number else code) + part.rstrip()
            ids = encode(read) if is_constrained or has_letters(part) else []
            if len(ids) > max(settings.max_whole, longest or 0) and (
                constraints.terms or longest is None
            ):
                why = (
                    "a line with terms"
                    if constraints.terms
                    else "this model, which does not know its longest source,"
                )
                raise LineError(
                    (index, whole_too_long(len(ids), settings.max_whole, why))
                )
            own = (
                replace(constraints, prefix="")
                if number and constraints.prefix
                else constraints
            )
            segments.append(_Segment(part if number else code + part, read, ids, own))
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
            (s, h)
            for s, ranked in zip(segments, hypotheses, strict=True)
            for h in ranked[:nbest]
        ]
        results = [
            self._translation(segment, hypothesis) for segment, hypothesis in pairs
        ]
        if wanted.alignments or wanted.readings:
            role = None if wanted.readings else "cross"
            read = self._read(
                [segment.ids for segment, _ in pairs], [h.ids for _, h in pairs], role
            )
            results = [
                replace(
                    result,
                    readings=item if wanted.readings else None,
                    alignments=tuple(self.align(item)) if wanted.alignments else None,
                )
                for result, item in zip(results, read, strict=True)
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
        """Join the translations of the segments of a line; an empty one has none."""
        code_words = int(
            bool(segments and self.tokenizer.source.language_code(segments[0].text))
        )
        joined = join_parts(
            parts, [segment.text for segment in segments], alignments, code_words
        )
        return replace(parts[0], parts=joined.parts) if len(parts) == 1 else joined

    def _segment_increments(
        self, segments: Sequence[_Segment], settings: SearchSettings, notes: list[str]
    ) -> Iterator[Iterable[str]]:
        """Yield what the streamed translation of each segment grows by; add to the notes."""
        for segment in segments[:WORD_BY_WORD]:
            if segment.ids:
                yield self._increments(segment, settings, notes)
            else:
                yield [self._copy(segment, 1, False).text]
        for start in range(WORD_BY_WORD, len(segments), STREAMED_TOGETHER):
            group = segments[start : start + STREAMED_TOGETHER]
            # A draw depends on the seed and the text alone, so a sample is the same alone and in a
            # group.
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
        """Yield what a streamed translation grows by: whole words, and at the end the rest."""
        request = self._segment_request(0, segment, settings)
        target = self.tokenizer.target
        yielded = ""
        ids: tuple[int, ...] = ()
        for ids in self.engine.stream(request, settings):
            words = target.word_indices(target.tokens(ids))
            whole = target.decode(ids[: words.index(words[-1])]) if words else ""
            if len(whole) > len(yielded) and whole.startswith(yielded):
                yield whole[len(yielded) :]
                yielded = whole
        if rest := target.decode(ids)[len(yielded) :]:
            yield rest
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
        vocabularies = (self.tokenizer.source, self.tokenizer.target)
        ids = (source, [*target, EOS])
        (source_tokens, source_words, source_texts), (tokens, words, texts) = map(
            read_side, vocabularies, ids
        )
        sides = (source_tokens, tokens, source_words, words)
        weights = forced.weights
        roles = forced.roles
        return Readings(
            *sides, weights, roles, source_texts, texts, scores=forced.scores
        )


def whole_too_long(tokens: int, max_whole: int, why: str) -> str:
    """Return what is said of a source of too many tokens that cannot be split, after its line
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
    """Return the best translation; if several were asked for, with all of them, without their
    readings.
    """
    best = translations[0]
    return (
        best
        if nbest == 1
        else replace(
            best, nbest=tuple(replace(item, readings=None) for item in translations)
        )
    )


def _all_notes(result: Translation) -> list[str]:
    """Return the notes on a segment, that on its repetition among them."""
    return [
        *([repetition_note(result.repetition)] if result.repetition else []),
        *result.notes,
    ]


@dataclass(frozen=True)
class _FolderDecoder(Decoder):
    """Decodes the lines of one call under the constraints of each; no constraints: none of them has
    any.
    """

    translator: FolderTranslator
    settings: SearchSettings
    constraints: Sequence[Constraints]
    wanted: Wanted

    @property
    def free(self) -> Sequence[bool]:
        return [item == NO_CONSTRAINTS for item in self.constraints]

    def __call__(self, request: Request) -> list[Translation]:
        each = [
            self.constraints[owner] if self.constraints else NO_CONSTRAINTS
            for owner in request.owners
        ]
        return self.translator._translate_lines(
            request, each, self.settings, self.wanted
        )
