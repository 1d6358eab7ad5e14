"""Calls that are given up from another thread, whatever decodes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.small_models import SENTENCES

from regard.common.stopping import Stopped, stopped_by
from regard.pipeline import load_translator
from regard.pipeline.translator import Translator
from tests.runtime.pairs import maker

FORMS = ["file", "library", "pytorch"]


@pytest.fixture
def translators(tmp_path: Path) -> Callable[[str], Translator]:
    _, runtime = maker(lambda: tmp_path / "run")("transformer", "transformer")

    def translator(form: str) -> Translator:
        return (
            runtime
            if form == "file"
            else load_translator(tmp_path / "run", engine=form)
        )  # type: ignore[arg-type]

    return translator


@pytest.mark.parametrize("has_others", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_a_call_is_given_up_and_others_go_on(
    translators: Callable[[str], Translator], form: str, has_others: bool
) -> None:
    translator = translators(form)
    expected = [translation.text for translation in translator.translate(SENTENCES)]
    stop = threading.Event()
    outcomes = list[object]()

    def translate(lines: list[str], is_stopped: bool) -> None:
        try:
            with stopped_by(stop if is_stopped else threading.Event()):
                outcomes.append(
                    [translation.text for translation in translator.translate(lines)]
                )
        except Stopped as problem:
            outcomes.append(problem)

    calls = [threading.Thread(target=translate, args=(SENTENCES * 2000, True))]
    calls += [threading.Thread(target=translate, args=(SENTENCES, False))] * has_others
    for call in calls:
        call.start()
    stop.set()

    for call in calls:
        call.join(60)
        assert not call.is_alive()

    assert any(isinstance(outcome, Stopped) for outcome in outcomes)
    assert [outcome for outcome in outcomes if not isinstance(outcome, Stopped)] == [
        expected
    ] * has_others
    assert [
        translation.text for translation in translator.translate(SENTENCES)
    ] == expected
