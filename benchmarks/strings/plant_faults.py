"""Plant faults into translations, and count those that the judge speaks of.

    python benchmarks/strings/plant_faults.py [--faults 1000] [--seed 1] [--edits] [--missed]

The translations are those by hand, and for all other strings the text itself with its words
changed. A fault is planted by its characters, from the spans that strings.jsonl lists: nothing is
shared with the judge. Printed are the faults planted and found, by kind; `--missed` prints the
others, and translations without a fault of which the judge speaks all the same. `--edits` plants
edits of one character in a span instead, of which some are harmless (a space behind a brace).
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

LINES = Path(__file__).parent / "strings.jsonl"
FREE = {"''", "&", "#"}
"""Spans whose number may change, or whose characters occur elsewhere, too."""
OTHERS = {
    "c": "%7$s",
    "java": "%7$s",
    "android": "%7$s",
    "html": "<u>",
    "xml": "<u>",
    "icu": "{other}",
    "dotnet": "{other}",
    "python-brace": "{other}",
    "fluent": "{ $other }",
    "i18next": "{{other}}",
}
"""Spans that no string of a dialect has."""
WORD = re.compile(r"[A-Za-z]{2,}")
Plant = Callable[[random.Random, str, dict[str, Any]], str]


def bare(span: str) -> str:
    """Return a span without the mark of a number."""
    return span[1:] if span[0] == "~" and span[1:2].isdigit() else span


def change_words(text: str, spans: list[str]) -> str:
    """Return a text with other words in place of its own, its spans and keys as they are."""
    kept = [False] * len(text)
    for span in [*spans, "{count", "plural", "select", "choice"]:
        for match in re.finditer(re.escape(bare(span)), text):
            kept[match.start() : match.end()] = [True] * len(match[0])

    def change(match: re.Match[str]) -> str:
        word = match[0]
        before, after = text[: match.start()].rstrip(), text[match.end() :].lstrip()
        is_key = before.endswith(tuple("{[$\\%=@")) or after.startswith(
            tuple("{,]|=(\\}:`>/")
        )
        if kept[match.start()] or is_key or "_" in after[:1]:
            return word
        other = word[1:] + word[0]
        if other.lower() == word.lower():
            other = word + "on"
        return other.capitalize() if word[0].isupper() else other.lower()

    return WORD.sub(change, text)


def _place(draw: random.Random, text: str, span: str) -> int:
    """Return where one of the occurrences of a span begins."""
    return draw.choice([m.start() for m in re.finditer(re.escape(span), text)])


def _span(draw: random.Random, text: str, line: dict[str, Any]) -> str:
    """Return one of the spans that the text has, or nothing."""
    spans = (bare(span) for span in line["spans"] if span not in FREE)
    return draw.choice([span for span in spans if span in text] or [""])


def drop(draw: random.Random, text: str, line: dict[str, Any]) -> str:
    """Leave a span out."""
    if not (span := _span(draw, text, line)):
        return text
    start = _place(draw, text, span)
    return text[:start].rstrip() + " " + text[start + len(span) :].lstrip()


def double(draw: random.Random, text: str, line: dict[str, Any]) -> str:
    """Write a span a second time."""
    if not (span := _span(draw, text, line)):
        return text
    start = _place(draw, text, span) + len(span)
    return f"{text[:start]} {span}{text[start:]}"


def alter(draw: random.Random, text: str, line: dict[str, Any]) -> str:
    """Change a letter or a digit in a span."""
    if not (span := _span(draw, text, line)):
        return text
    places = [place for place, letter in enumerate(span) if letter.isalnum()]
    if not places:
        return text
    place = draw.choice(places)
    other = draw.choice(sorted({*"2479"} if span[place].isdigit() else {*"kqxy"}))
    start = _place(draw, text, span)
    changed = span[:place] + other + span[place + 1 :]
    return text[:start] + changed + text[start + len(span) :]


def cut(draw: random.Random, text: str, line: dict[str, Any]) -> str:
    """Leave a sign at the beginning or the end of a span out."""
    span = _span(draw, text, line)
    if len(span) < 3 or span[0].isalnum():
        return text
    start = _place(draw, text, span)
    end = start + len(span)
    changed = span[1:] if draw.random() < 0.5 or span[-1].isalnum() else span[:-1]
    return text[:start] + changed + text[end:]


def split(draw: random.Random, text: str, line: dict[str, Any]) -> str:
    """Write a space behind the first sign of a span."""
    span = _span(draw, text, line)
    if len(span) < 2 or span[0] in "{[" or span[0].isalnum() or span[1] == " ":
        return text
    start = _place(draw, text, span)
    return f"{text[: start + 1]} {text[start + 1 :]}"


def glue(draw: random.Random, text: str, line: dict[str, Any]) -> str:
    """Leave the space between a span and a word out."""
    span = _span(draw, text, line)
    if not span or span[0] in "\\#@+~/":
        return text
    start = _place(draw, text, span)
    end = start + len(span)
    if text[end : end + 1] == " " and re.match("[A-Za-zäöü]", text[end + 1 : end + 2]):
        return text[:end] + text[end + 1 :]
    return text


def swap(_draw: random.Random, text: str, line: dict[str, Any]) -> str:
    """Exchange a closing span with the opening span before it."""
    for one, other in zip(line["spans"], line["spans"][1:], strict=False):
        is_pair = (
            re.match(r"<[^/]*>$|\{[a-z=#0-9]+\}$|\[[a-z]", one) and "/" in other[:2]
        )
        if is_pair and text.count(one) == text.count(other) == 1:
            start, end = text.index(one), text.index(other)
            if start < end:
                middle = text[start + len(one) : end]
                return text[:start] + other + middle + one + text[end + len(other) :]
    return text


def drop_closing(draw: random.Random, text: str, line: dict[str, Any]) -> str:
    """Leave a closing span out."""
    closing = [span for span in line["spans"] if re.match(r"[<\[{]{1,2}/", span)]
    return text.replace(draw.choice(closing), "", 1) if closing else text


def drop_branch(draw: random.Random, text: str, _line: dict[str, Any]) -> str:
    """Leave a branch of a nested message out, or its last brace."""
    if draw.random() < 0.3:
        return text[: text.rindex("}")] if ", plural," in text else text
    branches = (
        r"(?:girl|mother|father|=\d|other) \{[^{}]*\} ?",
        r"\|1#[^|]*",
        r"\*\[other\][^{}]*(?:\{[^{}]*\})?[^{}]*",
    )
    pattern = "|".join(branches)
    match = re.search(pattern, text)
    return text[: match.start()] + text[match.end() :] if match else text


def change_number(draw: random.Random, text: str, line: dict[str, Any]) -> str:
    """Change a digit of a number that a translation has to keep."""
    numbers = [span[1:] for span in line["spans"] if re.match("~[0-9]", span)]
    numbers = [number for number in numbers if number in text]
    if not numbers:
        return text
    number = draw.choice(numbers)
    return text.replace(number, f"{number[:-1]}{(int(number[-1]) + 3) % 10}", 1)


def invent(draw: random.Random, text: str, line: dict[str, Any]) -> str:
    """Write a span of which the source has none like it."""
    span = draw.choice(
        [OTHERS.get(line["dialect"], "777"), "777", "https://example.org/zz"]
    )
    first, _, rest = text.partition(" ")
    return f"{first} {span} {rest}" if rest and "{" not in first else text


def repeat(draw: random.Random, text: str, _line: dict[str, Any]) -> str:
    """Write a word four times."""
    words = list(re.finditer(r"(?<= )[A-Za-zäöüß]{3,}(?= )", text))
    if not words or "{" in text:
        return text
    word = draw.choice(words)
    return text[: word.end()] + f" {word[0]}" * 3 + text[word.end() :]


def drop_sentence(_draw: random.Random, text: str, _line: dict[str, Any]) -> str:
    """Leave the last sentence out."""
    match = re.search(r"(?<=[a-zäöü]\.) [A-Z][a-zäöüß ]+\.$", text)
    return text[: match.start()] if match else text


def copy_source(_draw: random.Random, text: str, line: dict[str, Any]) -> str:
    """Leave the text as it was."""
    words = re.findall(r"(?:^| )[a-z]{2,}(?= )", line["text"])
    return line["text"] if len(words) > 2 else text


def double_space(_draw: random.Random, text: str, _line: dict[str, Any]) -> str:
    """Write a space twice."""
    place = text.find(" ", len(text) // 2)
    is_inner = place > 0 and text[place - 1].isalpha() and text[place + 1].isalpha()
    is_inner = is_inner and text.count("<", 0, place) == text.count(">", 0, place)
    return f"{text[:place]} {text[place:]}" if is_inner and "{" not in text else text


def edit(draw: random.Random, text: str, line: dict[str, Any]) -> str:
    """Leave out, write, replace or exchange any one character of a span, or before it."""
    if not (span := _span(draw, text, line)):
        return text
    place = draw.randrange(len(span))
    letter = draw.choice("abkxZ019 {}%$<>/.:#_-")
    before, after = span[:place], span[place + 1 :]
    changes = (
        before + after,
        before + letter + span[place:],
        before + letter + after,
        before + after[:1] + span[place] + after[1:],
    )
    start = _place(draw, text, span)
    return text[:start] + draw.choice(changes) + text[start + len(span) :]


PLANTS: tuple[Plant, ...] = (
    drop,
    double,
    alter,
    cut,
    split,
    glue,
    swap,
    drop_closing,
    drop_branch,
    change_number,
    invent,
    repeat,
    drop_sentence,
    copy_source,
    double_space,
)


def right_translations(
    lines: list[dict[str, Any]],
) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield lines with a translation that keeps all spans."""
    for line in lines:
        changed = change_words(line["text"], line["spans"])
        if changed != line["text"]:
            yield line, changed
        for language in ("de", "ko"):
            if language in line:
                yield line, line[language]


