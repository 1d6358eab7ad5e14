"""The C library as the search of a model in memory: the same hypotheses as the reference, or it is
not asked.
"""

from __future__ import annotations

import ctypes
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from engine.test_decode import assert_same
from laws.models import SOURCE_VOCABULARY, TARGET_VOCABULARY, images, in_turn, kinds, make

from regard.common.errors import LineError, UsageError
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.data.vocabulary import EOS, Vocabulary
from regard.model_folder import FolderSettings, ModelFolder
from regard.models import Batch, ModelSettings, source_length
from regard.runtime import model as runtime
from regard.runtime import native
from regard.runtime.engine import DecodeRequest, Engine, c_search, pack_model, why_not_packed
from regard.runtime.model import Completion
from regard.search import (
    ConstraintEncoder,
    Hypothesis,
    SearchSettings,
    SuppressTokens,
    Task,
    Term,
    decode,
)

if (problem := native.why_unavailable()) is not None:
    pytest.skip(f"no C library on this machine: {problem}", allow_module_level=True)

SEARCHES = [
    {"beam": 4, "length_penalty": 0.6},
    {"beam": 1},
    {"beam": 3, "no_repeat_ngram": 2, "min_length": 3},
    {"beam": 2, "max_length": 5, "max_ratio": 1.5, "max_extra": 3},
]

MASK = np.arange(TARGET_VOCABULARY) % 3 != 1
TERMS = (
    Term(((5, 6),), ((9,),), MASK),
    Term(((6, 5, 6), (10,))),
    Term(((6, 7),)),
    Term(((12,),), (), ~MASK),
)
FORBIDDEN = ("w4", "w5 w6", "w2 w2", "w9 w8 w7", "w10")
PREFIX = (EOS + 2, EOS + 2)
CONSTRAINED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"beam": 4}, {"terms": TERMS[:1]}),
    ({"beam": 4}, {"forbid": FORBIDDEN[1:]}),
    ({"beam": 3, "sample": True, "seed": 5}, {}),
    ({"beam": 5, "length_penalty": 0.6, "max_extra": 4, "max_ratio": 1}, {"terms": TERMS}),
    ({"beam": 1, "no_repeat_ngram": 2}, {"forbid": FORBIDDEN}),
    ({"beam": 4, "sample": True, "top_k": 3, "temperature": 0.7}, {"forbid": FORBIDDEN}),
    (
        {"beam": 2, "min_length": 4},
        {"terms": (TERMS[1], TERMS[1]), "prefix": PREFIX, "forbid": FORBIDDEN[:1]},
    ),
    ({"beam": 4, "sample": True, "top_p": 0.6, "min_length": 2}, {"prefix": PREFIX}),
    (
        {"beam": 3},
        {"forbid": FORBIDDEN, "prefix": (EOS + 5, EOS + 1)},
    ),  # the prefix holds a forbidden word
    (
        {"beam": 3, "sample": True, "top_p": 0.9, "top_k": 9, "temperature": 2.0},
        {"forbid": FORBIDDEN, "prefix": PREFIX},
    ),
    (
        {"beam": 2},
        {"terms": (TERMS[0], TERMS[2]), "prefix": (5, 6, 7)},
    ),  # which breaks the last word of a term
]
"""Settings of a search, and what is asked of its targets."""


def vocabulary(size: int) -> Vocabulary:
    words = " ".join(f"w{n}" for n in range(size - 4))
    settings = TokenizerSettings(kind="whitespace", joint=True)
    trained = Tokenizer.train([words], [words], settings).source
    assert len(trained) == size
    return trained


PLAIN = (SuppressTokens(),)
SIDES = vocabulary(SOURCE_VOCABULARY), vocabulary(TARGET_VOCABULARY)


COPIES = 4


def vocabulary_with_copies(size: int) -> Vocabulary:
    letters = "".join(chr(ord("a") + n) for n in range(size - 5 - COPIES))
    kind = TokenizerSettings(kind="char", byte_fallback=False, copy_tokens=COPIES)
    trained = Tokenizer.train([letters], [letters], kind).source
    assert (len(trained), len(trained.copy_tokens)) == (size, COPIES)
    return trained


