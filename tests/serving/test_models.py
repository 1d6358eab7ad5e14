"""Served models: calls together, deadlines, room, changed files, and what is wrong with models."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import json
import os
import random
import shutil
import threading
import warnings
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest
from limits import wait_until_async
from small import SENTENCES, captioner_folder, folder
from systems import linux

from regard.common.errors import ModelFolderError, RegardError, UsageError
from regard.common.stopping import Stopped, stopped_by
from regard.data.language_id import LanguageId
from regard.model_folder import (
    load_folder,
    load_settings,
    save_alignment,
    save_language_id,
    write_settings,
)
from regard.pipeline import RuntimeTranslator, export_cache, load_captioner
from regard.runtime import native
from regard.runtime.engine import pack_model
from regard.runtime.engine.runtime_file import runtime_file
from regard.runtime.model import Constraints
from regard.serving import models, served_translator
from regard.serving.application import create_app
from regard.serving.backlog import Backlog
from regard.serving.model_files import files_state
from regard.serving.models import Models, ServiceSettings
from regard.serving.pytorch_models import open_folder
from regard.serving.pytorch_process import Folder, ProcessAway
from regard.serving.runtime_explanation import Explainer
from regard.serving.served_translator import ServedFile
from regard.serving.server_settings import ServerSettings
from regard.serving.service import (
    DeadlineExceeded,
    ExplanationRequest,
    Overloaded,
    Pair,
    SearchRequest,
    ServedLine,
    TextRequest,
)
from tests.runtime.pairs import maker

if (problem := native.why_unavailable()) is not None:
    pytest.skip(f"no C library on this machine: {problem}", allow_module_level=True)

pytestmark = pytest.mark.system
SEARCH = SearchRequest()
DEADLINE = 120.0
Use = Callable[[Models], Awaitable[Any]]


def write_file(
    path: Path, encoder: str = "transformer", copy_tokens: int = 0, **search: Any
) -> Path:
    run = folder(path.with_suffix(".run"), encoder, encoder, end=0.5, copy_tokens=copy_tokens)
    change_settings(run, search=search)
    model = load_folder(run)
    values = {
        "precision": "float32",
        "search": json.loads(model.settings.search.model_dump_json()),
        "parameters": 1,
        "readme": "A card.",
    }
    path.write_bytes(runtime_file(model, pack_model(model.model, "float32"), None, values))
    return path


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_file(tmp_path_factory.mktemp("model") / "ko-en.regard")


def served(
    paths: list[Path],
    use: Use,
    languages: Sequence[Pair] = (("ko", "en"),),
    open_pytorch: Callable[[Folder], Any] | None = None,
    strict: bool = True,
    descriptions: Path = Path(os.devnull),
    **settings: Any,
) -> Any:
    """Run a service with models, use it, and end it. Returns what `use` returns, and the messages
    of the service.
    """

    async def run() -> Any:
        messages: list[str] = []
        given = ServiceSettings(**{"threads": 2, "reload_seconds": 0, **settings})
        service = Models(given, messages.append, open_pytorch, descriptions)
        await service.start(paths, languages, strict)
        try:
            return await use(service), messages
        finally:
            await service.close()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return asyncio.run(run())


@contextlib.asynccontextmanager
async def client_of(service: Models) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of the server over a service."""
    transport = httpx.ASGITransport(create_app(service, ServerSettings(deadline=DEADLINE)))
    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost", timeout=DEADLINE
    ) as client:
        yield client


async def lines_of(
    service: Models,
    lines: Sequence[str],
    search: SearchRequest = SEARCH,
    model: str = "ko-en",
    deadline: float = DEADLINE,
) -> list[ServedLine]:
    """Have lines translated, each as a text."""
    translated = await service.translate(model, lines, TextRequest(search), deadline)
    return [line for text in translated for line in text.lines or ()]


def test_calls_at_the_same_time_get_what_they_would_get_alone(file: Path) -> None:
    translator = RuntimeTranslator(file)
    sentences = [*SENTENCES, "나는\u00a0집에 \u200b 간다", "Press F5 and {a} 2026"]
    searches = [
        SearchRequest(beam=1),
        SearchRequest(beam=4, nbest=2),
        SearchRequest(beam=2, alignments=True, attention="cross"),
    ]

    async def use(service: Models) -> Any:
        requests = (TextRequest(search) for search in searches * 3)
        return await asyncio.gather(
            *(service.translate("ko-en", sentences, each, DEADLINE) for each in requests)
        )

    results, _ = served([file], use)
    for search, texts in zip(searches * 3, results, strict=True):
        options = {"beam": search.beam, "nbest": search.nbest, "alignments": search.alignments}
        for text, translation in zip(
            texts, translator.begin(sentences, **options).run(), strict=True
        ):
            ranked = text.lines[0].hypotheses
            best = ranked[0]
            assert (best.text, best.alignments, text.warnings) == (
                translation.text,
                translation.alignments,
                translation.notes,
            )
            assert best.score == pytest.approx(translation.score, abs=1e-5)
            assert (len(ranked), bool(best.attention)) == (
                search.nbest,
                search.attention == "cross",
            )


