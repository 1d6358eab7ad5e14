"""Count code in tokens, for each package: python tools/size.py [CHECKOUT]

Code tokens of Python are those of its tokenizer without comments, docstrings and white space
(Python 3.11; later ones divide f-strings further); of C and JavaScript those of a pattern, without
comments. Beside them: tokens and characters of a line, public functions and classes, parameters,
and the characters of string literals and data files, in which code can hide. No test fails by these
figures, and nothing is to be shortened for them.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter, defaultdict
from pathlib import Path

WHITE_SPACE = {
    tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENCODING, tokenize.ENDMARKER,
}  # fmt: skip
STATEMENT_STARTS = {
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
}
OTHER_CODE = {
    ".c": "C",
    ".h": "C",
    ".js": "JavaScript",
    ".mjs": "JavaScript",
    ".ts": "JavaScript",
}
DATA = {".toml", ".tsv", ".json", ".jsonl", ".html", ".css", ".txt", ".j2"}
COMMENT_OR_TOKEN = re.compile(
    r"""(?P<comment>/\*.*?\*/|//[^\n]*)|(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`|\w+|[^\w\s])""",
    re.DOTALL,
)
COLUMNS = (
    "Python",
    "C",
    "JavaScript",
    "characters of strings",
    "of data files",
    "lines",
    "public names",
    "parameters",
)


def count_python(text: str) -> Counter[str]:
    """Count the code of a Python file."""
    counts = Counter[str]()
    last = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in WHITE_SPACE or token.type == tokenize.COMMENT:
            last = token.type if token.type in STATEMENT_STARTS else last
            continue
        is_docstring = token.type == tokenize.STRING and last in STATEMENT_STARTS
        last = token.type
        if is_docstring:
            continue
        counts["Python"] += 1
        if token.type == tokenize.STRING:
            counts["characters of strings"] += len(token.string)
    lines = [line for line in text.splitlines() if line.strip()]
    counts["lines"] = text.count("\n")
    counts["written lines"] = len(lines)
    counts["characters of lines"] = sum(map(len, lines))
    for node in ast.walk(ast.parse(text)):
        if isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        ) and not node.name.startswith("_"):
            counts["public names"] += 1
            if not isinstance(node, ast.ClassDef):
                arguments = node.args
                counts["parameters"] += len(
                    arguments.posonlyargs + arguments.args + arguments.kwonlyargs
                )
    return counts


def count_file(path: Path) -> Counter[str]:
    """Count the code, or the data, of a file."""
    if path.suffix == ".py":
        return count_python(path.read_text(encoding="utf-8"))
    if path.suffix in OTHER_CODE and not path.stem.endswith("_tables"):
        matches = COMMENT_OR_TOKEN.finditer(path.read_text(encoding="utf-8"))
        return Counter(
            {
                OTHER_CODE[path.suffix]: sum(
                    match["comment"] is None for match in matches
                )
            }
        )
    if path.suffix in DATA or path.suffix in OTHER_CODE:  # tables are written by a tool
        return Counter({"of data files": len(path.read_text(encoding="utf-8"))})
    return Counter()


def count_checkout(root: Path) -> dict[str, Counter[str]]:
    """Count each package of `regard`, and the tests, in the files that git keeps."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "regard", "js", "tests"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for name in filter(None, listed.stdout.split("\0")):
        parts = Path(name).parts
        package = (
            "tests"
            if parts[0] == "tests"
            else parts[1]
            if parts[0] == "regard"
            else parts[0]
        )
        is_module = "." in package
        counts["top level" if is_module else package] += count_file(root / name)
    return counts


def main() -> None:
    """Print the table of a checkout, the largest package first."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent)
    counts = count_checkout(root)
    tests = counts.pop("tests")
    total = sum(counts.values(), Counter[str]())
    rows = sorted(counts.items(), key=lambda item: -item[1]["Python"])
    print(f"| package | {' | '.join(COLUMNS)} | tokens a line | characters a line |")
    print("|---" * (len(COLUMNS) + 3) + "|")
    for package, count in [*rows, ("**regard**", total), ("**tests**", tests)]:
        tokens = count["Python"] / max(1, count["lines"])
        characters = count["characters of lines"] / max(1, count["written lines"])
        ratios = f"{tokens:.1f} | {characters:.0f}"
        print(
            f"| {package} | {' | '.join(f'{count[name]:,}' for name in COLUMNS)} | {ratios} |"
        )


if __name__ == "__main__":
    main()