COPYING = vocabulary_with_copies(SOURCE_VOCABULARY), vocabulary_with_copies(TARGET_VOCABULARY)


def loaded(
    settings: ModelSettings,
    search: dict[str, Any],
    sides: tuple[Vocabulary, Vocabulary] = SIDES,
    seed: int = 0,
) -> ModelFolder:
    model = make(settings, seed, ends=0.05)
    source, target = (sides[1], sides[1]) if settings.share == "all" else sides
    kind = TokenizerSettings(kind="whitespace", joint=source is target)
    folder = FolderSettings(
        model=settings, tokenizer=kind, search=SearchSettings(**search, longest_source=12)
    )
    return ModelFolder(folder, Tokenizer(source, target, kind), model)


def requests(
    folder: ModelFolder, prefixed: bool = False, **constraints: Any
) -> list[DecodeRequest]:
    """Return requests of all lengths; of every fourth and of its target nothing more is asked."""
    draw = torch.Generator().manual_seed(3)
    model = folder.model
    made = []
    target = folder.tokenizer.target
    settings = folder.settings.search
    prefix = constraints.get("prefix", ())
    banned = ConstraintEncoder(target).encode_forbidden(constraints.get("forbid", ()))
    for index in range(11):
        ids = torch.randint(
            EOS + 1, len(folder.tokenizer.source), (index,), generator=draw
        ).tolist()
        is_text = folder.settings.model.encoder.reads == "text"
        source = [*ids, EOS] if is_text else images(index + 1, seed=index).data[0]
        begins = (EOS + 1, EOS + 2)[: index % 3] if prefixed else prefix if index % 4 else ()
        terms = constraints.get("terms", ()) if index % 4 else ()
        required = len(begins) + sum(len(term.forms[0]) for term in terms)
        most = settings.max_steps(source_length(source), model.max_target, required)
        own = banned if index % 4 else ()
        copies = folder.tokenizer.copies_of(source) if isinstance(source, list) else ()
        rest = 7 * index, target.byte_tokens, copies, target.copy_tokens
        made.append(DecodeRequest(source, Task(index, most, begins, terms, own, *rest)))
    return made


def reference(folder: ModelFolder, asked: list[DecodeRequest]) -> list[list[Hypothesis]]:
    with torch.inference_mode():
        source = folder.model.encode(Batch.of([request.source for request in asked]))
    return decode(folder.model, source, [request.task for request in asked], folder.settings.search)


def is_packed(folder: ModelFolder) -> bool:
    return why_not_packed(folder.model) is None


@pytest.mark.parametrize(("settings", "search"), in_turn(kinds(), SEARCHES))
def test_its_hypotheses_are_those_of_the_reference(
    settings: ModelSettings, search: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = loaded(settings, search)
    engine = Engine(folder.model, folder=folder)
    values = folder.settings.search
    for prefixed in (False, True):
        asked = requests(folder, prefixed)
        if prefixed:  # in many parts
            monkeypatch.setattr(c_search, "_CALL_LENGTH", 6)
            monkeypatch.setattr(c_search, "_BATCH_LENGTH", 3)
        if search.get("max_length") and prefixed:
            continue  # a prefix that leaves no room is refused before any search
        expected = reference(folder, asked)
        assert_same(engine.decode(asked, values), expected)
        assert engine.describe().startswith("C library" if is_packed(folder) else "PyTorch")
        assert_same([engine.trace(asked[-1], values)[0]], expected[-1:])
        if values.beam == 1:
            assert [*engine.stream(asked[-1], values)][-1] == expected[-1][0].ids


@pytest.mark.parametrize(("settings", "case"), in_turn(kinds(), CONSTRAINED))
def test_constraints_and_samples_are_those_of_the_reference(
    settings: ModelSettings, case: Any
) -> None:
    folder = loaded(settings, case[0])
    engine = Engine(folder.model, folder=folder)
    values = folder.settings.search
    asked = requests(folder, **case[1])
    expected = reference(folder, asked)
    actual = engine.decode(asked, values)
    assert_same(actual, expected)
    assert [[h.complete for h in own] for own in actual] == [
        [h.complete for h in own] for own in expected
    ]
    assert engine.describe().startswith("C library" if is_packed(folder) else "PyTorch")


@pytest.mark.parametrize("reads", ["text", "images"])
def test_calls_of_several_threads_get_what_they_would_get_alone(reads: str) -> None:
    folders = (loaded(kind.values[0], {"max_extra": 4}) for kind in kinds(reads=[reads]))
    folder = next(one for one in folders if is_packed(one))
    library = c_search.LibraryModel(folder, pack_model(folder.model))
    base = folder.settings.search
    calls = [
        (requests(folder, **asked), base.with_values(**search)) for search, asked in CONSTRAINED
    ]
    alone = [library.decode(*call, 1) for call in calls]
    assert not library._model._queues, (
        "threads of a queue are started when two calls are open, and not before"
    )
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda call: library.decode(*call, 2), calls * 2))
        with library._model._alone:  # as if another call were open all the time
            together += pool.map(lambda call: library.decode(*call, 2), calls * 2)
    for actual, expected in zip(together, alone * 4, strict=True):
        assert_same(actual, expected)
    assert len(library._model._queues) == 1


