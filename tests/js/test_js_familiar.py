"""The page tells lines that are unlike the text of training as Python does."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import regard
from regard.data.familiar import Familiar

ASSET = Path(regard.__file__).parent / "visualisation" / "assets" / "live_data.js"
SCRIPT = """
const { isStrange } = require(process.argv[1]);
const { familiar, lines } = JSON.parse(require("fs").readFileSync(0));
console.log(JSON.stringify([isStrange(undefined, [1, 2]), isStrange({}, [1, 2]), ...lines.map((ids) => isStrange(familiar, ids))]));
"""


def test_the_same_lines_are_strange_in_javascript(node: str) -> None:
    draw = random.Random(1)
    training = [[draw.randrange(4, 90) for _ in range(12)] for _ in range(80)]
    lines = training[:20] + [[draw.randrange(4, 30_000 if n % 2 else 95) for _ in range(n % 6)] for n in range(300)]
    familiar = Familiar.learn(training, [], 0.03)
    assert familiar is not None
    request = json.dumps({"familiar": familiar.model_dump(), "lines": lines})
    process = subprocess.run(
        [node, "-e", SCRIPT, str(ASSET)], input=request, capture_output=True, text=True, check=True
    )
    strange = [familiar.is_strange(ids) for ids in lines]
    assert json.loads(process.stdout) == [False, False, *strange]
    assert 20 < sum(strange) < len(lines) - 20
