"""Subtitles: SRT and WebVTT. Numbers, times, settings, notes and styles stay.

A sentence that runs over several cues is one text; its translation is divided among them in
proportion to their lengths, at the ends of words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain, pairwise

from regard.common.bilingual import text_width
from regard.common.counting import counted
from regard.common.errors import DataError
from regard.data.sentences import has_letters, has_spaces
from regard.documents.document import (
    Document,
    DocumentOptions,
    DocumentText,
    Edit,
    EditedText,
    Slot,
    is_blank,
)
from regard.documents.encoding import decode_file
from regard.text.markup.document import parse_markup
from regard.text.markup.tags import Bounds
from regard.text.text_format import TranslatedText

WIDTH = 42
"""Columns of a line, as broadcasters have it; a Korean or Chinese character takes two."""
_MOST_CUES = 6
"""Maximum number of cues that one sentence runs over."""
_TIME = r"(?:\d+:)?\d\d?:\d\d[.,]\d+"
_TIMING = re.compile(rf"[ \t]*({_TIME})[ \t]*-->[ \t]*{_TIME}")
_EXAMPLE = "00:00:01,500 --> 00:00:04,000"
_TAG = r"<[^<>]*>|\{\\[^{}]*\}"
_SPEAKER = re.compile(rf"\s*(?:{_TAG})*\s*(?:[-‐–—]|>>|&gt;&gt;)|\s*<v[\s.]")
"""Beginning of a line that another person says."""
_MOMENT = re.compile(r"\s*<[\d:.]+>\s*")
"""A time within a cue, from which on a part of it is shown or sung."""
_SPOKEN = re.compile(
    rf"(?:{_TAG}|&gt;&gt;|>>|[-‐–—♪♫#\s])*(.*?)(?:{_TAG}|[♪♫#\s])*\Z", re.DOTALL
)
"""The spoken text, without dashes, notes and tags around it."""
_SOUND = re.compile(r"\[[^\[\]]*\]|\([^()]*\)")
"""A sound, such as [music], that is a text by itself."""
_WORD = re.compile(rf"(?:{_TAG}|\S)+")
_ENDS = tuple('.!?…。！？:;"”»')
_CONTINUES = tuple(",，、")
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


@dataclass(frozen=True)
class _Piece:
    """Words of one person in a cue, up to a time within it: their bounds in the file, and their
    text on one line. `goes_on`: they follow such a time.
    """

    start: int
    end: int
    text: str
    cue: str
    lines: int
    is_marked: bool
    goes_on: bool


def _read(data: bytes, name: str, options: DocumentOptions, is_vtt: bool) -> Document:
    """Read SRT or WebVTT. Raises DataError for a wrong encoding, and for damaged times."""
    source = decode_file(data, name)
    newline = "\r\n" if "\r\n" in source.text else "\n"
    outside: list[tuple[int, str]] = []
    pieces = [*_pieces(source.text, is_vtt, outside)]
    numbered = [(source.line_of(start), line) for start, line in outside]
    DataError.raise_all(
        f"{name}, line {number}: wanted a time such as {_EXAMPLE}, got {line!r}; mend it"
        for number, line in numbered
        if "-->" in line and re.search(r"\d", line)
    )
    strays = [number for number, line in numbered if not is_vtt and has_letters(line)]
    if strays and not pieces:
        raise DataError(
            f"{name}, line {strays[0]}: stands in no cue, and no cue has a text; write a time such "
            f"as {_EXAMPLE} before it"
        )
    spoken = [piece for piece in pieces if not _SOUND.fullmatch(piece.text)]
    slots = [_slot(group, newline, is_vtt, options) for group in _sentences(spoken)]
    sounds = len(pieces) - len(spoken)
    stay = counted(sounds, "sound such as [music] stays", "sounds such as [music] stay")
    notes = [f"{stay} as written"] if sounds else []
    if strays:
        lines = counted(len(strays), "line is", "lines are")
        notes.append(
            f"{lines} in no cue, and not translated, such as line {strays[0]}; mend the times and "
            "the empty lines before"
        )
    return EditedText(source, slots, notes)


def _pieces(
    text: str, is_vtt: bool, outside: list[tuple[int, str]]
) -> Iterator[_Piece]:
    """Yield what is said in each cue; add the lines outside of cues, with their offsets, to a
    list.
    """
    cue = ""
    number = 0
    begun: list[Bounds] = []
    for match in re.finditer(r"[^\r\n]*(?:\r\n|\n|\r|\Z)", text):
        start = match.start()
        line = match[0].rstrip("\r\n")
        timing = _TIMING.match(line)
        if timing or not line.strip():
            yield from _pieces_of_cue(text, begun, cue, is_vtt)
            begun = []
            cue = ""
        if timing:
            number += 1
            cue = f"cue {number} ({timing[1]})"
        elif line.strip() and cue:
            begun.append((start, start + len(line)))
        elif line.strip():
            outside.append((start, line.strip()))


def _pieces_of_cue(
    text: str, lines: Sequence[Bounds], cue: str, is_vtt: bool
) -> Iterator[_Piece]:
    """Yield what each person says in a cue, without dashes and tags around it."""
    starts = [
        index
        for index, (start, end) in enumerate(lines)
        if index == 0 or _SPEAKER.match(text[start:end])
    ]
    for first, last in pairwise([*starts, len(lines)]):
        start, end = lines[first][0], lines[last - 1][1]
        raw = text[start:end]
        spoken = _SPOKEN.match(raw)
        assert spoken is not None, "all that is said may be empty"
        raw = spoken[1]
        start += spoken.start(1)
        moments = [match.span() for match in _MOMENT.finditer(raw)]
        bounds = [0, *chain.from_iterable(moments), len(raw)]
        for begin, stop in zip(bounds[::2], bounds[1::2], strict=True):
            part = raw[begin:stop]
            is_marked = bool(re.search(_TAG, part) or (is_vtt and "&" in part))
            if has_letters(part):
                yield _Piece(
                    start + begin,
                    start + stop,
                    " ".join(part.split()),
                    cue,
                    last - first,
                    is_marked,
                    goes_on=begin > 0,
                )


def _sentences(pieces: Iterable[_Piece]) -> list[list[_Piece]]:
    """Group the pieces that one sentence runs over."""
    groups = list[list[_Piece]]()
    for piece in pieces:
        if groups and _goes_on(groups[-1], piece):
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return groups


def _goes_on(group: Sequence[_Piece], piece: _Piece) -> bool:
    """Return whether a sentence goes on in a piece: one that has not ended before a small letter,
    and one that ends in a comma.
    """
    before = group[-1]
    if before.is_marked or piece.is_marked:
        return False
    if piece.goes_on:
        return True
    if len(group) >= _MOST_CUES or before.cue == piece.cue:
        return False
    is_begun = piece.text[0].islower() or before.text.endswith(_CONTINUES)
    return is_begun and not before.text.endswith(_ENDS)


def _slot(
    pieces: Sequence[_Piece],
    newline: str,
    is_vtt: bool,
    options: DocumentOptions,
) -> Slot:
    """Return the text of one sentence or cue, and how its translation is written."""
    first = pieces[0]
    markup = None
    joined = _join([piece.text for piece in pieces])
    if first.is_marked:
        markup = parse_markup(joined, "html", options.markup)

    def edits(translation: TranslatedText) -> Iterator[Edit]:
        # A cue that shows nothing is none to some players.
        if translation.text == joined or is_blank(translation):
            return
        shares = [text_width(piece.text) for piece in pieces]
        for piece, part in zip(pieces, divide(translation.text, shares), strict=True):
            escaped = part.translate(_ESCAPES) if is_vtt and markup is None else part
            lines = wrap(escaped, max(2, piece.lines))
            yield Edit(piece.start, piece.end, newline.join(lines))

    return Slot(DocumentText(joined, first.cue, markup=markup), edits)


def _join(texts: Sequence[str]) -> str:
    joined = texts[0]
    for text in texts[1:]:
        joined += (" " if has_spaces(joined[-1], text[0]) else "") + text
    return joined


def divide(text: str, shares: Sequence[int]) -> list[str]:
    """Divide a text at the ends of words in proportion to shares, no part empty if there are words
    enough; a text without spaces is divided between characters.
    """
    if len(shares) == 1:
        return [text]
    words = _WORD.findall(text)
    glue = " "
    if len(words) < len(shares):
        words = [*text.replace(" ", "\u00a0")]
        glue = ""
    if not words:
        return ["…"] * len(shares)
    ends = [*accumulate(text_width(word) + len(glue) for word in words)]
    total = sum(shares)
    parts = list[str]()
    start = 0
    for number, share in enumerate(accumulate(shares), 1):
        wanted = share * ends[-1] / total
        stop = min(
            range(start + 1, max(start + 2, len(words) - len(shares) + number + 1)),
            key=lambda stop: abs(ends[min(stop, len(words)) - 1] - wanted),
        )
        stop = len(words) if number == len(shares) else stop
        parts.append(glue.join(words[start:stop]).replace("\u00a0", " ").strip() or "…")
        start = stop
    return parts


def wrap(text: str, most: int) -> list[str]:
    """Divide a text into at most so many lines of about equal length, one if it is short."""
    count = min(most, -(-text_width(re.sub(_TAG, "", text)) // WIDTH))
    if count < 2 or " " not in text.strip():
        return [text]
    return divide(text, [1] * count)


read_srt = partial(_read, is_vtt=False)
read_vtt = partial(_read, is_vtt=True)
