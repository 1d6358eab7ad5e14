"""Arguments and options of commands, made from annotations with an `Option`.

They annotate the fields of a command's request (`regard.common.requests`), or else the parameters
of its function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, is_dataclass, replace
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    get_args,
    get_origin,
)

import typer
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from regard.common.requests import Option, make_request

R = TypeVar("R")


@dataclass(frozen=True)
class DescribedField:
    """A field of a request, or a parameter of a function, that is an option of a command."""

    name: str
    type: object
    default: object
    option: Option

    @property
    def flag(self) -> str:
        """The option on the command line, such as --valid-source."""
        return self.option.name or f"--{self.name.rstrip('_').replace('_', '-')}"

    def parameter(self) -> inspect.Parameter:
        """Return the parameter from which typer makes an argument or an option."""
        option = self.option
        default = self.default
        text_type = str if option.parse is not None else _text_type(self)
        if option.is_repeated:
            text_type = list[text_type]  # type: ignore[valid-type]
        if option.is_repeated and default is not MISSING:
            default = None
        elif option.parse is not None:
            default = ""
        if default is None:
            text_type = text_type | None
        return inspect.Parameter(
            self.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if default is MISSING else default,
            annotation=Annotated[text_type, self._described(default)],
        )

    def _described(self, default: object) -> object:
        option = self.option
        if option.is_argument:
            return typer.Argument(help=option.help, metavar=option.name or None)
        flag = self.flag
        if default is True:
            flag = f"{flag}/--no-{flag.removeprefix('--')}"
        return typer.Option(flag, help=option.help, min=option.least, max=option.most)


def described_fields(described: Any) -> Iterator[DescribedField]:
    """Yield the options of a class of requests or settings, or of a function."""
    for name, field in _fields(described).items():
        if option := _option_of(field):
            default = MISSING if field.is_required() else field.default
            yield DescribedField(name, field.annotation, default, option)


def _fields(described: Any) -> Mapping[str, FieldInfo]:
    """Return the fields of a class, or the parameters of a function, as pydantic has them."""
    if isinstance(described, type):
        name = "__pydantic_fields__" if is_dataclass(described) else "model_fields"
        fields: Mapping[str, FieldInfo] = getattr(described, name)
        return fields
    # `get_type_hints` of Python 3.10 would add None to types whose default is None.
    parameters = inspect.signature(described, eval_str=True).parameters
    return {
        name: FieldInfo.from_annotated_attribute(
            item.annotation,
            PydanticUndefined if item.default is item.empty else item.default,
        )
        for name, item in parameters.items()
    }


def _option_of(field: FieldInfo) -> Option | None:
    """Return the `Option` of pydantic's field, or else one with its description, if it has any;
    with the bounds of the field.
    """
    options = [item for item in field.metadata if isinstance(item, Option)]
    if field.description:
        description = field.description
        if description[:1].isascii():  # a Greek letter such as α stays small
            description = f"{description[:1].upper()}{description[1:]}"
        options.append(Option(f"{description}."))
    if not options:
        return None
    option = options[0]
    for constraint in field.metadata:
        for bound, name in (("ge", "least"), ("le", "most")):
            if hasattr(constraint, bound):
                option = replace(option, **{name: getattr(constraint, bound)})
        # Typer describes no bounds that are excluded.
        for bound, sign in (("gt", ">"), ("lt", "<")):
            if hasattr(constraint, bound):
                limit = f"[x{sign}{getattr(constraint, bound)}]"
                option = replace(option, help=f"{option.help} {limit}")
    return option


def parse_request(request: Callable[..., R], values: Mapping[str, object]) -> R:
    """Create the request of a command from the values of its options. Raises UsageError."""
    parsed = {"search": values["search"]} if "search" in values else {}
    for field in described_fields(request):
        value = values[field.name]
        # Typer gives None for options that may be repeated and were left out.
        if value is not None:
            parse = field.option.parse
            parsed[field.name] = value if parse is None else parse(value)
    return make_request(request, parsed)


def given_flags(request: object, names: Iterable[str]) -> list[str]:
    """Return the flags of the fields among `names` whose values differ from their defaults."""
    options = {field.name: field for field in described_fields(type(request))}
    return [
        options[name].flag
        for name in names
        if getattr(request, name) not in (options[name].default, None, ())
    ]


def _text_type(field: DescribedField) -> Any:
    """Return the type to which typer converts the text of an option: that of one item of a list,
    and of paths `Path` if they are none of addresses.
    """
    types = [kind for kind in _alternatives(field.type) if kind is not type(None)]
    if Path in types:
        return Path if field.option.is_local else str
    return types[0]


def _alternatives(field_type: object) -> Iterator[object]:
    """Yield the types of which a field may be one, and the types of the items of lists."""
    origin = get_origin(field_type)
    if origin is None or origin is Literal:
        yield field_type
        return
    members = get_args(field_type)
    for member in members[:1] if origin is Annotated else members:
        yield from _alternatives(member)
