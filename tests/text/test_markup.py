"""Markup by hand: what is translated, what is kept, and where tags go."""

from __future__ import annotations

import html
import random
import re

import pytest
from helpers.text_table import blocks

from regard.common.errors import UsageError
from regard.text.aligned_line import AlignedLine
from regard.text.markup.document import MarkupOptions, parse_markup
from regard.text.markup.tags import Kind, attributes, tokenize


def names(*tags: str) -> frozenset[str]:
    return frozenset(tags)


def lines(
    text: str, kind: Kind = "html", options: MarkupOptions | None = None
) -> tuple[str, ...]:
    return parse_markup(text, kind, options).lines


def linked(text: str, links: str) -> AlignedLine:
    """Return a translation with links such as "0-1 1-0", or "none" if they are not known."""
    if links == "none":
        return AlignedLine(text, None)
    pairs = [link.split("-") for link in links.split()]
    return AlignedLine(text, [(int(source), int(target)) for source, target in pairs])


def translate(
    text: str,
    target: str,
    links: str,
    kind: Kind = "html",
    options: MarkupOptions | None = None,
) -> str:
    return parse_markup(text, kind, options).render([linked(target, links)])


@pytest.mark.parametrize(
    ("text", "target", "links", "result"),
    blocks("""
    # a tag moves with its word, and leaves out punctuation that it left out before
    I was eating <b>bread</b>.
    나는 빵을 먹고 있었다.
    0-0 3-1 2-2 1-3
    나는 <b>빵을</b> 먹고 있었다.

    나는 <b>빵</b>을 먹었다.
    I ate bread.
    0-0 2-1 1-2
    I ate <b>bread</b>.

    "<b>Yes</b>," she said
    "Ja," sagte sie
    0-0 2-1 1-2
    "<b>Ja</b>," sagte sie

    Now <b>go on.</b>
    Weiter. Jetzt!
    0-1 1-0 2-0
    <b>Weiter.</b> Jetzt!

    # nested elements
    <a href="/x">the <b>red</b> car</a> is <i>fast</i>
    schnell ist das rote Auto
    0-2 1-3 2-4 3-1 4-0
    <i>schnell</i> ist <a href="/x">das <b>rote</b> Auto</a>

    # words that were together and are apart: the range in which they are in the majority, in a tie the longer
    <b>Stand up</b> early
    Steh früh auf
    0-0 2-1 1-2
    <b>Steh früh auf</b>

    I <b>get up</b> at six every day
    Ich stehe jeden Tag um sechs auf
    0-0 1-1 2-6 3-4 4-5 5-2 6-3
    Ich <b>stehe</b> jeden Tag um sechs auf

    # two elements whose words mix: each gets words of its own only
    <b>A B</b> <i>C D</i>
    a c b d
    0-0 1-2 2-1 3-3
    <b>a</b> <i>c</i> b d

    # two elements in one word, of which one word is left
    <b>d</b><i>oo</i><a id=1>g</a>
    perro
    0-0
    <i>perro</i><b></b><a id=1></a>

    # a word that nothing is linked to stays with its neighbours
    <b>one two three</b> four
    eins zwei drei vier
    0-0 2-2 3-3
    <b>eins zwei drei</b> vier

    # what has no text
    Click <img src=a> <b>here</b>.
    여기를 클릭하세요.
    1-0 0-1
    <img src=a> <b>여기를</b> 클릭하세요.

    long<wbr>word first
    first longword
    0-1 1-0
    first long<wbr>word

    one <!-- c --> two
    zwei eins
    1-0 0-1
    <!-- c --> zwei eins

    # entities: of words that stay; others are escaped
    10&nbsp;km &copy; ab &lt; c
    > © 10 km
    0-2 1-3 2-1 4-0
    &gt; &copy; 10&nbsp;km

    say &quot;yes&quot; &amp; go
    geh "ja"
    0-0 1-1
    geh &quot;ja&quot;

    # what is kept in a sentence: its copy is replaced, with endings kept, else the words that it is linked to
    Run <code>make test</code> now
    지금 make test를 실행
    0-3 3-0
    지금 <code>make test</code>를 실행

    Press <kbd>Q</kbd> twice
    Q를 두 번
    1-0 2-1 2-2
    <kbd>Q</kbd>를 두 번

    The <i translate=no>Old Man</i> sleeps
    노인이 잔다
    1-0 2-0 3-1
    <i translate=no>Old Man</i> 잔다

    # quotes beside tags, spaces in elements, and less-than signs that begin no tag
    '<b n=1>Basic</b>' by '<b n=2>it</b>'.
    'BASIC' BY 'IT'.
    0-0 1-1 2-2
    '<b n=1>BASIC</b>' BY '<b n=2>IT</b>'.

    <a><em><i>View all </i></em><em><i>dogs here!</i></em></a>
    VIEW ALL DOGS HERE!
    0-0 1-1 2-2 3-3
    <a><em><i>VIEW ALL </i></em><em><i>DOGS HERE!</i></em></a>

    It (v <= 4) and &urls[0] < 5 <3
    IT (V <= 4) AND &URLS[0] < 5 <3
    none
    IT (V &lt;= 4) AND &amp;URLS[0] &lt; 5 &lt;3

    <b>30k€ of <i translate="no">ingresos</i></b> each
    30K€ OF ingresos EACH
    0-0 1-1 2-2 3-3
    <b>30K€ OF <i translate="no">ingresos</i></b> EACH

    # malformed: stays where it stood
    one </i>two <b>three
    drei zwei eins
    0-2 1-1 2-0
    <b>drei </i>zwei eins

    a < c
    x <y & z
    none
    x &lt;y &amp; z

    caf&eacute; a&nbsp;b
    & café\u00a0x
    0-1
    &amp; café&nbsp;x

    # without alignments: in proportion, and by words that are the same
    one <b>two</b> three
    eins zwei drei
    none
    eins <b>zwei</b> drei

    <b>Seoul</b> is far away
    weit weg liegt Seoul
    none
    weit weg liegt <b>Seoul</b>
    """),
)
def test_tags_go_with_their_words(
    text: str, target: str, links: str, result: str
) -> None:
    assert translate(text, target, links) == result
    assert translate(f"<p>{text}</p>\n", target, links) == f"<p>{result}</p>\n"


