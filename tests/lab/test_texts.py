"""The texts of experiments and walkthroughs: files in two languages that say all that is asked of them, and no more."""

from __future__ import annotations

import ast
import string
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import regard.learn
from regard.common.bilingual import Text, Texts, join_texts, read_texts
from regard.common.errors import DataError
from regard.learn.lab.experiments import EXPERIMENTS
from regard.learn.lab.findings import LABELS
from regard.learn.lessons import block_steps

LEARN = Path(regard.learn.__file__).parent
FILES = {path.name: path for path in (*(LEARN / "lab").rglob("*.toml"), LEARN / "lessons" / "block.toml")}
MODULES = {
    "labels.toml": sorted((LEARN / "lab").rglob("*.py")),
    "block.toml": [LEARN / "lessons" / name for name in ("block.py", "block_steps.py")],
}


def _texts(name: str) -> Texts:
    if name in ("labels.toml", "block.toml"):
        return LABELS if name == "labels.toml" else block_steps.TEXTS
    texts: Texts = sys.modules[f"regard.learn.lab.experiments.{name.removesuffix('.toml')}"].TEXTS
    return texts


def _code(name: str) -> Iterator[ast.AST]:
    for path in MODULES.get(name, [LEARN / "lab" / "experiments" / name.replace(".toml", ".py")]):
        yield from ast.walk(ast.parse(path.read_text("utf-8")))


def _placeholders(text: Text) -> tuple[set[str], set[str]]:
    """Return the names that are to be filled in, in each language."""
    en, ko = (
        {field.partition(".")[0].partition("[")[0] for _, field, _, _ in string.Formatter().parse(part) if field}
        for part in (text.en, text.ko)
    )
    return en, ko


def test_every_experiment_has_its_file() -> None:
    assert {name.replace("-", "_") for name in EXPERIMENTS} | {"labels", "block"} == {name[:-5] for name in FILES}


@pytest.mark.parametrize("name", FILES)
def test_texts_are_in_both_languages_with_the_same_placeholders(name: str) -> None:
    for key, text in _texts(name).items():
        assert text.en, key
        assert text.ko, key
        en, ko = _placeholders(text)
        assert en - {"plural"} == ko, key  # Korean nouns have no plural


@pytest.mark.parametrize("name", FILES)
def test_every_placeholder_is_filled(name: str) -> None:
    """Texts are taken by their key, and the values of a call of `fill` are those that the text has room for."""
    texts, filled = _texts(name), set[str]()
    prefix = "steps." if name == "block.toml" else ""
    for node in _code(name):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        if (
            isinstance(function, ast.Attribute)
            and function.attr == "fill"
            and isinstance(function.value, ast.Subscript)
        ):
            keys = [part.value for part in ast.walk(function.value.slice) if isinstance(part, ast.Constant)]
        elif isinstance(function, ast.Name) and function.id == "_worded":
            keys = [f"{prefix}{part.value}.text" for part in ast.walk(node.args[0]) if isinstance(part, ast.Constant)]
        else:
            continue
        values = {keyword.arg for keyword in node.keywords}
        for key in [key for key in keys if key in texts and None not in values]:
            assert set().union(*_placeholders(texts[key])) <= values, key
            filled.add(key)
    open_keys = {key for key, text in texts.items() if any(_placeholders(text))} - filled
    dynamic = {key for key in open_keys if key.startswith(("steps.score_", "steps.unprojected.title", "steps.hidden"))}
    dynamic |= {key for key in open_keys if key in ("descriptions.random", "steps.earlier.title")}
    dynamic |= {f"steps.{letter}.text" for letter in "QKV"}
    dynamic |= {f"steps.{norm}.text" for norm in ("norm_before", "norm_after", "final_norm")}
    assert open_keys <= dynamic, "nobody fills these in"


@pytest.mark.parametrize("name", FILES)
def test_every_text_is_used(name: str) -> None:
    """A key, or a part of it, stands in the code as a string; the parts of tables that are taken whole need not."""
    literals = [node.value for node in _code(name) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    tables = {
        node.args[0].value
        for node in _code(name)
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", "") == "table"
        and isinstance(node.args[0], ast.Constant)
    }
    shared = {"title", "claim", "method", "source"}
    for key in _texts(name):
        head, _, rest = key.partition(".")
        part = rest.partition(".")[0].partition("_")[0] if head == "steps" else rest
        assert head in tables | shared or any(
            literal in (key, part) or (part and literal.startswith(part)) for literal in literals
        ), key


def test_texts_are_read_strictly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "some_texts"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    content = 'both = "1"\n[names]\none = {en = "one {n:.1f}", ko = "하나 {n:.1f} {what}"}\n'
    (package / "good.toml").write_text(content, encoding="utf-8")
    texts = read_texts("some_texts", "good.toml", ("both", "names"))
    assert texts["both"] == Text("1", "1")
    assert texts.table("names")["one"].fill(n=2, what=Text("x", "엑스")) == Text("one 2.0", "하나 2.0 엑스")
    assert join_texts([Text("a", "가"), Text("b", "나")], Text("; ", ". ")) == Text("a; b", "가. 나")
    with pytest.raises(DataError, match=r"good\.toml: `names\.two` is missing"):
        texts["names.two"]
    with pytest.raises(DataError, match=r"good\.toml: names: `two` is missing"):
        texts.table("names")["two"]
    with pytest.raises(DataError) as raised:
        read_texts("some_texts", "good.toml", ("names", "title"))
    assert raised.value.causes == (
        "good.toml: `both` is unknown; wanted names, title",
        "good.toml: `title` is missing; wanted names, title",
    )
    bad = 'number = 3\n[names]\none = {en = "one"}\ntwo = {en = "", ko = "", de = ""}\n'
    (package / "bad.toml").write_text(bad, encoding="utf-8")
    with pytest.raises(DataError) as raised:
        read_texts("some_texts", "bad.toml", ("number", "names"))
    assert [cause.partition(" is no text")[0] for cause in raised.value.causes] == [
        "bad.toml: `number`",
        "bad.toml: `names.one`",
        "bad.toml: `names.two`",
    ]
