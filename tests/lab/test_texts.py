"""The texts of experiments and walkthroughs: files in two languages that say all that is asked of
them, and no more.
"""

from __future__ import annotations

import ast
import itertools
import string
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import regard.learn
from regard.attention import SCORES
from regard.common.bilingual import Text, Texts, join_texts, read_texts
from regard.common.errors import DataError
from regard.learn.lab.experiments import EXPERIMENTS
from regard.learn.lab.findings import LABELS
from regard.learn.lessons import block_steps

LEARN = Path(regard.learn.__file__).parent
FILES = {
    path.name: path for path in (*(LEARN / "lab").rglob("*.toml"), LEARN / "lessons" / "block.toml")
}
MODULES = {
    "labels.toml": sorted((LEARN / "lab").rglob("*.py")),
    "block.toml": [LEARN / "lessons" / name for name in ("block.py", "block_steps.py")],
}
COMPREHENSIONS = (ast.GeneratorExp, ast.ListComp, ast.SetComp)
SHARED = {"title", "claim", "method", "caveats", "source"}
"""Texts of every experiment that the list of experiments takes."""


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
        {
            field.partition(".")[0].partition("[")[0]
            for _, field, _, _ in string.Formatter().parse(part)
            if field
        }
        for part in (text.en, text.ko)
    )
    return en, ko


def test_every_experiment_has_its_file() -> None:
    assert {name.replace("-", "_") for name in EXPERIMENTS} | {"labels", "block"} == {
        name[:-5] for name in FILES
    }


@pytest.mark.parametrize("name", FILES)
def test_texts_are_in_both_languages_with_the_same_placeholders(name: str) -> None:
    for key, text in _texts(name).items():
        assert text.en, key
        assert text.ko, key
        en, ko = _placeholders(text)
        assert en - {"plural"} == ko, key  # Korean nouns have no plural


@pytest.mark.parametrize("name", FILES)
def test_every_placeholder_is_filled(name: str) -> None:
    """Texts are taken by their key, and the values of a call of `fill` are those that the text has
    room for.
    """
    texts = _texts(name)
    filled = set[str]()
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
            keys = [
                part.value
                for part in ast.walk(function.value.slice)
                if isinstance(part, ast.Constant)
            ]
        elif isinstance(function, ast.Name) and function.id == "_worded":
            keys = [
                f"{prefix}{part.value}.text"
                for part in ast.walk(node.args[0])
                if isinstance(part, ast.Constant)
            ]
        else:
            continue
        values = {keyword.arg for keyword in node.keywords}
        for key in [key for key in keys if key in texts and None not in values]:
            assert set().union(*_placeholders(texts[key])) <= values, key
            filled.add(key)
    open_keys = {key for key, text in texts.items() if any(_placeholders(text))} - filled
    dynamic = {
        key
        for key in open_keys
        if key.startswith(("steps.score_", "steps.unprojected.title", "steps.hidden"))
    }
    dynamic |= {key for key in open_keys if key in ("descriptions.random", "steps.earlier.title")}
    dynamic |= {f"steps.{letter}.text" for letter in "QKV"}
    dynamic |= {f"steps.{norm}.text" for norm in ("norm_before", "norm_after", "final_norm")}
    dynamic |= {
        key
        for key in open_keys
        if name == "labels.toml" and key.startswith(("reasons.", "changes."))
    }
    assert open_keys <= dynamic, "nobody fills these in"


