"""The C library as the search of a model in memory: the same hypotheses as the reference, or it is not asked."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from engine.test_decode import assert_same
from laws.models import SOURCE_VOCABULARY, TARGET_VOCABULARY, images, in_turn, kinds, make

from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.data.vocabulary import EOS, Vocabulary
from regard.engine import DecodeRequest, Engine, c_search, why_not_packed
from regard.model_folder import FolderSettings, ModelFolder
from regard.models import Batch, ModelSettings, source_length
from regard.runtime import native
from regard.search import BannedPhrase, SearchSettings, SuppressTokens, Task, Term, decode

if (problem := native.why_unavailable()) is not None:
    pytest.skip(f"no C library on this machine: {problem}", allow_module_level=True)

SEARCHES = [
    {"beam": 4, "length_penalty": 0.6},
    {"beam": 1},
    {"beam": 3, "no_repeat_ngram": 2, "min_length": 3},
    {"beam": 2, "max_length": 5, "max_ratio": 1.5, "max_extra": 3},
]


def vocabulary(size: int) -> Vocabulary:
    words = " ".join(f"w{n}" for n in range(size - 4))
    settings = TokenizerSettings(kind="whitespace", joint=True)
    trained = Tokenizer.train([words], [words], settings).source
    assert len(trained) == size
    return trained


PLAIN = (SuppressTokens(),)
SIDES = vocabulary(SOURCE_VOCABULARY), vocabulary(TARGET_VOCABULARY)


def loaded(settings: ModelSettings, search: dict[str, Any]) -> ModelFolder:
    model = make(settings, ends=0.05)
    source, target = (SIDES[1], SIDES[1]) if settings.share == "all" else SIDES
    kind = TokenizerSettings(kind="whitespace", joint=source is target)
    folder = FolderSettings(model=settings, tokenizer=kind, search=SearchSettings(**search, longest_source=12))
    return ModelFolder(folder, Tokenizer(source, target, kind), model)


def requests(folder: ModelFolder, prefixed: bool) -> list[DecodeRequest]:
    draw, model, made = torch.Generator().manual_seed(3), folder.model, []
    bytes_of = folder.tokenizer.target.byte_tokens
    for index in range(11):
        ids = torch.randint(EOS + 1, len(folder.tokenizer.source), (index,), generator=draw).tolist()
        prefix = (EOS + 1, EOS + 2)[: index % 3] if prefixed else ()
        is_text = folder.settings.model.encoder.reads == "text"
        source = [*ids, EOS] if is_text else images(index + 1, seed=index).data[0]
        most = folder.settings.search.max_steps(source_length(source), model.max_target, len(prefix))
        made.append(DecodeRequest(source, Task(index, most, prefix, byte_tokens=bytes_of)))
    return made


def is_packed(folder: ModelFolder) -> bool:
    return why_not_packed(folder.model) is None


@pytest.mark.parametrize(("settings", "search"), in_turn(kinds(), SEARCHES))
def test_its_hypotheses_are_those_of_the_reference(
    settings: ModelSettings, search: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = loaded(settings, search)
    engine, values = Engine(folder.model, folder=folder), folder.settings.search
    for prefixed in (False, True):
        asked = requests(folder, prefixed)
        if prefixed:  # in many parts
            monkeypatch.setattr(c_search, "_CALL_LENGTH", 6)
            monkeypatch.setattr(c_search, "_BATCH_LENGTH", 3)
        if search.get("max_length") and prefixed:
            continue  # a prefix that leaves no room is refused before any search
        with torch.inference_mode():
            source = folder.model.encode(Batch.of([request.source for request in asked]))
        expected = decode(folder.model, source, [request.task for request in asked], values)
        assert_same(engine.decode(asked, values), expected)
        assert engine.describe().startswith("C library" if is_packed(folder) else "PyTorch")
        assert_same([engine.trace(asked[-1], values)[0]], expected[-1:])
        if values.beam == 1:
            assert [*engine.stream(asked[-1], values)][-1] == expected[-1][0].ids


def test_what_it_cannot_do_is_decoded_otherwise() -> None:
    folders = (loaded(kind.values[0], SEARCHES[0]) for kind in kinds(reads=["text"]))
    folder = next(folder for folder in folders if is_packed(folder))
    engine, values = Engine(folder.model, folder=folder), folder.settings.search
    (request,) = requests(folder, False)[3:4]
    task, source = request.task, request.source
    plain, term = engine.decode([request], values), Term(((9, 10),))
    assert engine._library is not None
    beyond = [
        Task(0, task.max_steps - 1),
        Task(0, task.max_steps, terms=(term,), byte_tokens=task.byte_tokens),
        Task(0, task.max_steps, banned=(BannedPhrase((), ()),), byte_tokens=task.byte_tokens),
    ]
    assert all(engine._library.why_not([DecodeRequest(source, item)], values, PLAIN) for item in beyond)
    assert engine._library.why_not([request], values, (SuppressTokens((9,)),))
    assert engine._library.why_not([request], values, PLAIN) is None
    assert (9, 10) in [
        h.ids[i : i + 2] for h in engine.decode([DecodeRequest(source, beyond[1])], values)[0] for i in range(30)
    ]
    with torch.no_grad():
        folder.model.decoder.output.bias[EOS] -= 3
    changed = engine.decode([request], values)
    assert changed != plain, "weights that have changed are read again"