@pytest.mark.parametrize(
    ("text", "target", "links", "result"),
    blocks("""
    # signs of notes and symbols: next to the word that they stood at, with the spaces that they had
    Try FOOBAR<sup>®</sup> now!
    Jetzt FOOBAR!
    0-0 1-1
    Jetzt FOOBAR<sup>®</sup>!

    A guitar<sup>1</sup> sounds.
    Da klingt Gitarre.
    1-2 2-1
    Da klingt Gitarre<sup>1</sup>.

    A guitar <a>[1]</a>.
    Eine Gitarre.
    0-0 1-1
    Eine Gitarre <a>[1]</a>.

    A <i>★</i> man plays
    Ein Mann spielt
    1-0 1-1 2-2
    Ein <i>★</i> Mann spielt

    Ann<i>*</i> or Bob<i>†</i>.
    Bob oder Ann.
    0-2 1-1 2-0
    Bob<i>†</i> oder Ann<i>*</i>.

    Home<b> | </b>Help<i>→</i>
    Start Hilfe
    0-0 1-1
    Start<b> | </b>Hilfe<i>→</i>

    <sup>12</sup>In the <b>&reg;</b> beginning
    Am Anfang
    none
    <sup>12</sup>Am <b>&reg;</b> Anfang

    <a href=x><i>→</i><b>1</b></a> sees a
    sieht
    1-0
    <a href=x><i>→</i><b>1</b></a> sieht

    # numbers: for the same number or another one, never for a word, and parts of words stay so
    See <b>17</b> men
    Siehe siebzehn Männer
    1-1 2-2
    Siehe siebzehn <b>17</b> Männer

    <b>1,000</b> men see
    Es sehen 1.000 Männer
    0-2 1-3
    Es sehen <b>1,000</b> Männer

    With <b>2</b> dogs
    Mit Hunden
    0-0 1-1 2-1
    Mit <b>2</b> Hunden

    A <b>5</b> year boy
    Ein 5-jähriger Junge
    1-1 2-1 3-2
    Ein <b>5</b>-jähriger Junge

    Drink H<sub>2</sub>O now
    Jetzt H2O trinken
    1-1 2-0
    Jetzt H<sub>2</sub>O trinken

    Drink H<sub>2</sub>O now.
    Jetzt Wasser.
    1-1 2-0
    Jetzt Wasser<sub>2</sub>.

    CO<sub>2</sub> gas
    CO2-Gas
    0-0 1-0
    CO<sub>2</sub>-Gas

    # punctuation: for the mark of the translation, whether it is the same or not
    A man stops<b>.</b>
    Da hält ein Mann.
    1-3 2-1
    Da hält ein Mann<b>.</b>

    Hello <b>!</b>
    Hallo!
    0-0 1-0
    Hallo<b>!</b>

    Is it<b>?</b>
    Ist es.
    0-0 1-1
    Ist es<b>?</b>

    Home <i>—</i> Help
    Start Hilfe
    0-0 2-1
    Start <i>—</i> Hilfe

    # without any text: between the words whose neighbours those are, not first for an article alone
    At most <x/> dogs.
    Die Hunde.
    2-0 2-1
    Die <x/> Hunde.

    At most <x/> signs.
    Ein Wort von Zeichen.
    2-0 1-2 2-3
    Ein Wort von <x/> Zeichen.

    At most <x/>.
    Bis zu.
    none
    Bis zu <x/>.

    Delete “<x/>” now?
    Löschen „“ jetzt?
    none
    Löschen „<x/>“ jetzt?

    Delete “<x/>” now?
    „“ jetzt löschen?
    0-2 1-0 2-1
    „<x/>“ jetzt löschen?

    Delete “<x/>” now?
    Jetzt löschen?
    0-1 2-0
    Jetzt <x/> löschen?
    """),
)
def test_elements_without_letters_are_kept(
    text: str, target: str, links: str, result: str
) -> None:
    if "<x/>" in text:
        assert translate(text, target, links, "xml") == result
    in_html = translate(f"<p>{text}</p>\n".replace("<x/>", "<wbr>"), target, links)
    assert in_html == f"<p>{result}</p>\n".replace("<x/>", "<wbr>")


