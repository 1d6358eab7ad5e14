"""Translator: raw text to translated text, with attention readings, alignments, streaming and a search trace."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import islice

from typing_extensions import Unpack

from regard.attention.alignment import Link, Readings, extract_links
from regard.attention.recorder import check_role
from regard.common.arguments import FLAG, problems_of_types
from regard.common.errors import LineError, UsageError
from regard.data.casing import CaseReader
from regard.data.given_words import given_words
from regard.data.sentences import has_letters, has_spaces
from regard.data.text import clean, too_long
from regard.data.vocabulary import EOS
from regard.pipeline.around_spans import Keep, checked_keep, translate_around_spans
from regard.pipeline.base import BasePipeline, read_side
from regard.pipeline.doubts import Doubts
from regard.pipeline.line_splitter import LineSplitter
from regard.pipeline.translation import (
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
from regard.runtime.engine import DecodeRequest
from regard.search import NO_CONSTRAINTS, Constraints, Hypothesis, SearchOptions, SearchSettings, is_complete
from regard.search.forced_decoding import ForcedDecoding, force_decode
from regard.search.sampling import source_key
from regard.search.search_steps import SearchStep

WORD_BY_WORD = 8
"""Parts of a split line that are streamed word by word. Further ones follow part by part: nobody reads so quickly."""
STREAMED_TOGETHER = 64
"""Parts decoded at once, and then streamed part by part: a batch takes a fraction of the time of its parts alone."""


@dataclass(frozen=True)
class _Segment:
    """A sentence of a line, a part of a long one, or a whole line.

    It is decoded as one source, tokenised once: `ids` end with EOS. Without ids it has no letters, and is copied.
    `text`: as it is in the line, with the space behind it. `read`: what is tokenised, after a language code if any.
    """

    text: str
    read: str
    ids: list[int]
    constraints: Constraints


class Translator(BasePipeline):
    """Translates raw text: `regard.load(folder).translate("나는 집에 간다")`."""

    def translate(
        self,
        texts: str | Sequence[str],
        *,
        nbest: int = 1,
        alignments: bool = False,
        readings: bool = False,
        constraints: Constraints | Sequence[Constraints] = NO_CONSTRAINTS,
        keep: Keep = True,
        **search: Unpack[SearchOptions],
    ) -> list[Translation]:
        """Translate a line or several: one translation for each line, in order. Empty lines stay empty.

        `constraints` hold for all lines, or there is one for each. `search` overrides the model folder's search
        settings. `readings` and `alignments` come from teacher forcing the token ids that were found, whatever the
        search was. `keep`: placeholders, addresses, code and emoji come back unchanged, and what a given list of RE2's
        patterns matches, in lines without constraints, if neither nbest, alignments nor readings are asked for. Raises
        UsageError, with all causes, for options that contradict each other or the model.
        """
        lines = as_texts(texts)
        UsageError.raise_all(problems_of_types(FLAG, {"alignments": alignments, "readings": readings}))
        settings = self._search_settings(nbest, search)
        self.engine.evaluate()
        each = self._per_source(constraints, len(lines), settings, "line")
        _check_lengths(lines, settings)

        def translate(chosen: Sequence[str], owners: Sequence[int], links: bool) -> list[Translation]:
            wants_links = alignments or (links and bool(self.cross_attention()))
            own = [each[owner] for owner in owners]
            return self._translate_lines(chosen, owners, own, settings, (nbest, wants_links, readings))

        free = [item == NO_CONSTRAINTS for item in each]
        keep = checked_keep(keep, nbest == 1 and not (alignments or readings), free)
        return translate_around_spans(lines, translate, keep, free, self.tokenizer.copies, self.case_reader)

    def _translate_lines(
        self,
        lines: Sequence[str],
        owners: Sequence[int],
        each: Sequence[Constraints],
        settings: SearchSettings,
        wanted: tuple[int, bool, bool],
    ) -> list[Translation]:
        """Translate lines. `owners`: their numbers for messages; `wanted`: nbest, alignments, readings."""
        nbest, alignments, readings = wanted
        per_line = zip(lines, owners, each, strict=True)
        split = [self._segments(line, owner, item, settings) for line, owner, item in per_line]
        segments = [segment for parts in split for segment in parts if segment.ids]
        requests = [self._segment_request(index, segment, settings) for index, segment in enumerate(segments)]
        hypotheses = self._decode(requests, settings)
        parts = iter(self._translations(segments, hypotheses, nbest, alignments, readings))
        best = iter(hypotheses)
        results = list[Translation]()
        for index, line_segments in zip(owners, split, strict=True):
            line_parts = []
            for segment in line_segments:
                part = next(parts) if segment.ids else self._copy(segment, nbest, alignments)
                if segment.ids:
                    self._warn(index, None, next(best)[0], segment.constraints, "translation")
                line_parts.append(part)
            joined = self._join(line_segments, line_parts, alignments)
            if alignments:
                joined = joined.with_given_words(given_words(lines[len(results)]))
            results.append(joined.with_doubts(self.doubts, settings.score_threshold))
        return results

    def stream(
        self, text: str, constraints: Constraints = NO_CONSTRAINTS, **search: Unpack[SearchOptions]
    ) -> Iterator[str]:
        """Yield the translation of a line as it is decoded, greedily or, with `sample=True`, sampled; word by word.

        Joined, the yielded texts are the translation with a beam of 1. If a line is split into more than
        `WORD_BY_WORD` parts, the further ones are yielded part by part.
        """
        greedy: SearchOptions = {"beam": 1, "groups": 1, "mbr": False, "coverage_penalty": 0.0}
        settings = self._search_settings(1, {**search, **greedy})
        self.engine.evaluate()
        (checked,) = self._per_source(constraints, 1, settings, "line")
        _check_lengths([as_text(text)], settings)
        segments, last = self._segments(text, 0, checked, settings), ""
        stream = self._segment_increments(segments, settings)
        for before, increments in zip(("", *(segment.text for segment in segments)), stream, strict=False):
            for number, increment in enumerate(increments):
                is_next = number == 0 and last and (before.endswith(" ") or has_spaces(last[-1], increment[0]))
                yield f" {increment}" if is_next else increment
                last = increment

    def trace(
        self, text: str, constraints: Constraints = NO_CONSTRAINTS, **search: Unpack[SearchOptions]
    ) -> tuple[Translation, list[SearchStep]]:
        """Translate a line as `translate(text, readings=True)` does, and record every step of its search.

        Raises UsageError for a line without letters, and for one that is split.
        """
        settings = self._search_settings(1, search)
        self.engine.evaluate()
        (checked,) = self._per_source(constraints, 1, settings, "line")
        _check_lengths([as_text(text)], settings)
        segments = self._segments(text, 0, checked, settings)
        if len(segments) > 1:
            raise UsageError(SPLIT)
        if not segments or not segments[0].ids:
            raise UsageError("the line is empty, or has no letters; give a line of text")
        (segment,) = segments
        request = self._segment_request(0, segment, settings)
        candidates, steps = self.engine.trace(request, settings)
        hypotheses = self._rerank(request.source, candidates, settings)
        (translation,) = self._translations(segments, [hypotheses], 1, False, True)
        self._warn(0, translation.repetition, hypotheses[0], segment.constraints, "translation")
        return self._join(segments, [translation], False).with_doubts(self.doubts, settings.score_threshold), steps

    def read_all(
        self, sources: Sequence[str], targets: Sequence[Sequence[int]], role: str | None = None
    ) -> list[Readings]:
        """Teacher-force given targets and return their attention readings, in order.

        `targets` are token ids without end of sentence. `role`: only attention of this role ("encoder", "decoder" or
        "cross"). Raises LineError for pairs so long that their weights would not fit into memory.
        """
        check_role(role)
        rows = [self.encode(source) for source in as_texts(sources)]
        targets = as_rows_of_ids(targets, self.tokenizer.target)
        if len(rows) != len(targets):
            raise UsageError(f"`targets=`: got {len(targets)} for {len(rows)} sources; give one for each")
        self._check_pairs(rows, targets)
        return self._read(rows, targets, role)

    def _check_pairs(self, rows: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> None:
        """Raise LineError for pairs so long that their weights would not fit into memory."""
        limits = self.settings.search
        most = max(limits.max_whole, 2 * (limits.longest_source or 0))
        sizes = [max(len(source), len(target)) for source, target in zip(rows, targets, strict=True)]
        limit = f"tokens, and a pair is read whole, up to {most:,} tokens; give its sentences in lines of their own"
        LineError.raise_all((index, f"has {size:,} {limit}") for index, size in enumerate(sizes) if size > most)

    @cached_property
    def case_reader(self) -> CaseReader:
        """Reads lines in capitals, by the rules of the model's languages."""
        return CaseReader(self.settings.languages.pair, self.tokenizer.source.encode)

    @cached_property
    def doubts(self) -> Doubts:
        """Tells which sentences the model has not learnt."""
        return Doubts(self.tokenizer.source.encode, self.tokenizer.source.tokens, self.settings.familiar)

    def encode(self, text: str) -> list[int]:
        """Tokenise a line as the model reads it: token ids, end of sentence last."""
        return [*self.tokenizer.source.encode(as_text(text)), EOS]

    def score(self, source: str, target: str | Sequence[int]) -> float:
        """Return the log-probability of a given target (text, or token ids), end of sentence included.

        Raises LineError for a pair that is too long for that.
        """
        vocabulary = self.tokenizer.target
        ids = vocabulary.encode(target) if isinstance(target, str) else as_token_ids(target, vocabulary)
        encoded = self.encode(source)
        self._check_pairs([encoded], [ids])
        return float(force_decode(self._model, [encoded], [ids], with_attention=False)[0].log_probs.sum())

    def align(self, readings: Readings) -> list[Link]:
        """Extract word links from readings, by the chosen layer and head. Raises UsageError without attention."""
        check_readings(readings)
        choice = self.choice or last_layer(readings)
        return extract_links(readings.words(choice.layer, choice.head, choice.shifted).weights, choice.symmetry)

    def _segments(self, line: str, index: int, constraints: Constraints, settings: SearchSettings) -> list[_Segment]:
        """Split a line into sentences, and those longer than any source in training further; tokenise each segment.

        The prefix is for the first segment; sentences of such a line stay together. A line with required terms stays
        whole, because nobody knows which segment they belong to. `index` is for warnings. Raises LineError for what
        must stay whole and is too long for that.
        """
        line, longest = clean(line), self.settings.search.longest_source
        if not line:
            return []
        code, encode = self.tokenizer.source.language_code(line), cache(self.encode)
        parts, is_constrained = [line.removeprefix(code)], bool(constraints.terms or constraints.prefix)
        if not constraints.terms:
            each = settings.splits_sentences and not constraints.prefix
            clauses = self.settings.search.line_clauses
            splitter = LineSplitter(
                lambda text: len(encode(code + text.rstrip())), longest or sys.maxsize, each, clauses
            )
            parts = splitter.split(parts[0], index)
        code_and_space = f"{code} " if code else ""
        segments = []
        for number, part in enumerate(parts):
            read = (code_and_space if number else code) + part.rstrip()
            ids = encode(read) if is_constrained or has_letters(part) else []
            if len(ids) > max(settings.max_whole, longest or 0) and (constraints.terms or longest is None):
                why = (
                    "a line with terms" if constraints.terms else "this model, which does not know its longest source,"
                )
                raise LineError((index, whole_too_long(len(ids), settings.max_whole, why)))
            own = replace(constraints, prefix="") if number and constraints.prefix else constraints
            segments.append(_Segment(part if number else code + part, read, ids, own))
        return segments

    def _segment_request(self, index: int, segment: _Segment, settings: SearchSettings) -> DecodeRequest:
        key = source_key(segment.ids) if settings.sample else 0
        return self._request(index, segment.ids, key, segment.constraints, settings)

    def _translations(
        self,
        segments: Sequence[_Segment],
        hypotheses: Sequence[list[Hypothesis]],
        nbest: int,
        alignments: bool,
        readings: bool,
    ) -> list[Translation]:
        """Return the translation of each segment from its hypotheses, best first."""
        pairs = [(s.ids, h) for s, ranked in zip(segments, hypotheses, strict=True) for h in ranked[:nbest]]
        results = [self._translation(source, hypothesis) for source, hypothesis in pairs]
        if alignments or readings:
            read = self._read([ids for ids, _ in pairs], [h.ids for _, h in pairs], None if readings else "cross")
            results = [
                replace(
                    result,
                    readings=item if readings else None,
                    alignments=tuple(self.align(item)) if alignments else None,
                )
                for result, item in zip(results, read, strict=True)
            ]
        stream = iter(results)
        return [_with_nbest(list(islice(stream, len(ranked[:nbest]))), nbest) for ranked in hypotheses]

    def _translation(self, source: Sequence[int], hypothesis: Hypothesis) -> Translation:
        target, ids = self.tokenizer.target, hypothesis.ids
        repetition = self._repetition(ids, source)
        text, tokens, own = target.decode(ids), tuple(target.tokens(ids)), hypothesis.complete
        return Translation(text, tokens, hypothesis.score, repetition=repetition, is_complete=own)

    def _copy(self, segment: _Segment, nbest: int, alignments: bool) -> Translation:
        """Return a segment without letters as its own translation."""
        code = self.tokenizer.source.language_code(segment.read)
        text, first = segment.text.removeprefix(code).strip(), int(bool(code))
        links = tuple((first + word, word) for word in range(len(text.split(" "))))
        copy = Translation(text, (), 0.0, links if alignments else None)
        return copy if nbest == 1 else replace(copy, nbest=(copy,))

    def _join(self, segments: Sequence[_Segment], parts: Sequence[Translation], alignments: bool) -> Translation:
        """Join the translations of the segments of a line; an empty one has none."""
        code_words = int(bool(segments and self.tokenizer.source.language_code(segments[0].text)))
        joined = join_parts(parts, [segment.text for segment in segments], alignments, code_words)
        return replace(parts[0], parts=joined.parts) if len(parts) == 1 else joined

    def _segment_increments(self, segments: Sequence[_Segment], settings: SearchSettings) -> Iterator[Iterable[str]]:
        """Yield what the streamed translation of each segment grows by."""
        for segment in segments[:WORD_BY_WORD]:
            if segment.ids:
                yield self._increments(self._segment_request(0, segment, settings), settings, segment.constraints)
            else:
                yield [self._copy(segment, 1, False).text]
        for start in range(WORD_BY_WORD, len(segments), STREAMED_TOGETHER):
            group = segments[start : start + STREAMED_TOGETHER]
            # A draw depends on the seed and the text alone, so a sample is the same alone and in a group.
            requests = [
                self._segment_request(index, segment, settings) for index, segment in enumerate(group) if segment.ids
            ]
            decoded = iter(self.engine.decode(requests, settings))
            for segment in group:
                if segment.ids:
                    best = next(decoded)[0]
                    result = self._translation(segment.ids, best)
                    self._warn(0, result.repetition, best, segment.constraints, "translation")
                else:
                    result = self._copy(segment, 1, False)
                yield [result.text]

    def _increments(self, request: DecodeRequest, settings: SearchSettings, constraints: Constraints) -> Iterator[str]:
        """Yield what a streamed translation grows by: whole words, and at the end the rest."""
        target, yielded = self.tokenizer.target, ""
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
        self._warn(0, self._repetition(ids, request.source_ids), best, constraints, "translation")

    def _read(
        self, sources: Sequence[list[int]], targets: Sequence[Sequence[int]], role: str | None = None
    ) -> list[Readings]:
        forced = force_decode(self._model, sources, targets, role=role)
        return [self._readings(*item) for item in zip(sources, targets, forced, strict=True)]

    def _readings(self, source: Sequence[int], target: Sequence[int], forced: ForcedDecoding) -> Readings:
        vocabularies, ids = (self.tokenizer.source, self.tokenizer.target), (source, [*target, EOS])
        (source_tokens, source_words, source_texts), (tokens, words, texts) = map(read_side, vocabularies, ids)
        sides, weights, roles = (source_tokens, tokens, source_words, words), forced.weights, forced.roles
        return Readings(*sides, weights, roles, source_texts, texts, scores=forced.scores)


def whole_too_long(tokens: int, max_whole: int, why: str) -> str:
    """Return what is said of a source of too many tokens that cannot be split, after its line number."""
    return (
        f"has {tokens:,} tokens, and {why} is translated whole, up to {max_whole:,} tokens; give its sentences in "
        "lines of their own, or raise that limit (`max_whole`)"
    )


def _check_lengths(lines: Sequence[str], settings: SearchSettings) -> None:
    """Raise LineError for lines of more characters than are allowed."""
    long = (index for index, line in enumerate(lines) if len(line) > settings.max_line)
    LineError.raise_all((index, too_long(settings.max_line)) for index in long)


def _with_nbest(translations: list[Translation], nbest: int) -> Translation:
    """Return the best translation; if several were asked for, with all of them, without their readings."""
    best = translations[0]
    return best if nbest == 1 else replace(best, nbest=tuple(replace(item, readings=None) for item in translations))
