"""Checks that hold for documents of every format."""

from __future__ import annotations

from collections.abc import Iterator

from helpers.hostile_models import MODELS, say_nothing, translate_document

from regard.documents import Document, DocumentOptions
from regard.documents.formats import read_document
from regard.text.translation import Translation


def translate_lines(document: Document, prefix: str = "") -> bytes:
    """Render a document with each line after a prefix."""
    lines = document.lines
    return document.render([Translation(f"{prefix}{line}", (), 0.0) for line in lines])


def hostile_outputs(
    data: bytes, name: str, options: DocumentOptions | None = None
) -> Iterator[bytes]:
    """Yield a document as each hostile model translates it. If its texts stay, it has to be equal
    to the byte.
    """
    document = read_document(data, name, options=options)
    assert translate_lines(document) == data
    for model in (*MODELS, say_nothing):
        for seed in range(3):
            yield translate_document(document, model, seed)


def flat(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield the scalars of nested objects and arrays, with their paths as a document names them."""
    if isinstance(value, (dict, list)):
        yield path, type(value).__name__
        is_object = isinstance(value, dict)
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in pairs:
            name = f".{key}" if is_object else f"[{key}]"
            yield from flat(inner, f"{path}{name}".removeprefix("."))
    else:
        yield path, value


def differences(source: object, output: object) -> set[str]:
    """Return the names of the strings by which nested objects differ, which have equal keys."""
    pairs = zip(flat(source), flat(output), strict=True)
    changed = [(one, other) for one, other in pairs if one != other]
    for (path, was), (other_path, value) in changed:
        assert path == other_path
        assert isinstance(was, str)
        assert isinstance(value, str)
        assert bool(value) == bool(was)
    return {f"key {path}" for (path, _), _ in changed}