@pytest.mark.parametrize(
    "note",
    [
        "<sup>1</sup>",
        '<a href="#fn1">[1]</a>',
        "<sup>[<a>2</a>]</sup>",
        "<i>†</i>",
        "[1]",
    ],
)
def test_notes_after_a_sentence_stay_with_it(note: str) -> None:
    document = parse_markup(f"<p>A man plays.{note} A woman sings.{note}</p>")
    plain = note if note == "[1]" else ""
    assert document.lines == (f"A man plays.{plain}", f"A woman sings.{plain}")
    translated = [f"Ein Mann spielt.{plain}", f"Eine Frau singt.{plain}"]
    result = document.render([AlignedLine(line) for line in translated])
    assert result == f"<p>Ein Mann spielt.{note} Eine Frau singt.{note}</p>"


DOCUMENT = """<document>
  <meta><title>A document's title</title></meta>
  <content>
    <par>This is the <b>first <i>sen</i>tence</b>. Followed by a second one.</par>
    <par>This is the third sentence.</par>
  </content>
</document>"""
SENTENCES = (
    "A document's title",
    "This is the first sentence.",
    "Followed by a second one.",
    "This is the third sentence.",
)


def test_the_structure_of_xml_is_detected_or_given() -> None:
    assert lines(DOCUMENT, "xml") == SENTENCES
    given = MarkupOptions(outline=False, splitting_tags=names("par", "title"))
    assert lines(DOCUMENT, "xml", given) == SENTENCES
    text = "<par>The firm said it was</par><par> conducting an investigation.</par>"
    parts = ("The firm said it was", "conducting an investigation.")
    assert lines(text, "xml") == parts
    joined = MarkupOptions(non_splitting_tags=names("par"))
    assert lines(text, "xml", joined) == (
        "The firm said it was conducting an investigation.",
    )
    split = MarkupOptions(splitting_tags=names("b"))
    assert lines("<a>one <b>two</b></a>", "xml", split) == ("one", "two")


