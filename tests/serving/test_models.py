"""Served models: calls together, deadlines, room, changed files, and what is wrong with models."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import json
import os
import shutil
import warnings
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest
from helpers.packed_weights import unpacked_weights
from helpers.small_models import SENTENCES, captioner_folder, folder
from helpers.system_marks import linux
from helpers.time_limits import wait_until_async
from PIL import Image

from regard.common.errors import DataError, ModelFolderError, RegardError, UsageError
from regard.data.language_id import LanguageId
from regard.documents.formats import read_document
from regard.model_folder import (
    load_folder,
    load_settings,
    save_alignment,
    save_language_id,
    write_settings,
)
from regard.pipeline import RuntimeTranslator, export_cache, load_captioner
from regard.requests.server_settings import ServerSettings
from regard.runtime import native
from regard.runtime.engine import pack_model
from regard.runtime.engine.runtime_file import runtime_file
from regard.runtime.model import Constraints
from regard.serving import models, served_translator
from regard.serving.application import create_app
from regard.serving.backlog import Backlog
from regard.serving.models import Models
from regard.serving.pytorch_models import open_folder
from regard.serving.pytorch_process import Folder, ProcessAway
from regard.serving.runtime_explanation import Explainer
from regard.serving.served_translator import ServedFile
from regard.serving.service import (
    DeadlineExceeded,
    DocumentFile,
    ExplanationRequest,
    Overloaded,
    Pair,
    SearchRequest,
    ServedLine,
    TextRequest,
)

if (problem := native.why_unavailable()) is not None:
    pytest.skip(f"no C library on this machine: {problem}", allow_module_level=True)

pytestmark = pytest.mark.system
SEARCH = SearchRequest()
DEADLINE = 120.0
Use = Callable[[Models], Awaitable[Any]]


def write_file(
    path: Path, encoder: str = "transformer", copy_tokens: int = 0, **search: Any
) -> Path:
    run = folder(
        path.with_suffix(".run"), encoder, encoder, end=0.5, copy_tokens=copy_tokens
    )
    change_settings(run, search=search)
    model = load_folder(run)
    values = {
        "precision": "float32",
        "search": json.loads(model.settings.search.model_dump_json()),
        "parameters": 1,
        "readme": "A card.",
    }
    path.write_bytes(
        runtime_file(model, pack_model(model.model, "float32"), None, values)
    )
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
        given = ServerSettings(**{"threads": 2, "reload_seconds": 0, **settings})
        service = Models(given, messages.append, open_pytorch, descriptions)
        await service.start(paths, languages, strict)
        try:
            return await use(service), messages
        finally:
            await service.close()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return asyncio.run(run())


async def streamed(service: Models, model: str, text: str, request: TextRequest) -> Any:
    """Have a text translated as a stream; return the whole, which is its last part."""
    *_, whole = [part async for part in service.stream(model, text, request, DEADLINE)]
    return whole


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
        calls = [
            service.translate("ko-en", sentences, TextRequest(search), DEADLINE)
            for search in searches * 3
        ]
        return await asyncio.gather(*calls)

    results, _ = served([file], use)
    for search, texts in zip(searches * 3, results, strict=True):
        options = search.model_dump(include={"beam", "nbest", "alignments"})
        expected = translator.begin(sentences, **options).run()
        for text, translation in zip(texts, expected, strict=True):
            ranked = text.lines[0].hypotheses
            best = ranked[0]
            assert best.text == translation.text
            assert best.alignments == translation.alignments
            assert best.score == pytest.approx(translation.score, abs=1e-5)
            assert bool(best.attention) == (search.attention == "cross")
            assert text.warnings == translation.notes
            assert len(ranked) == search.nbest


def test_a_stream_restores_spans_and_capitals_and_ends_with_doubt_and_warnings(
    tmp_path: Path,
) -> None:
    path = write_file(tmp_path / "ko-en.regard", copy_tokens=2)
    text = "I GO {0} HOME\nPress F5 2026"

    async def use(service: Models) -> Any:
        return [
            part
            async for part in service.stream("ko-en", text, TextRequest(), DEADLINE)
        ]

    (*parts, whole), _ = served([path], use)
    first = "".join(words for line, words in parts if line == 0)
    second = "".join(words for line, words in parts if line == 1)
    (translation,) = RuntimeTranslator(path).translate("I GO {0} HOME", beam=1)

    assert first == translation.text == translation.text.upper()
    assert "{0}" in first
    assert (whole.text, whole.doubtful) == (f"{first}\n{second}", True)

    (warning,) = whole.warnings
    assert "F5 occurs less often than in the source; 2026 occurs" in warning


@pytest.mark.parametrize("is_late", [False, True])
def test_a_text_is_translated_again_only_in_the_first_half_of_its_time(
    file: Path, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    times = [0.0, 51.0 if is_late else 49.0]
    monkeypatch.setattr(
        served_translator,
        "monotonic",
        lambda: times.pop(0) if len(times) > 1 else times[0],
    )
    served = ServedFile(RuntimeTranslator(file), 10**7)
    (text,) = served.translate(["Press F5 2026"], TextRequest(), 100.0)

    assert ("2026" in text.text, bool(text.warnings)) == (not is_late, is_late)


def test_waiting_for_a_model_takes_from_the_time_of_its_retries(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    left = list[float]()
    opened = Models._opened

    async def opened_late(service: Models, name: str, deadline: float) -> Any:
        now[0] += 30.0
        return await opened(service, name, deadline)

    def translate(*arguments: Any) -> list[Any]:
        left.append(arguments[-1])
        return []

    monkeypatch.setattr(models, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(Models, "_opened", opened_late)
    monkeypatch.setattr(ServedFile, "translate", translate)
    served([file], lambda service: lines_of(service, ["x"]))

    assert left == [DEADLINE - 30.0]


def test_a_model_of_several_sentences_a_line_gets_lines_whole(tmp_path: Path) -> None:
    path = write_file(tmp_path / "whole.regard", split="off")
    text = "I go home. You read a book!\nI was eating bread"
    request = TextRequest(sentences=True)

    async def use(service: Models) -> None:
        (whole,) = await service.translate("whole", [text], request, DEADLINE)
        for translated in (whole, await streamed(service, "whole", text, request)):
            assert [line.source for line in translated.lines] == text.split("\n")

    served([path], use)


def test_answers_that_are_too_large_are_refused_before_the_work(file: Path) -> None:
    line = " ".join(SENTENCES)
    many = SearchRequest(nbest=100, log_probs=True)
    attention = SearchRequest(attention="all", nbest=5, beam=5)
    explanation = ExplanationRequest()

    async def use(service: Models) -> None:
        for call in (
            lines_of(service, [line] * 8, many),
            lines_of(service, [line] * 8, attention),
            service.explain("ko-en", line, ExplanationRequest(nbest=100), DEADLINE),
            # The search of a prefix is recorded.
            service.continuations("ko-en", "x", (5,) * 9_000, 4, DEADLINE),
        ):
            with pytest.raises(UsageError, match="`answer_limit` is 100,000"):
                await call
        assert await service.explain("ko-en", SENTENCES[0], explanation, DEADLINE)
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


def test_a_document_is_translated_beside_other_calls(file: Path) -> None:
    """As a translator does it; its chunk alone waits, and who gives it up ends it."""
    page = "".join(f"<p>{line}</p>\n" for line in SENTENCES * 40).encode()
    document = DocumentFile(page, "a.html")
    request = TextRequest()

    async def use(service: Models) -> Any:
        call = service.translate_document("ko-en", document, request, DEADLINE)
        translated, lines = await asyncio.gather(call, lines_of(service, SENTENCES[:1]))
        assert lines
        wrong = DocumentFile(b"\xff", "b.html")
        with pytest.raises(DataError, match="not UTF-8"):
            await service.translate_document("ko-en", wrong, request, DEADLINE)

        long = DocumentFile(page * 50, "a.html")
        call = service.translate_document("ko-en", long, request, DEADLINE)
        task = asyncio.create_task(call)
        await wait_until_async(lambda: service.backlog["ko-en"][0], "the call is open")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert service.backlog == {"ko-en": (0, 0)}
        return translated

    translated, _ = served([file], use, most_lines=64)
    translator = RuntimeTranslator(file)
    expected = translator.translate_document(read_document(page, "a.html"))
    assert translated == expected


def test_what_has_no_room_or_cannot_be_done_is_refused(file: Path) -> None:
    async def use(service: Models) -> None:
        first = asyncio.create_task(lines_of(service, SENTENCES * 3))
        await asyncio.sleep(0)
        with pytest.raises(Overloaded) as caught:
            await lines_of(service, SENTENCES)
        assert 1 <= caught.value.retry_after <= 60

        lines = await first
        assert len(lines) == 18, "alone it is let in, however long"
        with pytest.raises(UsageError, match="beam: wanted 1 to 250"):
            await lines_of(service, SENTENCES, SearchRequest(beam=1000))
        with pytest.raises(UsageError, match="line 2 "):
            await lines_of(service, ["x", "y" * 200_000])

    served([file], use, most_lines=3)


def test_a_call_that_could_not_be_done_in_time_is_refused() -> None:
    backlog = Backlog(most_lines=1000)
    backlog.speed = 100.0
    with contextlib.ExitStack() as open_calls:
        for _ in range(20):
            open_calls.enter_context(backlog.holding(1, 100))
        backlog.admit(1, 90, deadline=20)
        with pytest.raises(Overloaded) as caught:
            backlog.admit(1, 100, deadline=20)

    assert caught.value.retry_after == 1, (
        "a second after which 2,100 characters are 2,000"
    )

    backlog.admit(1, 10**6, deadline=20)  # alone: the deadline will tell
    with backlog.holding(10_000, 10**6):
        # Short calls do not wait for long ones, with which they take turns.
        backlog.admit(1, 100, deadline=20)


def test_an_explanation_is_what_the_page_reads(file: Path) -> None:
    async def use(service: Models) -> Any:
        packed = ExplanationRequest(packed=True, nbest=2, trace=True)
        answers = [
            await service.explain("ko-en", SENTENCES[0], asked, DEADLINE)
            for asked in (ExplanationRequest(), packed)
        ]
        return [json.loads(bytes(answer)) for answer in answers]

    (explanation, packed), _ = served([file], use)
    translator = RuntimeTranslator(file)
    (translation,) = translator.translate(SENTENCES[:1], readings=True, nbest=3)
    readings = translation.readings

    assert readings is not None
    assert explanation["sourceTokens"] == list(readings.source)
    assert [*explanation["tokens"], "</s>"] == list(readings.target)

    texts = [item["text"] for item in explanation["nbest"]]
    assert texts == [item.text for item in translation.nbest]

    (line,) = translator.model.translate(SENTENCES[:1], translator.model.options())
    assert explanation["logProbs"] == pytest.approx(
        line.hypotheses[0].log_probs, abs=1e-5
    )
    assert explanation["steps"] == []

    for layer in explanation["attention"]:
        check_layer(layer, np.array(layer["weights"]), readings)
    assert packed["attention"] == []

    best, second = packed["nbest"]
    for layer in best["attention"]:
        check_layer(layer, unpacked_weights(layer).ravel(), readings)
    assert {layer["role"] for layer in best["attention"]} == {
        "encoder",
        "cross",
        "decoder",
    }
    assert {layer["role"] for layer in second["attention"]} == {"cross", "decoder"}

    candidates = packed["steps"][0]["candidates"]
    kept = [candidate["id"] for candidate in candidates if candidate["fate"] == "kept"]
    _, (step, *_) = translator.trace(SENTENCES[0])
    assert kept == [
        candidate.token for candidate in step.candidates if candidate.fate == "kept"
    ]


def check_layer(layer: dict[str, Any], weights: Any, readings: Any) -> None:
    """Check weights, and scores: these are the logarithms of weights, plus the sums of rows."""
    expected = readings.weights[layer["name"]]
    assert weights.tolist() == pytest.approx(expected.ravel().tolist(), abs=1e-5)

    if layer["role"] == "cross":
        sums = np.reshape(layer["logSums"], (layer["heads"], layer["rows"], 1))
        scores = np.log(expected) + sums
        np.testing.assert_allclose(
            scores, readings.scores[layer["name"]], atol=1e-3, rtol=1e-4
        )


def test_states_of_a_recurrent_model_are_packed(tmp_path: Path) -> None:
    runtime = RuntimeTranslator(write_file(tmp_path / "a.regard", "recurrent"))
    model = runtime.model
    options = model.options()
    options.attention = 1
    options.states = 1
    (line,) = model.translate(SENTENCES[:1], options)
    explanation = Explainer(model, runtime.doubts, is_packed=True).explanation(line)
    states = json.loads(msgspec.json.encode(explanation))["nbest"][0]["states"]
    expected = line.hypotheses[0].states

    assert expected is not None
    assert expected.encoder is not None

    assert expected.initial is not None

    parts = {
        "encoder": expected.encoder,
        "decoder": expected.decoder,
        "initial": expected.initial,
    }
    for name, part in parts.items():
        numbers = np.frombuffer(base64.b64decode(states[name]), "i1") / 127
        np.testing.assert_allclose(numbers, part[..., :64].ravel(), atol=0.005)

    for name, part in (("encoder", expected.encoder), ("decoder", expected.decoder)):
        assert states[f"{name}Size"] == min(part.shape[-1], 64)

    assert states["directions"] == expected.encoder.shape[1]
    assert states["attendsFirst"]


def test_continuations_are_those_of_the_library(file: Path) -> None:
    model = RuntimeTranslator(file).model

    def translated(prefix: Sequence[int], options: Any) -> Any:
        (line,) = model.translate(
            SENTENCES[:1], options, [Constraints.of_prefix(prefix)]
        )
        return line

    prefix = translated((), model.options()).hypotheses[0].ids[:2]

    async def use(service: Models) -> Any:
        asked = ExplanationRequest(prefix=prefix)
        with pytest.raises(UsageError):
            await service.continuations("ko-en", SENTENCES[0], (1 << 30,), 4, DEADLINE)
        return (
            await service.continuations("ko-en", SENTENCES[0], prefix, 4, DEADLINE),
            await service.explain("ko-en", SENTENCES[0], asked, DEADLINE),
        )

    (continuations, explanation), _ = served([file], use)

    assert tuple(json.loads(bytes(explanation))["ids"][:2]) == prefix

    greedy = model.options()
    greedy.trace = 1
    greedy.beam = 1
    candidates = translated(prefix, greedy).steps[2].candidates
    likely = sorted(candidates, key=lambda candidate: -candidate.log_prob)
    tokens = [candidate.token for candidate in likely if candidate.token != 3]
    for item, token in zip(continuations, tokens[:4], strict=True):
        assert item.prefix == (*prefix, token)
        expected = translated(item.prefix, model.options()).hypotheses[0]
        assert item.text == expected.text
        assert item.log_prob == pytest.approx(expected.log_probs[2], abs=1e-4)
        assert item.log_probs == pytest.approx(expected.log_probs, abs=1e-4)
        assert item.words == list(model.word_indices(expected.ids, True))


def test_a_changed_file_is_loaded_while_calls_go_on(tmp_path: Path) -> None:
    path = write_file(tmp_path / "model.regard")
    other = write_file(tmp_path / "other.regard", "recurrent")
    damaged = tmp_path / "damaged"
    damaged.write_bytes(b"REGARD\r\ndamaged")

    async def use(service: Models) -> None:
        async def texts(count: int = 1) -> list[str]:
            lines = await lines_of(service, SENTENCES * count, model="model")
            return [line.hypotheses[0].text for line in lines]

        old = await texts()
        long = asyncio.create_task(texts(100))
        await wait_until_async(lambda: service.backlog["model"][0], "the call is open")
        os.replace(other, path)
        await service.reload()
        new = await texts()

        assert new != old

        os.replace(damaged, path)
        await service.reload()
        assert await texts() == new

        finished = await long
        assert finished == old * 100, "by the model that it was begun with"

    _, messages = served([path], use)

    assert "loaded again" in messages[0]
    assert "cannot be opened, so the model stays as it was" in messages[1]


@pytest.mark.parametrize(
    ("problem", "is_passing"),
    [(ProcessAway(), True), (ModelFolderError("damaged"), False)],
)
def test_a_model_that_is_away_is_tried_again_unless_its_files_are_to_blame(
    tmp_path: Path, problem: Exception, is_passing: bool
) -> None:
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

    _, (first, *rest) = served([run], use, open_pytorch=open_pytorch, strict=False)

    assert f"run: cannot be opened, so the model is away: {run}: " in first
    assert rest == ["run: loaded again"] * (2 if is_passing else 1)


def flip_and_set_back(path: Path) -> None:
    """Change a byte in the middle of a file, and the time of its change back."""
    status = path.stat()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@linux
def test_readiness_is_that_of_the_file_that_is_open(tmp_path: Path, file: Path) -> None:
    """While every translation of a model is refused the server is not ready; once a whole file is
    there it is again.
    """
    path = Path(shutil.copy(file, tmp_path / "first.regard"))
    other = Path(shutil.copy(file, tmp_path / "second.regard"))

    async def use(service: Models) -> None:
        app = create_app(service, ServerSettings(deadline=DEADLINE))
        transport = httpx.ASGITransport(app)
        client = httpx.AsyncClient(transport=transport, base_url="http://localhost")

        async def check(is_whole: bool) -> None:
            ready = await client.get("/ready")
            assert ready.status_code == (200 if is_whole else 503)
            assert ready.json().get("away") == (None if is_whole else ["first"])

            for name, is_ready in (("first", is_whole), ("second", True)):
                about = await client.get(f"/v1/models/{name}")
                assert about.json()["is_ready"] == is_ready
                asked = {"text": "I go home", "model": name}
                answer = await client.post("/v1/translate", json=asked)
                assert answer.status_code == (200 if is_ready else 503)

        await check(is_whole=True)
        flip_and_set_back(path)
        await check(is_whole=False)  # before anybody has looked at the files
        await service.reload()
        await check(is_whole=False)
        shutil.copy(other, path)
        await service.reload()
        await check(is_whole=True)

    _, messages = served([path, other], use, languages=())

    assert "loaded again" in messages[-1]


def change_settings(run: Path, **changes: Any) -> None:
    settings = load_settings(run)
    search = settings.search.with_values(**changes.pop("search", {}))
    write_settings(run, settings.with_values(search=search.model_dump(), **changes))


@pytest.fixture
def exports(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Switch exports on; return the folder that they are kept in."""
    monkeypatch.setenv(export_cache.SWITCH, "on")
    return cache


