"""Translations end with the marks of their texts, in all documents alike."""

from __future__ import annotations

import random
import re

import pytest
from helpers.hostile_models import MODELS, RULES, Model, decoder, translate_document

from regard.documents.formats import read_document
from regard.text.full_stops import closed_as
from regard.text.text_path import joint_path, run_path
from regard.text.translation import TranslatedPart, Translation


@pytest.mark.parametrize(
    ("line", "text", "expected"),
    [
        ("Two dogs", "Zwei Hunde.", "Zwei Hunde"),
        ("Two dogs", "두 마리의 개。", "두 마리의 개"),
        ("“Two dogs”", "„Zwei Hunde.“", "„Zwei Hunde“"),
        ("Open {name}", "Öffne {name}.", "Öffne {name}"),
        ("Sold: 50 %", "Verkauft: 50 %.", "Verkauft: 50 %"),
        ("Chapter 3", "Kapitel 3.", "Kapitel 3"),
        ("© 2026 The Park", "© 2026.", "© 2026"),
        ("Two dogs.", "Zwei Hunde", "Zwei Hunde."),
        ("Two dogs.", "개 두 마리", "개 두 마리."),
        ("Two dogs:", "Zwei Hunde", "Zwei Hunde:"),
        ("Dear Anna,", "Liebe Anna", "Liebe Anna,"),
        ("Two dogs?", "Zwei Hunde", "Zwei Hunde?"),
        ("Two dogs!", "Zwei Hunde.", "Zwei Hunde!"),
        ("Dear Anna,", "Liebe Anna.", "Liebe Anna,"),
        ("Name:", "Der Name.", "Der Name:"),
        ("Two dogs", "Zwei Hunde?", "Zwei Hunde"),
        ("Two dogs", "Zwei Hunde .", "Zwei Hunde"),
        ("Open File...", "Datei öffnen.", "Datei öffnen..."),
        ("Open File…", "Datei öffnen...", "Datei öffnen…"),
        ("Two dogs play →", "Zwei Hunde spielen →.", "Zwei Hunde spielen →"),
        ("Two dogs play ▾", "Zwei Hunde spielen. ▾", "Zwei Hunde spielen ▾"),
        ("A dog! 🐶", "Ein Hund 🐶", "Ein Hund! 🐶"),
        ("A dog! 🐶", "Ein Hund 🐶.", "Ein Hund! 🐶"),
        ("“Who is it?”", "„Wer ist es.“", "„Wer ist es?“"),
        ("“Who is it?”", "„Wer ist es“.", "„Wer ist es?“"),
        ("“Who is it?”", "„Wer ist es.“!", "„Wer ist es?“"),
        ("“Who is it”?", "„Wer ist es“.", "„Wer ist es“?"),
        ("Open {name}:", "Öffne {name}", "Öffne {name}:"),
        ("and so on?", "usw.", "usw.?"),
        ("Who sleeps?", "谁在睡觉。", "谁在睡觉？"),
        ("Who sleeps?", "من ينام.", "من ينام؟"),
        ("Who sleeps?", "Ποιος κοιμάται.", "Ποιος κοιμάται;"),
        ("Ποιος κοιμάται;", "Who sleeps.", "Who sleeps?"),
        ("谁在睡觉？", "Who sleeps.", "Who sleeps?"),
        ("犬が二匹。", "Two dogs", "Two dogs."),
        ("Two dogs.", "犬が二匹", "犬が二匹。"),
    ],
)
def test_an_end_is_mended(line: str, text: str, expected: str) -> None:
    assert closed_as(line, Translation(text, (), 0.0)).text == expected


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("Two dogs", "Zwei Hunde"),
        ("Two dogs.", "Zwei Hunde."),
        ("Two dogs.", "犬が二匹。"),
        ("Two dogs.", "دو سگ۔"),
        ("Two dogs?", "Δύο σκύλοι;"),
        ("Two dogs:", "Deux chiens :"),
        ("“Two dogs.”", "„Zwei Hunde“."),
        ("Two dogs.", "สุนัขสองตัว"),
        ("สุนัขสองตัว", "Two dogs."),
        ("cats and so on", "Katzen usw."),
        ("Henry the Eighth", "Heinrich der 8."),
        ("by Anna M", "von Anna M."),
        ("by Anna M.", "von Anna M"),
        ("cats etc.", "Katzen und so weiter"),
        ("나는 집에 간다", "I go home."),
        ("어디로 가느냐", "Where do you go?"),
        ("", "."),
    ],
)
def test_another_end_stays(line: str, text: str) -> None:
    assert closed_as(line, Translation(text, (), 0.0)).text == text


