"""Search options of the commands (`--beam`, `--top-p` …), generated from the fields of
`SearchSettings`.
"""

from __future__ import annotations

import inspect
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

_KEY = "regard.search"
_OWN_ONLY = "regard.search.own_only"
_ELSEWHERE = (  # of every command; facts of the data
    "seed",
    "longest_source",
    "line_sentences",
    "line_clauses",
    "score_threshold",
)


def search_command(*only: str, without: tuple[str, ...] = ()) -> type[TyperCommand]:
    """Return a kind of command that takes settings of the search as options: `only` these, or all
    but those `without`.

    Its function reads what was given with `search_options`.
    """

    class Command(_SearchCommand):
        names = only
        excluded = (*_ELSEWHERE, *without)

    return Command


def search_options(context: typer.Context, seed: int | None = None) -> dict[str, Any]:
    """Return the search settings that the command line gives, by name; `--seed` is one of them."""
    return {
        name: value
        for name, value in {**context.meta[_KEY], "seed": seed}.items()
        if value is not None
    }


class _SearchCommand(TyperCommand):
    """A command with search options; they are made when it is called or explained, since the
    settings import PyTorch, for which `regard --help` need not wait.
    """

    context_class = typer.Context  # as the functions of the commands declare it
    names: tuple[str, ...]
    excluded: tuple[str, ...]

    @cached_property
    def search_params(self) -> list[Any]:
        from regard.search import SearchSettings

        fields = SearchSettings.model_fields
        names = self.names or [name for name in fields if name not in self.excluded]
        return _options({name: fields[name] for name in names})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse arguments; without any option but the command's own those of the search are not
        made.
        """
        own = {option for param in super().get_params(ctx) for option in param.opts}
        ctx.meta[_OWN_ONLY] = all(
            arg.partition("=")[0] in own
            for arg in args
            if arg[:1] == "-" and arg != "-"
        )
        return super().parse_args(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options of the command, then those of the search."""
        return [
            *super().get_params(ctx),
            *([] if ctx.meta.get(_OWN_ONLY) else self.search_params),
        ]

    def invoke(self, ctx: Any) -> Any:
        """Call the function of the command without the search options, which wait in the
        context.
        """
        options = [] if ctx.meta.get(_OWN_ONLY) else self.search_params
        ctx.meta[_KEY] = {
            option.name: ctx.params.pop(option.name) for option in options
        }
        return super().invoke(ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the help: arguments, options, and search options below them."""
        own = super().get_params(ctx)
        sections = {
            "Arguments": [
                param for param in own if param.param_type_name == "argument"
            ],
            "Options": [param for param in own if param.param_type_name == "option"],
            "Search options, each the model's own setting if left out": self.search_params,
        }
        for title, params in sections.items():
            with formatter.section(title):
                formatter.write_dl([param.get_help_record(ctx) for param in params])


def _options(fields: dict[str, FieldInfo]) -> list[Any]:
    """Make an option of each field: typer reads them from the signature of a function that takes
    them all.
    """
    annotations = {name: _annotation(name, field) for name, field in fields.items()}

    def takes_all(**_: Any) -> None: ...

    keyword = inspect.Parameter.KEYWORD_ONLY
    takes_all.__annotations__ = annotations
    vars(takes_all)["__signature__"] = inspect.Signature(
        [
            inspect.Parameter(name, keyword, default=None, annotation=each)
            for name, each in annotations.items()
        ]
    )
    parser = typer.Typer(add_completion=False, rich_markup_mode=None)
    parser.command()(takes_all)
    return list(typer.main.get_command(parser).params)


def _annotation(name: str, field: FieldInfo) -> Any:
    """Return the type of an option, None if it is not given, with the bounds and the description of
    the field.
    """
    kinds = (
        (field.annotation,)
        if get_origin(field.annotation) is Literal
        else get_args(field.annotation)
    )
    kind: Any = next(
        (kind for kind in kinds if kind is not type(None)), field.annotation
    )
    bounds = {
        bound: getattr(rule, bound)
        for rule in field.metadata
        for bound in ("ge", "le")
        if hasattr(rule, bound)
    }
    text = field.description or ""
    # Α stays small.
    text = f"{text[:1].upper()}{text[1:]}" if text[:1].isascii() else text
    option = typer.Option(
        f"--{name.replace('_', '-')}",
        min=bounds.get("ge"),
        max=bounds.get("le"),
        help=f"{text}.",
        show_default=False,
    )
    return Annotated[kind | None, option]
