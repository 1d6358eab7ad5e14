"""Code is parted from the letters beside it by the script of the translation."""

from __future__ import annotations

import random
import re

import pytest
from helpers.hostile_models import translate_document

from regard.data.copy_tokens import COPY_CHARACTERS
from regard.documents.formats import read_document
from regard.text.aligned_line import AlignedLine
from regard.text.contracts import protect_code
from regard.text.markup.document import parse_markup
from regard.text.protected_line import protect_line

KOREAN = [
    "2026년 11월 30일 오후 3시에 학교에 갑니다.",
    "여기 `a.txt`를 여세요, 그리고 {name}님이 보낸 `b.txt`도 여세요.",
    "https://example.org/에서 {file}을 받고 config_file을 여세요.",
    "사과 <b>50</b>개를 <code>shop.txt</code>에서 샀습니다.",
    "제3장과 제4장은 %s에게 보냅니다.",
]
ENGLISH = ["Please", "open", "this", "and", "go", "home", "with", "us"]
CODE = re.compile(
    r"<b>\d+</b>|<code>[\w.]+</code>|`[\w.]+`|\{\w+\}|https://[\w./]+|config_file|%s|\d+",
    re.ASCII,
)


def glued(text: str) -> list[str]:
    """Return code with a Latin letter directly beside it."""
    return [
        match[0]
        for match in CODE.finditer(text)
        if re.match("[A-Za-z]", text[match.end() :])
        or re.search("[A-Za-z]$", text[: match.start()])
    ]


def english(line: str, draw: random.Random) -> AlignedLine:
    """Return any English words for a line, linked to its words at random."""
    words = draw.choices(ENGLISH, k=draw.randint(1, 9))
    count = len(line.split(" "))
    links = [(draw.randrange(count), word) for word in range(len(words))]
    return AlignedLine(" ".join(words), links)


@pytest.mark.parametrize("line", KOREAN)
@pytest.mark.parametrize("apart", [False, True])
def test_into_english_no_word_is_glued_to_code(line: str, apart: bool) -> None:
    protected = protect_code(line, apart=apart)
    assert protected is not None
    wanted = CODE.findall(line)
    for seed in range(50):
        draw = random.Random(seed)
        result = protected.render([english(part, draw) for part in protected.lines])
        assert sorted(CODE.findall(result)) == sorted(wanted), result
        assert glued(result) == [], result
        assert "  " not in result


@pytest.mark.parametrize("line", KOREAN)
def test_in_a_page_no_word_is_glued_to_code(line: str) -> None:
    page = f"<p>{line}</p><table><td>7</td><td>{line}</td></table>"
    document = parse_markup(page)
    for seed in range(50):
        draw = random.Random(seed)
        result = document.render([english(part, draw) for part in document.lines])
        kept = "|".join(
            map(re.escape, re.findall(r"<b>\d+</b>|<code>[\w.]+</code>", page))
        )
        marked = re.findall(rf"(?:[A-Za-z](?:{kept})|(?:{kept})[A-Za-z])", result)
        assert not (kept and marked), result
        assert "<td>7</td><td>" in result
        assert not re.search(
            r"> |  ", result.replace("</b> ", "").replace("</code> ", "")
        )


@pytest.mark.parametrize(
    "text",
    [
        "A man sleeps – look at <i>figure 3</i>.",
        "It was taken on <time>May 3, 2026</time> by a woman.",
        "See page <b>17</b> of the <a>book</a>, or %s 45 times.",
    ],
)
def test_no_word_is_glued_to_a_number_that_is_put_back(text: str) -> None:
    document = read_document(f"<p>{text}</p>".encode(), "a.html")

    def wordy(words: list[str], draw: random.Random) -> list[str]:
        return draw.choices(ENGLISH, k=draw.randint(1, 9))

    for seed in range(50):
        written = translate_document(document, wordy, seed).decode()
        shown = re.sub("<.*?>", "", written)
        assert not re.search(r"[a-z]\d|\d[A-Za-z]|  ", shown), written


@pytest.mark.parametrize(
    ("line", "translation", "expected"),
    [
        ("{count}s left", "{}s übrig", "{count}s übrig"),
        ("Version v{n} is here", "Version v{} ist da", "Version v{n} ist da"),
        ("Open {name} now", "지금 {}을 여세요", "지금 {name}을 여세요"),
        ("`a.txt`를 여세요", "Open{}the file", "Open `a.txt` the file"),
        ("제{n}장", "Chapter{}", "Chapter {n}"),
        ("{a}년{b}월", "{a}{b}", "{a} {b}"),
        ("({n}장)", "({}pages)", "({n} pages)"),
    ],
)
def test_copies_are_parted_by_the_script_beside_them(
    line: str, translation: str, expected: str
) -> None:
    protected = protect_line(line, copies=COPY_CHARACTERS)
    assert protected is not None
    copied = iter(COPY_CHARACTERS)
    text = re.sub(r"\{\w*\}", lambda _: next(copied), translation)
    assert protected.render([AlignedLine(text)]) == expected
