"""Reference pages from the program itself: commands, public names of Python, endpoints of the
server.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from regard.common.plugins import Registry
from regard.common.settings import Settings

ROOT = Path(__file__).parent.parent
PACKAGES = [
    "regard",
    *(
        "regard.pipeline",
        "regard.pipeline.bulk",
        "regard.documents",
        "regard.search",
        "regard.models",
        "regard.attention",
        "regard.testing",
    ),
    *(
        "regard.training",
        "regard.comparison",
        "regard.visualisation",
        "regard.runtime.engine",
    ),
    *(
        "regard.learn",
        "regard.learn.lab",
        "regard.learn.samples",
        "regard.learn.samples.images",
    ),
]
"""Packages whose `__all__` is public, in the order of the reference."""
MODULES = {
    "regard.attention.positions": ["RotaryPositions", "AlibiPositions"],
    "regard.common.errors": ["UsageError", "DataError", "PluginError", "LineWarning"],
    "regard.common.settings": ["Settings"],
    "regard.comparison.result": [
        *("System", "SeedScore", "Lead", "RunResult", "RunScore", "Cost"),
        *("Point", "Alignment", "Breakdown", "Bucket", "TestSet"),
    ],
    "regard.contracts.judge": ["judge"],
    "regard.data.batch": ["Example", "TrainingBatch", "pad"],
    "regard.data.language_id": ["LanguageId"],
    "regard.data.sentences": ["split_text"],
    "regard.data.vocabulary": ["PAD", "UNK", "BOS", "EOS"],
    "regard.evaluation.caption_metrics": ["cider_scores"],
    "regard.evaluation.pointing": ["pointing_game"],
    "regard.evaluation.text_metrics": ["MetricScore", "scores"],
    "regard.explain.explanation": ["explain"],
    "regard.layers.embedding": ["Embedding", "OutputProjection"],
    "regard.layers.positional_encoding": ["PositionEmbedding"],
    "regard.model_folder": ["folder_languages", "load_language_id"],
    "regard.serving.keys": ["add_key", "list_keys", "revoke_key"],
    "regard.text.markup.document": ["parse_markup"],
    "regard.text.markup.elements": ["MarkupOptions"],
    "regard.text.aligned_line": ["AlignedLine"],
    "regard.training.loss": ["Loss", "LossFunction", "Objective"],
}
"""Names of inner modules that guides and examples import."""


def command_tree() -> Iterator[tuple[str, Any]]:
    """Yield the full name and the object of every command, those of groups after the group."""
    import typer

    from regard.cli import app

    yield from _commands("regard", typer.main.get_group(app))


def _commands(prefix: str, group: Any) -> Iterator[tuple[str, Any]]:
    for name, command in sorted(group.commands.items()):
        yield f"{prefix} {name}", command
        if hasattr(command, "commands"):
            yield from _commands(f"{prefix} {name}", command)


def commands() -> str:
    """Return every command with its arguments and options, as the command's own help describes
    them.
    """
    tree = [*command_tree()]
    links = [
        f"- [{name}](#{name.replace(' ', '-')}): {_first(command)}"
        for name, command in tree
    ]
    folded = [
        '<details open class="commands"><summary>All commands</summary>',
        "\n".join(links),
        "</details>",
    ]
    return "\n\n".join(
        [*folded, *("\n\n".join(_command(name, command)) for name, command in tree)]
    )


def _first(command: Any) -> str:
    """Return the first sentence of the help of a command."""
    sentence = re.split(r"(?<=[.:])\s", " ".join(command.help.split()), maxsplit=1)[0]
    return _plain(sentence.rstrip(".:"))


def _command(name: str, command: Any) -> Iterator[str]:
    context, parameters = parameters_of(name, command)
    yield f"## {name}"
    yield f"```text\n{' '.join([name, *command.collect_usage_pieces(context)])}\n```"
    yield _paragraphs(command.help or "")
    rows = [row for parameter in parameters if (row := _row(parameter, context))]
    if rows:
        yield "\n".join(["| argument or option | meaning |", "|---|---|", *rows])


def parameters_of(name: str, command: Any) -> tuple[Any, list[Any]]:
    """Return the context of a command, and its arguments and options, those generated from settings
    too.
    """
    context = command.make_context(name, [], resilient_parsing=True)
    # Made when a command is called with them.
    search = [*getattr(command, "search_params", [])]
    own = [
        parameter
        for parameter in command.params
        if parameter.name not in {option.name for option in search}
    ]
    return context, own + search


def _row(parameter: Any, context: Any) -> str:
    """Return the row of a table for a parameter; "" if it is hidden."""
    if getattr(parameter, "hidden", False):
        return ""
    names, meaning = parameter.get_help_record(context) or (
        parameter.make_metavar(context),
        "",
    )
    return f"| {_code(names)} | {_cell(meaning)} |"


def _paragraphs(text: str) -> str:
    """Return the help of a command as Markdown; paragraphs that are command lines become code."""
    parts = re.split(r"\n\s*\n", inspect.cleandoc(text.replace("\b", "")))
    return "\n\n".join(
        f"```text\n{part}\n```" if part.startswith("regard ") else _plain(part)
        for part in parts
    )


def _plain(text: str) -> str:
    """Escape what Markdown would take for markup, outside of code; names of options become code."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else _escape(part) for part in parts)


