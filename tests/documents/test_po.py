"""Message catalogues: hostile models over many files, reread by msgfmt and Python's gettext."""

from __future__ import annotations

import gettext
import io
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from helpers.hostile_models import MODELS, say_nothing, translate_document

from regard.common.errors import DataError
from regard.data.languages import Languages
from regard.documents import Document, DocumentOptions
from regard.documents.formats import read_document

MSGFMT = shutil.which("msgfmt")
HEADER = r"""msgid ""
msgstr ""
"Project-Id-Version: dogs 1\n"
"Last-Translator: A <a@example.org>\n"
"Language: de\n"
"MIME-Version: 1.0\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Content-Transfer-Encoding: 8bit\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\n"

"""
RUSSIAN = HEADER.replace(": de", ": ru").replace(
    "nplurals=2; plural=(n != 1);",
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && "
    "(n%100<12 || n%100>14) ? 1 : 2);",
)
PLURAL = r"""#, c-format
msgid "%d dog plays"
msgid_plural "%d dogs play"
msgstr[0] ""
msgstr[1] ""
"""
BODIES = {
    "plain": 'msgid "Two dogs play"\nmsgstr ""\n',
    "no end": 'msgid "Two dogs play"\nmsgstr ""',
    "context": '#. a menu\n#: a.c:7\nmsgctxt "menu"\nmsgid "Open it"\nmsgstr ""\n',
    "done": '# by hand\nmsgid "Done"\nmsgstr "Fertig"\n\nmsgid "Two dogs"\nmsgstr ""\n',
    "fuzzy": '#, fuzzy\n#| msgid "A dog"\nmsgid "Two dogs"\nmsgstr "Ein Hund"\n',
    "flags": '#, python-format, no-wrap\nmsgid "%(n)s dogs in 5 houses"\nmsgstr ""\n',
    "braces": '#, python-brace-format\nmsgid "Play {name} for {n}"\nmsgstr ""\n',
    "denied": '#, no-c-format\nmsgid "It is 100% done here"\nmsgstr ""\n',
    "newline": 'msgid "Two dogs play\\n"\nmsgstr ""\n',
    "newlines": 'msgid ""\n"\\n"\n"Two dogs\\n"\n"\\n"\n"They play.\\n"\nmsgstr ""\n',
    "one line": 'msgid "Two dogs\\nThey play"\nmsgstr ""\n',
    "wrapped": 'msgid ""\n"A man who rides a red bike through the town sees two dogs that '
    'play in the park, "\n"and a cat."\nmsgstr ""\n',
    "escapes": 'msgid "A \\"red\\" bike\\tand C:\\\\dogs"\nmsgstr ""\n',
    "tags": 'msgid "A <b>red</b> <a href=\\"x\\">bike</a> is here"\nmsgstr ""\n',
    "plural": PLURAL,
    "one": PLURAL.replace("%d dog plays", "One dog plays"),
    "half": PLURAL.replace('[0] ""', '[0] "%d Hund"'),
    "missing": PLURAL.replace('msgstr[1] ""\n', ""),
    "obsolete": 'msgid "Two dogs"\nmsgstr ""\n\n#, fuzzy\n#~ msgid "Old"\n#~ msgstr "Alt"\n',
    "numbers": 'msgid "12"\nmsgstr ""\n\nmsgid " "\nmsgstr ""\n',
    "machine": '# Machine translation: quality 0.50\nmsgid "Two dogs"\nmsgstr ""\n',
}
RUSSIAN_BODIES = ("plural", "one", "missing")
TEXTS = {name: HEADER + body for name, body in BODIES.items()} | {
    f"russian {name}": RUSSIAN + BODIES[name] for name in RUSSIAN_BODIES
}
TEXTS["crlf"] = TEXTS["wrapped"].replace("\n", "\r\n")
TEXTS["mark"] = "\ufeff" + TEXTS["plain"]
TEMPLATE = re.sub(r'("Language: )de|UTF-8|nplurals=2; plural=\(n != 1\)', r"\1", HEADER)
TEMPLATE = TEMPLATE.replace("charset=", "charset=CHARSET").replace(
    "Plural-Forms: ", "Plural-Forms: nplurals=INTEGER; plural=EXPRESSION"
)


def read(text: str, retranslate: bool = False, target: str = "de") -> Document:
    languages = Languages(source="en", target=target)
    options = DocumentOptions(languages, retranslate=retranslate)
    return read_document(text.encode(), "a.po", options=options)


def same(words: list[str], draw: random.Random) -> list[str]:
    return words


