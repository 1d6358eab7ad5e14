"""Requests: the arguments of a public function and the options of its command, defined once.

A request is a dataclass that pydantic validates. The annotation of a field has its type, the kind
of value that Python callers may give (`regard.common.arguments`), and an `Option`, which describes
it on the command line. `takes` gives a function the signature of its request.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, ParamSpec, TypeVar, get_type_hints

from pydantic import ConfigDict, ValidationError

from regard.common.arguments import describe
from regard.common.errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

REQUEST = ConfigDict(arbitrary_types_allowed=True)
"""Configuration of the pydantic dataclasses of requests."""
COMMAND = ConfigDict(arbitrary_types_allowed=True, defer_build=True)
"""The same for requests whose signature no function takes: they are built when they are used."""


@dataclass(frozen=True)
class Option:
    """Description of a field on the command line.

    - `help`: what the field is, for people.
    - `name`: its option or argument, if that is not the name of the field, such as "--from".
    - `least`, `most`: bounds of a number.
    - `is_argument`: whether it is given by its position.
    - `is_local`: whether it is a file or folder of this machine, and no address.
    - `is_repeated`: whether it may be given several times.
    - `parse`: converts the text, or texts, of the option to the value of the field.
    """

    help: str
    name: str = ""
    least: float | None = None
    most: float | None = None
    is_argument: bool = False
    is_local: bool = False
    is_repeated: bool = False
    parse: Callable[[Any], Any] | None = None


def make_request(request: Callable[..., R], values: Mapping[str, Any]) -> R:
    """Create a request. Raises UsageError with a sentence for each invalid value."""
    try:
        return request(**values)
    except ValidationError as problem:
        raise UsageError(*_causes(problem)) from None


def call_with(function: Callable[..., T], request: Any, **values: Any) -> T:
    """Call a function with `values`, and with the fields of a request whose names it has."""
    names = inspect.signature(function).parameters.keys() - values.keys()
    shared = {
        field.name: getattr(request, field.name)
        for field in fields(request)
        if field.name in names
    }
    return function(**shared, **values)


def takes(
    request: Callable[P, R],
) -> Callable[[Callable[[R], T]], Callable[P, T]]:
    """Return a decorator that gives a function the signature of a class of requests.

    The decorated function is called with the arguments of the class; the function itself receives
    the request. It raises UsageError for invalid arguments, and TypeError for unknown ones.
    """

    def decorate(function: Callable[[R], T]) -> Callable[P, T]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            values = signature.bind(*args, **kwargs).arguments
            return function(make_request(request, values))

        signature = inspect.signature(request)
        types = get_type_hints(request)  # without options
        parameters = [
            parameter.replace(annotation=types[parameter.name])
            for parameter in signature.parameters.values()
        ]
        returned = inspect.signature(function).return_annotation
        vars(call)["__signature__"] = inspect.Signature(
            parameters, return_annotation=returned
        )
        return call

    return decorate


def _causes(problem: ValidationError) -> list[str]:
    """Return a sentence for each invalid argument."""
    causes = []
    for error in problem.errors():
        if error["type"] == "value_error":
            message = error["msg"].removeprefix("Value error, ")
        elif error["type"] == "literal_error":
            message = (
                f"wanted {error['ctx']['expected']}, got {describe(error['input'])}"
            )
        else:
            words = f"{error['msg'][:1].lower()}{error['msg'][1:]}"
            message = f"{words}, got {describe(error['input'])}"
        argument = f"`{error['loc'][0]}=`: " if error["loc"] else ""
        causes.append(f"{argument}{message}")
    return causes
