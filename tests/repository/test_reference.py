"""Nothing public lacks a description: commands, options, settings, names of Python, endpoints, C
functions, JavaScript.
"""

from __future__ import annotations

import importlib
import inspect
import re
import runpy
from functools import cache

import pytest
import reference
from markdown_it import MarkdownIt
from repository.pages import DOCS, PAGES, ROOT, fenced, read

from regard.attention import SCORES
from regard.contracts.dialects import table
from regard.contracts.judge import judge
from regard.training import Recipe

COMMANDS = dict(reference.command_tree())
NAMES = {
    f"{package}.{name}": value for package, name, value in reference.public_names()
}
REFERENCE = {path.name: read(path) for path in DOCS.glob("reference/*.md")}
INNER = {"regard.cli", "regard.common.shapes"}
"""Packages and modules with `__all__` that are not for users: the command line itself,
annotations.
"""


@cache
def commands_page() -> str:
    return reference.commands()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_described(name: str) -> None:
    command = COMMANDS[name]
    assert command.help, name

    page = commands_page()
    assert f"## {name}\n" in page

    for parameter in reference.parameters_of(name, command)[1]:
        assert not getattr(parameter, "hidden", False), (
            f"{name}: {parameter.name} is hidden"
        )
        assert getattr(parameter, "help", ""), (
            f"{name}: {parameter.name} has no description"
        )
        for flag in parameter.opts if parameter.param_type_name == "option" else ():
            assert flag in page.split(f"## {name}\n")[1], f"{name}: {flag}"


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_has_a_text_of_its_own(name: str) -> None:
    value = NAMES[name]
    if inspect.isclass(value) or inspect.isfunction(value):
        text = vars(value).get("__doc__") or value.__doc__ or ""
        assert text.strip(), name
        assert not text.startswith(f"{value.__name__}("), (
            f"{name}: only the signature is known"
        )
    else:
        assert reference.data_docs(*name.rpartition(".")[::2]), (
            f"{name}: write a text below its assignment"
        )


def test_every_package_with_public_names_is_in_the_reference() -> None:
    public = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in (ROOT / "regard").rglob("*.py")
        if re.search(r"^__all__ = ", read(path), re.MULTILINE)
    }
    assert public - INNER == set(reference.PACKAGES)
    shown: list[str] = []
    for words in re.findall(r"<!-- made: python (.*) -->", "".join(REFERENCE.values())):
        package, *names = words.split()
        own = [name for name in NAMES if name.rpartition(".")[0] == package]
        shown += [f"{package}.{name}" for name in names] or own
    assert sorted(shown) == sorted(NAMES), "each name stands in one place"


def test_what_guides_and_examples_import_is_in_the_reference() -> None:
    """Names of another package that are shown elsewhere are the same objects."""
    code = [read(path) for path in (ROOT / "examples").glob("*.py")]
    for page in PAGES:
        code += fenced(page, "python")
        code += [
            re.sub(r"^(>>>|\.\.\.) ?", "", block, flags=re.MULTILINE)
            for block in fenced(page, "pycon")
        ]
    imported = {
        (module, name.split()[0])
        for block in code
        for module, names in re.findall(
            r"^\s*from (regard[\w.]*) import ([\w, ]+)$", block, re.MULTILINE
        )
        for name in names.split(", ")
    }
    assert ("regard.training.loss", "Loss") in imported
    shown = {(value.__class__, str(value)) for value in NAMES.values()}
    missing = []
    for module, name in sorted(imported):
        value = getattr(importlib.import_module(module), name)
        if (
            f"{module}.{name}" not in NAMES
            and (value.__class__, str(value)) not in shown
        ):
            missing.append(f"{module}.{name}")
    assert not missing, "name them in site/reference.py"


def test_every_setting_is_described() -> None:
    rows = runpy.run_path(str(DOCS / "make_settings.py"))["rows"]
    missing = [key for key, _, meaning in rows(Recipe) if not meaning.strip("() ")]
    assert not missing


def test_every_score_has_its_formula_which_the_settings_link() -> None:
    section = read(DOCS / "models.md").split("## Attention and its scores")[1]
    table = section.split("\n## ")[0]
    names = re.findall(r"^\| `(\w+)` \| \S", table, re.MULTILINE)
    assert sorted(names[1:]) == sorted(SCORES), "below the head of the table"

    settings = read(DOCS / "settings.md")
    rows = re.findall(r"^\| `model\.\w+\.score` .*$", settings, re.MULTILINE)
    assert rows
    assert all("(models.md#attention-and-its-scores)" in row for row in rows)


def test_every_endpoint_is_described() -> None:
    page = reference.http()
    for path in re.findall(r"^## (.*)$", page, re.MULTILINE):
        section = page.split(f"## {path}\n")[1].split("\n## ")[0]
        assert re.search(r"`(GET|POST)`.*: \w", section), path


def test_every_function_of_the_header_has_a_comment() -> None:
    assert "regard/runtime/c/regard.h" in REFERENCE["c.md"]
    for block in read(ROOT / "regard/runtime/c/regard.h").split("\n\n"):
        if "REGARD_API " in block and "#define" not in block:
            assert "/*" in block, block


def test_every_export_of_the_module_is_described() -> None:
    assert "js/regard.d.ts" in REFERENCE["javascript.md"]
    types = read(ROOT / "js" / "regard.d.ts")
    module = read(ROOT / "regard/runtime/js/regard.js")
    exported = r"^export (?:async )?(?:function|class|const) (\w+)"
    names = re.findall(exported, module, re.MULTILINE)
    assert names
    for name in names:
        declared = rf"^export (?:function|class|const) {name}\b"
        assert re.search(declared, types, re.MULTILINE), name


def test_the_table_of_dialects_has_a_string_of_each() -> None:
    tokens = MarkdownIt().enable("table").parse(reference.dialects())
    inline = [child for token in tokens for child in token.children or ()]
    shown = {child.content for child in inline if child.type == "code_inline"}
    for name, dialect in table()["dialects"].items():
        example = dialect["example"]
        assert {name, example} <= shown
        assert not any(f.breaks_programs for f in judge(example, example, name))
        assert any(f.breaks_programs for f in judge(example, "A cat.", name))
    assert table()["flags"].keys() <= shown
