"""Markup over random documents: what is kept, and what stays well-formed, whatever the translations
are.
"""

from __future__ import annotations

import itertools
import random
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from helpers.text_table import items, lines, rows
from helpers.time_limits import time_limit

from regard.text.aligned_line import AlignedLine
from regard.text.markup import projection
from regard.text.markup.document import MarkupDocument, MarkupOptions, parse_markup
from regard.text.markup.projection import project
from regard.text.markup.tags import Kind, tokenize
from regard.text.markup.writing import write_sentence

WORDS = items("""
    I was eating bread, (Regard) 나는 빵을 먹었다. 你好。 him: U.S. x1 1999 – &amp; &lt;b&gt; d&#233;j&#xe0;
    well… No! "Yes." AT&amp;T ]] a;b
""")
INLINE = items("b i a span x code em code")
BLOCKS = ("p", "div", "li", "h1", "section")
SPACES = (" ", " ", " ", "  ", "\n", "\n   ", "", "", "\t")
ATTRIBUTES = lines("""
    href="a>b"
    title='x &lt; y'
    translate="no"
    translate="yes"
    id="1" class="k"
""")
POINTS = lines("""
    <img/>
    <wbr/>
    <!-- a <b> -->
    <?php x ?>
    <br/>
    <i></i>
    <b/>
""")
SYMBOLS = lines("""
    <sup>®</sup>
    <sup>1</sup>
    <sub>2</sub>
    <a href='#1'>[1]</a>
    <b>17</b>
    <i>★ ★</i>
    <b>2 – 3</b>
    <b>.</b>
    <i>?!</i>
    <b> – </b>
    <a><u>1,000</u> &amp; <u>5</u></a>
    <i> </i>
    <b>&#174;</b>
""")
"""Elements without letters, which are kept to the byte."""


def element(draw: random.Random, names: Sequence[str], content: str) -> str:
    name = draw.choice(names)
    attributes = draw.choice(["", "", *(f" {text}" for text in ATTRIBUTES)])
    return f"<{name}{attributes}>{content}</{name}>"


def inline(draw: random.Random, depth: int) -> str:
    parts = []
    for _ in range(draw.randint(0, 5)):
        choice = draw.random()
        if choice < 0.55 or depth > 4:
            parts.append(draw.choice(WORDS))
        elif choice < 0.9:
            parts.append(element(draw, INLINE, inline(draw, depth + 1)))
        else:
            parts.append(draw.choice((*POINTS, *SYMBOLS)))

        parts.append(draw.choice(SPACES))

    return "".join(parts)


def block(draw: random.Random, depth: int = 0) -> str:
    parts = []
    for _ in range(draw.randint(1, 3)):
        if draw.random() < 0.4 and depth < 3:
            parts.append(element(draw, BLOCKS, block(draw, depth + 1)))
        else:
            parts.append(inline(draw, 0))

    return "".join(parts)


def options(draw: random.Random) -> MarkupOptions:
    return MarkupOptions(
        splitting_tags=frozenset(draw.sample(INLINE, draw.choice((0, 0, 1)))),
        non_splitting_tags=frozenset(draw.sample(BLOCKS[1:], draw.choice((0, 0, 2)))),
        ignore_tags=frozenset(draw.sample(("x", "code", "p"), draw.choice((0, 1, 2)))),
        outline=draw.random() < 0.8,
        sentences=draw.random() < 0.8,
        newlines=draw.random() < 0.2,
    )


Drawn = list[tuple[random.Random, MarkupDocument]]
PARTS = {"few": (0, 60), "many": (60, 1200)}
"""Seeds of the documents: few by default, the others in the slow tests."""


@pytest.fixture(
    scope="module", params=["few", pytest.param("many", marks=pytest.mark.slow)]
)
def documents(request: pytest.FixtureRequest) -> Drawn:
    """Draw documents, each with what draws its translations."""
    result = []
    for seed in range(*PARTS[request.param]):
        draw = random.Random(seed)
        kind: Kind = draw.choice(("html", "xml"))
        text = f"<root>{block(draw)}</root>"
        result.append((draw, parse_markup(text, kind, options(draw))))

    return result


