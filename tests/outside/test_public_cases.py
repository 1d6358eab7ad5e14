"""Faults that users have reported of translators in public, each with its whole kind: rows C1 to
C44 and F1 to F39.

The rows that other tests hold already are not repeated: kinds of files (`data/test_file_kinds.py`),
tables of pairs (`data/test_delimited.py`), captions, scores, training. Models have random weights:
what holds here, no training breaks.
"""

from __future__ import annotations

import asyncio
import json
import re
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from small import folder

from regard.common.errors import LineWarning
from regard.data.spans import differing_spans
from regard.model_folder import load_folder
from regard.pipeline import RuntimeTranslator, Translator, load_translator
from regard.runtime import native
from regard.runtime.engine import Precision, pack_model
from regard.runtime.engine.runtime_file import runtime_file
from regard.serving.application import create_app
from regard.serving.server_settings import ServerSettings
from regard.text.text_format import TextFormat, lay_out
from tests.cli.command import Command
from tests.runtime.pairs import maker
from tests.serving.fake import FakeService

pytestmark = pytest.mark.filterwarnings("ignore::regard.common.errors.LineWarning")
AnyTranslator = Translator | RuntimeTranslator
Ask = Callable[..., httpx.Response]

SPANS: dict[str, list[str]] = {
    "C3 addresses": [
        *(
            "https://example.org/house/a_b?x=1&y=2",
            "https://aka.ms/foo/bar?x=1",
            "http://127.0.0.1:5000/x",
        ),
        *(
            "https://me:pw@h.org:80/x#part",
            "ftp://a.b/c",
            "www.example.org",
            "a.b+c@example.co.uk",
            "mailto:a@b.org",
        ),
    ],
    "C4 signs": ["✓", "✗", "★", "⚠", "♥", "⏎", "⏰", "✔️"],
    "C5 emoji": ["🙂", "👩🏽‍🚀", "🇰🇷", "🤷🏻‍♂️", "❤️", "1️⃣", "🫠", "🧑‍🤝‍🧑", "👨‍👩‍👧‍👦"],
    "C15 paths": [
        r"C:\New\a.txt",
        r"D:\b",
        "/usr/local/bin/",
        "~/src/a",
        "./run/me.sh",
        "../a/b",
        "notes.txt",
    ],
    "C16 templates": [
        *(
            "{{user.first_name}}",
            "{{ user.city }}",
            "{{#if x}}",
            "{{/if}}",
            "${user.name}",
            "#{name}",
            "%{count}",
        ),
        *("{user.name!r}", "{ $var }", "{ -brand-name }", "{0,number}"),
    ],
    "C17 formats": [
        *(
            "%s",
            "%d",
            "%@",
            "%1$s",
            "%2$d",
            "%1$@",
            "%.2f",
            "%-10s",
            "%5d",
            "%05.1f",
            "%lu",
            "%hhu",
            "%zd",
            "%c",
        ),
        *("%(name)s", "%(count)d", "%1", "%n"),
    ],
    "C18 marks of tools": [
        *(
            "__count__",
            "%NAME%",
            ":name",
            "$name",
            "###T01###",
            "@@name@@",
            "[X8X]",
            "{0}",
            "{name}",
        ),
        *('<x id="0"/>', "<br>", "</b>", "<PERSON>", '<ph value="max"/>'),
    ],
    "C28 code": [
        "`repo:write`",
        "`a b`",
        "foo()",
        "os.path.join()",
        "--force",
        "--level=3",
        "snake_case",
        "MAX_SIZE",
    ],
    "F24 entities": ["&amp;", "&copy;", "&#8364;", "&hellip;", "&#x20AC;", "&nbsp;"],
    "F25 tokens of models": ["<s>", "</s>", "<unk>", "<pad>", "<mask>"],
}
"""What is not language and has to come back as it is: kinds that the rows report, each with its
relatives.
"""
FRAMES = [
    *(
        "{} 나는 집에 간다",
        "나는 집에 간다 {}",
        "나는 {} 집에 간다",
        "나는 집에 간다. {} 너는 책을 읽는다.",
    ),
    *('I was "{}" eating', "I go ({}) home", "OPEN {} THE FILE"),
]
SEVERAL = {
    "C5": ("See you 👩🏽‍🚀🇰🇷 soon 🙂", ["👩🏽‍🚀", "🇰🇷", "🙂"]),
    "C16": ("{{user.first_name}} lives in {{user.city}}", ["{{user.first_name}}", "{{user.city}}"]),
    "C17": ("Hello %1$s, good to see you %2$d times!", ["%1$s", "%2$d"]),
    "C18": ("__count__ of :total%", ["__count__", ":total%"]),
    "C20": ("'<x>Basic</x>' by '<y>Accept</y>'.", ["<x>", "</x>", "<y>", "</y>"]),
    "C3 and others": (
        "`x` at https://a.org/b: {a}, %s & 🙂 <i>c</i>",
        ["`x`", "https://a.org/b", "{a}", "%s", "🙂"],
    ),
    "F25": ("나는 </s> 집에. <unk> <pad> 간다", ["</s>", "<unk>", "<pad>"]),
}
"""Lines with more spans than one, and their spans."""
LETTERLESS = [
    "✗",
    "▾",
    "---",
    "***",
    "...",
    "!",
    "12:30",
    "3.408.215",
    "(2) / 3",
    "½ = 0.5",
    "→ ←",
    "100 %",
    "[1]",
]
"""Lines without any letter, of which nothing can be translated."""
NUMBERS = [
    "3.408.215",
    "17",
    "12345",
    "10.0.19041.1",
    "$1,234.56",
    "50%",
    "2016-05-04",
    "12:30",
    "+82-2-1234-5678",
]
INVISIBLE = {
    "byte-order mark": "\ufeff",
    "space of no width": "\u200b",
    "soft hyphen": "\u00ad",
    "word joiner": "\u2060",
    "Arabic letter mark": "\u061c",
    "marks of direction": "\u200e\u200f",
    "embedding": "\u202a\u202b\u202c\u202d\u202e",
    "isolates": "\u2066\u2067\u2068\u2069",
}
"""Characters that nobody sees, by kinds."""
BREAKS = ["\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"]
"""Characters that end lines for some programs; a line of a file ends at a line feed."""
SENTENCES = {
    "F21 three": ["A man is playing guitar.", "A woman is singing.", "Two dogs run."],
    "F21 forty": ["I go home.", "너는 책을 읽는다!", "Do you go?", "나는 빵을 먹고 있었다…"] * 10,
    "C1 short": ["Great!", "Thanks."],
    "F23 notes": ["I go home.[1]", "You read.¹", "He eats!*", "We go.†", "End."],
    "F23 emoji": ["I go home.🙂", "You read!👍🏽", "End."],
    "F23 quotes": ["“I go home.”", "(You read it.)", "'Why?'", "End."],
    "F21 abbreviations": [
        "Dr. Kim paid 3.5 won to J. R. Lee.",
        "It was e.g. No. 5 of St. Mary.",
        "End.",
    ],
}
"""Sentences of one line, by the kinds of their ends."""


