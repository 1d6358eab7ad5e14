"""The C library as the search of a model in memory: the same hypotheses as the reference, or it is
not asked.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from engine.test_decode import assert_same
from laws.models import (
    SOURCE_VOCABULARY,
    TARGET_VOCABULARY,
    images,
    in_turn,
    kinds,
    make,
)

from regard.common.errors import LineError, UsageError
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.data.vocabulary import EOS, Vocabulary
from regard.model_folder import FolderSettings, ModelFolder
from regard.models import Batch, ModelSettings, source_length
from regard.runtime import model as runtime
from regard.runtime import native
from regard.runtime.engine import (
    DecodeRequest,
    Engine,
    c_search,
    pack_model,
    why_not_packed,
)
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
PREFIX_WITH_FORBIDDEN_WORD = (EOS + 5, EOS + 1)
PREFIX_THAT_BREAKS_A_TERM = (5, 6, 7)
CONSTRAINED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"beam": 3, "sample": True, "seed": 5}, {}),
    (
        {"beam": 5, "length_penalty": 0.6, "max_extra": 4, "max_ratio": 1},
        {"terms": TERMS},
    ),
    ({"beam": 1, "no_repeat_ngram": 2}, {"forbid": FORBIDDEN}),
    (
        {"beam": 4, "sample": True, "top_k": 3, "temperature": 0.7},
        {"forbid": FORBIDDEN},
    ),
    (
        {"beam": 2, "min_length": 4},
        {
            "terms": (TERMS[1], TERMS[1]),
            "prefix": PREFIX,
            "forbid": FORBIDDEN[:1],
        },
    ),
    (
        {"beam": 4, "sample": True, "top_p": 0.6, "min_length": 2},
        {"prefix": PREFIX},
    ),
    ({"beam": 3}, {"forbid": FORBIDDEN, "prefix": PREFIX_WITH_FORBIDDEN_WORD}),
    (
        {"beam": 2},
        {"terms": (TERMS[0], TERMS[2]), "prefix": PREFIX_THAT_BREAKS_A_TERM},
    ),
]
"""Settings of a search, and what is asked of its targets."""

COPIES = 4
COPIED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    *((search, {}) for search in SEARCHES),
    ({"beam": 4, "sample": True, "top_k": 3, "temperature": 0.7}, {}),
    ({"beam": 4}, {"terms": (Term(((12, 9),), ((9,),)), Term(((10,),)))}),
]


def vocabulary(size: int) -> Vocabulary:
    words = " ".join(f"w{n}" for n in range(size - 4))
    settings = TokenizerSettings(kind="whitespace", joint=True)
    return Tokenizer.train([words], [words], settings).source


def vocabulary_with_copies(size: int) -> Vocabulary:
    letters = "".join(chr(ord("a") + n) for n in range(size - 5 - COPIES))
    settings = TokenizerSettings(kind="char", byte_fallback=False, copy_tokens=COPIES)
    return Tokenizer.train([letters], [letters], settings).source


SIDES = vocabulary(SOURCE_VOCABULARY), vocabulary(TARGET_VOCABULARY)
COPYING = (
    vocabulary_with_copies(SOURCE_VOCABULARY),
    vocabulary_with_copies(TARGET_VOCABULARY),
)


def loaded(
    settings: ModelSettings,
    search: dict[str, Any],
    sides: tuple[Vocabulary, Vocabulary] = SIDES,
    seed: int = 0,
) -> ModelFolder:
    model = make(settings, seed, ends=0.05)
    source, target = (sides[1], sides[1]) if settings.share == "all" else sides
    kind = TokenizerSettings(kind="whitespace", joint=source is target)
    search_settings = SearchSettings(**search, longest_source=12)
    folder = FolderSettings(model=settings, tokenizer=kind, search=search_settings)
    return ModelFolder(folder, Tokenizer(source, target, kind), model)


def requests(
    folder: ModelFolder,
    prefixed: bool = False,
    *,
    prefix: tuple[int, ...] = (),
    terms: tuple[Term, ...] = (),
    forbid: tuple[str, ...] = (),
) -> list[DecodeRequest]:
    """Return requests of all lengths; of every fourth and of its target nothing more is asked."""
    draw = torch.Generator().manual_seed(3)
    tokenizer = folder.tokenizer
    target = tokenizer.target
    settings = folder.settings.search
    banned = ConstraintEncoder(target).encode_forbidden(forbid)
    plain = Task(0, 0, byte_tokens=target.byte_tokens, copy_tokens=target.copy_tokens)
    made = []

    for index in range(11):
        sizes = (EOS + 1, len(tokenizer.source))
        ids = torch.randint(*sizes, (index,), generator=draw).tolist()
        source: Any = [*ids, EOS]
        task = replace(plain, id=index, sampling_key=7 * index)
        task = replace(task, copies=tokenizer.copies_of(source))
        if folder.settings.model.encoder.reads == "images":
            source = images(index + 1, seed=index).data[0]
            task = replace(task, copies=())
        if index % 4:
            task = replace(task, prefix=prefix, terms=terms, banned=banned)
        if prefixed:
            task = replace(task, prefix=(EOS + 1, EOS + 2)[: index % 3])

        required = len(task.prefix) + sum(len(term.forms[0]) for term in task.terms)
        length = source_length(source)
        most = settings.max_steps(length, folder.model.max_target, required)
        made.append(DecodeRequest(source, replace(task, max_steps=most)))

    return made


def reference(
    folder: ModelFolder, asked: list[DecodeRequest]
) -> list[list[Hypothesis]]:
    with torch.inference_mode():
        source = folder.model.encode(Batch.of([request.source for request in asked]))
    tasks = [request.task for request in asked]
    return decode(folder.model, source, tasks, folder.settings.search)


def is_packed(folder: ModelFolder) -> bool:
    return why_not_packed(folder.model) is None


def check(folder: ModelFolder, asked: list[DecodeRequest]) -> list[list[Hypothesis]]:
    """Decode with an engine, and compare with the reference, which is returned."""
    engine = Engine(folder.model, folder=folder)
    expected = reference(folder, asked)

    assert_same(engine.decode(asked, folder.settings.search), expected)

    if not any(request.task.copies for request in asked):
        assert engine.describe().startswith(
            "C library" if is_packed(folder) else "PyTorch"
        )
    return expected


@pytest.mark.parametrize(("settings", "search"), in_turn(kinds(), SEARCHES))
def test_its_hypotheses_are_those_of_the_reference(
    settings: ModelSettings,
    search: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = loaded(settings, search)
    asked = requests(folder)
    expected = check(folder, asked)
    engine = Engine(folder.model, folder=folder)

    assert_same([engine.trace(asked[-1], folder.settings.search)[0]], expected[-1:])

    if search["beam"] == 1:
        streamed = [*engine.stream(asked[-1], folder.settings.search)]
        assert streamed[-1] == expected[-1][0].ids

    if "max_length" not in search:  # or a prefix may leave no room
        monkeypatch.setattr(c_search, "_CALL_LENGTH", 6)  # in many parts
        monkeypatch.setattr(c_search, "_BATCH_LENGTH", 3)
        check(folder, requests(folder, prefixed=True))


@pytest.mark.parametrize(("settings", "case"), in_turn(kinds(), CONSTRAINED))
def test_constraints_and_samples_are_those_of_the_reference(
    settings: ModelSettings, case: Any
) -> None:
    search, asked = case
    folder = loaded(settings, search)
    check(folder, requests(folder, **asked))


@pytest.mark.parametrize(("settings", "case"), in_turn(kinds(reads=["text"]), COPIED))
def test_each_copy_token_of_a_source_is_in_its_target_once(
    settings: ModelSettings, case: Any
) -> None:
    search, constraints = case
    folder = loaded(settings, search, COPYING)
    asked = requests(folder, **constraints)
    known = {*folder.tokenizer.target.copy_tokens}

    assert any(request.task.copies for request in asked)

    for request, hypotheses in zip(asked, check(folder, asked), strict=True):
        task = request.task
        required = len(task.copies) + sum(len(term.forms[0]) for term in task.terms)
        if task.max_steps - 1 < required:
            continue

        for hypothesis in hypotheses:
            copied = [token for token in hypothesis.ids if token in known]

            assert len({*copied}) == len(copied)

            if hypothesis.complete:
                assert sorted(copied) == sorted(task.copies)


def first_packed() -> ModelFolder:
    folders = (
        loaded(kind.values[0], {"max_extra": 4}) for kind in kinds(reads=["text"])
    )
    return next(one for one in folders if is_packed(one))


@pytest.mark.parametrize("has_bytes", [False, True])
def test_it_knows_words_of_all_scripts(has_bytes: bool) -> None:
    """Words end where Python says that letters and digits end, in subwords and in bytes."""
    lines = [
        "나는 집에 간다, 너는 집을 본다",
        "我喝茶。你喝水",
        "das Haus, Häuser x² ½ Ⅷ 3rd",
        "ein Haus-Boot und ein Boot",
    ]
    words = " ".join(lines).replace(",", " ").split()
    settings = TokenizerSettings(
        kind="bpe",
        size=340 if has_bytes else 110,
        joint=True,
        byte_fallback=has_bytes,
    )
    tokenizer = Tokenizer.train(lines * 4, lines * 4, settings)
    encoder = ConstraintEncoder(tokenizer.target)
    models = [kind.values[0] for kind in kinds(share="all", reads=["text"])]
    model_settings = next(one for one in models if is_packed(loaded(one, {})))
    model = make(model_settings, ends=0.02, vocabulary=len(tokenizer.target))
    search = SearchSettings(beam=4, max_ratio=1, max_extra=9, longest_source=12)
    folder_settings = FolderSettings(
        model=model_settings, tokenizer=settings, search=search
    )
    asked = []

    for index in range(14):
        ids = tokenizer.source.encode(" ".join(words[index : index + 4]))
        terms = encoder.encode_terms((words[index], words[-index])) if index % 2 else ()
        # All that is one character long is forbidden, so that words do end there.
        letters = tuple(dict.fromkeys("".join(words)))
        banned = encoder.encode_forbidden(letters[index:] if index % 3 else ())
        most = search.max_steps(len(ids) + 1, None, 4)
        task = Task(index, most, (), terms, banned, 0, tokenizer.target.byte_tokens)
        asked.append(DecodeRequest([*ids, EOS], task))

    check(ModelFolder(folder_settings, tokenizer, model), asked)


def test_what_it_cannot_do_is_decoded_otherwise() -> None:
    folder = first_packed()
    engine = Engine(folder.model, folder=folder)
    settings = folder.settings.search
    groups = settings.with_values(beam=4, groups=2)
    request = requests(folder)[3]
    long = DecodeRequest(request.source, Task(0, 200))
    usual = SuppressTokens()

    for one, search, rule, name in (
        (request, settings, usual, "C library"),
        (request, settings, SuppressTokens((9,)), "PyTorch"),
        (request, groups, usual, "PyTorch"),
        (long, settings, usual, "PyTorch"),
    ):
        assert engine.decode([one], search, (rule,))
        assert engine.describe().startswith(name)


def test_constraints_that_are_wrong_are_refused_in_a_sentence() -> None:
    folder = first_packed()
    model = c_search.LibraryModel(folder, pack_model(folder.model))._model
    options = model.options()

    def ids(*values: int) -> Any:
        return (ctypes.c_int32 * len(values))(*values)

    def term(token: int, size: int = 1, forms: int = 1) -> dict[str, Any]:
        one = runtime.Term(ids(token), ids(size), forms, 0, None)
        return {"terms": ctypes.pointer(one), "term_count": 1}

    def banned(*ways: tuple[bytes, int]) -> dict[str, Any]:
        rows = [Completion(before, len(before), token, 0, 0) for before, token in ways]
        return {"banned": (Completion * len(ways))(*rows), "banned_count": len(ways)}

    wrong: list[tuple[str, dict[str, Any]]] = [
        ("prefix: token", {"prefix": ids(99), "prefix_size": 1}),
        ("prefix: token", {"prefix": ids(-1), "prefix_size": 1}),
        ("prefix: wanted 3", {"prefix_size": 3}),
        ("terms: wanted", term(TARGET_VOCABULARY)),
        ("terms: wanted", term(-1)),
        ("terms: wanted", term(5, size=0)),
        ("terms: wanted", term(5, size=1 << 30)),
        ("terms: wanted", term(5, forms=0)),
        ("terms: wanted", term(5, forms=1 << 30)),
        ("terms: wanted", {"term_count": 2}),
        ("banned: completion 1 of 9", {"banned_count": 9}),
        ("banned: completion 2 of 2", banned((b"b", 5), (b"a", 5))),
        ("banned: completion 2 of 2", banned((b"", 5), (b"a", 99))),
        ("max_steps", {"max_steps": -1}),
    ]

    def translate(**constraints: Any) -> None:
        rows = [runtime.Constraints(), runtime.Constraints(**constraints)]
        model.translate([[5, EOS], [5, EOS]], options, rows)

    for message, constraints in wrong:
        with pytest.raises((UsageError, LineError), match=message):
            translate(**constraints)

    options.sample = 1
    options.temperature = math.nan

    with pytest.raises(UsageError, match="temperature"):
        translate()
