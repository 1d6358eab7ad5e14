"""Files about the package agree: versions, pinned dependencies, and the commands of Makefile, hooks
and workflow.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.markers import Marker, default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import regard

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT: dict[str, Any] = tomllib.loads(
    (ROOT / "pyproject.toml").read_text(encoding="utf-8")
)
REQUIREMENTS = [
    *PYPROJECT["build-system"]["requires"],
    *PYPROJECT["project"]["dependencies"],
    *(
        line
        for extra in PYPROJECT["project"]["optional-dependencies"].values()
        for line in extra
    ),
]
PYTHONS = ["3.10", "3.11", "3.12", "3.13"]
SYSTEMS = {"linux": "Linux", "darwin": "Darwin", "win32": "Windows"}
TORCH = re.compile(r"\btorch==([\w.+]+)")


def _read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _environment(python: str, system: str) -> dict[str, str]:
    """Return the values of markers on another Python and operating system."""
    more = {"python_version": python, "python_full_version": f"{python}.9"}
    more |= {"sys_platform": system, "platform_system": SYSTEMS[system]}
    return {**{key: str(value) for key, value in default_environment().items()}, **more}


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
    command = re.sub(
        r"\\\n\s+", "", _read("Makefile").split("$(BIN)/uv pip compile ", 1)[1]
    ).split(" $(OPTIONS)")[0]
    assert _read("constraints.txt").splitlines()[1] == f"#    uv pip compile {command}"


@pytest.mark.parametrize(
    "name",
    [
        "Makefile",
        "README.md",
        "README.ko.md",
        "pyproject.toml",
        ".github/workflows/tests.yml",
    ],
)
def test_one_version_of_pytorch_is_installed(name: str) -> None:
    assert {*TORCH.findall(_read(name))} == {*TORCH.findall(_read("constraints.txt"))}


def test_the_version_is_that_of_changelog_and_citation() -> None:
    (newest, *_) = re.findall(r"^## (\S+)", _read("CHANGELOG.md"), re.MULTILINE)
    (cited,) = re.findall(r"^version: (\S+)$", _read("CITATION.cff"), re.MULTILINE)
    assert newest == cited == regard.__version__


def _recipe(target: str) -> list[str]:
    """Return the commands of a target of the Makefile, as they are typed in the environment."""
    (recipe,) = re.findall(
        rf"^{target}:.*\n((?:\t.*\n)+)", _read("Makefile"), re.MULTILINE
    )
    for name, value in re.findall(
        r"^([A-Z]+) := (.*)$", _read("Makefile"), re.MULTILINE
    ):
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
