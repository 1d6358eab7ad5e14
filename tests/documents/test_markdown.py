"""Markdown: what another renderer makes of it keeps its skeleton, whatever a model answers."""

from __future__ import annotations

import random
import re
import sys
from html.parser import HTMLParser

import pytest
from helpers.hostile_models import MODELS, say_nothing, translate_document
from markdown_it import MarkdownIt

from regard.common.errors import MissingExtra
from regard.data.languages import Languages
from regard.documents import Document, DocumentOptions
from regard.documents.formats import read_document
from regard.text.text_format import TranslatedText
from regard.text.translation import Translation

CASES = [
    "# A *man* rides\n\nTwo dogs\n========\n\n### A dog ###\n",
    "A **man** and a _dog_ (*or two*) play ***in* the park**.\n",
    "A [link *here*](https://x.org/a_(b) 'A title'), [a <b>b</b>](</a b>) and [](e).\n",
    "See [the park][p], [the park], [a dog][] and ![a dog][].\n\n[p]: /p\n[the park]: /q\n"
    "[a dog]: <d> 'A dog'\n",
    "Press `Ctrl`+`C`, ``a ` b`` or `a\nb` now. The `--input=x` of *`y`* is here.\n",
    "- A man\n- Two *dogs*\n  play\n\n  in the park\n\n  1. One dog.\n  2. Two.\n\n* Another.\n",
    "- [ ] A man *rides*\n- [x] A dog\n",
    "> A man\n> **rides** a `red\n> bike`.\n> - A dog\nplays\n>\n> > Two `dogs`.\n",
    "> [!WARNING]\n> A man *rides*.\n> He is red.\n",
    "| A man | `repo:write` |\n|:--|--:|\n| a \\| **b c** | `x \\| y` is red |\n| x | A [dog](d) |\n",
    "```python\nprint('A man')  # **rides**\n```\n\n    A man *rides*\n\n~~~\nTwo dogs\n",
    "A man  \nrides **a dog\\\nand two**.\nTwo dogs.\n",
    "<div align='center'>\n  <p>A <b>man</b> rides.</p>\n  <!-- A dog -->\n</div>\n\nA dog.\n",
    "<details>\n<summary>Two *dogs*</summary>\n\nA *man* rides.\n\n</details>\n",
    "A <kbd>Ctrl</kbd> and <b>two *dogs*</b> <!-- no --> play.<br>A <img src='x'/> man.\n",
    "A snake_case_word, 2 * 3 * 4, a < b, AT&T, \\*not\\* this, &copy; and &amp;copy; 1.\n",
    "A man ~~walks~~ rides ~~a *dog*~~.\n",
    "![A dog](d.png)\n\n[![A badge](b.svg)](https://x.org) A man ![and a *dog*](e.png 'T') rides.\n",
    "See <https://x.org/a_b_c>, <me@x.org> and https://x.org/a_b_c for two dogs.\n",
    "1986\\. A year.\n\n\\# A hash.\n\n\\- A dash *here*.\n\n\\[x] A box.\n\n1) A man.\n",
    "***\n\nA man\n\n---\n\n- - Two dogs\n  - A *man*\n\n+ # A dog\n",
    "A man *rides **two** dogs*. **One. Two *dogs* play.** A __man__.\n",
    "“A **man**”, *“he rides”*, **Note:** a (**dog**)[here](x)!\n",
    "강아지 **두 마리(작은)**가 *공원*에서 논다. A man.\n",
]
"""Files whose skeleton every renderer of CommonMark with tables sees."""
OTHERS = [
    "A man.[^1] He ~~walks~~ rides.[^n]\n\n[^1]: A note *here*.\n\n[^n]: Two dogs.\n",
    '---\ntitle: "A man"\ndraft: true\n---\n\nA *man* rides {{ site.a_b }} home.\n',
    "+++\ntitle = 'A man'\n+++\n\nA dog.\n",
    '!!! note "A man"\n    A *man* rides.\n\n    - Two dogs\n\n=== "A dog"\n\n    Two dogs.\n',
    ":::tip\nA *man* rides.\n:::\n\n[Start](s.md){ .button } A [[Page of notes]] {% x_y %} now.\n",
    "import X from 'x'\n\nA man rides.\n\nTerm\n: A *dog* here\n",
    "A man rides $x_1^2$ and $$y_1$$ home. It costs $5 or $6.\n\n{: .class }\n",
]
INLINE = frozenset(("a", "em", "strong", "code", "del", "img", "br", "kbd", "b"))


