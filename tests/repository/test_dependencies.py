"""The dependency rule: a module imports only from layers below its own, and packages of one layer
do not import each other.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from helpers.text_table import rows

import regard

pytestmark = pytest.mark.system  # reads every file

ROOT = Path(regard.__file__).parent
LAYERS = {
    name: number
    for number, names in enumerate(
        rows("""
        common
        attention | contracts | layers | data
        models | visualisation | text | requests
        search | documents
        model_folder
        runtime | training
        pipeline
        evaluation | interchange
        run | explain | testing
        comparison | serving | reproduction
        learn
        cli
        translate_stdin | supervise
    """)
    )
    for name in names
}
"""The layer of each package, from below."""
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
    """Return what a module imports, of `from a import b` both `a` and `a.b`, and the packages whose
    files it reads.
    """
    imported = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative imports hide the layers"
            imported.add(str(node.module))
            imported.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and "files" in ast.unparse(node.func):
            texts = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
            imported.update(text for text in texts if isinstance(text, str))
    return imported


def test_imports_go_down_and_nothing_stands_on_a_wing() -> None:
    causes = []
    for path in MODULES:
        package = path.relative_to(ROOT).parts[0].removesuffix(".py")
        assert package in LAYERS, (
            f"{package} is in no layer: give it one here and in CONTRIBUTING.md"
        )
        names = [name for name in _imports(path) if name.startswith("regard.")]
        targets = {name.split(".")[1] for name in names}
        for target in targets & LAYERS.keys() - {package}:
            if LAYERS[target] >= LAYERS[package]:
                causes.append(f"{path} imports {target}, of no layer below")
            if package not in OUTER_PACKAGES.get(target, {package}) | {"cli"}:
                causes.append(f"{path} may not import {target}, an outer package")
    assert not causes


def _name(path: Path) -> str:
    parts = ("regard", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts).removesuffix(".__init__")


PACKAGES = [name for name in LAYERS if (ROOT / name).is_dir()]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_circle_inside_a_package(package: str) -> None:
    """Imports for type checking and inside functions count; of `from package import module` the
    module counts, not the package.
    """
    modules = {_name(path): path for path in (ROOT / package).rglob("*.py")}
    uses = dict[str, set[str]]()
    for name, path in modules.items():
        used = _imports(path) & modules.keys()
        holders = {other.rpartition(".")[0] for other in used}
        uses[name] = used - holders - {name}
    while free := {name for name, used in uses.items() if not used & uses.keys()}:
        for name in free:
            del uses[name]
    assert not uses, "these modules import each other in circles, or what does"
