"""The JavaScript module refuses the cards that Python refuses, and names the same field."""

from __future__ import annotations

import json
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

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
WORDS: list[Any] = [None, True, False, "low", "auto", "on", "", [], [1], {}]
NUMBERS = [
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
]
NUMBERS += [10_000, 10_001, 20_000, 20_001, 100_000, 100_001, 10**9, 10**9 + 1]
VALUES = WORDS + NUMBERS
FAMILIAR: list[Any] = [
    {},
    {"pairs": "AAAA", "most": 0},
    {"pairs": "AAA", "most": 1},
    {"pairs": "AAAA"},
    {"most": 1},
    {"pairs": 5, "most": 1},
    {"pairs": "AAAA", "most": -1},
    {"pairs": "AAAA", "most": 1.5},
    {"pairs": "AAAA" * 6000, "most": 1},
    {"pairs": "AAAA", "most": 1, "more": 1},
    {"pairs": "AAAA", "most": "1"},
    {"pairs": "AAAA", "most": None},
    {"pairs": "AA==AAAA", "most": 1},
    [],
    "text",
    None,
]
LANGUAGES: list[Any] = [
    ["", ""],
    ["tr", "el"],
    ["tr"],
    "tr",
    {},
    None,
    [1, "tr"],
    ["a", "b", "c"],
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


def cards_of(name: str) -> list[Any]:
    """Return a card for each value of a search setting, with what the right values depend on."""
    others = {
        name: {"sample": True} for name in ("top_k", "top_p", "temperature", "beam")
    }
    cards = []
    for value in VALUES:
        settings = {**others.get(name, {}), name: value}
        if name == "groups":
            settings["beam"] = value if type(value) is int else 2
        cards.append({"search": settings})

    return cards


def test_each_setting_is_checked_alike(node: str) -> None:
    unknown = ["unknown", "beam_size", "noRepeatNgram", "constructor", "__proto__"]
    names = [*SearchSettings.model_fields, *unknown]
    cards = [card for name in names for card in cards_of(name)]
    others = [{"familiar": familiar} for familiar in FAMILIAR]
    others += [{"languages": codes} for codes in LANGUAGES]
    flaws = flaws_in_javascript(node, cards + others)
    for card, is_refused, flaw in zip(
        cards + others, refusals(cards + others), flaws, strict=True
    ):
        assert bool(flaw) == is_refused, card

    for number, name in enumerate(names):
        of_name = flaws[number * len(VALUES) : (number + 1) * len(VALUES)]
        assert any(of_name)
        assert all(f"search.{name}" in " ".join(flaw) for flaw in of_name if flaw)

    for flaw in flaws[len(cards) :]:
        assert not flaw or flaw[0].startswith(("familiar", "languages"))


def test_cards_that_are_no_tables_are_refused(node: str) -> None:
    wrong = [None, [], 5, "text", {"search": []}, {"search": None}, {"familiar": 5}]
    right = [{}, {"search": {}, "familiar": {}, "more": 1}]
    flaws = flaws_in_javascript(node, wrong + right)

    assert all(flaws[:-2])
    assert flaws[-2:] == [[], []]


def test_a_file_with_a_wrong_card_is_not_opened(
    node: str, wasm: Path, tmp_path: Path
) -> None:
    from helpers.small_models import folder

    from regard.model_folder import load_folder
    from regard.runtime.engine import pack_model
    from regard.runtime.engine.runtime_file import runtime_file

    model = load_folder(folder(tmp_path / "run"))
    path = tmp_path / "model.regard"
    path.write_bytes(
        runtime_file(
            model,
            pack_model(model.model, "float32"),
            None,
            {"search": {"beam": "wide"}},
        )
    )
    script = (
        f"import {{ readFileSync }} from 'node:fs'; const {{ load }} = await import({json.dumps(str(MODULE))});"
        f"await load({{ wasm: readFileSync({json.dumps(str(wasm))}), model: readFileSync({json.dumps(str(path))}) }})"
        ".catch((problem) => console.log(problem.message));"
    )
    done = subprocess.run(
        [node, "--input-type=module", "-e", script],
        capture_output=True,
        text=True,
        check=True,
    )
    because = 'search.beam: wanted a whole number from 1 to 20000, got "wide"; export the model again'

    assert done.stdout.strip() == f"load: the card of the runtime file, {because}"