def without_translations(text: str) -> str:
    """All that a translation leaves as it is."""
    text = text.replace("\r\n", "\n").rstrip("\n") + "\n"
    text = re.sub(r'(?m)^msgstr(\[\d\])? .*\n(".*"\n)*', "", text)
    text = re.sub(r"(?m)^(#, fuzzy|# Machine.*|#\|.*)\n", "", text)
    return text.replace("#, fuzzy, ", "#, ")


def compiled(text: bytes, folder: Path) -> gettext.GNUTranslations:
    """The catalogue as msgfmt has checked and compiled it, with what is fuzzy."""
    file = folder / "a.po"
    file.write_bytes(text)
    assert MSGFMT
    command = [MSGFMT, "--check", "--use-fuzzy", "-o", str(folder / "a.mo"), str(file)]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr + text.decode()
    return gettext.GNUTranslations(io.BytesIO((folder / "a.mo").read_bytes()))


@pytest.mark.parametrize("name", TEXTS)
def test_all_but_the_translations_stays(name: str) -> None:
    text = TEXTS[name]
    for retranslate in (False, True):
        for seed, model in enumerate([*MODELS, say_nothing, same]):
            document = read(text, retranslate)
            result = translate_document(document, model, seed).decode()
            assert without_translations(result) == without_translations(text)
            ends = result.count("\r\n")
            assert ends in (0, result.count("\n"))


@pytest.mark.system  # starts processes
@pytest.mark.skipif(MSGFMT is None, reason="msgfmt of gettext is not installed")
@pytest.mark.parametrize("name", [name for name in TEXTS if name != "mark"])
def test_msgfmt_accepts_what_is_written(name: str, tmp_path: Path) -> None:
    for seed, model in enumerate([*MODELS, say_nothing, same]):
        document = read(TEXTS[name], retranslate=True)
        compiled(translate_document(document, model, seed), tmp_path)


@pytest.mark.system  # starts processes
@pytest.mark.skipif(MSGFMT is None, reason="msgfmt of gettext is not installed")
@pytest.mark.parametrize("name", [name for name in TEXTS if name != "mark"])
def test_the_texts_come_back(name: str, tmp_path: Path) -> None:
    document = read(TEXTS[name], retranslate=True)
    catalogue = compiled(translate_document(document, same), tmp_path)
    written = {
        text
        for text in catalogue._catalog.values()  # type: ignore[attr-defined]
        if "Project-Id-Version" not in text
    }
    assert written == {text.text for text in document.texts}


def test_translations_of_people_stay_and_new_ones_are_fuzzy() -> None:
    document = read(TEXTS["done"] + "\n" + BODIES["fuzzy"].replace("Two", "Ten"))
    assert [text.text for text in document.texts] == ["Two dogs"]
    assert document.notes == (
        "2 texts have a translation, which stays; `retranslate=True` translates all anew",
    )
    result = translate_document(document, same).decode()
    assert '# by hand\nmsgid "Done"\nmsgstr "Fertig"\n' in result
    assert '\n#, fuzzy\nmsgid "Two dogs"\nmsgstr "Two dogs"\n' in result
    assert '#| msgid "A dog"\nmsgid "Ten dogs"\nmsgstr "Ein Hund"\n' in result
    done = translate_document(read(result), same)
    assert done.decode() == result


def test_an_old_message_goes_with_its_translation() -> None:
    result = translate_document(read(TEXTS["fuzzy"], retranslate=True), same)
    assert result.decode() == HEADER + '#, fuzzy\nmsgid "Two dogs"\nmsgstr "Two dogs"\n'


@pytest.mark.parametrize(
    ("name", "target", "wanted"),
    [
        ("plural", "de", ["%d dog plays", "%d dogs play"]),
        ("one", "de", ["One dog plays", "%d dogs play"]),
        ("plural", "ru", ["%d dog plays", "%d dogs play", "%d dogs play"]),
        ("one", "ru", ["%d dogs play"] * 3),
        ("plural", "ko", ["%d dogs play"]),
        ("plural", "ar", ["%d dogs play", "%d dog plays", *["%d dogs play"] * 4]),
        ("missing", "ko", ["%d dogs play"]),
    ],
)
def test_templates_get_the_forms_of_the_target(
    name: str, target: str, wanted: list[str]
) -> None:
    document = read(TEMPLATE + BODIES[name], target=target)
    result = translate_document(document, same).decode()
    assert re.findall(r'(?m)^msgstr\[\d\] "(.*)"$', result) == wanted
    assert f"nplurals={len(wanted)}; plural=(" in result
    assert f'"Language: {target}\\n"' in result
    assert "charset=UTF-8" in result
    assert any("more forms" in note for note in document.notes) == (len(wanted) > 2)


