"""Subtitles: times stay, and sentences are divided among their cues."""

from __future__ import annotations

import random
import re

import pytest
from helpers.hostile_models import MODELS, RULES, Model, say_nothing, translate_document

from regard.common.errors import DataError
from regard.documents import Document
from regard.documents.formats import read_document
from regard.documents.subtitles import divide, wrap
from regard.text.text_path import joint_path, run_path
from regard.text.translation import Translation

SRT = """\
1
00:00:01,000 --> 00:00:03,000
A man is riding a bike
down the long street

2
00:00:03,100 --> 00:00:05,000
and a dog runs after him.

3
00:00:05,100 --> 00:00:07,000 X1:10
<i>Two women are talking.</i>

4
00:00:07,100 --> 00:00:09,000
- Where is the <b>red</b> dog?
- In the house.

5
00:00:09,100 --> 00:00:11,000
[MUSIC]

00:00:11,100 --> 00:00:13,000
{\\an8}Fish & chips
"""
VTT = """\
WEBVTT - A film

STYLE
::cue { color: red }

NOTE Two dogs
play.

intro
00:01.000 --> 00:03.000 position:10%,line-left
<v Ann>Fish &amp; chips, please.</v>

01:00:03.100 --> 01:00:05.000
&gt;&gt; It costs < 5 pounds,

01:00:05.100 --> 01:00:07.000
which is not <c.loud>much</c>.
"""


def read(text: str, name: str) -> Document:
    return read_document(text.encode(), name)


def unchanged(words: list[str], draw: random.Random) -> list[str]:
    return words


def skeleton(text: str) -> list[str]:
    """The lines of a file outside of what is said, and the tags of what is said, sorted, by cue."""
    kept = []
    is_said = False
    tags: list[str] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        if "-->" in line:
            is_said = True
        elif not line.strip():
            kept += sorted(tags)
            tags = []
            is_said = False
        elif is_said:
            tags += re.findall(r"<[^<>]*>|\{\\[^}]*\}|^(?:-|&gt;&gt;)", line)
            continue
        kept.append(line)
    return [*kept, *sorted(tags)]


def said(text: str) -> list[str]:
    """What is said in each cue."""
    cues = re.split(r"(?m)^.*-->.*\n", text.replace("\r\n", "\n"))[1:]
    return [cue.split("\n\n")[0].strip() for cue in cues]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(("text", "name"), [(SRT, "a.srt"), (VTT, "a.vtt")])
@pytest.mark.parametrize("model", [*MODELS, say_nothing])
def test_only_what_is_said_changes(
    model: Model, text: str, name: str, newline: str
) -> None:
    text = text.replace("\n", newline)
    for seed in range(5):
        written = translate_document(read(text, name), model, seed).decode()
        assert skeleton(written) == skeleton(text)
        assert written.count("\r") == text.count("\r") + (
            (written.count("\n") - text.count("\n")) * (newline == "\r\n")
        )
        assert written.endswith(text[-len(newline) :])


@pytest.mark.parametrize(("text", "name"), [(SRT, "a.srt"), (VTT, "a.vtt")])
def test_the_same_words_give_the_same_bytes(text: str, name: str) -> None:
    for variant in (
        text,
        text.replace("\n", "\r\n"),
        text.rstrip("\n"),
        "\ufeff" + text,
    ):
        written = translate_document(read(variant, name), unchanged)
        assert written == variant.encode()


def translated(text: str, name: str, answers: dict[str, str]) -> str:
    document = read(text, name)
    path = joint_path(document.paths(RULES))
    results = run_path(
        path,
        lambda request: [
            Translation(answers.get(line, line), (), 0.0, ()) for line in request.lines
        ],
    )
    return document.render(results).decode()


def test_a_sentence_over_two_cues_is_one_text() -> None:
    document = read(SRT, "a.srt")
    assert [text.text for text in document.texts] == [
        "A man is riding a bike down the long street and a dog runs after him.",
        "Two women are talking.",
        "Where is the <b>red</b> dog?",
        "In the house.",
        "Fish & chips",
    ]
    assert document.texts[0].name == "cue 1 (00:00:01,000)"
    assert document.notes == ("1 sound such as [music] stays as written",)
    german = "Ein Mann fährt auf einem Fahrrad die lange Straße entlang und ein Hund läuft ihm nach."
    first, second, *_ = said(translated(SRT, "a.srt", {document.lines[0]: german}))
    assert first == "Ein Mann fährt auf einem\nFahrrad die lange Straße entlang"
    assert second == "und ein Hund läuft ihm nach."