def test_lines_of_xml() -> None:
    head = '<?xml version="1.0"?><!DOCTYPE r [<!ENTITY e "x>y">]>'
    text = f"{head}<r>a &e; b&#233; <![CDATA[c <d>]]> <E/>e</r>"
    assert lines(text, "xml") == ("a bé e",)
    result = translate(text, "x y\x00z e", "0-0 1-1 2-2", "xml")
    assert result == f"{head}<r>x &e; y\ufffdz <![CDATA[c <d>]]> <E/>e</r>"
    assert lines('<r><p xml:space="preserve">a\nb</p><p>c\nd</p></r>', "xml") == (
        "a",
        "b",
        "c d",
    )
    ignored = MarkupOptions(ignore_tags=names("title"))
    assert lines("<r><Title>a</Title><title>b</title></r>", "xml", ignored) == ("a",)
    assert translate("<b>one</b> two", "", "") == "<b></b>"
    digits = f"a &#{'1' * 5000}; b"
    assert lines(digits) == (digits,)


def test_options_of_sentences() -> None:
    text = "<p>One. Two\nthree.</p>"
    assert lines(text) == ("One.", "Two three.")
    assert lines(text, options=MarkupOptions(sentences=False)) == ("One. Two three.",)
    assert lines(text, options=MarkupOptions(newlines=True)) == (
        "One.",
        "Two",
        "three.",
    )


def test_an_element_may_reach_over_several_sentences() -> None:
    document = parse_markup("One <b>two three. Four</b> five.")
    translated = [
        linked("drei zwei eins.", "0-2 1-1 2-0"),
        linked("fünf vier.", "0-1 1-0"),
    ]
    assert document.render(translated) == "<b>drei zwei eins. fünf vier</b>."
    document = parse_markup("One <b>two. Four</b> five.")
    translated = [AlignedLine("eins zwei."), AlignedLine("vier fünf.")]
    assert document.render(translated) == "eins <b>zwei. vier</b> fünf."


def test_sentences_that_touched_are_parted_if_the_language_has_spaces() -> None:
    document = parse_markup("<p>他说<b>你好。</b>我走了。</p>")
    assert document.lines == ("他说你好。", "我走了。")
    english = document.render([AlignedLine("He said hello."), AlignedLine("I left.")])
    assert english.endswith("</b> I left.</p>")
    japanese = document.render([AlignedLine("こんにちは。"), AlignedLine("行った。")])
    assert "。</b>行" in japanese


@pytest.mark.system  # without checks of types, which are first to refuse
def test_bad_calls_are_refused() -> None:
    message = "the text has 1 line to translate, but 0 translations came back"
    with pytest.raises(UsageError, match=message):
        parse_markup("<p>a</p>").render([])
    with pytest.raises(UsageError, match="markup is of kind html or xml, not 'text'"):
        parse_markup("a", "text")  # type: ignore[arg-type]
    assert translate("a <b>b</b>", "x y", "9-9 1-1") == "x <b>y</b>"


def test_attributes_are_read_as_browsers_do() -> None:
    text = "<A  HREF='a>b' x = \"1\" y=2/3 z href=c/>"
    (token,) = tokenize(text, "html")
    assert token.name == "a"
    assert attributes(text, token) == {"href": "a>b", "x": "1", "y": "2/3", "z": ""}