def test_a_folder_is_served_as_it_is_whatever_was_changed(
    tmp_path: Path, exports: Path
) -> None:
    """The server sees every change while it runs, and at the end it is one with a server of a fresh
    copy.

    An export that somebody has removed it makes again: whoever empties the cache harms no server.
    """
    run = folder(tmp_path / "run", end=0.5, languages=("ko", "en"))
    head = {
        "layer": "decoder.layers.0.cross_attention",
        "head": 0,
        "shifted": True,
        "symmetry": "union",
    }
    save_alignment(run, head)

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

        save_alignment(run, {**head, "head": 1})
        learnt = LanguageId.learn({"ja": SENTENCES[:2], "de": SENTENCES[2:4]})
        save_language_id(run, learnt)
        languages = {"source": "ja", "target": "de"}
        change_settings(run, languages=languages, search={"score_threshold": -0.001})
        (run / "README.md").write_text("# Another\n", "utf-8")
        await service.reload()
        about, detected, texts = await state_of(service)

        assert about.alignment["head"] == 1
        assert about.pairs == (("ja", "de"),)
        assert about.readme == "# Another\n"
        assert {language for language, _ in detected} == {"de", "ja"}
        assert all(text.doubtful for text in texts)

        return about, detected, texts

    options: dict[str, Any] = {"precision": "float32", "languages": ()}
    changed, messages = served([run], use, **options)

    assert messages == ["run: loaded again"] * 2

    kept = {*exports.glob("model-*")}
    assert len(kept) == 2
    assert changed == served([run], state_of, **options)[0]
    assert {*exports.glob("model-*")} == kept, "an export of the folder as it is stays"

    fresh = shutil.copytree(run, tmp_path / "fresh" / "run")
    for path in kept:
        path.unlink()
    assert changed == served([fresh], state_of, **options)[0]