def test_locales_are_written_as_gettext_has_them() -> None:
    document = read(TEMPLATE + BODIES["plural"], target="pt-BR")
    result = translate_document(document, same).decode()
    assert '"Language: pt_BR\\n"' in result
    assert "nplurals=2; plural=(n > 1);" in result


def test_strings_are_wrapped_as_in_the_file() -> None:
    for name in ("wrapped", "newlines", "one line", "escapes"):
        document = read(TEXTS[name])
        result = translate_document(document, same).decode()
        source = BODIES[name].removeprefix("msgid ").removesuffix('msgstr ""\n')
        assert f"\nmsgstr {source}" in result
    long = "A man rides a bike. " * 9
    result = translate_document(read(f'{HEADER}msgid "{long}"\nmsgstr ""\n'), same)
    assert f'msgstr "{long}"\n'.encode() in result
    wrapped = read(f'{TEXTS["wrapped"]}\nmsgid "{long}"\nmsgstr ""\n')
    result = translate_document(wrapped, same)
    lines = result.decode().partition(long)[2].splitlines()[2:]
    assert "".join(line[1:-1] for line in lines) == long
    assert [len(line) for line in lines] == [82, 82, 22]


def test_flags_and_comments_are_told() -> None:
    (text,) = read(TEXTS["context"].replace("#: a", "#. max-length:9\n#: a")).texts
    assert (text.name, text.comment) == ("line 15", "a menu\nmax-length:9\nmenu")
    assert text.max_characters == 9
    dialects = {
        name: read(TEXTS[name]).texts[0].dialect
        for name in ("flags", "braces", "denied", "plural", "plain")
    }
    assert dialects == {
        "flags": "python-percent",
        "braces": "python-brace",
        "denied": "plain",
        "plural": "c",
        "plain": "auto",
    }


def test_an_encoding_that_nobody_has_chosen_becomes_utf_8() -> None:
    """`msginit` writes ASCII in a place where it lacks the locale of the language."""
    text = TEXTS["plain"].replace("UTF-8", "ASCII")
    document = read(text)
    result = translate_document(document, lambda *_: ["Hündchen"]).decode()
    assert "charset=UTF-8" in result
    assert 'msgstr "Hündchen"' in result


def test_other_encodings_come_back() -> None:
    text = TEXTS["plain"].replace("UTF-8", "EUC-KR").replace("dogs 1", "개")
    document = read_document(text.encode("euc-kr"), "a.po")
    result = translate_document(document, same).decode("euc-kr")
    assert without_translations(result) == without_translations(text)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (HEADER + "msgid Two\n", "line 11: wanted a comment, .* got 'msgid Two'"),
        (HEADER + 'msgid "a "b""\n', "line 11: wanted"),
        (HEADER + 'msgstr ""\n', "line 11: wanted"),
        (HEADER + 'msgid "a"\n', "got 'the end of the file'"),
        (HEADER + 'msgid "a"\nmsgid "b"\nmsgstr ""\n', "line 12: wanted"),
        (HEADER + 'msgid "a"\n\nmsgstr[0] ""\n', "line 13: wanted"),
        (
            TEXTS["plural"].replace("n != 1", "n != x"),
            r"line 2: Plural-Forms is 'nplurals=2; .*write the rule",
        ),
        (TEXTS["plural"].replace("n != 1", "n"), "forms up to 999, and nplurals=2"),
        (TEXTS["plural"].replace("n != 1", "1/(n-n)"), "it divides by 0"),
        (TEXTS["plural"].replace("nplurals=2;", ""), "is not of the form nplurals=2"),
        (TEXTS["plain"].replace("UTF-8", "klingon"), "no known encoding"),
        (
            TEXTS["plain"].replace("UTF-8", "utf-7"),
            "none that can be written as it was",
        ),
        (TEXTS["plain"].replace("UTF-8", "idna"), "no known encoding"),
    ],
)
def test_bad_catalogues_are_refused_with_the_line(text: str, cause: str) -> None:
    with pytest.raises(DataError, match=rf"a\.po.*{cause}"):
        read(text.replace("dogs 1", "a+AOk- 1") if "utf-7" in text else text)


def test_nothing_is_no_translation() -> None:
    for name in ("plain", "context", "wrapped", "no end", "crlf", "mark"):
        result = translate_document(read(TEXTS[name]), say_nothing)
        assert result.decode() == TEXTS[name]
