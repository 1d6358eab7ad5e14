"""The module tells lines that are unlike the text of training as Python does."""

from __future__ import annotations

import json
import random
import subprocess
from dataclasses import asdict
from pathlib import Path

import regard
from regard.data.seen_token_pairs import SeenTokenPairs

MODULE = Path(regard.__file__).parent / "runtime" / "js" / "regard.js"
SCRIPT = """
import { readFileSync } from "node:fs";
const { hasUnseen } = await import(process.argv[1]);
const { familiar, lines } = JSON.parse(readFileSync(0));
console.log(JSON.stringify([hasUnseen(undefined, [1, 2]), hasUnseen({}, [1, 2]), ...lines.map((ids) => hasUnseen(familiar, ids))]));
"""


def test_the_same_lines_are_strange_in_javascript(node: str) -> None:
    draw = random.Random(1)
    training = [[draw.randrange(4, 90) for _ in range(12)] for _ in range(80)]
    lines = training[:20] + [
        [draw.randrange(4, 30_000 if n % 2 else 95) for _ in range(n % 6)]
        for n in range(300)
    ]
    lines += [
        [-1 if n % 3 == 1 else index for n, index in enumerate(line)]
        for line in lines[20:60]
    ]
    familiar = SeenTokenPairs.learn(training, [], 0.03)

    assert familiar is not None

    request = json.dumps({"familiar": asdict(familiar), "lines": lines})
    process = subprocess.run(
        [node, "--input-type=module", "-e", SCRIPT, str(MODULE)],
        input=request,
        capture_output=True,
        text=True,
        check=True,
    )
    strange = [familiar.unseen(ids) > familiar.most for ids in lines]

    assert json.loads(process.stdout) == [False, False, *strange]
    assert 20 < sum(strange) < len(lines) - 20
