"""Add new names to public_names.txt: commands, options, settings, endpoints, parameters, and public
names of Python, as the program itself has them.

`PYTHONPATH=.:site:tests python tests/repository/public_names.py` does so. No name is taken out:
that is what the record is for.
"""

from __future__ import annotations

import inspect
import runpy
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import reference
from repository.pages import DOCS, ROOT

from regard.requests.server_settings import ServerSettings
from regard.serving.application import create_app
from regard.training import Recipe

RECORD = ROOT / "tests/repository/public_names.txt"


def recorded_names() -> set[str]:
    """Return the names that were ever recorded."""
    return set(RECORD.read_text(encoding="utf-8").splitlines())


def public_names() -> set[str]:
    """Return the names that there are."""
    return {*_commands(), *_settings(), *_parameters_of_endpoints(), *_python()}


def _commands() -> Iterator[str]:
    for command, described in reference.command_tree():
        yield command
        for parameter in reference.parameters_of(command, described)[1]:
            is_argument = parameter.param_type_name == "argument"
            flags = [*parameter.opts, *parameter.secondary_opts]
            for flag in [parameter.name.upper()] if is_argument else flags:
                yield f"{command} {flag}"


def _settings() -> Iterator[str]:
    rows = runpy.run_path(str(DOCS / "make_settings.py"))["rows"]
    for key, _, _ in rows(Recipe):
        yield f"setting {key}"


def _parameters_of_endpoints() -> Iterator[str]:
    service: Any = SimpleNamespace(models={}, is_ready=True)
    document = create_app(service, ServerSettings()).openapi()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            endpoint = f"{method.upper()} {path}"
            yield endpoint
            for parameter in operation.get("parameters", ()):
                yield f"{endpoint} {parameter['name']}"
            for content in operation.get("requestBody", {}).get("content", {}).values():
                for name in content["schema"]["properties"]:
                    yield f"{endpoint} {name}"


def _python() -> Iterator[str]:
    for package, name, value in reference.public_names():
        path = f"{package}.{name}"
        yield from _names_of(path, value)
        if inspect.isclass(value) and not issubclass(value, BaseException):
            members = {**inspect.get_annotations(value), **vars(value)}
            for member, function in members.items():
                if not member.startswith("_"):
                    yield from _names_of(f"{path}.{member}", function)


def _names_of(path: str, value: Any) -> Iterator[str]:
    """Yield the path of a value, and that of each parameter if it is a function."""
    yield path
    if inspect.isfunction(value):
        for parameter in inspect.signature(value).parameters:
            if parameter != "self":
                yield f"{path} {parameter}"


if __name__ == "__main__":
    names = sorted(recorded_names() | public_names())
    RECORD.write_text("\n".join(names) + "\n", encoding="utf-8")
