"""The pages that translate find the sentences that the package finds."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import regard
from regard.data.sentence_ends import sentence_ends
from regard.data.text import clean
from regard.visualisation.sentence_rules import sentence_rules
from tests.data.sentence_pieces import PIECES, PIECES_OF_SCRIPTS

SCRIPT = Path(regard.__file__).parent / "visualisation" / "assets" / "sentences.js"
PROGRAM = """
const { tables, lines } = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
console.log(JSON.stringify(lines.map(sentenceRules(tables))));
"""


def split(line: str) -> list[str]:
    ends = [*sentence_ends(line)]
    parts = [
        line[start:end].strip()
        for start, end in zip([0, *ends], [*ends, len(line)], strict=True)
    ]
    return [part for part in parts if part]


def test_sentences_are_those_of_the_package(node: str, tmp_path: Path) -> None:
    rng = random.Random(6)
    pieces = [*PIECES, *PIECES_OF_SCRIPTS]
    lines = [
        clean("".join(rng.choices(pieces, k=rng.randint(1, 24)))) for _ in range(20_000)
    ]
    program = tmp_path / "split.cjs"
    program.write_text(SCRIPT.read_text(encoding="utf-8") + PROGRAM, encoding="utf-8")
    given = json.dumps({"tables": sentence_rules(), "lines": lines})
    done = subprocess.run(
        [node, str(program)],
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    wrong = [
        (line, parts)
        for line, parts in zip(lines, json.loads(done.stdout), strict=True)
        if parts != split(line)
    ]

    assert not wrong, wrong[:3]
    assert sum(len(split(line)) > 1 for line in lines) > 5_000