def identity(line: str, draw: random.Random) -> AlignedLine:
    return AlignedLine(line, [(index, index) for index in range(len(line.split(" ")))])


def reversed_words(line: str, draw: random.Random) -> AlignedLine:
    words = line.split(" ")
    last = len(words) - 1
    links = [(last - index, index) for index in range(len(words))]
    return AlignedLine(" ".join(reversed(words)), links)


def random_links(line: str, draw: random.Random) -> AlignedLine:
    words = [*items("neu Wort, «x» <&> Regard는 ]]>"), *line.split(" ")]
    drawn = draw.choices(words, k=draw.randint(1, 9))
    places = [*itertools.product(range(10), repeat=2)]
    links = draw.choices(places, k=draw.randint(0, 12))
    return AlignedLine(" ".join(drawn), links)


def no_links(line: str, draw: random.Random) -> AlignedLine:
    words = line.split(" ")
    drawn = draw.choices([*words, "neu", "\x01"], k=draw.randint(1, 2 * len(words)))
    return AlignedLine(" ".join(drawn), None)


def nothing(line: str, draw: random.Random) -> AlignedLine:
    return AlignedLine("", draw.choice(([], None)))


Translate = Callable[[str, random.Random], AlignedLine]
TRANSLATIONS = [identity, reversed_words, random_links, no_links, nothing]


def render(document: MarkupDocument, draw: random.Random, translate: Translate) -> str:
    return document.render([translate(line, draw) for line in document.lines])


def marks(text: str, kind: Kind) -> Counter[str]:
    """Count tags with their attributes, comments and the rest of the markup."""
    tokens = [token for token in tokenize(text, kind) if token.kind != "text"]
    return Counter(text[token.start : token.end] for token in tokens)


def tree(text: str) -> ElementTree.Element:
    # HTML may have control characters.
    return ElementTree.fromstring(re.sub(r"<\?php.*?\?>|\x01", "", text))


def nesting(text: str) -> Counter[tuple[str, str]]:
    """Count the pairs of an element and the one that it is in, by their names."""
    counts = Counter[tuple[str, str]]()
    for parent in tree(text).iter():
        counts.update((parent.tag, child.tag) for child in parent)
    return counts


def letters(text: str) -> Counter[str]:
    """Count the characters of the text, without white space."""
    return Counter("".join("".join(tree(text).itertext()).split()))


def test_lines_are_clean_and_not_empty(documents: Drawn) -> None:
    lines = [line for _, document in documents for line in document.lines]
    assert len(lines) > 2.5 * len(documents)
    assert all(line == " ".join(line.split()) and line for line in lines)


def test_the_lines_themselves_give_the_text_back(documents: Drawn) -> None:
    for draw, document in documents:
        assert render(document, draw, identity) == document.source.text


def test_a_sentence_projected_on_itself_is_the_sentence(documents: Drawn) -> None:
    """`render` returns an unchanged line as it is; this is what it would be by projection."""
    for _, document in documents:
        text = document.source.text
        for sentence in document.sentences:
            each = range(len(sentence.words))
            for links in (None, [*zip(each, each, strict=True)]):
                projected = project(sentence, sentence.words, links)
                result = write_sentence(document.source, sentence, *projected)

                assert result == text[sentence.start : sentence.end]


@pytest.mark.parametrize("translate", TRANSLATIONS)
def test_each_tag_is_written_once_and_elements_stay_nested(
    documents: Drawn, translate: Translate
) -> None:
    for draw, document in documents:
        text = document.source.text
        kind = document.source.kind
        result = render(document, draw, translate)

        assert marks(result, kind) == marks(text, kind)
        assert all(result.count(symbol) >= text.count(symbol) for symbol in SYMBOLS)
        assert nesting(result) == nesting(text)
        if translate is reversed_words:
            assert letters(result) == letters(text)


def test_elements_that_are_too_deep_to_project_stay_nested(
    documents: Drawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projection, "_DEEPEST", 0)
    monkeypatch.setattr(projection, "_SHALLOW", -1)

    for draw, document in documents:
        result = render(document, draw, reversed_words)
        assert nesting(result) == nesting(document.source.text)


