"""Spans that are not language: found whole, by kind, and compared between a line and its
translation.
"""

from __future__ import annotations

import random
import re
import unicodedata

import pytest
from helpers.text_table import items, lines, rows
from helpers.time_limits import time_limit

from regard.common.errors import UsageError
from regard.data import spans
from regard.data.spans import KINDS, find_spans, own_pattern
from regard.text.contracts import breaches

LINES = rows(r"""
    address     | https://example.com/a_(b)?x=1 · me@example.org · about:config · example.com/path
    address     | mailto:a.b@c.de · https://example.com/a_(b)
    tag         | <a href='x'> · </a> · <br/> · <x id="0"/>
    entity      | &nbsp; · &#8364; · &#x20AC;
    message     | {n, plural, one { · {who, select, other {
    placeholder | {name} · {0} · {{a.b}} · {0:.2f} · ${x} · %{count} · %s · %1$S · %-5.2f · %ld
    placeholder | %(n)s · %1 · $x · :total% · %NAME% · :count · __count__ · {{{raw}}} · $(name)
    placeholder | { $name } · { -brand-short-name } · {% if x %} · <%= x %>
    token       | [X8X] · ###T01### · @@0@@ · [[PLACE]]
    code        | `ls -la` · foo() · os.path.join() · --keep=3 · -v · snake_case
    path        | /etc/passwd · ~/a/b · C:\Users\me · \\server\share · NT\SYSTEM · notes.txt
    path        | C:\New Folder\a.txt
    key         | Ctrl+Shift+T · Ctrl + F5 · Alt+F4 · F5
    symbol      | © · ° · → · ▾ · ⌘
    number      | 7 · MSB5018 · v2.0 · 3.5 · 12:30 · 2024-05-06 · 1,000,000
""")
EMOJI = """
    👩\u200d👩\u200d👧 🇰🇷 ❤️ 5️⃣ 👍🏽 🆗 ‼️ ▶️ 🀄
    🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f
"""
LINES += [["emoji", " · ".join(EMOJI.split())], ["number", "10|30"]]
SPANS: dict[str, list[str]] = {kind: [] for kind, _ in LINES}
"""Texts that are not language, by their kinds."""
for kind, texts in LINES:
    SPANS[kind] += texts.split(" · ")


def texts_of(line: str) -> list[str]:
    return [line[start:end] for start, end, _ in find_spans(line)]


@pytest.mark.parametrize(("kind", "texts"), LINES)
def test_every_kind_is_found_whole_and_unchanged(kind: str, texts: str) -> None:
    assert {row[0] for row in LINES} == {*KINDS}
    for text in texts.split(" · "):
        line = f"Press {text} to go on"
        (span,) = find_spans(line)
        assert (line[span.start : span.end], span.kind) == (text, kind)


@pytest.mark.parametrize(
    "line",
    lines("""
        and/or
        a state-of-the-art idea, e.g. this
        Spalten und -zeilen
        a < b > c
        Note: this
        me & you
        {
        }
        {}
        100%
        the README
        what?!
        나는 빵을 먹고 있었다
        it's a_
        vous_même
        yes. -I see
        I :D
        $ 5%
    """),
)
def test_language_is_no_span(line: str) -> None:
    assert {span.kind for span in find_spans(line)} <= {"number"}


@pytest.mark.parametrize(
    ("line", "spans"),
    rows("""
        See (https://example.com/a), or www.example.org. | https://example.com/a www.example.org
        Then run `x`. | `x`
        https://x.org/a를 열고 --force와 foo.json을 | https://x.org/a --force foo.json
        {0}을 %s가 snake_case의 | {0} %s snake_case
        Ctrl+Alt + 🎉 Ctrl + {name} Shift + %s Ctrl + --keep | Ctrl+Alt 🎉 {name} %s --keep
        Ctrl+, Ctrl+[ | Ctrl+, Ctrl+[
    """),
)
def test_a_span_ends_where_language_begins(line: str, spans: str) -> None:
    assert texts_of(line) == spans.split()