def _escape(text: str) -> str:
    return re.sub(
        r"(?<![\w-])--[a-z][a-z-]*", r"`\g<0>`", re.sub(r"([*_<>\[\]])", r"\\\1", text)
    )


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def _cell(text: str) -> str:
    return " ".join(_plain(text).split()).replace("|", "\\|")


def public_names() -> Iterator[tuple[str, str, Any]]:
    """Yield package, name and object of everything public, each object once: where it is named
    first.
    """
    seen = set[int]()
    for package_name in [*PACKAGES, *MODULES]:
        package = importlib.import_module(package_name)
        for name in MODULES.get(package_name) or package.__all__:
            value = getattr(package, name)
            if id(value) not in seen:
                yield package_name, name, value
            if inspect.isclass(value) or inspect.isfunction(value):
                seen.add(id(value))


def python(package: str, chosen: Sequence[str] = ()) -> str:
    """Return the public names of a package as directives of autodoc: all below a heading, or those
    that are chosen.
    """
    text = inspect.cleandoc(importlib.import_module(package).__doc__ or "")
    head = " ".join(text.partition("\n\n")[0].split())
    lines = [] if chosen else [f"## {package}", "", _plain(head)]
    values = {name: value for owner, name, value in public_names() if owner == package}
    for name in chosen or values:
        lines += ["", *_directive(f"{package}.{name}", values[name])]
    return "\n".join(lines)


def _directive(path: str, value: Any) -> list[str]:
    if inspect.isclass(value):
        options = [":members:", ":undoc-members:"]
        if value.__name__ == "FolderTranslator":
            options.append(":inherited-members: Translator")
        kind = "autoexception" if issubclass(value, BaseException) else "autoclass"
    elif callable(value) and hasattr(value, "__code__"):
        options = []
        kind = "autofunction"
    else:
        # What a registry or a type consists of is no text to be read.
        options = [] if isinstance(value, (str, int)) else [":no-value:"]
        kind = "autodata"
    return [
        "```{eval-rst}",
        f".. {kind}:: {path}",
        *(f"   {option}" for option in options),
        "```",
    ]


def data_docs(package: str, name: str) -> list[str]:
    """Return the text below the assignment of a public name that is neither class nor function.

    A module of one assignment, such as that of the version, is described by its own text.
    """
    module = importlib.import_module(package)
    value = getattr(module, name, None)
    if inspect.ismodule(value):
        return (inspect.getdoc(value) or "").split("\n")
    tree = ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))
    if [type(node) for node in tree.body] == [
        ast.Expr,
        ast.Assign,
    ] and f"{name} =" in ast.unparse(tree):
        return [ast.get_docstring(tree) or ""]
    for node, after in zip(tree.body, tree.body[1:], strict=False):
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [getattr(node, "target", None)]
        )
        if name in {target.id for target in targets if isinstance(target, ast.Name)}:
            text = (
                after.value.value
                if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                else ""
            )
            return inspect.cleandoc(str(text)).split("\n") if text else []
    for part in ast.walk(tree):
        if (
            isinstance(part, ast.ImportFrom)
            and part.module
            and name in {alias.name for alias in part.names}
        ):
            return data_docs(part.module, name)
    return []


