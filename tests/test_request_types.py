"""Requests: one definition is the signature in Python, the options of the command, and the check."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path
from typing import Any

import pytest
from pydantic.dataclasses import dataclass as request_class

import regard
from regard.cli.request_options import described_fields, given_flags, parse_request
from regard.common.arguments import TextField, WholeField
from regard.common.errors import UsageError
from regard.common.requests import REQUEST, call_with, takes
from regard.learn import walkthrough_block
from regard.learn.lab import run_experiment
from regard.requests.compare_request import CompareArguments, CompareRequest
from regard.requests.lab_request import ExperimentRequest
from regard.requests.publish_request import PublishRequest
from regard.requests.serve_request import ServeArguments
from regard.requests.show_request import ShowCommand
from regard.requests.train_request import TrainCommand, TrainRequest
from regard.requests.walkthrough_request import WalkthroughRequest
from regard.search import SearchSettings

FUNCTIONS = {
    regard.train: TrainRequest,
    regard.compare: CompareRequest,
    regard.publish: PublishRequest,
    walkthrough_block: WalkthroughRequest,
    run_experiment: ExperimentRequest,
}


@request_class(frozen=True, config=REQUEST)
class Greeting:
    name: TextField
    times: WholeField = 1


@takes(Greeting)
def greet(request: Greeting) -> str:
    return request.name * request.times


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_have_the_signature_of_their_requests(function: Any) -> None:
    parameters = inspect.signature(function).parameters
    fields = dataclasses.fields(FUNCTIONS[function])

    assert {*parameters} == {field.name for field in fields}
    for field in fields:
        has_default = parameters[field.name].default is not inspect.Parameter.empty
        is_optional = field.default is not dataclasses.MISSING
        assert has_default == is_optional, field.name


def test_a_function_is_called_with_its_arguments() -> None:
    assert greet("a") == "a"
    assert greet("a", times=2) == "aa"
    assert call_with(greet, Greeting("b"), times=3) == "bbb"

    with pytest.raises(TypeError, match="tims"):
        greet("a", tims=2)  # type: ignore[call-arg]


def test_all_wrong_arguments_are_named_at_once() -> None:
    with pytest.raises(UsageError) as refused:
        greet(3, times="x")  # type: ignore[arg-type]

    assert refused.value.causes == (
        "`name=`: wanted a text, got 3 (int)",
        "`times=`: wanted a whole number, got 'x' (str)",
    )


def test_options_are_parsed_as_the_command_line_gives_them() -> None:
    names = [field.name for field in described_fields(CompareArguments)]
    values: dict[str, Any] = dict.fromkeys(names)
    values |= {
        "runs": ["mine=runs/a", "runs/b"],
        "presets": "rnn, conv",
        "settings": ["training.seed=3"],
        "seeds": 2,
        "baseline": "",
        "speed": True,
        "ter": True,
        "device": "cpu",
    }
    request = parse_request(CompareArguments, values)

    assert request.runs == [("mine", Path("runs/a")), ("", Path("runs/b"))]
    assert request.presets == ["rnn", "conv"]
    assert request.settings == {"training.seed": 3}
    assert request.seeds == 2


def test_given_flags_differ_from_the_defaults() -> None:
    command = ShowCommand(head=(1,), layer=None, size=(), attention="encoder")

    assert given_flags(command, ["layer", "size"]) == []
    assert given_flags(command, ["head", "attention"]) == ["--head", "--attention"]
    assert given_flags(TrainCommand(settings={"a": 1}), ["settings"]) == ["--set"]


@pytest.mark.parametrize(
    "request_type", [TrainCommand, CompareArguments, ServeArguments, ShowCommand]
)
def test_every_field_of_a_command_is_an_option(request_type: type) -> None:
    described = {field.name for field in described_fields(request_type)}
    names = {*vars(request_type)["__pydantic_fields__"]}

    assert names - described <= {"search", "report"}


def test_bounds_that_are_excluded_are_described() -> None:
    options = {field.name: field.option for field in described_fields(SearchSettings)}
    assert options["temperature"].help.endswith("[x>0]")
    assert options["temperature"].most == 1000