def test_placeholders_and_addresses_in_markup_stand_apart_as_tags_do() -> None:
    text = "<p>Hello %1$s, see https://x.org/a?b=1&amp;c=2 for <b>the {name} dog</b> &amp; 🙂.</p>"
    document = parse_markup(text)
    assert document.lines == ("Hello, see for the dog &.",)
    rendered = document.render(
        [linked(document.lines[0].upper(), "0-0 1-1 2-2 3-3 4-4 5-5")]
    )
    assert rendered == (
        "<p>HELLO %1$s, SEE https://x.org/a?b=1&amp;c=2 FOR <b>THE {name} DOG</b> &amp; 🙂.</p>"
    )


def test_marks_of_all_scripts_are_punctuation_beside_tags() -> None:
    document = parse_markup("<p>मैं <b>घर</b>। वह।</p>")
    assert document.lines == ("मैं घर।", "वह।")
    result = document.render([linked("I home।", "0-0 1-1"), linked("He.", "0-0 1-1")])
    assert result == "<p>I <b>home</b>। He.</p>"
    result = translate("<p>ငါ <b>အိမ်</b><i>။</i></p>", "I home.", "0-0 1-1")
    assert result == "<p>I <b>home</b><i>။</i></p>"


@pytest.mark.parametrize("kind", ["html", "xml"])
@pytest.mark.parametrize(
    "mark",
    [
        "&lt;b&gt;",
        "&lt;/b&gt;",
        "&lt;br/&gt;",
        "&lt;script&gt;",
        "&#60;b class=&quot;x&quot;&#62;",
        "&#x3C;i&#x3E;",
        "&amp;nbsp;",
        "&amp;amp;",
        "&amp;#160;",
        "&lt;%= name %&gt;",
        "{{ a &amp;&amp; b }}",
    ],
)
def test_escaped_marks_are_kept_as_they_were_written(mark: str, kind: Kind) -> None:
    document = parse_markup(f"<p>A man writes {mark} on a wall.</p>", kind)
    assert re.sub(" +", " ", " ".join(document.lines)) == "A man writes on a wall."
    rendered = document.render([AlignedLine(line.upper()) for line in document.lines])
    assert rendered.split() == f"<p>A MAN WRITES {mark} ON A WALL.</p>".split()


@pytest.mark.parametrize(
    ("text", "target", "links", "result"),
    blocks("""
    I read &lt;b&gt;a book&lt;/b&gt; now.
    Jetzt lese ich ein Buch.
    0-2 1-1 2-3 3-4 4-0
    Jetzt lese ich &lt;b&gt;ein Buch&lt;/b&gt;.

    # in an element
    <i>I &lt;b&gt;read&lt;/b&gt;</i> books
    Bücher lese ich
    0-2 1-1 2-0
    Bücher <i>&lt;b&gt;lese&lt;/b&gt; ich</i>

    # an element that ends in another is none
    <i>I &lt;b&gt;read</i> books&lt;/b&gt;
    ich lese Bücher
    0-0 1-1 2-2
    <i>ich &lt;b&gt;lese</i> Bücher&lt;/b&gt;

    # so is one around another's start tag
    I &lt;b&gt;read &lt;i&gt;a&lt;/b&gt; book&lt;/i&gt;
    ich lese ein Buch
    0-0 1-1 2-2 3-3
    ich &lt;b&gt;lese &lt;i&gt;ein&lt;/b&gt; Buch&lt;/i&gt;
    """),
)
def test_escaped_tags_go_with_their_words(
    text: str, target: str, links: str, result: str
) -> None:
    assert translate(text, target, links) == result


def test_escaped_breaks_part_the_text_of_xml_alone() -> None:
    text = "A man runs&lt;br/>a dog sits&lt;/p&gt;&lt;P id=&quot;1&quot;&gt;it barks"
    assert lines(f"<string>{text}</string>", "xml") == (
        "A man runs",
        "a dog sits",
        "it barks",
    )
    assert lines("<p>Write &lt;br&gt; in HTML</p>") == ("Write in HTML",)
    assert lines("<s>A man &lt;brand/> runs</s>", "xml") == ("A man runs",)


