"""Floors: a module imports only from floors below its own, and rooms of one floor do not import
each other.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from pathlib import Path

import pytest

import regard

ROOT = Path(regard.__file__).parent
FLOORS: dict[str, int] = {
    "common": 0,
    "attention": 1,
    "layers": 1,
    "data": 1,
    "models": 2,
    "visualisation": 2,
    "text": 2,
    "search": 3,
    "model_folder": 4,
    "runtime": 5,
    "training": 5,
    "pipeline": 6,
    "evaluation": 7,
    "interchange": 7,
    "run": 8,
    "explain": 8,
    "comparison": 9,
    "serving": 9,
    "learn": 10,
    "cli": 11,
    "translate_stdin": 12,
    "supervise": 12,
}
WINGS: dict[str, set[str]] = {
    "explain": {"comparison", "serving", "learn"},
    "comparison": {"learn"},
    "serving": {"supervise"},
    "learn": set(),
}
"""Rooms that could be packages of their own, and what else may import them, beside the command
line.
"""
MODULES = sorted(path for path in ROOT.rglob("*.py") if path.parent != ROOT or path.stem in FLOORS)


def _room(dotted: str) -> str | None:
    parts = dotted.split(".")
    return parts[1] if parts[0] == "regard" and len(parts) > 1 else None


def _imports(path: Path, modules: Collection[str] = ()) -> set[str]:
    """Return the modules that a module imports; `from package import name` is package.name if that
    is in `modules`.
    """
    imported = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            imported.update(
                name if node.module == "regard" or name in modules else node.module
                for name in names
            )
        elif isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
        assert not (isinstance(node, ast.ImportFrom) and node.level), (
            f"{path}: relative imports hide the floors"
        )
    return imported


def _arrows() -> list[tuple[str, str, str]]:
    """Return each import of a room by a module of another: file, room of the file, room that it
    imports.
    """
    arrows = []
    for path in MODULES:
        room = path.relative_to(ROOT).parts[0].removesuffix(".py")
        assert room in FLOORS, f"{room} stands on no floor: give it one here and in the map"
        targets = {_room(name) for name in _imports(path)} & FLOORS.keys() - {room}
        arrows += [
            (str(path.relative_to(ROOT)), room, target) for target in sorted(filter(None, targets))
        ]
    return arrows


def test_imports_go_down() -> None:
    causes = [
        f"{path} (floor {FLOORS[room]}) imports {target} (floor {FLOORS[target]})"
        for path, room, target in _arrows()
        if FLOORS[target] >= FLOORS[room]
    ]
    assert not causes, "import from floors below only"


def test_nothing_stands_on_a_wing() -> None:
    causes = [
        f"{path} imports {target}"
        for path, room, target in _arrows()
        if target in WINGS and room != "cli" and room not in WINGS[target]
    ]
    assert not causes, "nothing but the command line, and the wings named, imports a wing"


# Circles inside a room that are known, each with its reason.
KNOWN_CIRCLES: dict[str, str] = {}


def _module(path: Path) -> str:
    parts = ("regard", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _circle(imports: dict[str, set[str]]) -> list[str]:
    """Return modules that import each other in a circle, the first one repeated at the end; empty
    if there are none.
    """
    done = set[str]()

    def visit(module: str, trail: list[str]) -> list[str]:
        if module in trail:
            return [*trail[trail.index(module) :], module]
        if module in done:
            return []
        circles = (
            visit(dependency, [*trail, module])
            for dependency in sorted(imports[module] & imports.keys())
        )
        circle = next(filter(None, circles), [])
        done.add(module)
        return circle

    return next(filter(None, (visit(module, []) for module in sorted(imports))), [])


@pytest.mark.parametrize(
    "room", sorted(path.name for path in ROOT.iterdir() if path.is_dir() and path.name in FLOORS)
)
def test_no_circle_inside_a_room(room: str) -> None:
    """Imports for type checking and inside functions count; a submodule counts, not the package it
    is named with.
    """
    paths = {_module(path): path for path in sorted((ROOT / room).rglob("*.py"))}
    imports = {name: _imports(path, set(paths)) for name, path in paths.items()}
    circle = _circle(imports)
    assert bool(circle) == (room in KNOWN_CIRCLES), (
        " -> ".join(circle) or f"{room} has no circle: remove it here"
    )


def test_circles_are_found() -> None:
    assert _circle({"a": {"b", "x"}, "b": {"c"}, "c": {"d"}, "d": {"b"}}) == ["b", "c", "d", "b"]
    assert _circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
