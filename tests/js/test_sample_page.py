"""The page of the sample's model that the site links: it opens from disk, and translates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import live
import pytest

pytestmark = pytest.mark.system
PAIRS = {"나는 빵을 먹고 있었다": "I was eating bread", "나는 집에 간다": "I go home"}


@pytest.mark.slow
def test_it_translates_the_sentences_of_the_demonstration(
    open_page: Callable[..., Any],
    wasm: Path,
    tmp_path: Path,
) -> None:
    file = tmp_path / "translator.html"
    file.write_text(live.page(wasm.read_bytes()), encoding="utf-8")

    assert file.stat().st_size < 2_500_000

    page = open_page(file, "html[data-loaded]", offline=True)
    page.fill("#input", "\n".join(PAIRS))
    for line, expected in enumerate(PAIRS.values(), 1):
        page.locator(f"#translation p:nth-child({line})", has_text=expected).wait_for()


def test_it_names_the_word_that_gets_lost(
    open_page: Callable[..., Any],
    wasm: Path,
    tmp_path: Path,
) -> None:
    file = tmp_path / "translator.html"
    file.write_text(live.page(wasm.read_bytes()), encoding="utf-8")
    page = open_page(file, "html[data-loaded]", offline=True)
    page.evaluate("document.getElementById('how').open = true")
    page.fill("#input", "나는 친구와 집에 간다")
    page.wait_for_selector("#columns :text('친구와')")

    assert page.locator(".word.unread bdi").all_text_contents() == ["친구와"]
    assert page.locator("#unread").text_content().endswith(": 친구와")

    page.fill("#input", "나는 집에 간다")
    page.wait_for_selector("#columns .word:nth-child(3) :text('간다')")

    assert page.locator(".word.unread").count() == 0
    assert page.locator("#unread").is_hidden()


def test_its_model_can_be_taken_out_of_it(
    wasm: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`make page` does this with the page of a new model."""
    before = live.MODEL
    text = live.page(wasm.read_bytes())
    monkeypatch.setattr(live, "MODEL", tmp_path / before.name)
    live.take_apart(text)

    assert (tmp_path / before.name).read_bytes() == before.read_bytes()

    about = before.with_suffix(".json").read_text(encoding="utf-8")

    assert (tmp_path / before.with_suffix(".json").name).read_text(
        encoding="utf-8"
    ) == about
    assert live.page(wasm.read_bytes()) == text