class _Uses:
    """The keys that code takes out of `TEXTS` or `LABELS`, as far as they follow from the code.

    A key that is put together, or is in a variable, stands for all strings that can get into it: by
    the variable's assignments, by the sequence that it runs over, or by the calls of the function
    that it is an argument of.
    """

    def __init__(self, name: str) -> None:
        self.prefix = "steps." if name == "block.toml" else ""
        self.owners = {"LABELS"} if name == "labels.toml" else {"TEXTS", "texts"}
        self.nodes = list(_code(name))
        self.functions = [
            node for node in self.nodes if isinstance(node, (ast.FunctionDef, ast.Lambda))
        ]

    def keys(self) -> set[str]:
        """Return the keys of single texts."""
        keys = set[str]()
        for node in self.nodes:
            if (
                isinstance(node, ast.Subscript)
                and isinstance(node.value, ast.Name)
                and node.value.id in self.owners
            ):
                keys |= self._strings(node.slice)
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "_worded":
                steps = {f"{self.prefix}{key}" for key in self._strings(node.args[0])}
                keys |= {f"{step}.{part}" for step in steps for part in ("title", "text")}
        return keys

    def parts(self) -> dict[str, set[str] | None]:
        """Return the tables that are taken, with the keys in them that are used; None: all of them
        can be.
        """
        parts = dict[str, set[str] | None]()
        for node in self.nodes:
            if not (isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "table"):
                continue
            (key,) = self._strings(node.args[0])
            parts[key] = self._constant_keys(self._variable(node))
        return parts

    def _variable(self, value: ast.expr) -> str | None:
        """Return the variable that a table is assigned to, by itself or as one of several."""
        for node in self.nodes:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], (ast.Name, ast.Tuple)):
                target = node.targets[0]
                pairs = [(target, node.value)]
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = list(zip(target.elts, node.value.elts, strict=True))
                for name, assigned in pairs:
                    if assigned is value and isinstance(name, ast.Name):
                        return name.id
        return None

    def _constant_keys(self, variable: str | None) -> set[str] | None:
        """Return the keys of a table that is only ever asked for constant keys; None if it is used
        otherwise.
        """
        loads = [
            n
            for n in self.nodes
            if isinstance(n, ast.Name) and n.id == variable and isinstance(n.ctx, ast.Load)
        ]
        items = [n for n in self.nodes if isinstance(n, ast.Subscript) and n.value in loads]
        keys = [item.slice.value for item in items if isinstance(item.slice, ast.Constant)]
        return set(keys) if loads and len(keys) == len(loads) else None

    def _strings(self, node: ast.AST, within: frozenset[str] = frozenset()) -> set[str]:
        """Return the strings that an expression can have as its value or, of a sequence or table,
        contain.
        """
        if isinstance(node, ast.Constant):
            return {node.value} if isinstance(node.value, str) else set()
        if isinstance(node, ast.FormattedValue):
            return self._strings(node.value, within)
        if isinstance(node, ast.JoinedStr):
            parts = [self._strings(part, within) for part in node.values]
            return {"".join(strings) for strings in itertools.product(*parts)}
        if isinstance(node, ast.IfExp):
            return self._strings(node.body, within) | self._strings(node.orelse, within)
        if isinstance(node, COMPREHENSIONS):
            return self._strings(node.elt, within)
        if isinstance(node, ast.Dict):
            return set().union(*(self._strings(key, within) for key in node.keys if key))
        if isinstance(node, ast.Name):
            if node.id == "SCORES":
                return set(SCORES)
            return set() if node.id in within else self._strings_of(node, within | {node.id})
        return set().union(*(self._strings(child, within) for child in ast.iter_child_nodes(node)))

    def _strings_of(self, name: ast.Name, within: frozenset[str]) -> set[str]:
        """Return the strings that a variable can hold in the comprehension or function that it
        stands in.
        """
        for comprehension in (node for node in self.nodes if isinstance(node, COMPREHENSIONS)):
            for loop in (
                comprehension.generators
                if any(node is name for node in ast.walk(comprehension))
                else ()
            ):
                if any(
                    isinstance(part, ast.Name) and part.id == name.id
                    for part in ast.walk(loop.target)
                ):
                    return self._strings(loop.iter, within)
        inside = [
            function
            for function in self.functions
            if any(node is name for node in ast.walk(function))
        ]
        sources = list[ast.AST]()
        for node in (node for function in inside for node in ast.walk(function)):
            targets = (
                node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            )
            value = (
                getattr(node, "value", None)
                if isinstance(node, ast.Assign)
                else getattr(node, "iter", None)
            )
            names = {
                part.id
                for target in targets
                if target
                for part in ast.walk(target)
                if isinstance(part, ast.Name)
            }
            sources += [value] if value is not None and name.id in names else []
        for function in inside:
            parameters = [argument.arg for argument in function.args.args if argument.arg != "self"]
            if isinstance(function, ast.FunctionDef) and name.id in parameters:
                sources += self._arguments(function.name, parameters.index(name.id))
        return set().union(*(self._strings(source, within) for source in sources))

    def _arguments(self, function: str, index: int) -> list[ast.expr]:
        calls = [node for node in self.nodes if isinstance(node, ast.Call)]
        calls = [
            call
            for call in calls
            if function in (getattr(call.func, key, "") for key in ("id", "attr"))
        ]
        return [call.args[index] for call in calls if len(call.args) > index]


@pytest.mark.parametrize("name", FILES)
def test_every_text_is_used(name: str) -> None:
    """The code takes exactly the keys of the file; of a table that is handed on as a whole, any."""
    uses = _Uses(name)
    parts = uses.parts()
    whole = tuple(f"{table}." for table, keys in parts.items() if keys is None)
    used = uses.keys() | {f"{table}.{key}" for table, keys in parts.items() for key in keys or ()}
    used |= SHARED if name not in MODULES else set()
    assert {key for key in _texts(name) if not key.startswith(whole)} == used


def test_texts_are_read_strictly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "some_texts"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    content = 'both = "1"\n[names]\none = {en = "one {n:.1f}", ko = "하나 {n:.1f} {what}"}\n'
    (package / "good.toml").write_text(content, encoding="utf-8")
    texts = read_texts("some_texts", "good.toml", ("both", "names"))
    assert texts["both"] == Text("1", "1")
    assert texts.table("names")["one"].fill(n=2, what=Text("x", "엑스")) == Text(
        "one 2.0", "하나 2.0 엑스"
    )
    assert join_texts([Text("a", "가"), Text("b", "나")], Text("; ", ". ")) == Text(
        "a; b", "가. 나"
    )
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