def test_entities_of_webvtt_are_decoded_and_encoded() -> None:
    document = read(VTT, "a.vtt")
    assert document.lines[0] == "Fish & chips, please."
    written = translated(VTT, "a.vtt", {document.lines[0]: "Essen & <3 Trinken."})
    assert "<v Ann>Essen &amp; &lt;3 Trinken.</v>" in written


@pytest.mark.parametrize(
    ("time", "cause"),
    [
        ("00:00:02,xxx --> 00:00:03,000", "wanted a time such as"),
        ("00:00:02,000 -->", "wanted a time such as"),
        ("00:00:02,000 > 00:00:03,000", "stands in no cue"),
    ],
)
@pytest.mark.parametrize("before", ["", "1\n00:00:01,000 --> 00:00:02,000\nA dog.\n\n"])
def test_a_damaged_time_is_named_with_its_line(
    time: str, cause: str, before: str
) -> None:
    text = f"{before}2\n{time}\nA man is -->\n"
    number = text[: text.index(time)].count("\n") + 1
    if "-->" not in time:
        number += 1
    if before and "-->" not in time:
        (note,) = read(text, "a.srt").notes
        assert note.startswith("1 line is in no cue")
        assert f"such as line {number};" in note
        return
    with pytest.raises(DataError, match=f"line {number}: {cause}"):
        read(text, "a.srt")


def test_an_arrow_that_is_spoken_is_no_time() -> None:
    text = "1\n00:00:01,000 --> 00:00:02,000\nGo --> there.\n"
    assert read(text, "a.srt").notes == ()


def test_parts_hold_all_words_in_order_and_none_is_empty() -> None:
    draw = random.Random(3)
    for _ in range(300):
        words = ["x" * draw.randrange(1, 9) for _ in range(draw.randrange(1, 30))]
        shares = [draw.randrange(1, 40) for _ in range(draw.randrange(1, 6))]
        parts = divide(" ".join(words), shares)
        assert len(parts) == len(shares)
        assert all(parts)
        if len(words) >= len(shares):
            assert " ".join(parts).split() == words
        lines = wrap(" ".join(words), 2)
        assert len(lines) <= 2
        assert " ".join(lines).split() == words


def test_text_without_spaces_is_divided_between_characters() -> None:
    assert divide("私は家に帰る。", [5, 5]) == ["私は家", "に帰る。"]
    assert divide("네", [5, 5]) == ["네", "…"]


def test_times_within_a_cue_stay_in_order() -> None:
    cue = "A <00:01.500>man <00:01.800>rides a bike."
    text = f"WEBVTT\n\n00:01.000 --> 00:02.000\n{cue}\n"
    document = read(text, "a.vtt")
    assert document.lines == ("A man rides a bike.",)
    written = translated(text, "a.vtt", {document.lines[0]: "Ein Mann fährt Rad."})
    assert said(written) == ["Ein <00:01.500>Mann <00:01.800>fährt Rad."]


def test_each_voice_of_a_cue_keeps_its_line() -> None:
    cue = "<v Ann>A man?</v>\n<v.loud Bob>Two <i>dogs</i>.</v>"
    text = f"WEBVTT\n\n00:01.000 --> 00:02.000\n{cue}\n"
    written = translated(text, "a.vtt", {"A man?": "Ein Mann?"})
    assert said(written) == [cue.replace("A man?", "Ein Mann?")]


@pytest.mark.parametrize(("text", "name"), [(SRT, "a.srt"), (VTT, "a.vtt")])
def test_no_cue_becomes_empty(text: str, name: str) -> None:
    for model in (*MODELS, say_nothing):
        for cue in said(translate_document(read(text, name), model).decode()):
            assert re.sub(r"<[^<>]*>|\{[^{}]*\}|^-", "", cue).strip()
