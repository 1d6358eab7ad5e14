"""Spans and branches are those of parsers that share no code with the judge: Python's own, Fluent's,
formatjs's, gettext's and HTML's.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import string
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from contracts.string_cases import lines, texts
from helpers.browser import NODE_MODULES
from helpers.time_limits import LEAST

from regard.contracts.dialects import get_dialect
from regard.contracts.judge import judge
from regard.contracts.messages import Part, read

pytestmark = pytest.mark.system  # other programs, or servers

ICU_READER = """
const { parse } = require("@formatjs/icu-messageformat-parser");
const names = (elements) => elements.flatMap((e) => [
  ...(e.type === 7 ? ["#"] : e.type >= 1 && e.type <= 6 ? [e.value] : []),
  ...Object.entries(e.options || {}).flatMap(([key, { value }]) => [key, ...names(value)]),
]);
const given = JSON.parse(require("fs").readFileSync(0, "utf8"));
console.log(JSON.stringify(given.map((text) => {
  try { return names(parse(text, { ignoreTag: true })); } catch { return null; }
})));
"""
BROKEN_ICU = [
    "{n, plural, one {x}}",
    "{n, plural, other {x}",
    "{n, plural}",
    "a {",
    "{}",
    "{a b}",
    "{n, select, x {a} other {b} x {c}}",
    "{n, plural, other}",
    "a } b",
    "{g, select, other {#}}",
    "{n, plural, other {{g, select, other {#}}}}",
    "'{x} it''s",
    "{n, plural, other {'#' #}}",
    "{n, plural, offset:1 =1 {a} other {b #}}",
]
BROKEN_FLUENT = [
    "{ $n -> [one] x [other] y }",
    "{ $n",
    "{ $n -> *[other] x",
    "{ }",
    "{ a b }",
    "{ -term.attribute }",
]


def names(part: Part) -> list[str]:
    """Return the arguments and keys of a message in the order of its text."""
    result = []
    selectors = iter(part.selectors)
    for span in part.spans:
        if span.kind == "selector":
            selector = next(selectors)
            result.append(selector.head.split(",")[0])
            for key, branch in selector.branches:
                result += [key, *names(branch)]
        elif span.kind == "placeholder" and (span.text == "#" or "{" in span.text):
            result.append(span.text.strip("{} ").split(",")[0])
    return result


def test_icu_messages_agree_with_formatjs(node: str) -> None:
    if not (NODE_MODULES / "@formatjs" / "icu-messageformat-parser").is_dir():
        pytest.skip(
            "the parser of formatjs is not installed: npm ci --prefix tests/serving"
        )
    given = [*texts("icu"), *BROKEN_ICU]
    done = subprocess.run(
        [node, "-e", ICU_READER],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=True,
        timeout=4 * LEAST,
        env={**os.environ, "NODE_PATH": str(NODE_MODULES)},
    )
    for text, wanted in zip(given, json.loads(done.stdout), strict=True):
        part = read(text, get_dialect("icu"))
        assert (None if part.problem else names(part)) == wanted, text


def fluent_names(syntax: Any, pattern: Any) -> list[str]:
    """Return the arguments and keys that the parser of Fluent reads."""
    result = []
    for element in pattern.elements:
        expression = getattr(element, "expression", None)
        for variant in getattr(expression, "variants", ()):
            result += [variant.key.name, *fluent_names(syntax, variant.value)]
        if expression and not hasattr(expression, "variants"):
            text = syntax.serializer.serialize_expression(expression)
            result.append(re.sub(r"\s", "", text))
    return result


def our_fluent_names(part: Part) -> list[str]:
    """Return the arguments and keys of a message, without those of tags."""
    selectors = iter(part.selectors)
    result = []
    for span in part.spans:
        if span.kind == "selector":
            for key, branch in next(selectors).branches:
                result += [key, *our_fluent_names(branch)]
        elif span.text.startswith("{"):
            result.append(span.key.strip("{}"))
    return result


def test_fluent_messages_agree_with_its_own_parser() -> None:
    syntax = pytest.importorskip("fluent.syntax", reason="pip install fluent.syntax")
    for text in [*texts("fluent"), *BROKEN_FLUENT]:
        # Variants begin lines in files; translations have them in one.
        source = re.sub(r"\s(\*?\[\w+\])", r"\n  \1", text)
        source = re.sub(r"\}$", "\n  }", source) if "->" in source else source
        entry = syntax.parse(f"key =\n  {source}\n").body[0]
        is_message = isinstance(entry, syntax.ast.Message)
        wanted = fluent_names(syntax, entry.value) if is_message else None
        part = read(text, get_dialect("fluent"))
        assert (None if part.problem else our_fluent_names(part)) == wanted, text


def test_fields_agree_with_python() -> None:
    for text in texts("python-brace"):
        fields = [
            "{"
            + name
            + (f"!{conversion}" if conversion else "")
            + (f":{form}" if form else "")
            + "}"
            for _, name, form, conversion in string.Formatter().parse(text)
            if name is not None
        ]
        spans = read(text, get_dialect("python-brace")).spans
        assert [span.text for span in spans if span.kind == "placeholder"] == fields, (
            text
        )


class _Asked(dict[str, Any]):
    """Arguments of the operator `%`, which note their names."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __missing__(self, name: str) -> int:
        self.names.append(name)
        return 1


