"""Run the tests that a change can affect, those nearest to it first, and name what was left out.

    python tests/affected.py [--base REV] [--list] [OPTION OF PYTEST …]    # make affected

The change is what differs from REV (by default HEAD, so what is not committed), with files that git
does not track yet. A package of `regard/` is affected if it changed or imports, by way of other
packages too, one that did; a test file if it or a helper that it imports changed, or if it imports
an affected package. Tests at the top of tests/ and those of the repository always run, and so does
everything after a change of tests/conftest.py.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENTRANCES = {
    "regard.load": "pipeline",
    "regard.train": "run",
    "regard.presets": "training",
}
"""What `regard` itself offers, and the package that it comes from."""
ALWAYS_RUN = (ROOT / "tests", ROOT / "tests" / "repository")
COMMANDS = ("cli", "demo", "isolation")  # folders of tests that run commands


@cache
def imported(path: Path) -> set[str]:
    """Return the dotted names that a file imports, of `from a import b` both `a` and `a.b`, and
    entrances it calls.

    What starts the command `regard`, as all tests of the command line do, uses `regard.cli`.
    """
    names = {"regard.cli"} if path.parent.name in COMMANDS else set[str]()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {
                node.module,
                *(f"{node.module}.{alias.name}" for alias in node.names),
            }
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            package = ENTRANCES.get(f"{node.value.id}.{node.attr}")
            names |= {f"regard.{package}"} if package else set()
        elif (
            isinstance(node, ast.Constant)
            and node.value == "regard"
            and path.is_relative_to(ROOT / "tests")
        ):
            names.add("regard.cli")
    return names


@cache
def packages_of(path: Path) -> set[str]:
    """Return the packages of `regard` that a file imports."""
    return {name.split(".")[1] for name in imported(path) if name.startswith("regard.")}


def affected_packages(changed: set[str]) -> set[str]:
    """Return the packages that changed, and all that import them, directly or not."""
    uses: dict[str, set[str]] = {}
    for path in (ROOT / "regard").rglob("*.py"):
        uses.setdefault(_package(path), set()).update(packages_of(path))
    affected = set(changed)
    while more := {
        package
        for package, used in uses.items()
        if package not in affected and used & affected
    }:
        affected |= more
    return affected


def selected(changes: Iterable[Path]) -> tuple[list[Path], list[Path]]:
    """Return the test files that changes can affect, the changed and their own packages' first, and
    the others.
    """
    changed = {path for path in changes if path.suffix != ".md"}
    tests = sorted(path for path in (ROOT / "tests").rglob("test_*.py"))
    if ROOT / "tests" / "conftest.py" in changed:
        return tests, []
    touched = {
        _package(path) for path in changed if path.is_relative_to(ROOT / "regard")
    }
    packages = affected_packages(touched)
    helpers = {
        path: imported(path)
        for path in (ROOT / "tests").rglob("*.py")
        if path != ROOT / "tests" / "conftest.py"
    }
    names = {
        path.relative_to(ROOT / "tests")
        .with_suffix("")
        .as_posix()
        .replace("/", "."): path
        for path in helpers
    }

    def reaches(path: Path, seen: set[Path]) -> bool:
        if path in changed or any(
            name.split(".")[1] in packages
            for name in helpers[path]
            if name.startswith("regard.")
        ):
            return True
        seen.add(path)
        used = {names[name] for name in helpers[path] if name in names} | {
            path.parent / "conftest.py"
        } & set(helpers)
        return any(reaches(helper, seen) for helper in used - seen)

    chosen = {
        path for path in tests if path.parent in ALWAYS_RUN or reaches(path, set())
    }
    folders = {
        name
        for path in changed
        if path.is_relative_to(ROOT / "regard")
        for name in path.relative_to(ROOT).parts
    }
    near = {
        path
        for path in chosen
        if path in changed or path.parent.name in touched | folders
    }
    return [*sorted(near), *sorted(chosen - near)], [
        path for path in tests if path not in chosen
    ]


def main() -> int:
    """Run pytest on the test files that the change can affect."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--base", default="HEAD", help="the commit that the change is measured from"
    )
    parser.add_argument(
        "--list", action="store_true", help="print the files and run nothing"
    )
    options, others = parser.parse_known_args()
    chosen, left = selected(_changes(options.base))
    folders: dict[str, int] = {}
    for path in left:
        folder = path.relative_to(ROOT / "tests").parts[0]
        folders[folder] = folders.get(folder, 0) + 1
    print(
        f"{len(chosen)} test files; left out: "
        + (", ".join(f"{n} of {name}" for name, n in folders.items()) or "none")
    )
    files = [str(path.relative_to(ROOT)) for path in chosen]
    if options.list:
        print(*files, sep="\n")
        return 0
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *others, *files], cwd=ROOT, check=False
    ).returncode


def _changes(base: str) -> list[Path]:
    commands = (
        ["git", "diff", "--name-only", "-z", base],
        ["git", "ls-files", "--others", "--exclude-standard", "-z"],
    )
    outputs = [
        subprocess.run(c, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for c in commands
    ]
    return [ROOT / name for name in "".join(outputs).split("\0") if name]


def _package(path: Path) -> str:
    return path.relative_to(ROOT / "regard").parts[0].removesuffix(".py")


if __name__ == "__main__":
    sys.exit(main())