@pytest.mark.parametrize(
    ("text", "target", "links", "result"),
    blocks("""
    Press <kbd>Enter</kbd>.
    Drücken Sie.
    0-1
    Drücken Sie <kbd>Enter</kbd>.

    Press <kbd>Enter</kbd>.
    Drücken Sie die Taste.
    0-1 1-0 1-3
    <kbd>Enter</kbd> Sie die.

    Press {name}!
    Drücken Sie!
    0-1
    Drücken Sie {name}!

    See (<code>x y</code>).
    Siehe (dort).
    0-0 1-1
    Siehe (<code>x y</code>).

    Go <kbd>Esc</kbd> (now).
    Jetzt (los).
    0-0 1-1 2-1
    Jetzt (<kbd>Esc</kbd>).
    """),
)
def test_punctuation_stays_beside_what_takes_the_place_of_its_word(
    text: str, target: str, links: str, result: str
) -> None:
    assert translate(text, target, links) == result
    draw = random.Random(text)
    document = parse_markup(text)
    for _ in range(50):
        drawn = [(draw.randrange(4), draw.randrange(4)) for _ in range(4)]
        rendered = document.render([AlignedLine(target, drawn)])
        assert not re.search(r"\s[.,!)]|\(\s", rendered), drawn


@pytest.mark.parametrize(
    "block",
    blocks("""
    <p>One<br>two.<br/>Three <b>four</b></p>five
    One
    two.
    Three four
    five

    <ul><li>One<li>Two</ul><table><tr><td>a<td>b</table>
    One
    Two
    a
    b

    <select><option>Red<option>Blue</select><button>Send it</button>
    Red
    Blue
    Send it

    <title>A &lt;b> <i></title><textarea>x⏎ y</textarea><pre>One⏎  two</pre>
    A
    x
    y

    a <pre>$ make <b>x</b>⏎ install</pre> b <pre translate=yes>One⏎  two. Three</pre>
    a
    b
    One
    two.
    Three

    <p>One⏎   two.⏎  Three</p>
    One two.
    Three

    <b>One.</b> <i>Two three.</i> 4.
    One.
    Two three.

    a<script>if (a<b) x('</p>')</script>b<style>p{}</style>c<template><p>x</p></template>
    abc

    a <svg><title>x</title><style/><path/></svg> b<math><mi>x</mi></math>c
    a b c

    <ruby>漢<rt>かん</rt>字</ruby>
    漢字

    fish&amp;chips &eacute &notit; &#x41;&#66 &unknown; &nbsp;&#32; x
    fish&chips é ¬it; AB x

    <p translate=no>a <b>b</b> <i translate=yes>c</i></p>d
    c
    d

    <p class='x notranslate y'>a</p><code translate=yes>b</code>
    b

    <p translate=no>a<p>b</p>
    b

    See <code>x = 1. Y</code> there.
    See x = 1. Y there.

    Use <code>long long long long long long long long long</code> here
    Use here

    <code>only</code> <p>|</p> 12

    x <a title='translate=no'>y</a> <a href=/a/>z</a>
    x y z

    <nav><a href=/>Home</a><a>About <b>us</b></a> · <a><i></i>Contact</a></nav>
    Home
    About us
    Contact

    <label><input> Small</label> <label>Large one</label>
    Small
    Large one

    <p><b>Now</b> <a>read</a> <a>this</a></p> <a>or</a> <a>that</a> too
    Now read this
    or that too

    One<b>.</b> Two<i> </i>x <b>3</b> <i>4</i>.<b>.</b> H<sup>5</sup>
    One.
    Two x 3 4..
    H

    5 < 6 <3 <<< <제목> a>b </> <!x> <?y?>z
    5 < 6 <3 <<< <제목> a>b z

    <p class="x"">a</p><p title="unclosed>b</p>
    a
    b

    a <!-- b -- c
    a
    """),
)
def test_lines_of_html(block: list[str]) -> None:
    text = block[0].replace("⏎", "\n")
    document = parse_markup(text)
    assert [*document.lines] == block[1:]
    assert document.render([AlignedLine(line) for line in document.lines]) == text


