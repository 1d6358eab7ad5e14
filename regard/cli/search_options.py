"""Search options of the commands, generated from the fields of `SearchSettings`."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import typer
from typer.core import TyperCommand

from regard.cli.request_options import DescribedField, described_fields

GIVEN = "regard.search"
"""Key of the given search settings, by name, in the metadata of a context."""
_EXCLUDED = (
    # `--seed` is an option of every command; the others are learnt from the data.
    "seed",
    "longest_source",
    "line_sentences",
    "line_clauses",
    "score_threshold",
)


def search_command(*only: str, without: tuple[str, ...] = ()) -> type[SearchCommand]:
    """Return a class of commands that take search settings as options.

    `only`: names of these settings; by default all except those of `without`.
    """

    class Command(SearchCommand):
        names = only
        excluded = (*_EXCLUDED, *without)

    return Command


class SearchCommand(TyperCommand):
    """A command with search options.

    They are created when the command is called or described: the other commands start without the
    10 ms that this takes.
    """

    context_class = typer.Context  # the type that the functions of commands declare
    names: tuple[str, ...]
    excluded: tuple[str, ...]

    @cached_property
    def search_params(self) -> list[Any]:
        from regard.search import SearchSettings

        fields = {field.name: field for field in described_fields(SearchSettings)}
        names = self.names or [name for name in fields if name not in self.excluded]
        return _options([fields[name] for name in names])

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options of the command, and then the search options."""
        return [*super().get_params(ctx), *self.search_params]

    def invoke(self, ctx: Any) -> object:
        """Move the search options to the metadata of the context, and call the function."""
        values = {item.name: ctx.params.pop(item.name) for item in self.search_params}
        ctx.meta[GIVEN] = {
            name: value for name, value in values.items() if value is not None
        }
        return super().invoke(ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the help of arguments, options and search options, in sections."""
        arguments = list[object]()
        options = list[object]()
        for param in super().get_params(ctx):
            if param.param_type_name == "argument":
                arguments.append(param)
            else:
                options.append(param)
        sections = {
            "Arguments": arguments,
            "Options": options,
            "Search options, each the model's own setting if left out": self.search_params,
        }
        for title, params in sections.items():
            with formatter.section(title):
                formatter.write_dl([param.get_help_record(ctx) for param in params])


def _options(fields: Sequence[DescribedField]) -> list[object]:
    """Create an option for each field, which typer derives from the signature of a function."""
    parameters = [replace(field, default=None).parameter() for field in fields]

    def command(**_: object) -> None: ...

    command.__annotations__ = {item.name: item.annotation for item in parameters}
    vars(command)["__signature__"] = inspect.Signature(parameters)
    parser = typer.Typer(add_completion=False, rich_markup_mode=None)
    parser.command()(command)
    return list(typer.main.get_command(parser).params)
