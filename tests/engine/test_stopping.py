"""Calls that are given up from another thread, whatever decodes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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
        if form == "file":
            return runtime  # type: ignore[return-value]
        return load_translator(tmp_path / "run", engine=form)  # type: ignore[arg-type]

    return translator


@pytest.mark.parametrize("form", FORMS)
def test_a_call_is_given_up_and_others_go_on(
    translators: Callable[[str], Translator], form: str
) -> None:
    translator = translators(form)
    expected = [translation.text for translation in translator.translate(SENTENCES)]
    stop = threading.Event()

    def translate(lines: list[str], stopping: threading.Event) -> list[str]:
        with stopped_by(stopping):
            return [translation.text for translation in translator.translate(lines)]

    with ThreadPoolExecutor(2) as pool:
        given_up = pool.submit(translate, SENTENCES * 2000, stop)
        other = pool.submit(translate, SENTENCES, threading.Event())
        stop.set()

        with pytest.raises(Stopped):
            given_up.result(60)
        assert other.result(60) == expected

    assert translate(SENTENCES, threading.Event()) == expected