def test_captioners_run_on_pytorch(tmp_path: Path, exports: Path) -> None:
    images = captioner_folder(tmp_path / "images")
    content = image_bytes()

    async def use(service: Models) -> None:
        assert service.models["images"].kind == "captions"
        assert not list(exports.glob("model-*"))
        with pytest.raises(RegardError, match="image"):
            await service.caption("images", b"no image", SEARCH, DEADLINE)

        search = SearchRequest(attention="all")
        (caption, *_) = await service.caption("images", content, search, DEADLINE)
        (expected,) = load_captioner(images).caption(content, readings=True)
        assert caption.text == expected.text
        assert caption.attention

        explained = await service.explain_image("images", content, DEADLINE)
        assert json.loads(bytes(explained))["image"]["url"].startswith("data:image/")

    served([images], use, languages=(), precision="float32")


def image_bytes() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (60, 40), "green").save(file, "PNG")
    return file.getvalue()


def test_a_process_that_takes_the_place_of_another_knows_its_models(
    tmp_path: Path, file: Path, cache: Path
) -> None:
    """Files serve at once; folders are opened beside, and calls of them wait; what is gone is
    away.
    """
    first = Path(shutil.copy(file, tmp_path / "first.regard"))
    run = folder(tmp_path / "run", end=0.5)
    kept = tmp_path / "descriptions"

    def states(service: Models) -> list[bool]:
        return [model.is_ready for model in service.models.values()]

    async def use(service: Models) -> Any:
        about = service.models["run"]
        assert about.facts["engine"] == "pytorch", "no export is made"
        return about.pairs, await lines_of(service, SENTENCES[:1], model="run")

    async def use_again(service: Models) -> Any:
        assert states(service) == [True, False, False]

        result = await use(service)
        assert states(service) == [True, True, False]
        with pytest.raises(RegardError, match="is away"):
            await lines_of(service, SENTENCES[:1], model="gone", deadline=0.01)

        return result

    expected, _ = served([first, run], use, (), descriptions=kept)
    paths = [first, run, tmp_path / "gone"]
    again, messages = served(paths, use_again, (), strict=False, descriptions=kept)

    assert again == expected
    assert "no such file" in "".join(messages)
