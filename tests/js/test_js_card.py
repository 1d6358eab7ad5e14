"""The JavaScript module refuses the cards that Python refuses, and names the same field."""

from __future__ import annotations

import json
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.common.errors import ModelFolderError
from regard.runtime.model import _read_card
from regard.search import SearchSettings

MODULE = Path(regard.__file__).parent / "runtime" / "js" / "regard.js"
SCRIPT = """
import { readFileSync } from "node:fs";
const { cardFlaws } = await import(process.argv[1]);
console.log(JSON.stringify(JSON.parse(readFileSync(0)).map(cardFlaws)));
"""
VALUES: list[Any] = [
    *(None, True, False, "low", "auto", "on", "", [], [1], {}),
    *(
        -(10**9) - 1,
        -1,
        -0.5,
        0,
        0.5,
        1,
        2,
        10,
        11,
        50,
        51,
        100,
        101,
        250,
        1_000,
        1_001,
        10_000,
        10_001,
    ),
    *(20_000, 20_001, 100_000, 100_001, 10**9, 10**9 + 1),
]
FAMILIAR: list[Any] = [
    *(
        {},
        {"pairs": "AAAA", "most": 0},
        {"pairs": "AAA=", "most": 3},
        {"pairs": "AAA", "most": 1},
        {"pairs": "AAAA"},
    ),
    *(
        {"most": 1},
        {"pairs": 5, "most": 1},
        {"pairs": "AAAA", "most": -1},
        {"pairs": "AAAA", "most": 1.5},
        [],
        "text",
    ),
    *(
        {"pairs": "AAAA" * 6000, "most": 1},
        {"pairs": "AAAA", "most": 1, "more": 1},
        {"pairs": "AAAA", "most": "1"},
    ),
    *(
        {"pairs": "AAAA", "most": None},
        {"pairs": "", "most": 1},
        {"pairs": "AA==AAAA", "most": 1},
        None,
    ),
]


def refusals(cards: list[dict[str, Any]]) -> list[bool]:
    """Return which of the cards Python refuses when it opens a file."""
    results = []
    for card in cards:
        is_refused = True
        with suppress(ModelFolderError):
            _read_card(Path("model.regard"), json.dumps(card).encode())
            is_refused = False
        results.append(is_refused)
    return results


def flaws_in_javascript(node: str, cards: list[Any]) -> list[list[str]]:
    command = [node, "--input-type=module", "-e", SCRIPT, str(MODULE)]
    done = subprocess.run(
        command, input=json.dumps(cards), capture_output=True, text=True, check=True
    )
    flaws: list[list[str]] = json.loads(done.stdout)
    return flaws


@pytest.mark.parametrize(
    "name",
    [
        *SearchSettings.model_fields,
        "unknown",
        "beam_size",
        "noRepeatNgram",
        "constructor",
        "__proto__",
    ],
)
def test_each_search_setting_is_checked_alike(node: str, name: str) -> None:
    # Those whose right values depend on other settings are given what they depend on.
    others = {"top_k": {"sample": True}, "top_p": {"sample": True}, "temperature": {"sample": True}}
    others |= {"beam": {"sample": True}, "groups": {"beam": 2}, "coverage_penalty": {}}
    cards = [{"search": {**others.get(name, {}), name: value}} for value in VALUES]
    if name == "groups":
        cards = [
            {"search": {name: value, "beam": value if type(value) is int else 2}}
            for value in VALUES
        ]
    flaws = flaws_in_javascript(node, cards)
    assert [bool(flaw) for flaw in flaws] == refusals(cards)
    assert all(f"search.{name}" in " ".join(flaw) for flaw in flaws if flaw)
    assert any(flaws)


LANGUAGES: list[Any] = [
    ["", ""],
    ["tr", "el"],
    ["tr"],
    [],
    "tr",
    {},
    None,
    [1, "tr"],
    ["a", "b", "c"],
    5,
]


def test_familiar_pairs_and_languages_are_checked_alike(node: str) -> None:
    cards = [{"familiar": familiar} for familiar in FAMILIAR] + [
        {"languages": codes} for codes in LANGUAGES
    ]
    flaws = flaws_in_javascript(node, cards)
    assert [bool(flaw) for flaw in flaws] == refusals(cards)
    assert all(flaw[0].startswith(("familiar", "languages")) for flaw in flaws if flaw)


def test_cards_that_are_no_tables_are_refused(node: str) -> None:
    assert all(
        flaws_in_javascript(
            node, [None, [], 5, "text", {"search": []}, {"search": None}, {"familiar": 5}]
        )
    )
    assert flaws_in_javascript(node, [{}, {"search": {}, "familiar": {}, "more": 1}]) == [[], []]


def test_a_file_with_a_wrong_card_is_not_opened(node: str, wasm: Path, tmp_path: Path) -> None:
    from small import folder

    from regard.model_folder import load_folder
    from regard.runtime.engine import pack_model
    from regard.runtime.engine.runtime_file import runtime_file

    model = load_folder(folder(tmp_path / "run"))
    path = tmp_path / "model.regard"
    path.write_bytes(
        runtime_file(model, pack_model(model.model, "float32"), None, {"search": {"beam": "wide"}})
    )
    script = (
        f"import {{ readFileSync }} from 'node:fs'; const {{ load }} = await import({json.dumps(str(MODULE))});"
        f"await load({{ wasm: readFileSync({json.dumps(str(wasm))}), model: readFileSync({json.dumps(str(path))}) }})"
        ".catch((problem) => console.log(problem.message));"
    )
    done = subprocess.run(
        [node, "--input-type=module", "-e", script], capture_output=True, text=True, check=True
    )
    because = (
        'search.beam: wanted a whole number from 1 to 20000, got "wide"; export the model again'
    )
    assert done.stdout.strip() == f"load: the card of the runtime file, {because}"