def test_the_texts_of_a_message_are_language() -> None:
    line = "Saw {n, plural, =0 {no dog} one {a dog} other {{n} dogs}} }} today"
    assert texts_of(line) == ["{n, plural, =0 {", "} one {", "} other {", "{n}", "}}"]
    for part in ("{n, plural, one {x} ", "a b {c} ", "} other {"):
        with time_limit():
            found = find_spans("{n, plural, one {" + part * 20_000)
        assert len(found) >= 20_000


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "%",
        "a.",
        "__",
        "<a ",
        "1,",
        "/a",
        "a@",
        "-",
        "`",
        "a_",
        "Ctrl+",
        ":a",
        "{a, plural, one {",
    ],
)
def test_spans_of_any_line_are_in_order_and_do_not_overlap(text: str) -> None:
    line = text * 5000
    ends = [0]
    for start, end, _ in find_spans(line):
        assert ends[-1] <= start < end <= len(line)
        ends.append(end)


def test_patterns_of_a_user_are_found_with_the_others() -> None:
    own = own_pattern(("Foobar( Suite)?", r"\{x"))
    line = "가 Foobar Suite {x} %s Foobar {y}"
    found = find_spans(line, own)
    texts = [line[span.start : span.end] for span in found]
    assert texts == ["Foobar Suite", "{x", "%s", "Foobar", "{y}"]
    kinds = [span.kind for span in found]
    assert kinds == items("own own placeholder own placeholder")
    lost = breaches(line, "Foobar Suite {x} %s {y}", own=own)
    assert [(fault.kind, fault.what) for fault in lost] == [("lost", "Foobar")]
    assert own_pattern(()) is None
    with pytest.raises(UsageError) as refused:
        own_pattern(("(?<=a)b", ".*", "a", "[a-z ]+", "("))
    assert len(refused.value.causes) == 4


def nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


@pytest.mark.parametrize("pattern", ["NFC", "NFD"])
@pytest.mark.parametrize("line", ["NFC", "NFD"])
@pytest.mark.parametrize(
    ("word", "text"),
    rows("""
        집에     | 나는 집에 간다
        Café     | Le Café est fermé
        [ü-ý]ber | x über %s
        ể        | cể {n} ể
        কো       | অকো
        e        | é e
    """),
)
def test_patterns_are_compared_in_nfc(
    pattern: str, line: str, word: str, text: str
) -> None:
    """The oracle is Python's `re` in NFC."""
    given = unicodedata.normalize(line, text)
    own = own_pattern((unicodedata.normalize(pattern, word),))
    spans_of_own = [span for span in find_spans(given, own) if span.kind == "own"]
    found = [nfc(given[span.start : span.end]) for span in spans_of_own]
    assert found == re.findall(nfc(word), nfc(text))
    assert breaches(given, nfc(text), own=own) == []


@pytest.mark.parametrize(
    "pattern",
    [
        r"\bab+\b",
        "a.{0,480}b",
        "^a|b$",
        "(?m)^b",
        "x*b",
        "[ab]{499,500}",
        r"\Ba",
        "가+",
    ],
)
def test_long_lines_are_searched_as_a_whole_is(pattern: str) -> None:
    """The oracle is RE2's own search of the whole line, for matches that are not too long."""
    draw = random.Random(pattern)
    for size in (10, 499, 1_001, 4_000):
        line = "".join(draw.choices("ab 가", (30, 30, draw.choice((0, 1)), 1), k=size))
        own = own_pattern((pattern,))
        whole = [match.span() for match in own.finditer(line) if match[0]]
        found = [span[:2] for span in find_spans(line, own) if span.kind == "own"]
        assert found == whole
    quoted = own_pattern(("<<.*>>",))
    longest = f"<<{'x' * (spans.LONGEST_OWN - 4)}>>"
    assert find_spans(f"a {longest} b", quoted)[0].end == 2 + spans.LONGEST_OWN
    assert find_spans(f"a <<x{longest[2:]} b", quoted) == ()


@pytest.mark.parametrize(
    "pattern", ["a(.*b)?", "(a|a.*b)", "(a|aa)+b", "(a*)*b", "a.*a.*a.*b"]
)
def test_patterns_of_a_user_take_linear_time(pattern: str) -> None:
    with time_limit():
        found = find_spans("a" * 20_000, own_pattern((pattern,)))
    assert bool(found) == (pattern in ("a(.*b)?", "(a|a.*b)"))