@pytest.mark.parametrize(
    ("page", "lost"),
    [
        ("<p>© 2026 The <b>Park</b></p>", True),
        ("<p>12 a</p>", False),
        ("<td>rides a <kbd>bike</kbd></td>", True),
        ("<p>See <code>x</code> (<b>12</b> dogs)</p>", True),
    ],
)
def test_a_text_does_not_lose_all_its_words(page: str, lost: bool) -> None:
    document = read_document(page.encode(), "a.html")
    path = joint_path(document.paths(RULES))

    def digits(words: list[str], draw: random.Random) -> list[str]:
        return [word for word in words if word.isdecimal()]

    (result,) = run_path(path, decoder(digits))
    assert (result.broken, any("none of its words" in n for n in result.notes)) == (
        lost,
        lost,
    )
    written = document.render([result]).decode()
    assert written == (page if lost else "<p>12</p>")


def test_parts_and_links_end_as_the_text() -> None:
    part = TranslatedPart("Two dogs", "Zwei Hunde .", 0.0)
    links = ((0, 0), (1, 1), (1, 2))
    given = Translation("Zwei Hunde .", (), 0.0, parts=(part,), alignments=links)
    result = closed_as("Two dogs", given)
    assert result.parts[-1].text == result.text == "Zwei Hunde"
    assert result.alignments == ((0, 0), (1, 1))


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ("eine (ruhige) Stadt am Fluss", ""),
        ("eine ((ruhige) Stadt am Fluss", "()"),
        ("Note, Note, Note, die Note, Note, Note, Note, Note", "'note' 8 times"),
        ("Note, Note, Note, die Note, Note, Note, Note", ""),
    ],
)
@pytest.mark.parametrize("name", ["a.html", "a.po"])
def test_brackets_and_repeated_words_are_noted(
    name: str, words: str, fault: str
) -> None:
    text = "A (quiet) town at the river, of men"
    page = {"a.html": f"<p>{text}</p>", "a.po": f'msgid "{text}"\nmsgstr ""\n'}[name]
    paths = joint_path(read_document(page.encode(), name).paths(RULES))

    def written(given: list[str], draw: random.Random) -> list[str]:
        return words.split()

    (result,) = run_path(paths, decoder(written))
    assert result.text == words
    assert result.broken == (fault == "()")
    assert fault in " ".join(result.notes)
    assert bool(result.notes) == bool(fault)


FILES = {
    "a.html": "<h1>Two <b>dogs</b></h1><p>A dog barks.</p><ul><li>Cats</li></ul>",
    "a.md": "# Two **dogs**\n\nA dog barks.\n\n- Cats\n",
    "a.po": 'msgid "Two dogs"\nmsgstr ""\n\nmsgid "A dog barks."\nmsgstr ""\n',
    "a.json": '{"a": "Two dogs", "b": "A dog barks."}',
    "strings.xml": '<resources><string name="a">Two <b>dogs</b></string></resources>',
}


@pytest.mark.parametrize("name", FILES)
def test_documents_gain_no_full_stop(name: str) -> None:
    document = read_document(FILES[name].encode(), name)

    def ended(words: list[str], draw: object) -> list[str]:
        return [*words[:-1], words[-1].rstrip(".") + "."]

    count = {"a.po": 2, "strings.xml": 0}.get(name, 1)
    assert translate_document(document, ended).decode().count(".") == count
    paths = document.paths(RULES)
    for line, result in zip(
        document.lines, run_path(joint_path(paths), decoder(ended)), strict=True
    ):
        assert result.text.endswith(".") == line.endswith(".")


ENDS = ["", ".", "?", "!", ":", ",", "...", "…", " →", " ▾", " 🐶", "! 🐶"]
PATTERNS = {
    "a.html": "<p>Who {name} <b>sleeps{end}</b></p>",
    "a.md": "# Who {name} **sleeps{end}**\n\n- a\n",
    "a.po": 'msgid "Who {name} sleeps{end}"\nmsgstr ""\n',
    "strings.xml": '<resources><string name="a">Who {name} sleeps{end}</string></resources>',
}


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("own", ["", ".", "?", "...", "!"])
def test_documents_end_as_their_texts(name: str, own: str) -> None:
    def ended(words: list[str], draw: object) -> list[str]:
        return [word.rstrip(".?!:,…") for word in words[:-1]] + [
            words[-1].rstrip(".?!:,…") + own
        ]

    for end in ENDS:
        source = PATTERNS[name].replace("{end}", end)
        document = read_document(source.encode(), name)
        results = run_path(joint_path(document.paths(RULES)), decoder(ended))
        text = document.render(results).decode()
        assert f"sleeps{end}" in text.split("msgstr")[-1], (end, text)
        assert not any(result.broken for result in results)


@pytest.mark.parametrize("model", MODELS)
def test_signs_at_the_ends_of_a_text_stay_there(model: Model) -> None:
    page = "<p><a>★ A dog barks ▾</a></p><p>« Back</p><p>A man » A dog 🐶</p>"
    for seed in range(20):
        document = read_document(page.encode(), "a.html")
        first, second, third = re.findall(
            "<p>(.*?)</p>", translate_document(document, model, seed).decode()
        )
        assert first.startswith("<a>★ ")
        assert first.endswith(" ▾</a>")
        assert second.startswith("« ")
        assert third.endswith(" 🐶")
        assert third.count(" » ") == 1