def planted(
    lines: list[dict[str, Any]], seed: int, plants: Iterable[Plant] = PLANTS
) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield kinds of faults in turns, with a line and a translation with such a fault."""
    draw = random.Random(seed)
    cases = list(right_translations(lines))
    for plant in cycle(plants):
        while True:
            line, text = draw.choice(cases)
            broken = plant(draw, text, line)
            if broken != text:
                yield plant.__name__, line, broken
                break


def main() -> None:
    """Print a table of the faults planted and found."""
    from regard.contracts.judge import judge

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--edits", action="store_true")
    parser.add_argument("--missed", action="store_true")
    options = parser.parse_args()
    lines = [
        json.loads(line) for line in LINES.read_text(encoding="utf-8").splitlines()
    ]
    wrong = Counter[bool]()
    for line, text in right_translations(lines):
        faults = judge(line["text"], text, line["dialect"])
        wrong[bool(faults)] += 1
        if faults and options.missed:
            print("alarm", line["dialect"], line["text"], "|", text, faults)
    counts, hits = Counter[str](), Counter[str]()
    plants = (edit,) if options.edits else PLANTS
    cases = planted(lines, options.seed, plants)
    for _ in range(options.faults):
        kind, line, text = next(cases)
        counts[kind] += 1
        is_found = bool(judge(line["text"], text, line["dialect"]))
        hits[kind] += is_found
        if options.missed and not is_found:
            print("missed", kind, line["dialect"], line["text"], "|", text)
    print("| fault | planted | found |\n|---|---|---|")
    for kind in sorted(counts):
        print(f"| {kind.replace('_', ' ')} | {counts[kind]} | {hits[kind]} |")
    print(f"| **all** | {sum(counts.values())} | {sum(hits.values())} |")
    print(f"right translations: {sum(wrong.values())}, with an alarm: {wrong[True]}")


if __name__ == "__main__":
    main()
