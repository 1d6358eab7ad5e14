"""Translate many drawn strings of programs with a model, and count those that break unmarked.

    python benchmarks/strings/many.py MODEL --count 30000 --seed 7 [--show 20]

A string is broken if one of its spans, as the generator wrote them, does not occur as often in the
translation as in the string, or if a parser of its platform finds other names: `string.Formatter`
for Python's braces, Python's % operator, `html.parser` for tags, `fluent.syntax` for Fluent. None
of these is used by Regard. It is silent if the translation is not `broken` either.
"""

from __future__ import annotations

import argparse
import re
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from string import Formatter
from typing import Any

import regard
from fluent.syntax import FluentParser, ast
from make_strings import make

Names = list[tuple[str, str]]
AT_ONCE = 200
_CONVERSION = re.compile(r"%(?:\(\w+\))?[-+0 #]*\d*(?:\.\d+)?[diouxXeEfgsrc%]")


def formatter_names(text: str) -> Names:
    """Return the fields of Python's braces."""
    fields = Formatter().parse(text)
    return sorted((name, spec or "") for _, name, spec, _ in fields if name is not None)


def conversion_names(text: str) -> Names:
    """Return the conversions that Python's % operator is given."""
    names = [(found, "") for found in _CONVERSION.findall(text)]
    if any("(" in found for found, _ in names):
        values: Any = {
            found[2 : found.index(")")]: 1 for found, _ in names if "(" in found
        }
    else:
        values = tuple(1 for found, _ in names if found != "%%")
    _ = text % values  # raises an error if the text is no format
    return sorted(names)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.names: Names = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append((tag, str(attrs)))

    def handle_endtag(self, tag: str) -> None:
        self.names.append((f"/{tag}", ""))


def tag_names(text: str) -> Names:
    """Return the tags of HTML with their attributes."""
    parser = _Tags()
    parser.feed(text)
    parser.close()
    return sorted(parser.names)


def fluent_names(text: str) -> Names:
    """Return the references and the variants of a message of Fluent."""
    indented = text.replace("\n", "\n    ")
    (entry,) = FluentParser().parse(f"key = {indented}\n").body
    if not isinstance(entry, ast.Message):
        raise ValueError("no message")
    names: Names = []
    nodes: list[Any] = [entry.value]
    while nodes:
        node = nodes.pop()
        if isinstance(
            node, (ast.VariableReference, ast.TermReference, ast.MessageReference)
        ):
            names.append((type(node).__name__, node.id.name))
        if isinstance(node, ast.Variant):
            names.append(("variant", getattr(node.key, "name", None) or node.key.value))
        if isinstance(node, ast.BaseNode):
            nodes += vars(node).values()
        elif isinstance(node, list):
            nodes += node
    return sorted(names)


PARSERS: dict[str, Callable[[str], Names]] = {
    "python-brace": formatter_names,
    "python-percent": conversion_names,
    "html": tag_names,
    "react": tag_names,
    "fluent": fluent_names,
}


def faults(line: dict[str, Any], translation: str) -> Iterator[str]:
    """Yield what is broken in a translation."""
    for span in dict.fromkeys(line["spans"]):
        if span.startswith("~"):
            digits = re.findall(r"\d+", span)
            if Counter(digits) - Counter(re.findall(r"\d+", translation)):
                yield span
        elif translation.count(span) != line["text"].count(span):
            yield span
    parse = PARSERS.get(line["dialect"])
    if parse is None:
        return
    try:
        wanted = parse(line["text"])
    except Exception:  # the string itself is no format, so its platform judges nothing
        return
    try:
        given = parse(translation)
    except Exception as problem:
        yield f"{parse.__name__}: {problem}"
        return
    if wanted != given:
        yield parse.__name__


def main() -> None:
    """Print how many strings are broken, silent and marked, by dialect."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=10)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    model = regard.load(options.model)
    lines = make(options.count, options.seed)
    began = time.monotonic()
    silent, marked, shown = Counter[str](), Counter[str](), 0
    total = Counter(line["dialect"] for line in lines)
    for start in range(0, len(lines), AT_ONCE):
        batch = lines[start : start + AT_ONCE]
        outputs = model.translate([line["text"] for line in batch])
        for line, output in zip(batch, outputs, strict=True):
            if output.broken:
                marked[line["dialect"]] += 1
                continue
            broken = [*faults(line, output.text)]
            silent[line["dialect"]] += bool(broken)
            if broken and shown < options.show:
                shown += 1
                print(f"{line['dialect']} {broken}: {line['text']} → {output.text}")
    print("| dialect | strings | broken and silent | marked |\n|---|---|---|---|")
    for dialect, count in total.items():
        if silent[dialect] or marked[dialect]:
            print(f"| {dialect} | {count} | {silent[dialect]} | {marked[dialect]} |")
    print(
        f"| **all** | {len(lines)} | {sum(silent.values())} | {sum(marked.values())} "
        f"({sum(marked.values()) / len(lines):.1%}) |"
    )
    print(f"{time.monotonic() - began:.0f} seconds")


if __name__ == "__main__":
    main()
