"""Files about the package agree: versions, pinned dependencies, and the commands of Makefile, hooks
and workflow.
"""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest
from helpers.text_table import items
from packaging.markers import Marker, default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from repository.pages import ROOT, read

import regard

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PYPROJECT: dict[str, Any] = tomllib.loads(read(ROOT / "pyproject.toml"))
PROJECT = PYPROJECT["project"]
REQUIREMENTS = [*PYPROJECT["build-system"]["requires"], *PROJECT["dependencies"]]
for extra in PROJECT["optional-dependencies"].values():
    REQUIREMENTS += extra
PYTHONS = ["3.10", "3.11", "3.12", "3.13"]
SYSTEMS = {"linux": "Linux", "darwin": "Darwin", "win32": "Windows"}
TORCH = re.compile(r"\btorch==([\w.+]+)")


def _read(name: str) -> str:
    return read(ROOT / name)


def _environment(python: str, system: str) -> dict[str, str]:
    """Return the values of markers on another Python and operating system."""
    more = {"python_version": python, "python_full_version": f"{python}.9"}
    more |= {"sys_platform": system, "platform_system": SYSTEMS[system]}
    return {**default_environment(), **more}


def _holds(marker: Marker | None, environment: dict[str, str]) -> bool:
    return marker is None or marker.evaluate(environment)


def _pins(environment: dict[str, str]) -> dict[str, str]:
    """Return the version of each pinned package; a package with two pins in one environment
    fails.
    """
    pins = dict[str, str]()
    for line in _read("constraints.txt").splitlines():
        if line.strip() and not line.startswith("#"):
            pin = Requirement(line)
            (specifier,) = pin.specifier
            assert specifier.operator == "==", line
            if _holds(pin.marker, environment):
                name = canonicalize_name(pin.name)
                assert name not in pins, f"{name} has two pins"
                pins[name] = specifier.version
    return pins


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("python", PYTHONS)
def test_every_dependency_has_a_pin_in_its_range(python: str, system: str) -> None:
    environment = _environment(python, system)
    pins = _pins(environment)
    for requirement in map(Requirement, REQUIREMENTS):
        # An extra may hold another.
        if requirement.name != "regard" and _holds(requirement.marker, environment):
            pin = pins.get(canonicalize_name(requirement.name))
            assert pin is not None, (
                f"{requirement.name} has no pin: run make constraints"
            )
            assert requirement.specifier.contains(pin), (
                f"{requirement} excludes {pin}: run make constraints"
            )


def test_the_head_of_the_constraints_is_the_command_that_makes_them() -> None:
    command = _read("Makefile").split("$(BIN)/uv pip compile ", 1)[1]
    command = re.sub(r"\\\n\s+", "", command).split(" $(OPTIONS)")[0]
    assert _read("constraints.txt").splitlines()[1] == f"#    uv pip compile {command}"


@pytest.mark.parametrize(
    "name",
    items("Makefile README.md README.ko.md pyproject.toml .github/workflows/tests.yml"),
)
def test_one_version_of_pytorch_is_installed(name: str) -> None:
    assert {*TORCH.findall(_read(name))} == {*TORCH.findall(_read("constraints.txt"))}


def test_the_version_is_that_of_changelog_and_citation() -> None:
    (newest, *_) = re.findall(r"^## (\S+)", _read("CHANGELOG.md"), re.MULTILINE)
    (cited,) = re.findall(r"^version: (\S+)$", _read("CITATION.cff"), re.MULTILINE)
    assert newest == cited == regard.__version__


def _recipe(target: str) -> list[str]:
    """Return the commands of a target of the Makefile, as they are typed in the environment."""
    makefile = _read("Makefile")
    rule = rf"^{target}:.*\n((?:\t.*\n)+)"
    (recipe,) = re.findall(rule, makefile, re.MULTILINE)
    for name, value in re.findall(r"^([A-Z]+) := (.*)$", makefile, re.MULTILINE):
        recipe = recipe.replace(f"$({name})", value)
    return [line.strip().replace(".venv/bin/", "") for line in recipe.splitlines()]


def test_the_hosted_workflow_runs_what_make_runs() -> None:
    steps = _read(".github/workflows/tests.yml")
    for command in [*_recipe("check"), *_recipe("test")]:
        assert f"python -m {command}\n" in steps, command
    assert steps.count(f"python: {PYTHONS}".replace("'", '"')) == 2, "tests and wheel"


def test_the_hooks_run_the_tools_of_make_check() -> None:
    entries = re.findall(r"entry: (.*)", _read(".pre-commit-config.yaml"))
    assert entries == [
        command.replace(" --check", "").removesuffix(" .")
        for command in _recipe("check")
    ]