@pytest.fixture(scope="module", params=[0, 4], ids=["without copy tokens", "with copy tokens"])
def translators(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[AnyTranslator]:
    """Return a model of random weights as a folder and, where there is a C library, as a runtime
    file.
    """
    make = maker(lambda: tmp_path_factory.mktemp("cases") / "run")
    if native.why_unavailable() is not None:
        return [
            load_translator(
                folder(tmp_path_factory.mktemp("cases") / "run", copy_tokens=request.param)
            )
        ]
    return [*make("transformer", "transformer", copy_tokens=request.param)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a model folder with random weights for the command line."""
    return folder(
        tmp_path_factory.mktemp("cases") / "run", end=0.5, score_threshold=None, copy_tokens=4
    )


@pytest.fixture
def regard(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Command:
    """Return the command, run in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return Command(capfd)


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
def ask(service: Any) -> Ask:
    """Send a request to a server over a service without models, which translates into capitals."""
    transport = httpx.ASGITransport(create_app(service, ServerSettings()))

    async def send(method: str, path: str, body: dict[str, Any]) -> httpx.Response:
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", timeout=60
        ) as client:
            return await client.request(method, path, json=body or None)

    return lambda path, method="POST", **body: asyncio.run(send(method, path, body))


@pytest.mark.parametrize("row", SPANS)
def test_what_is_not_language_comes_back_once(translators: list[AnyTranslator], row: str) -> None:
    lines = [(frame.format(span), span) for span in SPANS[row] for frame in FRAMES]
    for translator in translators:
        translations = translator.translate([line for line, _ in lines], beam=1)
        pairs = zip(lines, translations, strict=True)
        assert [(line, one.text) for (line, span), one in pairs if one.text.count(span) != 1] == []


@pytest.mark.parametrize("row", SEVERAL)
def test_of_several_spans_each_comes_back_once(translators: list[AnyTranslator], row: str) -> None:
    line, spans = SEVERAL[row]
    for translator in translators:
        (translation,) = translator.translate(line, beam=1)
        assert [span for span in spans if translation.text.count(span) != 1] == []
        assert differing_spans(line, translation.text)[0] == []


@pytest.mark.parametrize("row", [*SPANS, "C4 and F22 lines without letters"])
def test_what_stands_alone_is_copied(
    regard: Command,
    run: Path,
    ask: Ask,
    service: FakeService,
    translators: list[AnyTranslator],
    row: str,
) -> None:
    lines = [line for span in SPANS.get(row, LETTERLESS) for line in (span, f"{span} {span}")]
    for translator in translators:
        assert [one.text for one in translator.translate(lines)] == lines
    written = "".join(f"{line}\n" for line in lines)
    assert regard("translate", run, stdin=written.encode()).out == written
    answer = ask("/translate", q=lines, source="en", target="ko")
    assert answer.json() == {"translatedText": lines}
    assert service.calls == [], "no model is asked"


@pytest.mark.parametrize("frame", ["나는 {} 집에 간다", "I was eating {}.", "{} you read %s"])
def test_numbers_stay_or_are_missed_aloud(translators: list[AnyTranslator], frame: str) -> None:
    """Hold C2: a translation has the digits of its source, or a warning names those that it
    lacks.
    """
    lines = [frame.format(number) for number in NUMBERS]
    digits = [re.sub(r"\D", "", number) for number in NUMBERS]
    for translator in translators:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            translations = translator.translate(lines, beam=1)
        notes = [warning.message for warning in caught]
        missed = {
            digits[note.index]
            for note in notes
            if isinstance(note, LineWarning) and "lacks" in str(note)
        }
        kept = {
            each
            for each, one in zip(digits, translations, strict=True)
            if each in re.sub(r"\D", "", one.text)
        }
        assert missed | kept == {*digits}


@pytest.mark.parametrize("row", SENTENCES)
def test_no_sentence_of_a_line_is_lost(translators: list[AnyTranslator], row: str) -> None:
    """Hold C1, F21 and F23: every sentence is translated by itself, on the command line as by the
    server.
    """
    line = " ".join(SENTENCES[row])
    assert list(lay_out(line, TextFormat(), sentences=True).lines) == SENTENCES[row]
    for translator in translators:
        (translation,) = translator.translate(line, keep=False, beam=1)
        assert [part.source.strip() for part in translation.parts] == SENTENCES[row]
        assert all(part.text for part in translation.parts)


def runtime_of(run: Path, precision: Precision) -> RuntimeTranslator:
    """Write a model folder as a runtime file, and open it."""
    model = load_folder(run)
    values = {"precision": precision, "search": json.loads(model.settings.search.model_dump_json())}
    file = run.with_suffix(".regard")
    file.write_bytes(runtime_file(model, pack_model(model.model, precision), None, values))
    return RuntimeTranslator(file, threads=1)


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_word_never_becomes_nothing(tmp_path: Path, precision: Precision) -> None:
    """Hold C8, C9 and C11, by a model that would end at once: what has letters comes back with a
    visible character.
    """
    words = [
        *("집", "배", "눈", "사과", "a", "OK", "dog", "changelog."),
        *("CHANGELOG", "é", "我", "ß!", "집 {a}"),
    ]
    run = folder(tmp_path / "run", end=30.0, score_threshold=None)
    translators: list[AnyTranslator] = [load_translator(run, precision=precision)]
    if native.why_unavailable() is None:
        translators.append(runtime_of(run, precision))
    for translator in translators:
        for beam in (1, 3):
            texts = [one.text for one in translator.translate(words, keep=False, beam=beam)]
            assert [word for word, text in zip(words, texts, strict=True) if not text.strip()] == []


def test_python_takes_texts_of_any_kind_in_any_thread(run: Path) -> None:
    """Hold F32, and that a notebook shows a translation without scripts and addresses."""
    translator = load_translator(run)
    lines = ["나는 집에 간다", "", "I go home", "<script>a</script> https://x.org"]
    expected = [one.text for one in translator.translate(lines, beam=1)]
    kinds: list[Any] = [tuple(lines), np.array(lines), (line for line in lines)]
    for texts in kinds:
        assert [one.text for one in translator.translate(texts, beam=1)] == expected
    with ThreadPoolExecutor(4) as pool:
        translated = pool.map(
            lambda _: [one.text for one in translator.translate(lines, beam=1)], range(8)
        )
        assert [*translated] == [expected] * 8
    for one in translator.translate(lines, beam=1, readings=True):
        assert not re.search(r"<script|src=|href=|url\(", one._repr_html_())


def test_links_are_of_words_however_these_are_parted(regard: Command, run: Path) -> None:
    """Hold F17: with tabs, blank lines and several spaces, every link joins a word of each side."""
    lines = [
        "나는\t집에   간다",
        "",
        "\u00a0",
        "  I go\u3000home. You read a book!\t",
        "123",
        "너는 책을 읽는다",
    ]
    result = regard(
        "translate", run, "--alignments", "--format", "jsonl", stdin="\n".join(lines).encode()
    )
    for line, item in zip(lines, map(json.loads, result.lines), strict=True):
        sizes = len(line.split()), len(item["text"].split())
        assert all(
            0 <= index < size
            for link in item["alignments"] or ()
            for index, size in zip(link, sizes, strict=True)
        )
        assert bool(item["alignments"]) == bool(line.strip())


def hidden(sign: str) -> list[str]:
    """Return lines with an invisible sign before, in, behind and between words, and alone."""
    lines = [
        f"{sign}I go home",
        f"I go home{sign}",
        f"나는 집{sign}에 간다",
        f"you {sign}read {{name}} a{sign} book",
    ]
    return [*lines, sign.join("I go home."), sign, f" {sign} "]


@pytest.mark.parametrize("kind", INVISIBLE)
def test_invisible_characters_change_no_translation(
    translators: list[AnyTranslator], kind: str
) -> None:
    """Hold F22: wherever they stand, and alone in a line."""
    for translator in translators:
        plain, changed = (
            [one.text for one in translator.translate(hidden(sign), beam=1)]
            for sign in ("", INVISIBLE[kind])
        )
        assert changed == plain


def test_invisible_characters_change_no_output(regard: Command, run: Path) -> None:
    """Hold F22 on the command line, for lines of a file and of standard input."""
    plain, changed = (
        "".join(
            f"{line}\n"
            for sign in INVISIBLE.values()
            for line in hidden(sign if is_changed else "")
        ).encode()
        for is_changed in (False, True)
    )
    expected = regard("translate", run, "--beam", 1, stdin=plain).out
    Path("a.txt").write_bytes(changed)
    assert regard("translate", run, "--beam", 1, stdin=changed).out == expected
    assert regard("translate", run, "--beam", 1, "a.txt").out == expected


def test_a_file_has_as_many_translations_as_line_feeds(regard: Command, run: Path) -> None:
    """Hold F7."""
    lines = [
        line
        for mark in BREAKS
        for line in (f"I go{mark}home", "", mark, f"나는 집에{mark}{mark} 간다{mark}")
    ]
    Path("a.txt").write_bytes("".join(f"{line}\n" for line in lines).encode())
    assert len(regard("translate", run, "a.txt", "--beam", 1).lines) == len(lines)
    assert len(regard("translate", run, "a.txt", "--beam", 1, "--format", "jsonl").lines) == len(
        lines
    )


PLAIN = {
    "C3": (
        "Look at https://example.org/a_b?x=1&y=2 on it.",
        "LOOK AT https://example.org/a_b?x=1&y=2 ON IT.",
    ),
    "C4": ("✓ included", "✓ INCLUDED"),
    "C5": ("See you 👩🏽‍🚀🇰🇷 soon 🙂", "SEE YOU 👩🏽‍🚀🇰🇷 SOON 🙂"),
    "C16": (
        "{{user.first_name}} lives in {{user.city}}",
        "{{user.first_name}} LIVES IN {{user.city}}",
    ),
    "C17": ("Hello %1$s, good to see you %2$d times!", "HELLO %1$s, GOOD TO SEE YOU %2$d TIMES!"),
    "C18": ("__count__ of :total%", "__count__ OF :total%"),
    "F21": ("A man. A woman! Two dogs?\n\nEnd", "A MAN. A WOMAN! TWO DOGS?\n\nEND"),
    "F23": ("A man plays.[1] A woman sings.¹ End", "A MAN PLAYS.[1] A WOMAN SINGS.¹ END"),
    "F24": ("A &amp; b &copy; c &#8364; d", "A &amp; B &copy; C &#8364; D"),
    "F25": ("A dog.</s> A cat. <unk>", "A DOG.</s> A CAT. <unk>"),
}
"""Texts, and what the server makes of them if the model translates into capitals."""
MARKUP = {
    "C18": ("xml", 'The <x id="0"/> plays', 'THE <x id="0"/> PLAYS'),
    "C19": (
        "xml",
        '<p>At most <ph value="max"/> dogs.</p>',
        '<p>AT MOST <ph value="max"/> DOGS.</p>',
    ),
    "C20": (
        "xml",
        "'<x n=\"1\">Basic</x>' by '<x n=\"2\">it</x>'.",
        "'<x n=\"1\">BASIC</x>' BY '<x n=\"2\">IT</x>'.",
    ),
    "C21 ®": ("html", "Try Foobar<sup>®</sup> now!", "TRY FOOBAR<sup>®</sup> NOW!"),
    "C21 figure": (
        "html",
        "A guitar<sup>1</sup> and H<sub>2</sub>O.",
        "A GUITAR<sup>1</sup> AND H<sub>2</sub>O.",
    ),
    "C21 icon": ("html", 'A <i class="icon">★</i> man', 'A <i class="icon">★</i> MAN'),
    "C22": (
        "html",
        "<a><em><span>View all </span></em><em><span>dogs here!</span></em></a>",
        "<a><em><span>VIEW ALL </span></em><em><span>DOGS HERE!</span></em></a>",
    ),
    "C23": (
        "html",
        "It (v <= 4) and &urls[0]. A man < 5 <3",
        "IT (V &lt;= 4) AND &amp;URLS[0]. A MAN &lt; 5 &lt;3",
    ),
    "C24": ("html", "A man<br>plays<br />it<BR>now.", "A MAN<br>PLAYS<br />IT<BR>NOW."),
    "C25": (
        "html",
        '<strong>30k€ of <span translate="no">ingresos</span></strong> each',
        '<strong>30K€ OF <span translate="no">ingresos</span></strong> EACH',
    ),
    "F23 sup": ("html", "A man.<sup>1</sup> A woman.", "A MAN.<sup>1</sup> A WOMAN."),
    "F23 link": (
        "html",
        'A man.<a href="#n1">[1]</a> A woman.',
        'A MAN.<a href="#n1">[1]</a> A WOMAN.',
    ),
    "F24": ("html", "A &amp; b &copy; &hellip; &lt;c", "A &amp; B &copy; &hellip; &lt;C"),
}
"""Kind and text of markup, and what the server makes of it then."""


@pytest.mark.parametrize("row", PLAIN)
def test_the_server_keeps_what_is_not_language(ask: Ask, row: str) -> None:
    text, expected = PLAIN[row]
    assert ask("/translate", q=text, source="en", target="ko").json() == {
        "translatedText": expected
    }
    assert ask("/v2/translate", text=[text], target_lang="ko", source_lang="en").json()[
        "translations"
    ] == [{"detected_source_language": "EN", "text": expected}]
    (own,) = ask("/v1/translate", text=text, source="en", target="ko").json()["translations"]
    assert own["text"] == expected


@pytest.mark.parametrize("row", MARKUP)
def test_the_server_keeps_markup(ask: Ask, row: str) -> None:
    kind, text, expected = MARKUP[row]
    (own,) = ask("/v1/translate", text=text, source="en", target="ko", format=kind).json()[
        "translations"
    ]
    assert own["text"] == expected
    (deepl,) = ask(
        "/v2/translate", text=[text], target_lang="ko", source_lang="en", tag_handling=kind
    ).json()["translations"]
    assert deepl["text"] == expected
    if kind == "html":
        assert (
            ask("/translate", q=text, source="en", target="ko", format=kind).json()[
                "translatedText"
            ]
            == expected
        )


def test_each_text_of_a_list_has_its_own_language(ask: Ask, service: FakeService) -> None:
    """Hold C13: English stays English, and what is in no language stays as it is."""
    texts = [
        "나는 집에 간다",
        "I go home",
        "2016-05-04",
        "12:30",
        "",
        "너는 책을 읽는다",
        "🙂",
        "https://example.org",
    ]
    answer = ask("/translate", q=texts, source="auto", target="en").json()
    assert answer["translatedText"] == texts
    assert [item["language"] for item in answer["detectedLanguage"]][:2] == ["ko", "en"]
    assert [lines for _, lines, _, _ in service.calls] == [[texts[0], texts[5]]]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/translate", {"q": ["a", "", "b", None, "  "], "source": "en", "target": "ko"}),
        ("/v2/translate", {"text": ["a", "", "b", None, "  "], "target_lang": "ko"}),
        ("/v1/translate", {"text": ["a", "", "b", None, "  "], "source": "en", "target": "ko"}),
    ],
)
def test_a_null_among_texts_is_named(ask: Ask, path: str, body: dict[str, Any]) -> None:
    """Hold C37; without it all texts keep their places."""
    answer = ask(path, **body)
    assert answer.status_code == 400
    assert "text 4 is null; give texts" in answer.text
    name = "q" if "q" in body else "text"
    answer = ask(path, **{**body, name: ["a", "", "b", "  "]})
    assert json.dumps(["A", "", "B", "  "]) in json.dumps(_texts(answer.json()))


def _texts(answer: dict[str, Any]) -> list[str]:
    """Return the translations of an answer of any endpoint."""
    texts = answer.get("translatedText") or [item["text"] for item in answer["translations"]]
    return [*texts]


@pytest.mark.parametrize("number", [21, 10_000, 2**31, -1])
def test_a_number_of_alternatives_has_a_limit(ask: Ask, number: int) -> None:
    """Hold C38."""
    answer = ask("/translate", q="a", source="en", target="ko", alternatives=number)
    assert answer.status_code == 400
    assert re.search(rf"`alternatives`: .*(20|0), got {number}", answer.json()["error"])


def test_the_page_of_the_server_has_text_in_its_own_direction(ask: Ask) -> None:
    """Hold C26: a text in Hebrew or Arabic begins at the right."""
    page = ask("/", "GET").text
    fields = re.findall(r'<(?:textarea|div|p)[^>]* id="(?:input|printed|caption)"[^>]*>', page)
    assert len(fields) > 1
    assert [field for field in fields if 'dir="auto"' not in field] == []
