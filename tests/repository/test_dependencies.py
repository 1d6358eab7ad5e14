"""The dependency rule: a module imports only from layers below its own, and packages of one layer
do not import each other.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import regard

pytestmark = pytest.mark.system  # reads every file

ROOT = Path(regard.__file__).parent
LAYERS: dict[str, int] = {
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
OUTER_PACKAGES: dict[str, set[str]] = {
    "explain": {"comparison", "serving", "learn"},
    "comparison": {"learn"},
    "serving": {"supervise"},
    "learn": set(),
}
"""Packages that could be distributed on their own, and what else may import them, beside the command
line.
"""
MODULES = sorted(
    path for path in ROOT.rglob("*.py") if path.parent != ROOT or path.stem in LAYERS
)


def _imports(path: Path) -> set[str]:
    """Return what a module imports, of `from a import b` both `a` and `a.b`."""
    imported = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative imports hide the layers"
            imported.add(str(node.module))
            imported.update(f"{node.module}.{alias.name}" for alias in node.names)
    return imported


def test_imports_go_down_and_nothing_stands_on_a_wing() -> None:
    causes = []
    for path in MODULES:
        package = path.relative_to(ROOT).parts[0].removesuffix(".py")
        assert package in LAYERS, (
            f"{package} is in no layer: give it one here and in CONTRIBUTING.md"
        )
        targets = {
            name.split(".")[1] for name in _imports(path) if name.startswith("regard.")
        }
        for target in targets & LAYERS.keys() - {package}:
            if LAYERS[target] >= LAYERS[package]:
                causes.append(
                    f"{path} (layer {LAYERS[package]}) imports {target}, of no layer below"
                )
            if package not in OUTER_PACKAGES.get(target, {package}) | {"cli"}:
                causes.append(
                    f"{path} imports {target}, an outer package that only some may import"
                )
    assert not causes


def _name(path: Path) -> str:
    parts = ("regard", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts).removesuffix(".__init__")


@pytest.mark.parametrize(
    "package",
    sorted(
        path.name for path in ROOT.iterdir() if path.is_dir() and path.name in LAYERS
    ),
)
def test_no_circle_inside_a_package(package: str) -> None:
    """Imports for type checking and inside functions count; of `from package import module` the
    module counts, not the package.
    """
    modules = {_name(path): path for path in (ROOT / package).rglob("*.py")}
    uses = dict[str, set[str]]()

    for name, path in modules.items():
        imported = _imports(path)
        uses[name] = {
            other
            for other in imported & modules.keys() - {name}
            if not any(
                deeper.startswith(f"{other}.") for deeper in imported & modules.keys()
            )
        }

    while free := {name for name, used in uses.items() if not used & uses.keys()}:
        for name in free:
            del uses[name]
    assert not uses, "these modules import each other in circles, or what does"
