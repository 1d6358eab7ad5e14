"""Translations of a limited number of characters: the best hypothesis of a beam that is short
enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from regard.common.arguments import WHOLE, describe
from regard.common.errors import UsageError, repetition_note
from regard.data.spans import spans_note
from regard.text.text_path import Path, PathRules, Wanted
from regard.text.translation import TranslatedPart, Translation


def check_limit(limit: object, wanted: Wanted, sample: object) -> None:
    """Raise UsageError unless a limit is a number of characters, and goes with the other options
    of a call.
    """
    causes = list[str]()
    if not (WHOLE.holds(limit) and isinstance(limit, int) and limit >= 1):
        got = limit if WHOLE.holds(limit) else describe(limit)
        causes.append(f"`max_characters=`: wanted 1 or more characters, got {got}")
    others = {
        "nbest": wanted.nbest != 1,
        "alignments": wanted.alignments,
        "readings": wanted.readings,
        "sample": sample,
    }
    causes += [
        f"`max_characters=` and `{name}=`: a limit chooses the one best translation of a beam; "
        "leave one out"
        for name, is_wanted in others.items()
        if is_wanted
    ]
    UsageError.raise_all(causes)


def limited_path(
    path: Path[list[Translation]], lines: Sequence[str], rules: PathRules, limit: int
) -> Path[list[Translation]]:
    """Translate lines by a path whose decoder returns all hypotheses of the beam, and choose of
    each line the best with at most `limit` characters.
    """
    translations = yield from path
    return [
        _within(result, line, rules, limit)
        for line, result in zip(lines, translations, strict=True)
    ]


def _within(
    result: Translation, line: str, rules: PathRules, limit: int
) -> Translation:
    """Return the best hypothesis that is short enough and keeps the contract of its line, or else
    the best translation, marked.
    """
    best = replace(result, nbest=())
    if len(result.text) <= limit:
        return best
    for hypothesis in result.nbest:
        is_complete = hypothesis.is_complete or not result.is_complete
        is_short = len(hypothesis.text) <= limit
        if is_short and is_complete and _keeps(line, hypothesis.text, rules):
            return _chosen(hypothesis, best, line, rules)
    note = (
        f"the translation has {len(result.text)} characters, and the limit is {limit}: no "
        "hypothesis of the beam is short enough and keeps what its line has; widen the beam, or "
        "shorten it by hand"
    )
    return replace(best, broken=True, notes=(*best.notes, note))


def _keeps(line: str, text: str, rules: PathRules) -> bool:
    """Return whether a translation has the spans of its line, and keeps the contract of its
    dialect.
    """
    if spans_note(line, text, rules.user_patterns) is not None:
        return False
    if not rules.dialect:
        return True
    # Imported late, since most texts are no strings of programs.
    from regard.text.contracts import breaches

    return not breaches(line, text, rules.dialect)


def _chosen(
    hypothesis: Translation, best: Translation, line: str, rules: PathRules
) -> Translation:
    """Return a hypothesis as the translation of its line, without the notes that are about the
    best one.
    """
    part = TranslatedPart(
        line.strip(), hypothesis.text, hypothesis.score, best.doubtful
    )
    outdated = {spans_note(line, best.text, rules.user_patterns)}
    if best.repetition:
        outdated.add(repetition_note(best.repetition))
    notes = [note for note in best.notes if note not in outdated]
    if best.broken:
        notes = notes[:-1]  # the last says what the best translation breaks
    if hypothesis.repetition:
        notes.append(repetition_note(hypothesis.repetition))
    return replace(
        hypothesis,
        parts=(part,),
        doubtful=best.doubtful,
        notes=tuple(notes),
        source_tokens=best.source_tokens,
    )
