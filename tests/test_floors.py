"""Floors: a module imports only from floors below its own, and rooms of one floor do not import each other."""

from __future__ import annotations

import ast
from collections.abc import Collection
from pathlib import Path

import pytest

import regard

ROOT = Path(regard.__file__).parent
FLOORS: dict[str, int] = {
    "errors": 0,
    "lazy": 0,
    "bilingual": 0,
    "shapes": 0,
    "reading": 0,
    "settings": 0,
    "atomic": 0,
    "seal": 0,
    "processes": 0,
    "runtime": 0,
    "attention": 1,
    "data": 1,
    "samples": 2,
    "layers": 2,
    "models": 3,
    "search": 4,
    "model_folder": 4,
    "engine": 4,
    "pipeline": 5,
    "training": 5,
    "evaluation": 6,
    "interchange": 6,
    "visualisation": 6,
    "bulk": 6,
    "documents": 6,
    "run": 7,
    "pipe": 12,
    "explanation": 7,
    "live_page": 7,
    "architecture": 7,
    "comparison": 8,
    "lessons": 8,
    "demo": 9,
    "lab": 9,
    "serving": 9,
    "scale": 10,
    "cli": 11,
}
# errors is below everything: settings, reading and atomic raise its errors; settings are read; model_folder stores the search settings; and engine
# runs the same search on the exports of a model folder.
LEVEL_DOORS = {
    ("reading", "atomic"),
    ("lazy", "errors"),
    ("settings", "errors"),
    ("seal", "atomic"),
    ("seal", "reading"),
    ("settings", "reading"),
    ("reading", "errors"),
    ("atomic", "errors"),
    ("runtime", "errors"),
    ("runtime", "atomic"),
    ("runtime", "reading"),
    ("model_folder", "search"),
    ("engine", "search"),
    ("engine", "model_folder"),
}
MODULES = sorted(path for path in ROOT.rglob("*.py") if path.parent != ROOT or path.stem in FLOORS)


def _room(dotted: str) -> str | None:
    parts = dotted.split(".")
    return parts[1] if parts[0] == "regard" and len(parts) > 1 else None


def _imports(path: Path, modules: Collection[str] = ()) -> set[str]:
    """Return the modules that a module imports; `from package import name` is package.name if that is in `modules`."""
    imported = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            imported.update(name if node.module == "regard" or name in modules else node.module for name in names)
        elif isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
        assert not (isinstance(node, ast.ImportFrom) and node.level), f"{path}: relative imports hide the floors"
    return imported


def test_imports_go_down() -> None:
    causes = []
    for path in MODULES:
        room = path.relative_to(ROOT).parts[0].removesuffix(".py")
        assert room in FLOORS, f"{room} stands on no floor: give it one here and in the map"
        for name in sorted(_imports(path)):
            target = _room(name)
            if target is None or target == room or target not in FLOORS or (room, target) in LEVEL_DOORS:
                continue
            if FLOORS[target] >= FLOORS[room]:
                causes.append(f"{path.relative_to(ROOT)} (floor {FLOORS[room]}) imports {name}")
    assert not causes, "import from floors below only"


# Circles inside a room that are known, each with its reason.
KNOWN_CIRCLES: dict[str, str] = {}


def _module(path: Path) -> str:
    parts = ("regard", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _circle(imports: dict[str, set[str]]) -> list[str]:
    """Return modules that import each other in a circle, the first one repeated at the end; empty if there are none."""
    done = set[str]()

    def visit(module: str, trail: list[str]) -> list[str]:
        if module in trail:
            return [*trail[trail.index(module) :], module]
        if module in done:
            return []
        circles = (visit(dependency, [*trail, module]) for dependency in sorted(imports[module] & imports.keys()))
        circle = next(filter(None, circles), [])
        done.add(module)
        return circle

    return next(filter(None, (visit(module, []) for module in sorted(imports))), [])


@pytest.mark.parametrize("room", sorted(path.name for path in ROOT.iterdir() if path.is_dir() and path.name in FLOORS))
def test_no_circle_inside_a_room(room: str) -> None:
    """Imports for type checking and inside functions count; a submodule counts, not the package it is named with."""
    paths = {_module(path): path for path in sorted((ROOT / room).rglob("*.py"))}
    imports = {name: _imports(path, set(paths)) for name, path in paths.items()}
    circle = _circle(imports)
    assert bool(circle) == (room in KNOWN_CIRCLES), " -> ".join(circle) or f"{room} has no circle: remove it here"


def test_circles_are_found() -> None:
    assert _circle({"a": {"b", "x"}, "b": {"c"}, "c": {"d"}, "d": {"b"}}) == ["b", "c", "d", "b"]
    assert _circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