COPIED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    *((search, {}) for search in SEARCHES),
    ({"beam": 3, "sample": True, "seed": 5}, {}),
    ({"beam": 4, "sample": True, "top_k": 3, "temperature": 0.7}, {}),
    ({"beam": 4}, {"terms": (Term(((12, 9),), ((9,),)), Term(((10,),)))}),
]


@pytest.mark.parametrize(("settings", "case"), in_turn(kinds(), COPIED))
def test_each_copy_token_of_a_source_is_in_its_target_once(
    settings: ModelSettings, case: Any
) -> None:
    folder = loaded(settings, case[0], COPYING)
    engine = Engine(folder.model, folder=folder)
    values = folder.settings.search
    asked = requests(folder, **case[1])
    known = {*folder.tokenizer.target.copy_tokens}
    expected = reference(folder, asked)
    assert_same(engine.decode(asked, values), expected)
    for request, ranked in zip(asked, expected, strict=True):
        task = request.task
        room = task.max_steps - 1 >= len(task.copies) + sum(len(t.forms[0]) for t in task.terms)
        for hypothesis in ranked if room else ():
            if hypothesis.complete:
                assert sorted(known.intersection(hypothesis.ids)) == sorted(task.copies)
            assert all(hypothesis.ids.count(token) <= 1 for token in known)
    reads_text = folder.settings.model.encoder.reads == "text"
    assert any(request.task.copies for request in asked) == reads_text


def test_it_knows_words_of_all_scripts() -> None:
    """Words end where Python says that letters and digits end, in subwords and in bytes."""
    lines = [
        "나는 집에 간다, 너는 집을 본다",
        "我喝茶。你喝水",
        "das Haus, Häuser x² ½ Ⅷ 3rd",
        "ein Haus-Boot und ein Boot",
    ]
    text = TokenizerSettings(kind="bpe", size=110, joint=True, byte_fallback=False)
    kind = next(
        one
        for (one,) in (item.values for item in kinds(share="all", reads=["text"]))
        if is_packed(loaded(one, {}))
    )
    for settings in (text, text.with_values(size=340, byte_fallback=True)):
        tokenizer = Tokenizer.train(lines * 4, lines * 4, settings)
        size = len(tokenizer.target)
        encoder = ConstraintEncoder(tokenizer.target)
        model = make(kind, ends=0.02, vocabulary=size)
        search = SearchSettings(beam=4, max_ratio=1, max_extra=9, longest_source=12)
        folder = ModelFolder(
            FolderSettings(model=kind, tokenizer=settings, search=search), tokenizer, model
        )
        engine = Engine(model, folder=folder)
        asked = []
        words = [word for line in lines for word in line.replace(",", " ").split()]
        for index in range(14):
            ids = tokenizer.source.encode(" ".join(words[index : index + 4]))
            terms = encoder.encode_terms((words[index], words[-index])) if index % 2 else ()
            # All that is one character long is forbidden, so that words do end there.
            banned = encoder.encode_forbidden(
                tuple(dict.fromkeys("".join(words)))[index:] if index % 3 else ()
            )
            most = search.max_steps(len(ids) + 1, None, 4)
            asked.append(
                DecodeRequest(
                    [*ids, EOS],
                    Task(index, most, (), terms, banned, 0, tokenizer.target.byte_tokens),
                )
            )
        assert_same(engine.decode(asked, search), reference(folder, asked))
        assert engine.describe().startswith("C library")