class Skeleton(HTMLParser):
    """The blocks of a page in order, with the inline tags and the code of each, sorted."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen = list[object]()
        self.inline = list[str]()
        self.feed(page)
        self.flush()

    def flush(self) -> None:
        self.seen += sorted(self.inline)
        self.inline = []

    def add(self, tag: str, shown: str) -> None:
        if tag in INLINE:
            self.inline.append(shown)
        else:
            self.flush()
            self.seen.append(shown)

    def handle_starttag(
        self, tag: str, attributes: list[tuple[str, str | None]]
    ) -> None:
        tag = "del" if tag == "s" else tag
        self.add(tag, f"<{tag} {attributes}>")

    def handle_endtag(self, tag: str) -> None:
        tag = "del" if tag == "s" else tag
        self.add(tag, f"</{tag}>")


PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def skeleton(text: str) -> list[object]:
    page = PARSER.render(text)
    codes = re.findall(r"(?s)<code.*?</code>", page)
    return [*Skeleton(page).seen, *sorted(codes)]


def read(text: str, attributes: bool = False) -> Document:
    options = DocumentOptions(attributes=attributes)
    return read_document(text.encode(), "a.md", "markdown", options)


def unchanged(words: list[str], draw: random.Random) -> list[str]:
    return words


def syntax(words: list[str], draw: random.Random) -> list[str]:
    """Add what Markdown reads as syntax."""
    junk = (
        "#",
        "-",
        "1.",
        "*",
        "**x",
        "_a_",
        "[a",
        "](b)",
        "`",
        "<b>",
        "&lt;",
        "|",
        ">",
        "\\",
        "=",
    )
    return [
        draw.choice(junk) + " " + word
        if draw.random() < 0.5
        else word + draw.choice(junk)
        for word in words
    ]


def variants(text: str) -> list[str]:
    """A text as it is, with other line ends, in a quotation, and in an item of a list."""
    quoted = "".join(f"> {line}" for line in text.splitlines(keepends=True))
    item = "- " + "  ".join(text.splitlines(keepends=True))
    return [text, text.replace("\n", "\r\n"), text.rstrip("\n"), quoted, item]


@pytest.mark.parametrize("text", CASES)
def test_the_skeleton_stays(text: str) -> None:
    for variant in variants(text):
        expected = skeleton(variant)
        for model in [*MODELS, syntax, say_nothing]:
            for seed in range(2):
                written = translate_document(read(variant), model, seed).decode()
                assert skeleton(written) == expected, (model, variant, written)


@pytest.mark.parametrize("text", [*CASES, *OTHERS])
def test_the_same_words_give_the_same_bytes(text: str) -> None:
    for variant in [*variants(text), "\ufeff" + text]:
        for attributes in (False, True):
            document = read(variant, attributes)
            assert translate_document(document, unchanged) == variant.encode()


def translated(text: str, answers: dict[str, str], attributes: bool = False) -> str:
    """Translate a text by answers for whole lines, whose words have no links."""
    document = read(text, attributes)
    assert set(answers) <= set(document.lines)
    lines = [answers.get(line, line) for line in document.lines]
    results = [Translation(line, (), 0.0, ()) for line in lines]
    return document.render(results).decode()


def test_links_side_by_side_are_texts_of_their_own() -> None:
    answers = {"Home": "Heim", "About us": "Über uns"}
    assert (
        translated("[Home](/) | [About us][a]\n\n[a]: /b\n", answers)
        == "[Heim](/) | [Über uns][a]\n\n[a]: /b\n"
    )


@pytest.mark.parametrize(
    ("source", "answer", "written"),
    [
        ("A man.", "1. Mann", "1\\. Mann"),
        ("A man.", "2 * 3 * snake_case", "2 * 3 * snake_case"),
        ("A man.", "*Mann*", "\\*Mann\\*"),
        ("A man.", "[x](y)", "\\[x](y)"),
        ("A man.", "<b> &amp; \\*", "\\<b\\> \\&amp; \\\\\\*"),
        ("A man.", "- Mann", "\\- Mann"),
        ("A man.", "Mann\\", "Mann\\\\"),
        ("# A man.", "Mann #", "# Mann \\#"),
        ("- A man.", "[x] Mann", "- \\[x] Mann"),
        ("| A man. |\n|---|", "a | b", "| a \\| b |\n|---|"),
        ("> A man.\n> A dog.", "+ Mann", "> \\+ Mann\n> A dog."),
    ],
)
def test_syntax_in_translations_is_escaped(
    source: str, answer: str, written: str
) -> None:
    assert translated(source, {"A man.": answer}) == written


def test_emphasis_that_would_not_end_becomes_html() -> None:
    written = translated("A **dog (small)** plays.", {"A dog (small) plays.": "강아지"})
    assert skeleton(written) == skeleton("A **dog** plays.")
    korean = "A <em>x</em> **강아지(개)**가 논다.\n"
    assert translate_document(read(korean), unchanged) == korean.encode()


def test_texts_have_no_syntax_and_are_named_by_their_lines() -> None:
    document = read("".join(f"{case}\n" for case in OTHERS[:3]))
    names = [(text.name, text.layout.lines) for text in document.texts]
    assert names[:4] == [
        ("line 1", ("A man.", "He walks rides.")),
        ("line 3", ("A note here.",)),
        ("line 5", ("Two dogs.",)),
        ("line 8", ('title: "A man" draft: true',)),
    ]


def test_front_matter_is_data_but_for_its_texts() -> None:
    source = (
        "---\ntitle: A man\nTitle: 'A dog'\nsummary: \"A cat\"  # no\nlayout: A page\n"
        "description: A man\n  and two\n---\n"
    )
    answers = {"A man": "Ein Mann: er", "A dog": "Der 'Hund'", "A cat": 'Die "Katze"'}
    assert translated(source, answers) == (
        '---\ntitle: "Ein Mann: er"\nTitle: \'Der ’Hund’\'\nsummary: "Die \\"Katze\\""  # no\n'
        "layout: A page\ndescription: A man\n  and two\n---\n"
    )


def test_titles_of_admonitions_and_tabs_are_translated_outside_of_code() -> None:
    source = '!!! note "A man"\n    A dog.\n\n```\n!!! note "A cat"\n```\n'
    written = translated(source, {"A man": 'Ein "Mann"', "A dog.": "Ein Hund."})
    assert written.startswith('!!! note "Ein ”Mann”"\n    Ein Hund.\n\n```\n!!!')
    assert "A cat" not in read(source).lines


def upper(words: list[str], draw: random.Random) -> list[str]:
    return [word.upper() for word in words]


def test_labels_of_links_stay_when_their_text_is_translated() -> None:
    source = (
        "[A dog], [A dog][], ![x][A dog], ![A dog] and [two][A dog].\n\n[A dog]: /d\n"
    )
    written = translate_document(read(source), upper).decode()
    assert written.count("][A dog]") == 4
    assert "![A dog]" in written
    assert "TWO" in written
    assert skeleton(written) == skeleton(source)


def test_descriptions_of_images_are_attributes() -> None:
    source = "A man ![a dog](d.png 'x').\n"
    assert read(source).notes == (
        "1 description of an image stays as written (`attributes` translates them)",
    )
    written = translated(source, {"A man.": "Mann.", "a dog": "[Hund]"}, True)
    assert written == "Mann ![\\[Hund\\]](d.png 'x').\n"


def test_attributes_in_blocks_of_html_are_translated() -> None:
    source = "<p>\n<img src=a alt='a dog' title=b> A man.\n</p>\n\n> A <!-- x -->\n"
    answers = {"a dog": "Hund & <p>'", "A man.": "", "b": ""}
    written = translated(source, answers, True)
    expected = source.replace("'a dog'", "'Hund &amp; &lt;p&gt;&#x27;'")
    assert written == expected.replace("A man.", "")
    for seed in range(5):
        for block in (
            "<div title='A dog'></p>",
            "<!-- <p title='A dog'>",
            "<pre title='A b'>",
        ):
            text = f"{block}\n<img alt='A cat'>\n"
            for model in [*MODELS, say_nothing]:
                written = translate_document(read(text, True), model, seed).decode()
                assert written.count("<") == text.count("<")
                assert written.count("'") == text.count("'")


def test_emphasis_that_is_a_line_is_a_text_of_its_own() -> None:
    for mark in ("**", "_", "~~"):
        source = f"> {mark}Warning{mark}\n> A dog *bites*\n> here.\n"
        answers = {"Warning": "Achtung", "A dog bites here.": "Hund beißt."}
        assert read(source).lines == tuple(answers)
        written = translated(source, answers)
        assert written.startswith(f"> {mark}Achtung{mark}\n> ")
    assert read("**A**\nand **b**\n").lines == ("A", "and b")
    assert read("**A** and\n**b**\n").lines == ("A and b",)
    assert read("[A](b)\nand c\n").lines == ("A and c",)


def test_html_in_another_language_stays() -> None:
    options = DocumentOptions(Languages(source="en", target="de"))
    text = 'A <i lang="ko">개</i> *dog*.\n\n<p lang="fr">Un <b>chien</b></p>\n'
    document = read_document(text.encode(), "a.md", "markdown", options)
    assert document.lines == ("A 개 dog.",)
    assert ["Korean" in document.notes[0], "French" in document.notes[1]] == [True] * 2
    written = translate_document(document, MODELS[0]).decode()
    assert '<i lang="ko">개</i>' in written
    assert written.endswith('<p lang="fr">Un <b>chien</b></p>\n')


def test_notes_count_what_stays() -> None:
    assert read("```\nx\n```\n\n    y\n").notes[0] == "2 code blocks stay as written"


def test_without_its_parser_the_command_to_install_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pyromark", None)
    for module in ("markdown", "markdown_inline"):
        monkeypatch.delitem(sys.modules, f"regard.documents.{module}", raising=False)
    with pytest.raises(MissingExtra, match=r"pip install 'regard\[documents\]'"):
        read("A man.")


def test_marks_are_named_only_where_signs_end_nothing() -> None:
    document = read("A **dog** and **two (2)** *cats*.\n")
    source = document.texts[0].markup
    assert source is not None
    page = source.source.text
    glued = page.replace(" <x m=9>", "을 <x m=9>").replace("</x m=7>", "</x m=7>은")
    glued = glued.replace("cats</x", "cats </x")
    written = document.write([TranslatedText(glued)]).decode()
    assert written == "A **dog** and <strong>two (2)</strong>은을 *cats* .\n"


@pytest.mark.parametrize("name", ["a.md", "a.MARKDOWN", "a.mdx", "a.md.gz"])
def test_a_name_makes_markdown_of_any_text(name: str) -> None:
    document = read_document(b"A dog!\n\nWho is\nsleeping?\n", name)
    assert (document.format, document.media_type) == ("markdown", "text/markdown")
    assert document.lines == ("A dog!", "Who is sleeping?")


def test_a_block_of_pre_stays() -> None:
    text = "<pre>\n$ make all\n\n$ cd x\n</pre>\n\nA dog.\n"
    document = read(text)
    assert document.lines == ("A dog.",)
    written = translate_document(document, MODELS[0]).decode()
    assert written.startswith(text[: text.index("A dog")])
