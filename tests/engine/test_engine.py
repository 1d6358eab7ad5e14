"""Engine: native kernels and PyTorch give equal results, and unsupported requests are refused."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from laws.models import images, kinds, make
from limits import seeds
from systems import posix

from regard.data.vocabulary import EOS
from regard.engine import DecodeRequest, Engine, autotune, engine
from regard.engine.autotune import cached, fastest
from regard.errors import UsageError
from regard.models import ModelSettings
from regard.runtime import native
from regard.search import Hypothesis, SearchSettings, Task

REQUESTS = [DecodeRequest([4 + (i * k) % 14 for k in range(1 + i % 6)] + [EOS], Task(i, 4 + i % 6)) for i in range(40)]
IMAGE_REQUESTS = [
    DecodeRequest(images(len(request.source), seed=i).data[0], request.task) for i, request in enumerate(REQUESTS)
]
SETTINGS = SearchSettings(beam=3)


def ids(results: list[list[Hypothesis]]) -> list[list[tuple[int, ...]]]:
    return [[hypothesis.ids for hypothesis in hypotheses] for hypotheses in results]


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(autotune, "private_folders", lambda: [tmp_path])


@pytest.mark.parametrize("settings", kinds())
def test_native_kernels_equal_pytorch(settings: ModelSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    requests, actual = IMAGE_REQUESTS if settings.encoder.reads == "images" else REQUESTS, list[Any]()
    for seed in seeds(lambda: len({tuple(hypotheses[0]) for hypotheses in actual}) > 3, "winners differ"):
        model = make(settings, seed, ends=0.05)
        native_engine = Engine(model)
        with monkeypatch.context() as patch:
            patch.setattr(engine, "why_not_packed", lambda _: "this is a test")
            pytorch_engine = Engine(model)
        assert "this is a test" in pytorch_engine.describe()
        actual[:] = ids(native_engine.decode(requests, SETTINGS))
        assert actual == ids(pytorch_engine.decode(requests, SETTINGS))
    monkeypatch.setattr(engine, "why_not_packed", lambda _: "this is a test")
    for precision in ("bfloat16", "int8"):
        with pytest.raises(UsageError, match="this is a test"):
            Engine(model, precision=precision)  # type: ignore[arg-type]


@pytest.mark.skipif(native.why_unavailable() is not None, reason=f"no native kernels: {native.why_unavailable()}")
class TestNative:
    def test_changed_weights_are_packed_again(self) -> None:
        model = make(kinds(reads=["text"])[0].values[0], ends=0.05)
        tested = Engine(model)
        before = ids(tested.decode(REQUESTS, SETTINGS))
        with torch.no_grad():
            model.decoder.output.bias.copy_(torch.randn_like(model.decoder.output.bias) * 3)
        after = ids(tested.decode(REQUESTS, SETTINGS))
        assert after != before
        assert after == ids(Engine(model).decode(REQUESTS, SETTINGS))

    def test_concurrent_callers_get_the_hypotheses_of_one_caller(self) -> None:
        tested = Engine(make(kinds(reads=["text"])[0].values[0], ends=0.05))
        expected, actual = ids(tested.decode(REQUESTS, SETTINGS)), {}

        def call(number: int) -> None:
            actual[number] = ids(tested.decode(REQUESTS[number:], SETTINGS))

        threads = [threading.Thread(target=call, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert actual == {number: expected[number:] for number in range(6)}

    def test_two_threads_equal_one_for_many_sentences_and_for_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(engine, "SMALL", 0)
        monkeypatch.setattr(engine, "fastest", lambda choices, _: choices[-1])
        model = make(kinds(reads=["text"])[0].values[0], ends=0.05)
        expected, before = ids(Engine(model).decode(REQUESTS, SETTINGS)), torch.get_num_threads()
        try:
            torch.set_num_threads(2)
            tested = Engine(model)
            assert ids(tested.decode(REQUESTS, SETTINGS)) == expected
            assert ids(tested.decode(REQUESTS[3:4], SETTINGS)) == expected[3:4]
        finally:
            torch.set_num_threads(before)

    @pytest.mark.parametrize("encoder", ["resnet", "vit"])
    def test_images_give_equal_captions_on_any_number_of_threads(
        self, encoder: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(engine, "SMALL", 0)  # so that the number of threads and rows is tuned
        monkeypatch.setattr(engine, "ROWS", (6, 3, 12))
        settings = next(p.values[0] for p in kinds(reads=["images"]) if p.values[0].encoder.kind == encoder)
        model, before = make(settings, ends=0.05), torch.get_num_threads()
        tested = Engine(model)
        expected = ids(tested.decode(IMAGE_REQUESTS, SETTINGS))
        try:
            torch.set_num_threads(2)
            assert ids(Engine(model).decode(IMAGE_REQUESTS, SETTINGS)) == expected
            assert ids(Engine(model).decode(IMAGE_REQUESTS[3:4], SETTINGS)) == expected[3:4]
        finally:
            torch.set_num_threads(before)
        greedy = SearchSettings(beam=1)
        assert [*tested.stream(IMAGE_REQUESTS[5], greedy)][-1] == ids(tested.decode(IMAGE_REQUESTS[5:6], greedy))[0][0]

    @posix
    def test_engine_decodes_after_a_fork(self) -> None:
        tested = Engine(make(kinds(reads=["text"])[0].values[0], ends=0.05))
        expected = ids(tested.decode(REQUESTS, SETTINGS))
        reader, writer = os.pipe()
        if (child := os.fork()) == 0:
            os.write(writer, b"same" if ids(tested.decode(REQUESTS, SETTINGS)) == expected else b"else")
            os._exit(0)
        os.close(writer)
        assert os.read(reader, 4) == b"same"
        os.waitpid(child, 0)


def test_measurements_are_cached_and_made_again_if_the_cache_is_damaged(tmp_path: Path) -> None:
    choices = (7, 8, 9)
    assert [cached("a", choices, lambda: 7), cached("a", choices, lambda: 8), cached("b", choices, lambda: 9)] == [
        7,
        7,
        9,
    ]
    (file,) = tmp_path.iterdir()
    assert sorted(json.loads(file.read_text()).values()) == [7, 9]
    file.write_text("{")
    assert cached("a", choices, lambda: 8) == 8
    assert cached("a", choices, lambda: 9) == 8


def test_fastest_choice_must_be_clearly_faster() -> None:
    assert fastest([1, 2, 4], lambda n: 1.0 - 0.01 * n) == 1
    assert fastest([1, 2, 4], lambda n: 1.0 / n) == 4