@pytest.mark.parametrize(
    ("text", "target", "links", "result"),
    blocks("""
    A <b>very</b> big dog.
    Ein großer Hund.
    0-0 2-1 3-2
    Ein <b>großer</b> Hund.

    Look <b>here</b>!
    Schau!
    0-0
    <b>Schau</b>!

    A <a href="#">red car</a> <i>now</i>
    Rotes Auto
    1-0 2-1
    <a href="#">Rotes</a> <i>Auto</i>

    <u>One</u> <s>word</s>
    Wort
    0-0
    <u>Wort</u><s></s>

    See <a href="#"><b>it</b></a>.
    Sieh.
    0-0
    <a href="#"><b>Sieh</b></a>.
    """),
)
def test_an_element_that_held_text_takes_a_word_beside_it(
    text: str, target: str, links: str, result: str
) -> None:
    assert translate(text, target, links) == result


@pytest.mark.parametrize("space", ["", " "])
def test_no_space_comes_between_a_kept_element_and_its_mark(space: str) -> None:
    text = f"Press <kbd>Enter</kbd>{space}."
    links = "0-0 1-2 2-3" if space else "0-0 1-2"
    result = f"Drücken Sie <kbd>Enter</kbd>{space}."
    assert translate(text, "Drücken Sie Enter .", links) == result


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "<p>© 2026 Dogs · <a>Dogs</a> | <a>Cats</a></p>",
            ("© 2026 Dogs", "Dogs", "Cats"),
        ),
        ("<p>1. A dog barks.</p>", ("A dog barks.",)),
        ("<p>(2) A dog</p><p>3.1. A cat</p>", ("A dog", "A cat")),
        ("<p>• A dog</p><p>- A cat</p>", ("A dog", "A cat")),
        ("<p>A dog|a cat</p>", ("A dog|a cat",)),
        ("<p>2 dogs – a cat. 3.5 dogs</p>", ("2 dogs – a cat.", "3.5 dogs")),
        ("<p>가. 개</p><p>① 두 마리</p><p>가. 나</p>", ("개", "두 마리", "나")),
        ("<p>Next »</p><p>« Back</p><p>» Read</p>", ("Next", "Back", "Read")),
        ("<p>Il dit : « Bonjour »</p>", ("Il dit : « Bonjour »",)),
        ("<p>« Oui » dit <b>« Non »</b></p>", ("« Oui » dit « Non »",)),
        ("<p>» Ja « sagt er</p>", ("» Ja « sagt er",)),
        ("<p><a>A</a> &raquo; <a>B</a> » C</p>", ("A", "B", "C")),
        ("<p><a>A</a> › B / C → D &middot; <a>E</a></p>", (*"ABCDE",)),
        ("<p>« <a>A dog</a> | B »</p>", ("A dog", "B")),
        ("<p>either/or, 3 km/h, A» B</p>", ("either/or, 3 km/h, A» B",)),
        ("<p>← Back</p><p>Next →</p>", ("Back", "Next")),
        ("<p>✓ A dog 🐶</p><p><a>★ B ▾</a></p>", ("A dog", "B")),
        ("<a>Dogs</a> <span>Cats</span> <a>Men</a>", ("Dogs", "Cats", "Men")),
        ("<a>Dogs</a> &amp; <span>Cats</span>", ("Dogs", "Cats")),
        ("<a>Dogs</a> <b>are</b> <a>here</a>", ("Dogs are here",)),
        ("<b>Dogs</b> <i>Cats</i>", ("Dogs Cats",)),
        ("<p>Dogs (2)</p><p>A cat (red)</p>", ("Dogs", "A cat (red)")),
        ("<p>(see <a>the dog</a>).</p><p>(a) b (c)</p>", ("see the dog", "(a) b (c)")),
        ("<p>(A dog plays. A cat sleeps.)</p>", ("A dog plays.", "A cat sleeps.")),
        ("<b>Note:</b> A dog barks.", ("Note:", "A dog barks.")),
        ("<i><b>Note</b>: A dog</i>", ("Note:", "A dog")),
        ("<b>A <i>big</i> one:</b> a dog", ("A big one:", "a dog")),
        ("<input> <b>참고:</b> 개", ("참고:", "개")),
        ("<p>A <b>note:</b> a dog</p>", ("A note: a dog",)),
        ("<p>Your name: A dog barks</p>", ("Your name:", "A dog barks")),
        ("<p>She said: the dog</p><p>A: B</p>", ("She said: the dog", "A: B")),
    ],
)
def test_signs_between_texts_and_numbers_of_items_are_no_text(
    text: str, expected: tuple[str, ...]
) -> None:
    document = parse_markup(text)
    assert document.lines == expected
    upper = [AlignedLine(line.upper(), None) for line in document.lines]
    written = document.render(upper)
    before, after = (
        html.unescape(re.sub("<.*?>", "", page)) for page in (text, written)
    )
    assert after == before.upper()