DAMAGE = [
    *items("""
        <b> </b> <i> </i> <p> </p> <li> <br> <code> </code> <svg> </svg> <pre> </pre> <title>
        </title>
    """),
    *items(
        "<script> </script> <!-- --> <![CDATA[ ]]> <? </ < > & &lt &#0; &#xD800; &foo; &nbsp;"
    ),
    *items("""
        word Two. 나는 你好。 1 = " ' />
    """),
    *(
        "<a href='",
        '<a title="x>',
        "<p translate=no>",
        "<b translate=yes>",
        "<!DOCTYPE [",
    ),
    *(" ", " ", "\n", "\0", "\u2028", "\ud800"),
]


HOSTILE = rows("""
    open                       | <b>                                  | 9375    | x word
    nested deeper at each word | <b>a␣                                | 18750   |
    closed                     | </b>                                 | 31250   | x
    crossed                    | <b><i>x </b></i>                     | 9375    |
    less than                  | <                                    | 2500000 |
    ampersands                 | &                                    | 2500000 |
    entities                   | &a                                   | 62500   |
    quotes                     | <a b='x'␣                            | 12500   |
    quote                      | <a b="                               | 18750   |
    tags without end           | <a b␣                                | 25000   |
    comments                   | <!--                                 | 250000  |
    declarations               | <!DOCTYPE [                          | 100000  |
    titles                     | <title>                              | 150000  |
    one word                   | a<b>a</b>                            | 12500   |
    kept words                 | a<code>ab</code>                     | 7500    |
    images                     | a <img>␣                             | 12500   |
    on and off                 | <b translate=no><b translate=yes>x   | 3750    |
    implied ends               | <li>a<p>b                            | 12500   |
""")
"""Units of hostile markup, how often the longest text has them, and how it ends."""


@pytest.mark.system  # which no check of types slows down
@pytest.mark.parametrize("kind", ["html", pytest.param("xml", marks=pytest.mark.slow)])
@pytest.mark.parametrize("share", [20, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "unit", "number", "end"), HOSTILE)
def test_hostile_markup_takes_linear_time_and_is_kept(
    name: str, unit: str, number: str, end: str, kind: Kind, share: int
) -> None:
    """Each of the largest takes a few seconds on an idle core; quadratic time would be many
    minutes.
    """
    text = unit.replace("␣", " ") * (int(number) // share) + end
    links = [(0, 1), (1, 0), (5, 3)]

    with time_limit():
        document = parse_markup(text, kind)
        assert document.render([AlignedLine(line) for line in document.lines]) == text
        for known in (None, links):
            changed = [AlignedLine(f"neu {line} neu", known) for line in document.lines]
            assert marks(document.render(changed), kind) == marks(text, kind)


DAMAGE = items("""
    <b> </b> <i> </i> <p> </p> <li> <br> <code> </code> <svg> </svg> <pre> </pre> <title> </title>
    <script> </script> <!-- --> <![CDATA[ ]]> <? </ < > & &lt &#0; &#xD800; &foo; &nbsp;
    word Two. 나는 你好。 1 = " ' /> <a␣href=' <a␣title="x> <p␣translate=no> <b␣translate=yes>
    <!DOCTYPE␣[ ␣ ␣
""")
DAMAGE = [*(part.replace("␣", " ") for part in DAMAGE), "\n", "\0", "\u2028", "\ud800"]


@pytest.mark.parametrize(
    "seeds", [range(500), pytest.param(range(500, 3000), marks=pytest.mark.slow)]
)
def test_damaged_markup_is_kept_too(seeds: range) -> None:
    for seed in seeds:
        draw = random.Random(seed)
        text = "".join(draw.choices(DAMAGE, k=draw.randint(1, 40)))
        kind = draw.choice(("html", "xml"))
        document = parse_markup(text, kind, options(draw))

        assert render(document, draw, identity) == text
        for translate in TRANSLATIONS:
            result = render(document, draw, translate)
            # A quote may come to stand after the other.
            assert "<a" in text or marks(result, kind) == marks(text, kind)

        for sentence in document.sentences:
            projected = project(sentence, sentence.line.split(" "), None)
            result = write_sentence(document.source, sentence, *projected)

            assert "<" in sentence.line or result == text[sentence.start : sentence.end]
