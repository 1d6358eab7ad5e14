"""The texts of experiments and walkthroughs: files in two languages that say all that is asked of
them, and no more.
"""

from __future__ import annotations

import re
import string
import sys
from pathlib import Path

import pytest

import regard.learn
from regard.common.bilingual import Text, Texts, join_texts, read_texts
from regard.common.errors import DataError
from regard.learn.lab.experiments import EXPERIMENTS
from regard.learn.lab.findings import LABELS
from regard.learn.lessons import block_steps

LEARN = Path(regard.learn.__file__).parent
FILES = {
    path.name: path
    for path in (*(LEARN / "lab").rglob("*.toml"), LEARN / "lessons" / "block.toml")
}
SHARED = {"title", "claim", "scope", "method", "caveats", "source"}
"""Texts of every experiment that the list of experiments takes."""


def _texts(name: str) -> Texts:
    if name == "labels.toml":
        return LABELS
    if name == "block.toml":
        return block_steps.TEXTS
    experiment = name.removesuffix(".toml")
    texts: Texts = sys.modules[f"regard.learn.lab.experiments.{experiment}"].TEXTS

    return texts


def _placeholders(text: str) -> set[str]:
    """Return the names that are to be filled in."""
    fields = [field for _, field, _, _ in string.Formatter().parse(text) if field]
    return {re.split(r"[.\[]", field)[0] for field in fields}


def test_every_experiment_has_its_file() -> None:
    assert {name.replace("-", "_") for name in EXPERIMENTS} | {"labels", "block"} == {
        name[:-5] for name in FILES
    }


@pytest.mark.parametrize("name", FILES)
def test_texts_are_in_both_languages_with_the_same_placeholders(name: str) -> None:
    for key, text in _texts(name).items():
        assert text.en, key
        assert text.ko, key
        # Korean nouns have no plural.
        assert _placeholders(text.en) - {"plural"} == _placeholders(text.ko), key


def _code(name: str) -> str:
    """Return the code that may name the texts of a file."""
    paths = [LEARN / "lab" / "experiments" / name.replace(".toml", ".py")]
    if name == "labels.toml":
        paths = [*(LEARN / "lab").rglob("*.py")]
    elif name == "block.toml":
        paths = [*(LEARN / "lessons").glob("block*.py")]
    return "".join(path.read_text(encoding="utf-8") for path in paths)


@pytest.mark.parametrize("name", FILES)
def test_the_code_names_each_text_and_each_placeholder(name: str) -> None:
    """Of a table that is handed on as a whole, the experiment has the keys."""
    code = _code(name)
    whole_tables = re.findall(r'\b(?:TEXTS|LABELS|texts)\.table\("(\w+)"\)', code)
    is_experiment = name not in ("labels.toml", "block.toml")

    for key, text in _texts(name).items():
        table, _, last = key.rpartition(".")
        if table in whole_tables or (is_experiment and key in SHARED):
            continue
        assert re.search(rf"[\"'. ]{last}[\"' ]", code), key
        for placeholder in _placeholders(text.ko):
            assert re.search(rf"\b{placeholder}\b", code), (key, placeholder)


def test_texts_are_read_strictly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "some_texts"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    content = (
        'both = "1"\n[names]\none = {en = "one {n:.1f}", ko = "하나 {n:.1f} {what}"}\n'
    )
    (package / "good.toml").write_text(content, encoding="utf-8")
    texts = read_texts("some_texts", "good.toml", ("both", "names"))

    assert texts["both"] == Text("1", "1")

    filled = texts.table("names")["one"].fill(n=2, what=Text("x", "엑스"))
    assert filled == Text("one 2.0", "하나 2.0 엑스")

    joined = join_texts([Text("a", "가"), Text("b", "나")], Text("; ", ". "))
    assert joined == Text("a; b", "가. 나")

    with pytest.raises(DataError, match=r"good\.toml: `names\.two` is missing"):
        texts["names.two"]
    with pytest.raises(DataError, match=r"good\.toml: names: `two` is missing"):
        texts.table("names")["two"]

    with pytest.raises(DataError) as raised:
        read_texts("some_texts", "good.toml", ("names", "title"))

    unknown, missing = raised.value.causes
    assert unknown == "good.toml: `both` is unknown; wanted names, title"
    assert missing == "good.toml: `title` is missing; wanted names, title"

    bad = 'number = 3\n[names]\none = {en = "one"}\ntwo = {en = "", ko = "", de = ""}\n'
    (package / "bad.toml").write_text(bad, encoding="utf-8")
    with pytest.raises(DataError) as raised:
        read_texts("some_texts", "bad.toml", ("number", "names"))

    causes = raised.value.causes
    for cause, name in zip(causes, ("number", "names.one", "names.two"), strict=True):
        assert cause.startswith(f"bad.toml: `{name}` is no text")