@pytest.mark.parametrize("sign", ["+", "/", "–", "&amp;", "->", ","])
def test_signs_between_kept_elements_stay_with_them(sign: str) -> None:
    keys = f"<kbd>Ctrl</kbd>{sign}<kbd>Alt</kbd>{sign}<kbd>S</kbd>"
    document = parse_markup(f"Press {keys} to save.")
    draw = random.Random(sign)
    for _ in range(50):
        words = draw.sample(["Drücken", "Sie", "jetzt", "Ctrl", "."], 4)
        links = [(draw.randrange(4), draw.randrange(4)) for _ in range(3)]
        written = document.render([AlignedLine(" ".join(words), links)])
        assert written.count("<kbd>") == 3
        assert keys in written, (words, links)


def test_other_text_between_kept_elements_parts_them() -> None:
    text = "<kbd>A</kbd> + <kbd>B</kbd>or<kbd>C</kbd>&nbsp;<kbd>D</kbd>"
    document = parse_markup(f"Press {text} now")
    written = document.render([AlignedLine("D C A B x", None)])
    assert sorted(re.findall("<kbd>.</kbd>", written)) == re.findall(
        "<kbd>.</kbd>", text
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<p lang="ko">개</p><p lang="de">Hund</p><p>Dog</p>', ("Dog",)),
        ('See <a lang="ko">개 두 마리</a> now', ("See 개 두 마리 now",)),
        ('<div xml:lang="ko-KR"><p>개</p><p lang="en_US">A dog</p></div>', ("A dog",)),
        ('<html lang="ko"><p>개</p><ul><li>둘</ul>', ()),
        ("<p lang=''>A</p><p lang=und>B</p><p lang='{{ x }}'>C</p>", ("A", "B", "C")),
        (
            "<p lang=english>A</p><p hreflang=ko>B</p><p data-lang=ko>C</p>",
            tuple("ABC"),
        ),
        ("<p lang=ko translate=yes>A</p><p lang=en translate=no>B</p>", ("A",)),
        ("<div translate=no><p lang=en>A</p></div>", ()),
    ],
)
def test_elements_in_another_language_stay(
    text: str, expected: tuple[str, ...]
) -> None:
    options = MarkupOptions(language="en")
    document = parse_markup(text, options=options)
    assert document.lines == expected
    upper = [AlignedLine(line.upper(), None) for line in document.lines]
    written = document.render(upper)
    assert re.findall("[가-힣]+|Hund", written) == re.findall("[가-힣]+|Hund", text)


def test_a_sign_within_what_is_kept_divides_nothing() -> None:
    assert lines("<p>A <code>a | b</code> c</p>") == ("A a | b c",)