def clean_docstring(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Make a docstring, which is plain text, into what Sphinx reads: indented lines are code, signs
    are themselves.
    """
    if what == "data":
        lines[:] = data_docs(*name.rpartition(".")[::2])
        if isinstance(obj, Registry):
            names = ", ".join(f"`{name}`" for name in obj.names)
            lines += ["", f"Names in the package: {names}."]
    blocks: list[str] = []
    for block in re.split(r"\n\s*\n", "\n".join(lines)):
        if block.startswith(" ") and blocks and "\n " in blocks[-1]:
            blocks[-1] += f"\n\n{block}"  # code that has empty lines
        else:
            blocks.append(block)
    lines[:] = "\n\n".join(_block(block) for block in blocks).split("\n")


def shorten_signature(
    app: Any, what: str, name: str, obj: Any, options: Any, *signature: str
) -> tuple[str, str] | None:
    """Leave the many settings of a class out of its signature, as its members follow."""
    is_settings = inspect.isclass(obj) and issubclass(obj, Settings)
    return ("(**values)", "") if is_settings else None


def _block(block: str) -> str:
    """Return a paragraph or a list as it is, or as code if lines of it are indented or it is a
    dialogue of Python.
    """
    if block.startswith(">>>"):
        return block
    if re.search(r"^\s+\S", block, re.MULTILINE) and not block.startswith("- "):
        return "::\n\n" + "\n".join(f"    {line}" for line in block.split("\n"))
    parts = re.split(r"(`[^`]*`)", block)
    return "".join(
        part if part[:1] == "`" else re.sub(r"(?<=\w)_(?!\w)|[*|]", r"\\\g<0>", part)
        for part in parts
    )


def http() -> str:
    """Return the endpoints of the server, from its own description."""
    from regard.requests.server_settings import ServerSettings
    from regard.serving.application import create_app

    service: Any = SimpleNamespace(models={}, is_ready=True)
    paths = create_app(service, ServerSettings()).openapi()["paths"]
    return "\n\n".join(
        part for path, methods in paths.items() for part in _endpoint(path, methods)
    )


def _endpoint(path: str, methods: dict[str, Any]) -> Iterator[str]:
    yield f"## {path}"
    details = next(iter(methods.values()))
    yield (
        f"{', '.join(f'`{method.upper()}`' for method in methods)}: "
        f"{_plain(details.get('description', ''))}"
    )
    bodies = details.get("requestBody", {}).get("content", {})
    fields = {
        name: kind
        for body in bodies.values()
        for name, kind in body.get("schema", {}).get("properties", {}).items()
    }
    needed = {
        name
        for body in bodies.values()
        for name in body.get("schema", {}).get("required", [])
    }
    fields |= {
        field["name"]: field["schema"] | {"description": field.get("description", "")}
        for field in details.get("parameters", [])
    }
    if bodies:
        yield f"Body: {', '.join(f'`{kind}`' for kind in bodies)}."
    if fields:
        rows = [
            f"| `{name}` | {_kind(kind)}{', required' if name in needed else ''} | "
            f"{_cell(_meaning(kind))} |"
            for name, kind in fields.items()
        ]
        yield "\n".join(["| parameter | type | meaning |", "|---|---|---|", *rows])
    statuses = [
        f"`{status}` {_plain(answer.get('description', ''))}"
        for status, answer in details["responses"].items()
        if status != "200"
    ]
    if statuses:
        yield "Errors: " + "; ".join(statuses) + "."


def _kind(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_kind(part) for part in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("type", schema.get("$ref", "value").rpartition("/")[2]))


def _meaning(schema: dict[str, Any]) -> str:
    default = schema.get("default")
    # A parameter that may be null has its description beside its type.
    described = [schema, *schema.get("anyOf", ())]
    texts = [part["description"] for part in described if "description" in part]
    return "".join(texts[:1]) + (
        ""
        if default in (None, "")
        else f" Default: `{json.dumps(default, ensure_ascii=False)}`."
    )


def dialects() -> str:
    """Return the table of the dialects of strings: name, flags in PO files, an example."""
    from regard.contracts.dialects import table

    rows = ["| `--dialect` | flags in a PO file | example |", "|---|---|---|"]
    for name, dialect in table()["dialects"].items():
        flags = [f"`{flag}`" for flag, own in table()["flags"].items() if own == name]
        example = dialect["example"].replace("|", r"\|")
        code = f"`` {example} ``" if "`" in example else f"`{example}`"
        rows.append(f"| `{name}` | {', '.join(flags)} | {code} |")
    return "\n".join(rows)


MAKERS: dict[str, Callable[[], str]] = {
    "commands": commands,
    "http": http,
    "dialects": dialects,
}


OUTSIDE = re.compile(
    r"\[([^\]]+)\]\(((?:\.\./)+(?:CONTRIBUTING|benchmarks/README)\.md)(?:#[\w-]+)?\)"
)
"""Links to pages of the repository that are no pages of the site: their files are offered
instead.
"""


def fill(app: Any, docname: str, source: list[str]) -> None:
    """Replace the marks in a page, such as `<!-- made: commands -->`, by what is made from the
    program.
    """
    text = OUTSIDE.sub(r"{download}`\1 <\2>`", source[0])
    source[0] = re.sub(
        r"<!-- made: (\w+) ?([\w. ]*) -->", lambda mark: _made(mark[1], mark[2]), text
    )


def _made(name: str, words: str) -> str:
    if name != "python":
        return MAKERS[name]()
    package, *chosen = words.split()
    return python(package, chosen)
