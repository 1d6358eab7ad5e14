"""Tables as people have them, drawn with a seed, whose right columns are known."""

from __future__ import annotations

import csv
import random
from dataclasses import dataclass
from pathlib import Path

NAMES = {
    "en": [
        "English",
        "en",
        "EN",
        "en-GB",
        "Englisch",
        "anglais",
        "영어",
        "jendźelšćina",
        "Saesneg",
    ],
    "hsb": [
        "Upper Sorbian",
        "hsb",
        "HSB",
        "hornjoserbšćina",
        "Obersorbisch",
        "górnołużycki",
    ],
    "cy": ["Welsh", "cy", "Cymraeg", "Walisisch", "gallois", "웨일스어"],
    "ga": ["Irish", "ga", "Gaeilge", "Irisch", "irlandés"],
    "eu": ["Basque", "eu", "euskara", "Baskisch"],
    "gd": ["Scottish Gaelic", "gd", "Gàidhlig", "gälisch"],
    "ko": ["Korean", "ko", "한국어", "Koreanisch", "coréen"],
    "de": ["German", "de", "Deutsch", "de_DE", "němčina", "독일어"],
    "nah": ["Nahuatl", "nah"],
    "kl": ["Kalaallisut", "kl", "kalaallisut"],
}
"""Names and codes of languages, in several languages, written by hand."""
LETTERS = {"ko": "가나다라마바사아자차카타파하", "de": "abdefghiklmnorstuäöüß"}
FORMS = ["{}", "{}", "{}", "{}", "{} text", "{} translation", "Text ({})"]
SIDES = [
    ("source", "target"),
    ("Source", "Translation"),
    ("src", "tgt"),
    ("text", "translation"),
]
KINDS = (
    "key",
    "dotted",
    "number",
    "id",
    "date",
    "time",
    "url",
    "comment",
    "status",
    "empty",
)
HEADERS = {
    "key": ["key", "Key", "string key"],
    "dotted": ["key", "identifier", "msg_key"],
    "number": ["", "#", "no", "Nr.", "index", "id"],
    "id": ["id", "ID", "uuid", "segment id"],
    "date": ["date", "created", "Datum", "last modified"],
    "time": ["time", "created time"],
    "url": ["url", "link"],
    "comment": [
        "comment",
        "Comments",
        "note",
        "Kommentar",
        "context",
        "translator comment",
    ],
    "status": ["status", "state", "approved"],
    "empty": ["", "note", "comment"],
}


@dataclass(frozen=True)
class MadeUp:
    """A table: its file, the columns of source and target, their languages, and its pairs."""

    path: Path
    columns: tuple[int, int]
    languages: tuple[str, str]
    pairs: list[tuple[str, str]]


def make_table(folder: Path, seed: int) -> MadeUp:
    """Write a table into the folder."""
    draw = random.Random(seed)
    source, target = draw.sample(sorted(NAMES), 2)
    has_header = draw.random() < 0.75
    count = draw.choice([12, 30, 100, 400])
    kinds = [draw.choice(KINDS) for _ in range(draw.choice([0, 1, 1, 2, 3]))]
    if (
        not has_header
    ):  # nothing tells a comment or a status without a name from a sentence
        kinds = [kind for kind in kinds if kind not in ("comment", "status")]
    columns: list[str] = [*kinds, "source", "target"]
    draw.shuffle(columns)
    languages = ("", "")
    titles = {"source": "", "target": ""}
    if draw.random() < 0.8:
        form = draw.choice(FORMS)
        titles["source"] = form.format(draw.choice(NAMES[source]))
        titles["target"] = form.format(draw.choice(NAMES[target]))
        languages = (source, target)
    else:
        titles["source"], titles["target"] = draw.choice(SIDES)
    by_side = not languages[0]
    places = (columns.index("source"), columns.index("target"))
    if not by_side or not has_header:
        places = (min(places), max(places))
        if columns.index("source") > columns.index("target"):
            languages = languages[::-1]
    if not has_header:
        languages = ("", "")

    rows = []
    for number in range(count):
        cells = {
            "source": _sentence(draw, source),
            "target": _sentence(draw, target),
        }
        rows.append([cells.get(kind) or _cell(draw, kind, number) for kind in columns])
    header = [titles.get(kind) or draw.choice(HEADERS[kind]) for kind in columns]
    delimiter, ending = draw.choice(
        [(",", ".csv"), (";", ".csv"), ("\t", ".tsv"), ("\t", ".txt"), (";", ".txt")]
    )
    quoting = draw.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    path = folder / f"table{seed}{ending}"
    with path.open(
        "w", encoding=draw.choice(["utf-8", "utf-8-sig"]), newline=""
    ) as file:
        writer = csv.writer(
            file,
            delimiter=delimiter,
            quoting=quoting,
            lineterminator=draw.choice(["\n", "\r\n"]),
        )
        writer.writerows([header, *rows] if has_header else rows)
    pairs = [(row[places[0]], row[places[1]]) for row in rows]
    return MadeUp(path, places, languages, pairs)


def _sentence(draw: random.Random, language: str) -> str:
    letters = LETTERS.get(language, "abcdefghiklmnoprstuwyéô")
    words = [
        "".join(draw.choices(letters, k=draw.randint(2, 8)))
        for _ in range(draw.randint(1, 9))
    ]
    text = " ".join(words)
    end = draw.choice(
        ["", ".", "?", "!", ", " + words[0], "; " + words[0], ' "' + words[0] + '"']
    )
    return text[0].upper() + text[1:] + end


def _cell(draw: random.Random, kind: str, number: int) -> str:
    word = "".join(draw.choices("abcdefgh", k=5))
    if kind == "key":
        return draw.choice(
            [f"{word}_{number}", f"{word}.{word}", f"{word}Title", f"{word}-{word}"]
        )
    if kind == "dotted":
        return f"app.{word}.{draw.choice(['title', 'text', 'error2'])}"
    if kind == "number":
        return str(number + 1)
    if kind == "id":
        return draw.choice(
            [f"{draw.getrandbits(64):016x}", f"TU{number:05}", f"{number}-{word}"]
        )
    if kind == "date":
        return draw.choice(
            [
                f"2026-11-{number % 28 + 1:02}",
                f"{number % 28 + 1}.11.2026",
                f"11/{number % 28 + 1}/2026 10:30",
            ]
        )
    if kind == "time":
        return f"{number % 24:02}:{number % 60:02}:17"
    if kind == "url":
        return f"https://example.org/{word}?id={number}"
    if kind == "comment":
        return draw.choice(
            ["", "", f"see {word} on the {word} page", "Button in the toolbar"]
        )
    if kind == "status":
        return draw.choice(["done", "open", "needs review"])
    return ""