NEIGHBOURS = (
    "I go home",
    "&I go home",
    "_You read a book",
    "I GO HOME",
    "I go {0} home",
    "I go <b>home</b>",
    "I go home. You read a book!\nI was eating bread",
    "",
    " \n",
    "2026-11-28",
    "I was eating 12 <i>bread</i> and %s &amp; 7",
    "나는 <b>집</b>에 간다. 너는 책을 읽는다",
    "[b]I[/b] go home 37 times",
)
"""Texts of every kind that is translated in a way of its own."""
ROUTES: dict[str, tuple[str, dict[str, Any], str]] = {
    "LibreTranslate": ("/translate", {"alternatives": 2, "source": "ko", "target": "en"}, "q"),
    "LibreTranslate, HTML": ("/translate", {"format": "html", "source": "ko", "target": "en"}, "q"),
    "DeepL": ("/v2/translate", {"source_lang": "KO", "target_lang": "EN"}, "text"),
    "DeepL, HTML": (
        "/v2/translate",
        {"source_lang": "KO", "target_lang": "EN", "tag_handling": "html"},
        "text",
    ),
    "Regard": ("/v1/translate", {"source": "ko", "target": "en"}, "text"),
    "Regard, three": (
        "/v1/translate",
        {"source": "ko", "target": "en", "nbest": 3, "beam": 3},
        "text",
    ),
    "Regard, HTML": ("/v1/translate", {"source": "ko", "target": "en", "format": "html"}, "text"),
}


def translations_of(answer: dict[str, Any]) -> list[Any]:
    """Return what an answer says of each of its texts: all but scores, which are rounded by the
    batch.
    """
    if "translatedText" in answer:
        rest = answer.get("alternatives") or [None] * len(answer["translatedText"])
        return list(zip(answer["translatedText"], rest, strict=True))
    return [
        {name: value for name, value in item.items() if name != "lines"}
        for item in answer["translations"]
    ]


@pytest.mark.parametrize("copy_tokens", [0, 2])
def test_a_translation_does_not_depend_on_the_texts_beside_it(
    tmp_path: Path, copy_tokens: int
) -> None:
    """Each text alone = in mixtures with every other kind of text, whatever is asked for."""
    path = write_file(tmp_path / "model.regard", copy_tokens=copy_tokens)
    shuffled = random.Random(1)
    mixtures = [list(NEIGHBOURS), list(NEIGHBOURS[::-1])]
    mixtures += [shuffled.sample(NEIGHBOURS, size) for size in (2, 2, 3, 5)]
    mixtures += [[text, "I go <b>home</b>"] for text in NEIGHBOURS[1:4]]

    async def use(service: Models) -> None:
        async with client_of(service) as client:
            for name, (route, options, field) in ROUTES.items():

                async def ask(
                    texts: list[str], route: str = route, field: str = field, **asked: Any
                ) -> list[Any]:
                    answer = await client.post(route, json={**asked, field: texts})
                    assert answer.status_code == 200, answer.text
                    return translations_of(answer.json())

                alone = {text: (await ask([text], **options))[0] for text in NEIGHBOURS}
                for mixture in mixtures:
                    assert await ask(mixture, **options) == [alone[text] for text in mixture], (
                        name,
                        mixture,
                    )

    served([path], use)


def test_a_stream_restores_spans_and_capitals_and_ends_with_doubt_and_warnings(
    tmp_path: Path,
) -> None:
    path = write_file(tmp_path / "ko-en.regard", copy_tokens=2)
    lines = ["I GO {0} HOME", "Press F5 2026"]

    async def use(service: Models) -> list[str]:
        async with client_of(service) as client:
            asked = {"text": "\n".join(lines), "source": "ko", "target": "en", "stream": True}
            return (await client.post("/v1/translate", json=asked)).text.split("\n")

    sent, _ = served([path], use)
    *deltas, result = [
        json.loads(line.removeprefix("data: ")) for line in sent if line.startswith("data: ")
    ]
    streamed = [
        "".join(item["delta"] for item in deltas if item["line"] == number)
        for number in range(len(lines))
    ]
    (translation,) = RuntimeTranslator(path).translate(lines[0], beam=1)
    assert streamed[0] == translation.text == translation.text.upper()
    assert "{0}" in streamed[0]
    (whole,) = result["translations"]
    assert (whole["text"], whole["doubtful"]) == ("\n".join(streamed), True)
    assert ["lacks 'F5', '2026' of its source" in warning for warning in whole["warnings"]] == [
        True
    ]


