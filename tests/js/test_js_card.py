"""The JavaScript module refuses the cards that Python refuses, and names the same field."""

from __future__ import annotations

import json
import subprocess
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
LIMITS = [10**n for n in range(10)] + [2, 50, 250, 20_000]
VALUES = [*WORDS, -(10**9) - 1, -1, -0.5, 0, 0.5]
VALUES += [number + more for number in LIMITS for more in (0, 1)]
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
    {"pairs": "AA==AAAA", "most": 1},
    [],
    None,
]
LANGUAGES: list[Any] = [["", ""], ["tr", "el"], ["tr"], "tr", {}, None, [1, "tr"]]


def refusals(cards: list[dict[str, Any]]) -> list[bool]:
    """Return which of the cards Python refuses when it opens a file."""
    results = []
    for card in cards:
        try:
            _read_card(Path("model.regard"), json.dumps(card).encode())
        except ModelFolderError:
            results.append(True)
        else:
            results.append(False)
    return results


def flaws_in_javascript(node: str, cards: list[Any]) -> list[list[str]]:
    command = [node, "--input-type=module", "-e", SCRIPT, str(MODULE)]
    done = subprocess.run(
        command,
        input=json.dumps(cards),
        capture_output=True,
        text=True,
        check=True,
    )
    flaws: list[list[str]] = json.loads(done.stdout)
    return flaws


def cards_of(name: str) -> list[Any]:
    """Return a card for each value of a search setting, with what the right values depend on."""
    cards = []
    for value in VALUES:
        settings = {name: value}
        if name in ("top_k", "top_p", "temperature", "beam"):
            settings["sample"] = True
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
    cards += others
    flaws = flaws_in_javascript(node, cards)
    for card, is_refused, flaw in zip(cards, refusals(cards), flaws, strict=True):
        assert bool(flaw) == is_refused, card
        if flaw:
            ((field, value),) = card.items()
            name = f"search.{next(iter(value))}" if field == "search" else field
            assert name in " ".join(flaw), card

    no_tables = [None, [], 5, "text", {"search": []}, {"search": None}]

    assert all(flaws_in_javascript(node, no_tables))
