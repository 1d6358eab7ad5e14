"""Names and docstrings of the package: terms of the field occur, and docstrings begin with a verb
or a noun.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import regard

ROOT = Path(regard.__file__).parent
NODES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)
TERMS = (
    *(
        "attention",
        "multi-head",
        "KV cache",
        "prefetch",
        "rendezvous",
        "continuous batching",
        "micro-batch",
    ),
    *(
        "gradient accumulation",
        "moving average",
        "augmentation",
        "weight norm",
        "nucleus",
        "rerank",
    ),
    *("logits processor", "saliency", "faithfulness", "deduplicate"),
)
RIDDLE = re.compile(r"(What|Which|Where|Whether|How|As|That) ")
VAGUE = {"found", "some", "told", "said", "heard"}
ONE_CLASS = ("Bucket", "Candidate", "Hypothesis", "Layer", "Line", "Model", "Score", "Step")
"""Words that the field uses of many things: each is the name of one class or alias of the package
at most.
"""


def nodes(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the first docstring line of a module and of its classes and functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, NODES):
            name = path.stem if isinstance(node, ast.Module) else node.name
            yield name, (ast.get_docstring(node) or "").split("\n")[0]


def words(text: str) -> str:
    return re.sub(r"[^a-z]+", " ", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower())


@cache
def named() -> list[tuple[Path, str, str]]:
    """Return all names and first docstring lines with their files."""
    return [(path, name, line) for path in sorted(ROOT.rglob("*.py")) for name, line in nodes(path)]


@pytest.mark.parametrize("term", TERMS)
def test_a_term_of_the_field_is_found(term: str) -> None:
    assert any(words(term) in f"{words(name)} {words(line)}" for _, name, line in named())


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    odd = [
        f"{path.relative_to(ROOT)}, {name}: {line}"
        for path, name, line in named()
        if RIDDLE.match(line)
    ]
    assert not odd, "begin with a verb in the imperative or a technical noun"


def definitions(node: ast.AST) -> set[str]:
    """Return the names that a statement gives to classes, aliases and constants."""
    if isinstance(node, ast.ClassDef):
        return {node.name}
    targets = (
        node.targets
        if isinstance(node, ast.Assign)
        else [node.target]
        if isinstance(node, ast.AnnAssign)
        else []
    )
    return {target.id for target in targets if isinstance(target, ast.Name)}


def test_a_common_word_names_one_class() -> None:
    owners = {name: list[str]() for name in ONE_CLASS}
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            for name in definitions(node) & owners.keys():
                owners[name].append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in owners.items() if len(paths) > 1} == {}, (
        "say which of them each is"
    )


def test_no_variable_has_a_vague_name() -> None:
    vague = set()
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            stored = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            name = node.arg if isinstance(node, ast.arg) else node.id if stored else ""
            if name in VAGUE:
                vague.add(f"{path.relative_to(ROOT)}:{node.lineno} {name}")
    assert not vague, "name the thing, not that there is one"
