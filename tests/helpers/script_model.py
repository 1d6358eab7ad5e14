"""A model with random weights that reads every script, as if trained on one clause a line; and its
runtime file.
"""

from __future__ import annotations

import json
from pathlib import Path

from helpers.small_models import folder

from regard.model_folder import load_folder
from regard.runtime.engine import pack_model
from regard.runtime.engine.runtime_file import runtime_file
from tests.data.script_lines import TWO_CLAUSES, TWO_SENTENCES

LINES = ["".join(parts) for parts in (*TWO_SENTENCES.values(), *TWO_CLAUSES.values())]
SENTENCES = [
    [first, second]
    for first, _, second in (*TWO_SENTENCES.values(), *TWO_CLAUSES.values())
]


def write_model(path: Path) -> tuple[Path, Path]:
    """Write the model folder RUN and the runtime file src-tgt.regard into a folder, and return
    both.
    """
    run = folder(
        path / "run",
        end=3.0,
        longest_source=400,
        line_clauses=1,
        max_ratio=0.05,
        max_extra=4,
        beam=1,
    )
    model = load_folder(run)
    values = {
        "precision": "float32",
        "search": json.loads(model.settings.search.model_dump_json()),
        "parameters": 1,
        "readme": "",
    }
    file = path / "ko-en.regard"
    file.write_bytes(
        runtime_file(model, pack_model(model.model, "float32"), None, values)
    )
    return run, file