def test_what_it_cannot_do_is_decoded_otherwise() -> None:
    folder = first_packed()
    engine = Engine(folder.model, folder=folder)
    values = folder.settings.search
    (request,) = requests(folder)[3:4]
    plain = engine.decode([request], values)
    assert engine._library is not None
    assert engine._library.why_not([request], values, (SuppressTokens((9,)),))
    assert engine._library.why_not([request], values.with_values(groups=2), PLAIN)
    assert engine._library.why_not([DecodeRequest(request.source, Task(0, 10_000))], values, PLAIN)
    assert engine._library.why_not([request], values, PLAIN) is None
    with torch.no_grad():
        folder.model.decoder.output.bias[EOS] -= 3
    changed = engine.decode([request], values)
    assert changed != plain, "weights that have changed are read again"


def first_packed() -> ModelFolder:
    folders = (loaded(kind.values[0], SEARCHES[0]) for kind in kinds(reads=["text"]))
    return next(one for one in folders if is_packed(one) and pack_model(one.model).programs.encoder)


def test_constraints_that_are_wrong_are_refused_in_a_sentence() -> None:
    folder = first_packed()
    engine = Engine(folder.model, folder=folder)
    engine.decode(requests(folder)[:1], folder.settings.search)
    assert engine._library is not None
    model = engine._library._model
    options = model.options()

    def ids(*values: int) -> Any:
        return (ctypes.c_int32 * len(values))(*values)

    def term(*values: int, forms: int = 1, sizes: Any = None) -> dict[str, Any]:
        one = runtime.Term(ids(*values), ids(*(sizes or [len(values)])), forms, 0, None)
        return {"terms": ctypes.pointer(one), "term_count": 1}

    def banned(*ways: tuple[bytes, int]) -> dict[str, Any]:
        rows = ((before, len(before), token, 0, 0) for before, token in ways)
        return {"banned": (Completion * len(ways))(*rows), "banned_count": len(ways)}

    wrong: dict[str, list[dict[str, Any]]] = {
        "prefix: token": [
            {"prefix": ids(99), "prefix_size": 1},
            {"prefix": ids(-1), "prefix_size": 1},
        ],
        "prefix: wanted 3": [{"prefix_size": 3}],
        "terms: wanted": [
            *(
                term(TARGET_VOCABULARY),
                term(-1),
                term(forms=0),
                term(sizes=[0]),
                term(5, sizes=[-4]),
                term(5, forms=-1),
            ),
            *(
                term(*[5] * 70_000),
                {"term_count": 2},
                term(5, sizes=[1 << 30]),
                term(5, forms=1 << 30),
            ),
        ],
        "banned: completion 1 of 9": [{"banned_count": 9}],
        "banned: completion 2 of 2": [
            banned((b"b", 5), (b"a", 5)),
            banned((b"aa", 5), (b"b", 5)),
            banned((b"", 5), (b"a", 99)),
        ],
        "max_steps": [{"max_steps": -1}],
    }
    for message, cases in wrong.items():
        for case in cases:
            with pytest.raises((UsageError, LineError), match=message):
                model.translate(
                    [[5, EOS], [5, EOS]],
                    options,
                    [runtime.Constraints(), runtime.Constraints(**case)],
                )
    options.sample = 1
    with pytest.raises(LineError, match="terms: wanted"):
        model.translate([[5, EOS]], options, [runtime.Constraints(**term(5))])
    options.temperature = math.nan
    with pytest.raises(UsageError, match="temperature"):
        model.translate([[5, EOS]], options)
