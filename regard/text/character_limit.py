"""Translations of a limited number of characters: the best hypothesis of a beam that is short
enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from regard.common.arguments import WHOLE, describe
from regard.common.errors import UsageError
from regard.text.text_path import Path, PathRules, Wanted, marked
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
        if len(hypothesis.text) <= limit and is_complete:
            chosen = marked(line, hypothesis, rules, may_change=False)
            if not chosen.broken:
                return _with_rest(chosen, best)
    length = len(result.text)
    note = (
        f"the translation has {length} characters, and the limit is {limit}; none that the model "
        "offers is short enough and keeps what its line has; shorten it by hand, or give a larger "
        "`beam=`"
    )
    faults = [f"too long: {length} of {limit} characters", best.fault]
    fault = "; ".join(filter(None, faults))
    return replace(best, broken=True, fault=fault, notes=(*best.notes, note))


def _with_rest(chosen: Translation, best: Translation) -> Translation:
    """Return a chosen hypothesis with what it has in common with the best translation: notes on
    the line, its only part and its doubt.
    """
    # Notes on repetition and on what is broken come last, and are about the best one.
    about_line = best.notes[: len(best.notes) - bool(best.repetition) - best.broken]
    if chosen.is_complete != best.is_complete:
        about_line = ()
    source = " ".join(part.source for part in best.parts)
    doubtful = best.doubtful or chosen.doubtful
    part = TranslatedPart(source, chosen.text, chosen.score, doubtful, chosen.quality)
    return replace(
        chosen,
        parts=(part,),
        doubtful=doubtful,
        notes=tuple(dict.fromkeys((*about_line, *chosen.notes))),
        source_tokens=best.source_tokens,
    )