def test_conversions_agree_with_the_operator_of_python() -> None:
    for text in texts("python-percent"):
        spans = [
            span.text
            for span in read(text, get_dialect("python-percent")).spans
            if span.kind == "placeholder"
        ]
        if "%(" in text:
            asked = _Asked()
            text % asked
            assert [
                re.findall(r"\((.*?)\)", span)[0] for span in spans
            ] == asked.names, text
        else:
            text % ((1,) * len(spans))
            with pytest.raises(TypeError):
                text % ((1,) * (len(spans) + 1))


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, _attributes: Any) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self.seen.append("/" + tag)

    handle_startendtag = handle_starttag

    def handle_entityref(self, name: str) -> None:
        self.seen.append("&" + name)

    def handle_charref(self, name: str) -> None:
        self.seen.append("&#" + name)


@pytest.mark.parametrize("dialect", ["html", "xml", "android", "srt", "react"])
def test_tags_and_entities_agree_with_the_parser_of_html(dialect: str) -> None:
    for text in texts(dialect):
        if re.search(r"<\d", text):
            continue  # HTML has no such names
        parser = _Tags()
        parser.feed(text)
        parser.close()
        spans = [
            re.sub(r"^<(/?[^\s/>]+).*", r"\1", span.text, flags=re.DOTALL).rstrip(";")
            for span in read(text, get_dialect(dialect)).spans
            if span.kind in ("tag", "entity")
        ]
        assert spans == parser.seen, text


MSGFMT = shutil.which("msgfmt")


@pytest.mark.skipif(not MSGFMT, reason="gettext is not installed")
@pytest.mark.parametrize(
    ("dialect", "flag"),
    [
        ("c", "c-format"),
        ("python-percent", "python-format"),
        ("python-brace", "python-brace-format"),
        ("php", "php-format"),
        ("ruby", "ruby-format"),
        ("objc", "objc-format"),
    ],
)
def test_no_translation_that_gettext_refuses_passes(
    dialect: str, flag: str, tmp_path: Path
) -> None:
    """Each string with a span changed: if `msgfmt -c` refuses it, the judge speaks."""
    refused = 0
    cases = []
    for line in lines():
        if (
            line["dialect"] == dialect
            and "\\" not in line["text"]
            and '"' not in line["text"]
        ):
            for span in line["spans"]:
                changed = line["text"].replace(span, "", 1)
                cases += [(line["text"], line["text"]), (line["text"], changed)]
    head = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n'
    for number, (source, target) in enumerate(dict.fromkeys(cases)):
        file = tmp_path / f"{number}.po"
        entry = f'#, {flag}\nmsgid "{source}"\nmsgstr "{target}"\n'
        file.write_text(head + entry, encoding="utf-8")
        command = [str(MSGFMT), "--check-format", "-o", os.devnull, str(file)]
        done = subprocess.run(command, capture_output=True, timeout=LEAST, check=False)
        if done.returncode:
            refused += 1
            assert judge(source, target, flag), (source, target)
    assert refused


def test_a_thousand_branches() -> None:
    branches = " ".join(f"k{number} {{A {{name}} B}}" for number in range(1000))
    wide = f"{{g, select, {branches} other {{x}}}}"
    assert len(read(wide, get_dialect("icu")).selectors[0].branches) == 1001
    assert judge(wide, wide, "icu") == []
    assert {
        fault.what for fault in judge(wide, wide.replace("k500 ", "kk "), "icu")
    } == {"k500", "kk"}


@pytest.mark.parametrize(
    "depth", [100, 2_000, pytest.param(20_000, marks=pytest.mark.slow)]
)
def test_more_levels_than_python_calls(depth: int) -> None:
    deep = "{n, plural, other {A " * depth + "{name}" + "}}" * depth
    assert not read(deep, get_dialect("icu")).problem
    broken = deep.replace("{name}", "N")
    assert [fault.kind for fault in judge(deep, broken, "icu")] == ["lost"]
    assert [fault.kind for fault in judge(deep, deep[:-1], "icu")] == ["malformed"]


def test_the_work_grows_with_the_length_only() -> None:
    """Counted in calls: twice the message, twice the calls."""

    def calls(copies: int) -> int:
        text = "{n, plural, one {a <b>{x}</b>} other {# {y} 1,000}} " * copies
        count = 0

        def note(*_event: object) -> None:
            nonlocal count
            count += 1

        sys.setprofile(note)
        judge(text, text, "icu")
        sys.setprofile(None)
        return count

    calls(1)
    assert calls(200) < 2.1 * calls(100)