@pytest.mark.parametrize("is_late", [False, True])
def test_a_text_is_translated_again_only_in_the_first_half_of_its_time(
    file: Path, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    times = [0.0, 51.0 if is_late else 49.0]
    monkeypatch.setattr(
        served_translator, "monotonic", lambda: times.pop(0) if len(times) > 1 else times[0]
    )
    served = ServedFile(RuntimeTranslator(file), 10**7)
    (text,) = served.translate(["Press F5 2026"], TextRequest(), 100.0)
    assert ("2026" in text.text, bool(text.warnings)) == (not is_late, is_late)


def test_a_model_of_several_sentences_a_line_gets_lines_whole(tmp_path: Path) -> None:
    path = write_file(tmp_path / "whole.regard", split="off")
    text = "I go home. You read a book!\nI was eating bread"

    async def use(service: Models) -> None:
        (whole,) = await service.translate("whole", [text], TextRequest(sentences=True), DEADLINE)
        *_, streamed = [
            part
            async for part in service.stream("whole", text, TextRequest(sentences=True), DEADLINE)
        ]
        for translated in (whole, streamed):
            assert [line.source for line in translated.lines] == text.split("\n")

    served([path], use)


def test_answers_that_are_too_large_are_refused_before_the_work(file: Path) -> None:
    async def use(service: Models) -> None:
        line = " ".join(SENTENCES)
        for search in (
            SearchRequest(nbest=100, log_probs=True),
            SearchRequest(attention="all", nbest=5, beam=5),
        ):
            with pytest.raises(UsageError, match="`answer_limit` is 100,000"):
                await lines_of(service, [line] * 8, search)
        with pytest.raises(UsageError, match="answer_limit"):
            await service.explain("ko-en", line, ExplanationRequest(nbest=100), DEADLINE)
        with pytest.raises(UsageError, match="answer_limit"):  # the search of a prefix is recorded
            await service.continuations("ko-en", "x", (5,) * 9_000, 4, DEADLINE)
        short = await asyncio.gather(
            *(
                service.explain("ko-en", SENTENCES[0], ExplanationRequest(), DEADLINE)
                for _ in range(20)
            )
        )
        assert len({bytes(explanation) for explanation in short}) == 1
        assert len(await lines_of(service, [line] * 8)) == 8

    served([file], use, answer_limit=100_000)


def test_a_call_that_is_given_up_frees_its_place(file: Path) -> None:
    """Be it late, or left by its client, before its end or in the middle of its answer."""
    long = SENTENCES * 2000

    async def use(service: Models) -> None:
        with pytest.raises(DeadlineExceeded, match=r"0\.01 seconds"):
            await lines_of(service, long, SearchRequest(beam=20), deadline=0.01)
        assert service.backlog == {"ko-en": (0, 0)}
        call = asyncio.create_task(lines_of(service, long, SearchRequest(beam=20)))
        await wait_until_async(lambda: service.backlog["ko-en"][0], "the call is open")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        async with contextlib.aclosing(
            service.stream("ko-en", "\n".join(long), TextRequest(), DEADLINE)
        ) as parts:
            await anext(parts)
        assert service.backlog == {"ko-en": (0, 0)}
        assert await lines_of(service, SENTENCES[:1])

    served([file], use)


def test_a_call_that_is_given_up_amid_its_layout_leaves_its_room(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = ServedFile(RuntimeTranslator(file), 10**8)
    request = TextRequest(SearchRequest(nbest=2))
    stop = threading.Event()
    begin_texts = served.translator.begin_texts

    def stop_and_begin(*arguments: Any, **options: Any) -> Any:
        stop.set()
        return begin_texts(*arguments, **options)

    monkeypatch.setattr(served.translator, "begin_texts", stop_and_begin)
    with stopped_by(stop), pytest.raises(Stopped):
        served.translate(SENTENCES * 500, request, DEADLINE)
    assert served._limit._taken == 0
    assert len(served.translate(SENTENCES, request, DEADLINE)) == len(SENTENCES)


def test_what_has_no_room_is_refused(file: Path) -> None:
    async def use(service: Models) -> None:
        first = asyncio.create_task(lines_of(service, SENTENCES * 3))
        await asyncio.sleep(0)
        with pytest.raises(Overloaded) as caught:
            await lines_of(service, SENTENCES)
        assert 1 <= caught.value.retry_after <= 60
        assert len(await first) == 3 * len(SENTENCES), (
            "a call that comes alone is let in, however long"
        )

    served([file], use, most_lines=3)


def test_a_call_that_could_not_be_done_in_time_is_refused() -> None:
    backlog = Backlog(most_lines=1000)
    backlog.speed = 100.0
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(backlog.holding(1, 100))
        backlog.admit(1, 90, deadline=20)
        with pytest.raises(Overloaded) as caught:
            backlog.admit(1, 100, deadline=20)
    assert caught.value.retry_after == 1, "a second after which 2,100 characters are 2,000"
    backlog.admit(1, 10**6, deadline=20)  # alone: the deadline will tell
    with backlog.holding(10_000, 10**6):
        # Short calls do not wait for long ones, with which they take turns.
        backlog.admit(1, 100, deadline=20)


def test_options_and_lines_that_are_refused(file: Path) -> None:
    refused: list[tuple[Callable[[Models], Awaitable[Any]], str]] = [
        (
            lambda service: lines_of(service, SENTENCES, SearchRequest(beam=1000)),
            "beam: wanted 1 to 250",
        ),
        (
            lambda service: lines_of(
                service, SENTENCES, SearchRequest.model_construct(beam=2, nbest=3)
            ),
            "nbest",
        ),
        (lambda service: lines_of(service, ["x", "y" * 200_000]), "line 2 "),
    ]

    async def use(service: Models) -> None:
        for call, sentence in refused:
            with pytest.raises(UsageError, match=sentence):
                await call(service)

    served([file], use)


def test_an_explanation_is_what_the_page_reads(file: Path) -> None:
    options = (ExplanationRequest(), ExplanationRequest(packed=True, nbest=2, trace=True))

    async def use(service: Models) -> Any:
        answers = [
            await service.explain("ko-en", SENTENCES[0], option, DEADLINE) for option in options
        ]
        return [json.loads(bytes(answer)) for answer in answers]

    (explanation, packed), _ = served([file], use)
    translator = RuntimeTranslator(file)
    translation = translator.translate(SENTENCES[0], readings=True, nbest=3)[0]
    readings = translation.readings
    assert readings is not None
    assert explanation["sourceTokens"] == list(readings.source)
    assert [*explanation["tokens"], "</s>"] == list(readings.target)
    assert [item["text"] for item in explanation["nbest"]] == [
        item.text for item in translation.nbest
    ]
    for layer in explanation["attention"]:
        assert layer["weights"] == pytest.approx(
            readings.weights[layer["name"]].ravel().tolist(), abs=1e-5
        )
    for layer in packed["nbest"][0]["attention"]:
        weights = np.frombuffer(base64.b64decode(layer["weights"]), "<u2") / 65535
        assert weights.tolist() == pytest.approx(
            readings.weights[layer["name"]].ravel().tolist(), abs=1e-5
        )
    for layer in (*explanation["attention"], *packed["nbest"][0]["attention"]):
        if (
            layer["role"] == "cross"
        ):  # a score is the logarithm of its weight, plus the sum of its row
            sums = np.reshape(layer["logSums"], (layer["heads"], layer["rows"], 1))
            scores = np.log(readings.weights[layer["name"]]) + sums
            np.testing.assert_allclose(scores, readings.scores[layer["name"]], atol=1e-3, rtol=1e-4)
    roles = [{layer["role"] for layer in item["attention"]} for item in packed["nbest"]]
    assert roles == [{"encoder", "cross", "decoder"}, {"cross", "decoder"}]
    assert (packed["attention"], explanation["steps"], len(packed["nbest"])) == ([], [], 2)
    (line,) = translator.model.translate(SENTENCES[:1], translator.model.options())
    assert explanation["logProbs"] == pytest.approx(line.hypotheses[0].log_probs, abs=1e-5)
    kept = [c["id"] for c in packed["steps"][0]["candidates"] if c["fate"] == "kept"]
    assert kept == [
        c.token for c in translator.trace(SENTENCES[0])[1][0].candidates if c.fate == "kept"
    ]


@pytest.mark.parametrize("encoder", ["recurrent", "transformer"])
def test_states_of_a_recurrent_model_are_packed(tmp_path: Path, encoder: str) -> None:
    _, runtime = maker(lambda: tmp_path / "run")(encoder, "recurrent")
    model = runtime.model
    options = runtime.model.options()
    options.attention = options.states = 1
    (line,) = model.translate(SENTENCES[:1], options)
    (hypothesis,) = line.hypotheses
    explanation = Explainer(model, runtime.doubts, is_packed=True).explanation(line)
    content = json.loads(msgspec.json.encode(explanation))
    states = content["nbest"][0]["states"]
    assert hypothesis.states is not None
    if hypothesis.states.encoder is None:
        assert states is None
        return
    for name, part in (
        ("encoder", hypothesis.states.encoder),
        ("decoder", hypothesis.states.decoder),
    ):
        numbers = np.frombuffer(base64.b64decode(states[name]), "i1") / 127
        np.testing.assert_allclose(numbers, part[..., :64].ravel(), atol=0.005)
        assert states[f"{name}Size"] == min(part.shape[-1], 64)
    assert (states["directions"], states["attendsFirst"]) == (
        hypothesis.states.encoder.shape[1],
        True,
    )


@pytest.mark.parametrize("length", [0, 2])
def test_continuations_are_those_of_the_library(file: Path, length: int) -> None:
    model = RuntimeTranslator(file).model
    (line,) = model.translate(SENTENCES[:1], model.options())
    prefix = line.hypotheses[0].ids[:length]

    async def use(service: Models) -> Any:
        calls = (
            service.continuations("ko-en", SENTENCES[0], prefix, 4, DEADLINE) for _ in range(3)
        )
        explained = service.explain(
            "ko-en", SENTENCES[0], ExplanationRequest(prefix=prefix), DEADLINE
        )
        with pytest.raises(UsageError):
            await service.continuations("ko-en", SENTENCES[0], (1 << 30,), 4, DEADLINE)
        return await asyncio.gather(*calls, explained)

    (*listed, explanation), _ = served([file], use)
    assert listed[0] == listed[1] == listed[2]
    options = model.options()
    options.trace = options.beam = 1
    (greedy,) = model.translate(SENTENCES[:1], options, [Constraints.of_prefix(prefix)])
    likely = sorted(
        (c for c in greedy.steps[length].candidates if c.token != 3), key=lambda c: -c.log_prob
    )[:4]
    assert [item.prefix for item in listed[0]] == [(*prefix, c.token) for c in likely]
    assert [item.log_prob for item in listed[0]] == pytest.approx(
        [c.log_prob for c in likely], abs=1e-4
    )
    for item in listed[0]:
        (other,) = model.translate(
            SENTENCES[:1], model.options(), [Constraints.of_prefix(item.prefix)]
        )
        assert item.text == other.hypotheses[0].text
        assert item.log_probs == pytest.approx(other.hypotheses[0].log_probs, abs=1e-4)
        assert item.words == list(model.word_indices(other.hypotheses[0].ids, True))
    assert tuple(json.loads(bytes(explanation))["ids"][:length]) == prefix


def test_a_changed_file_is_loaded_while_calls_go_on(tmp_path: Path) -> None:
    path = write_file(tmp_path / "model.regard")
    damaged = tmp_path / "damaged"
    other = write_file(tmp_path / "other.regard", "recurrent")
    old, new = (
        [t.text for t in RuntimeTranslator(item).translate(SENTENCES, beam=3)]
        for item in (path, other)
    )
    assert old != new

    async def use(service: Models) -> None:
        async def texts(count: int = 1) -> list[str]:
            lines = await lines_of(service, SENTENCES * count, SearchRequest(beam=3), model="model")
            return [line.hypotheses[0].text for line in lines]

        assert await texts() == old
        long = asyncio.create_task(texts(100))
        await wait_until_async(lambda: service.backlog["model"][0], "the call is open")
        rename_over(other, path)
        await service.reload()
        assert await texts() == new
        damaged.write_bytes(b"REGARD\r\ndamaged")
        rename_over(damaged, path)
        await service.reload()
        assert await texts() == new
        assert await long == old * 100, (
            "what was begun is finished by the model that it was begun with"
        )

    _, messages = served([path], use)
    assert "loaded again" in messages[0]
    assert "cannot be opened, so the model stays as it was" in messages[1]


def test_a_file_is_closed_with_its_last_call(file: Path) -> None:
    """Whoever replaces it need not wait for garbage to be collected, of which a server has
    little.
    """
    gc.disable()
    try:
        translator = RuntimeTranslator(file)
        opened = weakref.ref(translator.model)
        model = ServedFile(translator, 10**8)
        assert model.translate(["I GO HOME"], TextRequest(SearchRequest(nbest=2)), DEADLINE)
        del translator, model
        assert opened() is None
    finally:
        gc.enable()


def test_calls_that_wait_for_pytorch_keep_no_threads_of_files(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGARD_EXPORTS", "off")
    monkeypatch.setattr(models, "_SHORT_CALLS", 2)
    release = threading.Event()

    def open_stuck(opened: Folder) -> Any:
        model = open_folder(*opened[:-1])
        monkeypatch.setattr(model, "translate", lambda *_: release.wait())
        return model

    async def use(service: Models) -> None:
        calls = [
            asyncio.create_task(service.translate("stuck", [line], TextRequest(), DEADLINE))
            for line in SENTENCES[:3]
        ]
        await wait_until_async(
            lambda: service.backlog["stuck"][0] == len(calls), "the calls are open"
        )
        try:
            assert await lines_of(service, SENTENCES[:1])
        finally:
            release.set()
        await asyncio.gather(*calls)

    served([folder(tmp_path / "stuck"), file], use, languages=(), open_pytorch=open_stuck)


@pytest.mark.parametrize(
    ("problem", "is_passing"),
    [(ProcessAway(), True), (OSError(12, "no memory"), True), (ModelFolderError("damaged"), False)],
)
def test_a_model_that_is_away_is_tried_again_unless_its_files_are_to_blame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Exception, is_passing: bool
) -> None:
    monkeypatch.setenv("REGARD_EXPORTS", "off")
    run = folder(tmp_path / "run", end=0.5)
    problems = [problem] * 2

    def open_pytorch(opened: Folder) -> Any:
        if problems:
            raise problems.pop()
        return open_folder(*opened[:-1])

    async def use(service: Models) -> None:
        for _ in range(3):
            await service.reload()
        assert (service.is_ready, len(problems)) == (is_passing, int(not is_passing))
        (run / "README.md").write_text("# Another\n", "utf-8")
        problems.clear()
        await service.reload()
        assert service.is_ready

    _, messages = served([run], use, open_pytorch=open_pytorch, strict=False)
    assert f"run: cannot be opened, so the model is away: {run}: " in messages[0]
    assert [message == "run: loaded again" for message in messages] == [
        False,
        True,
        *[True] * is_passing,
    ]


def test_a_model_that_takes_long_to_open_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGARD_EXPORTS", "off")
    stuck, other = (folder(tmp_path / name, end=0.5) for name in ("stuck", "other"))
    release = threading.Event()
    opening = list[Path]()

    def open_pytorch(opened: Folder) -> Any:
        opening.append(opened.path)
        if opened.path == stuck:
            release.wait()
        return open_folder(*opened[:-1])

    async def use(service: Models) -> None:
        await wait_until_async(lambda: service.models["other"].is_ready, "one is open")
        (other / "README.md").write_text("# Another\n", "utf-8")
        try:
            reloads = [asyncio.create_task(service.reload()) for _ in range(3)]
            await wait_until_async(
                lambda: service.models["other"].readme == "# Another\n", "it is open again"
            )
            assert (service.is_ready, opening.count(stuck)) == (False, 1)
        finally:
            release.set()
        await asyncio.gather(*reloads)
        assert service.is_ready
        assert sorted(opening) == [other, other, stuck]

    served([stuck, other], use, open_pytorch=open_pytorch, strict=False)


def flip(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))


def flip_and_set_back(path: Path) -> None:
    status = path.stat()
    flip(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def rename_over(good: Path, path: Path) -> None:
    shutil.copy(good, path.with_suffix(".new"))
    os.replace(path.with_suffix(".new"), path)


@linux
@pytest.mark.parametrize("put_back", [rename_over, shutil.copyfile])
@pytest.mark.parametrize(
    "change",
    [
        flip,
        flip_and_set_back,
        lambda path: os.truncate(path, 1000),
        lambda path: path.write_text("other"),
    ],
)
def test_readiness_is_that_of_the_file_that_is_open(
    tmp_path: Path,
    file: Path,
    change: Callable[[Path], object],
    put_back: Callable[[Path, Path], object],
) -> None:
    """While every translation of a model is refused the server is not ready; once a whole file is
    there it is again.
    """
    path, other = (
        Path(shutil.copy(file, tmp_path / name)) for name in ("first.regard", "second.regard")
    )

    async def use(service: Models) -> None:
        async with client_of(service) as client:

            async def state() -> tuple[int, Any, list[bool], list[int]]:
                ready, models = (
                    await client.get("/ready"),
                    (await client.get("/v1/models")).json()["models"],
                )
                one = (await client.get("/v1/models/first")).json()["is_ready"]
                asked = [{"text": "I go home", "model": name} for name in ("first", "second")]
                statuses = [
                    (await client.post("/v1/translate", json=item)).status_code for item in asked
                ]
                assert one == models[0]["is_ready"]
                away = ready.json().get("away")
                return ready.status_code, away, [model["is_ready"] for model in models], statuses

            good = (200, None, [True, True], [200, 200])
            assert await state() == good
            change(path)
            bad = (503, ["first"], [False, True], [503, 200])
            assert await state() == bad, "before anybody has looked at the files"
            await service.reload()
            assert await state() == bad
            put_back(other, path)
            await service.reload()
            assert await state() == good

    _, messages = served([path, other], use, languages=())
    assert (
        "cannot be opened, so the model is away" in "".join(messages) or change is flip_and_set_back
    )
    assert "loaded again" in messages[-1]


def change_settings(run: Path, **changes: Any) -> None:
    settings = load_settings(run)
    search = settings.search.with_values(**changes.pop("search", {}))
    write_settings(run, settings.with_values(search=search.model_dump(), **changes))


HEAD = {
    "layer": "decoder.layers.0.cross_attention",
    "head": 1,
    "shifted": True,
    "symmetry": "union",
}
LANGUAGE_ID = LanguageId.learn({"ja": SENTENCES[:2], "de": SENTENCES[2:4]})
Change = tuple[Callable[[Path], object], Callable[[Any], object], object]
CHANGES: list[list[Change]] = [
    [
        (lambda run: save_alignment(run, HEAD), lambda state: state[0].alignment["head"], 1),
        (
            lambda run: change_settings(run, languages={"source": "ja", "target": "de"}),
            lambda state: state[0].pairs,
            (("ja", "de"),),
        ),
        (
            lambda run: save_language_id(run, LANGUAGE_ID),
            lambda state: [code for code, _ in state[1]],
            ["de", "ja"],
        ),
        (
            lambda run: change_settings(run, search={"score_threshold": -0.001}),
            lambda state: [text.doubtful for text in state[2]],
            [True] * 6,
        ),
        (
            lambda run: (run / "README.md").write_text("# Another\n", "utf-8"),
            lambda state: state[0].readme,
            "# Another\n",
        ),
    ],
    [
        (
            lambda run: change_settings(
                run, search={"score_threshold": -100.0, "max_ratio": 0.01, "max_extra": 1}
            ),
            lambda state: max(len(text.lines[0].hypotheses[0].tokens) for text in state[2]),
            1,
        ),
    ],
    [
        (
            lambda run: change_settings(run, familiar={"pairs": "AAAA", "most": 0}),
            lambda state: state[2][3].doubtful,
            True,
        ),
    ],
]
"""Changes of a folder that are made together, each with what shows that it is served, and how."""


@pytest.fixture
def exports(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Switch exports on; return the folder that they are kept in."""
    monkeypatch.setenv(export_cache.SWITCH, "on")
    return cache


def test_a_folder_is_served_as_it_is_whatever_was_changed(tmp_path: Path, exports: Path) -> None:
    """The server sees every change while it runs, and at the end it is one with a server of a fresh
    copy.

    An export that somebody has removed it makes again: whoever empties the cache harms no server.
    """
    run = folder(tmp_path / "run", end=0.5, languages=("ko", "en"))
    save_alignment(run, {**HEAD, "head": 0})

    async def state_of(service: Models) -> Any:
        texts = await service.translate("run", SENTENCES, TextRequest(), DEADLINE)
        return service.models["run"], service.detect("I go home"), texts

    async def use(service: Models) -> Any:
        (export,) = exports.glob("model-*")
        before = await state_of(service)
        export.unlink()
        await service.reload()
        assert export.exists()
        assert await state_of(service) == before
        for changes in CHANGES:
            for change, part, expected in changes:
                assert part(before) != expected, "the change is one that is seen"
                files = files_state(run), export_cache.export_name(run, "float32")
                change(run)
                assert not {files_state(run), export_cache.export_name(run, "float32")} & set(files)
            await service.reload()
            before = await state_of(service)
            assert [part(before) for _, part, _ in changes] == [
                expected for *_, expected in changes
            ]
        return before

    settings = {"precision": "float32", "languages": ()}
    changed, messages = served([run], use, **settings)
    assert messages == ["run: loaded again"] * (1 + len(CHANGES))
    times = {path.name: path.stat().st_mtime_ns for path in exports.glob("model-*")}
    assert len(times) == 1 + len(CHANGES)
    assert changed == served([run], state_of, **settings)[0]
    now = {path.name: path.stat().st_mtime_ns for path in exports.glob("model-*")}
    assert now == times, "an export of the folder as it is stays"
    for path in exports.glob("model-*"):
        path.unlink()
    fresh = tmp_path / "fresh" / "run"
    shutil.copytree(run, fresh)
    assert changed == served([fresh], state_of, **settings)[0]


def test_without_exports_a_folder_runs_on_pytorch(tmp_path: Path, cache: Path) -> None:
    async def use(service: Models) -> None:
        assert service.models["run"].facts["engine"] == "pytorch"
        (whole,) = await service.translate("run", ["Press F5 2026"], TextRequest(), DEADLINE)
        *_, streamed = [
            part async for part in service.stream("run", "Press F5 2026", TextRequest(), DEADLINE)
        ]
        is_lacking = [bool(text.warnings) for text in (whole, streamed)]
        assert is_lacking == [False, True], "what a stream has lost is not translated again"

    served([folder(tmp_path / "run", end=0.5)], use)
    assert not list(cache.glob("model-*"))


def test_folders_are_exported_once_and_captioners_run_on_pytorch(
    tmp_path: Path, exports: Path
) -> None:
    run = folder(tmp_path / "first", "transformer", "transformer", end=0.5)
    images = captioner_folder(tmp_path / "images")

    async def use(service: Models) -> Any:
        lines = await lines_of(service, SENTENCES[:2], model="first")
        with pytest.raises(RegardError, match="image"):
            await service.caption("images", b"no image", SEARCH, DEADLINE)
        content = image_bytes()
        caption = await service.caption("images", content, SearchRequest(attention="all"), DEADLINE)
        explained = await service.explain_image("images", content, DEADLINE)
        return (
            lines,
            caption,
            explained,
            {name: model.kind for name, model in service.models.items()},
        )

    (lines, caption, explained, kinds), _ = served([run, images], use, precision="float32")
    assert kinds == {"first": "translation", "images": "captions"}
    (exported,) = exports.glob("model-*")
    assert [line.hypotheses[0].text for line in lines] == [
        t.text for t in RuntimeTranslator(exported).translate(SENTENCES[:2])
    ]
    expected = load_captioner(images).caption(image_bytes(), readings=True)[0]
    assert caption[0].text == expected.text
    assert caption[0].attention
    assert json.loads(bytes(explained))["image"]["url"].startswith("data:image/")


def image_bytes() -> bytes:
    import io

    from PIL import Image

    file = io.BytesIO()
    Image.effect_mandelbrot((60, 40), (-2, -1, 1, 1), 20).convert("RGB").save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize("content", [b"", b"no model", b"REGARD\r\n"])
def test_models_that_cannot_be_opened(tmp_path: Path, file: Path, content: bytes) -> None:
    damaged = tmp_path / "damaged.regard"
    missing = tmp_path / "missing"
    damaged.write_bytes(content)

    async def use(service: Models) -> None:
        raise AssertionError("it has started")

    with pytest.raises(ModelFolderError) as caught:
        served([file, damaged, missing], use)
    assert len(caught.value.causes) == 2
    assert all(str(path) in str(caught.value) for path in (damaged, missing))


def test_a_process_that_takes_the_place_of_another_knows_its_models(
    tmp_path: Path, file: Path, cache: Path
) -> None:
    """Files serve at once; folders are opened beside, and calls of them wait; what is gone is
    away.
    """
    runs = [
        Path(shutil.copy(file, tmp_path / "first.regard")),
        folder(tmp_path / "run", end=0.5),
        tmp_path / "gone",
    ]
    options: dict[str, Any] = {"languages": (), "descriptions": tmp_path / "descriptions"}

    async def use(service: Models) -> Any:
        pairs = service.models["run"].pairs
        states = [model.is_ready for model in service.models.values()]
        return (
            states,
            pairs,
            [await lines_of(service, SENTENCES[:1], model=name) for name in ("first", "run")],
        )

    async def use_again(service: Models) -> Any:
        result = await use(service)
        assert [model.is_ready for model in service.models.values()] == [True, True, False]
        with pytest.raises(RegardError, match="is away"):
            await lines_of(service, SENTENCES[:1], model="gone", deadline=0.01)
        return result

    (states, *expected), _ = served(runs[:2], use, **options)
    (states_again, *again), messages = served(runs, use_again, strict=False, **options)
    assert (states, states_again) == ([True, True], [True, False, False])
    assert again == expected
    assert "no such file" in "".join(messages)
