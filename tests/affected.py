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
from collections import Counter
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
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            package = ENTRANCES.get(f"{node.value.id}.{node.attr}")
            names |= {f"regard.{package}"} if package else set()
        elif isinstance(node, ast.Constant) and node.value == "regard":
            names |= {"regard.cli"} if path.is_relative_to(ROOT / "tests") else set()
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
    is_growing = True
    while is_growing:
        more = {package for package, used in uses.items() if used & affected}
        is_growing = not more <= affected
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
    own = [path for path in changed if path.is_relative_to(ROOT / "regard")]
    touched = {_package(path) for path in own}
    packages = affected_packages(touched)
    files = {*(ROOT / "tests").rglob("*.py")} - {ROOT / "tests" / "conftest.py"}
    names = {_module(path): path for path in files}

    def reaches(path: Path, seen: set[Path]) -> bool:
        if path in changed or packages_of(path) & packages:
            return True
        seen.add(path)
        used = {names[name] for name in imported(path) & names.keys()}
        used |= {path.parent / "conftest.py"} & files
        return any(reaches(helper, seen) for helper in used - seen)

    chosen = {
        path for path in tests if path.parent in ALWAYS_RUN or reaches(path, set())
    }
    folders = {name for path in own for name in path.relative_to(ROOT).parts} | touched
    near = {path for path in chosen if path in changed or path.parent.name in folders}
    left = [path for path in tests if path not in chosen]
    return [*sorted(near), *sorted(chosen - near)], left


def _module(path: Path) -> str:
    """Return the dotted name by which tests import a file."""
    return ".".join(path.relative_to(ROOT / "tests").with_suffix("").parts)


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
    folders = Counter(path.relative_to(ROOT / "tests").parts[0] for path in left)
    counts = ", ".join(f"{n} of {name}" for name, n in folders.items())
    print(f"{len(chosen)} test files; left out: {counts or 'none'}")
    files = [str(path.relative_to(ROOT)) for path in chosen]
    if options.list:
        print(*files, sep="\n")
        return 0
    command = [sys.executable, "-m", "pytest", "-q", *others, *files]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def _changes(base: str) -> list[Path]:
    changed = ["git", "diff", "--name-only", "-z", base]
    untracked = ["git", "ls-files", "--others", "--exclude-standard", "-z"]
    names = ""
    for command in (changed, untracked):
        names += subprocess.check_output(command, cwd=ROOT, text=True)
    return [ROOT / name for name in names.split("\0") if name]


def _package(path: Path) -> str:
    return path.relative_to(ROOT / "regard").parts[0].removesuffix(".py")


if __name__ == "__main__":
    sys.exit(main())
