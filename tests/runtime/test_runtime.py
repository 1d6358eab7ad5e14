"""A runtime file translates as the model it was exported from: the same tokens, scores, attention,
parts and warnings.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cached import FolderCache
from limits import wait_until
from small import SENTENCES, captioner_folder, folder, pairs
from systems import linux, posix

import regard
from regard.common.errors import (
    ConfigurationError,
    ExportError,
    LineError,
    LineWarning,
    ModelFolderError,
    UsageError,
)
from regard.interchange.runtime import export
from regard.model_folder import load_folder
from regard.pipeline import RuntimeTranslator, load_translator
from regard.runtime import model as runtime_model
from regard.runtime import native
from regard.runtime.engine import pack_model
from regard.runtime.engine.runtime_file import runtime_file
from regard.runtime.model import EncodedSource, RuntimeModel, _structure, interruptible
from regard.search import Constraints, SearchSettings
from regard.serving.description import known_languages, served_model
from regard.serving.language_pairs import LanguagePairs
from regard.serving.served_translator import ServedFile
from regard.serving.service import TextRequest
from tests.runtime.pairs import Maker, maker

if (problem := native.why_unavailable()) is not None:
    pytest.skip(f"no C library on this machine: {problem}", allow_module_level=True)

LINES = [
    *SENTENCES,
    "",
    "  나는   집에 간다 ",
    "빵!",
    "I",
    "😀 unseen 文字",
    "\u1112\u1161\u11ab 자모",
]
LINES += [
    "나는 간다.나는 온다. 123! 456.",
    "---",
    "Dr. Kim went home. I ate.[1] 🙂 You go!",
    "我走。你来！１２",
]
LONG = " ".join(f"{sentence}." for sentence in SENTENCES * 4)


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    return maker(lambda: tmp_path_factory.mktemp("model") / "run")


def translated(translator: Any, lines: list[str], **options: Any) -> list[Any]:
    """Translate; return the translations, and what was warned of, by line."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = translator.translate(lines, **options)
    return [
        *results,
        [(w.message.index, str(w.message)) for w in caught if isinstance(w.message, LineWarning)],
    ]


def assert_same(actual: list[Any], expected: list[Any]) -> None:
    """Compare translations: everything but scores exactly."""
    assert actual[-1] == expected[-1], "warnings"
    for one, other in zip(actual[:-1], expected[:-1], strict=True):
        assert (one.text, one.tokens, one.alignments, one.repetition) == (
            other.text,
            other.tokens,
            other.alignments,
            other.repetition,
        )
        assert one.score == pytest.approx(other.score, abs=2e-4, rel=5e-5)
        assert [(p.source, p.text, p.doubtful) for p in one.parts] == [
            (p.source, p.text, p.doubtful) for p in other.parts
        ]
        assert [part.score for part in one.parts] == pytest.approx(
            [part.score for part in other.parts], abs=2e-4, rel=5e-5
        )
        assert [h.tokens for h in one.nbest] == [h.tokens for h in other.nbest]
        assert [h.score for h in one.nbest] == pytest.approx(
            [h.score for h in other.nbest], abs=2e-4, rel=5e-5
        )


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize(("encoder", "decoder"), pairs())
def test_tokens_and_scores_are_those_of_the_translator(
    make: Maker, encoder: str, decoder: str, precision: str
) -> None:
    translator, runtime = make(encoder, decoder, precision)
    for options in (
        {"beam": 1},
        {"beam": 5, "nbest": 5},
        {"beam": 4, "nbest": 2, "length_penalty": 0.0, "max_length": 6},
        {"beam": 3, "min_length": 5, "no_repeat_ngram": 2},
        {"beam": 2, "max_ratio": 0.5, "max_extra": 2},
    ):
        assert_same(translated(runtime, LINES, **options), translated(translator, LINES, **options))


def test_characters_in_bytes_are_written_whole(make: Maker) -> None:
    translator, runtime = make("recurrent", "recurrent")
    target = translator.tokenizer.target
    options = runtime.model.options()
    options.beam = options.nbest = 5
    found = [h.ids for line in runtime.model.translate(SENTENCES, options) for h in line.hypotheses]
    for ids in found:
        surfaces = [target.surface_bytes[index] for index in ids]
        b"".join(surfaces).decode()
        assert (b" ", b" ") not in [*itertools.pairwise([*surfaces, b" "])], (
            "nor is a space alone before another, or last"
        )
    assert (
        sum(any(target.byte_tokens.get(index, b" ") != b" " for index in ids) for ids in found) > 3
    )


@pytest.mark.parametrize(("encoder", "decoder"), pairs())
def test_attention_is_that_of_forced_decoding(make: Maker, encoder: str, decoder: str) -> None:
    translator, runtime = make(encoder, decoder)
    results = runtime.translate(SENTENCES, beam=3, readings=True)
    for result, reference in zip(
        results, translator.translate(SENTENCES, beam=3, readings=True), strict=True
    ):
        actual = result.readings
        expected = reference.readings
        assert actual is not None
        assert expected is not None
        for name in (
            "source",
            "target",
            "source_words",
            "target_words",
            "source_text",
            "target_text",
            "roles",
        ):
            assert getattr(actual, name) == getattr(expected, name), name
        assert actual.weights.keys() == expected.weights.keys()
        for layer, weights in expected.weights.items():
            # Weights of 1.5 times the usual size.
            np.testing.assert_allclose(actual.weights[layer], weights, atol=1e-4)


def test_what_is_no_text_is_named(make: Maker) -> None:
    _, runtime = make("transformer", "transformer")
    for call in (
        lambda text: runtime.translate(["a", text]),
        lambda text: list(runtime.stream(text)),
        runtime.trace,
    ):
        with pytest.raises(UsageError, match=r"text [12] is None \(NoneType\); give texts"):
            call(None)


@pytest.mark.parametrize(
    "symmetry", [None, "intersection", "grow-diag", "grow-diag-final", "union"]
)
@pytest.mark.parametrize(("head", "shifted"), [(None, False), (1, True)])
def test_alignments_are_those_of_the_translator(
    make: Maker, symmetry: str | None, head: int | None, shifted: bool
) -> None:
    layer = "decoder.layers.0.cross_attention"
    translator, runtime = make(
        "transformer", "transformer", layer=layer, head=head, shifted=shifted, symmetry=symmetry
    )
    options = {"alignments": True, "beam": 2, "nbest": 2}
    lines = [
        *LINES,
        LONG,
        "나는\u00a010\u00a0km 간다",
        "나는 \u200b 집에  간다",
        "\u200b 나는\t집에 간다. 간다.\r",
    ]
    assert_same(translated(runtime, lines, **options), translated(translator, lines, **options))


@pytest.mark.parametrize(
    "line",
    [
        LONG,
        LONG.replace(".", ""),
        " ".join(["집에"] * 90),
        "집" * 150,
        "나는 집에 간다。 “너는 책을 읽는다!” 간다… (빵을 먹는다?) " * 6,
        "a.b.c. " * 40,
        "x" * 41 + ". " + "나는 집에 간다 " * 30 + "끝.",
    ],
)
def test_long_lines_are_split_alike(make: Maker, line: str) -> None:
    translator, runtime = make("recurrent", "recurrent")
    assert len(runtime.model.translate([line], runtime.model.options())[0].parts) > 1
    assert_same(
        translated(runtime, [line, "I"], beam=2), translated(translator, [line, "I"], beam=2)
    )


def test_sentences_stay_together_if_that_is_asked_for(make: Maker) -> None:
    translator, runtime = make("recurrent", "recurrent")
    assert_same(translated(runtime, LINES, split="off"), translated(translator, LINES, split="off"))
    with pytest.warns(LineWarning):
        together, apart = (runtime.translate(LINES[-4:], split=split) for split in ("off", "auto"))
    assert [len(result.parts) for result in together] == [1, 1, 1, 1]
    assert [len(result.parts) for result in apart] == [4, 1, 3, 3]


@pytest.mark.filterwarnings("ignore::regard.common.errors.LineWarning")
@pytest.mark.parametrize(
    ("encoder", "decoder"), [("transformer", "transformer"), ("recurrent", "recurrent")]
)
def test_streams_are_the_greedy_translation_in_parts(
    make: Maker, encoder: str, decoder: str
) -> None:
    translator, runtime = make(encoder, decoder)
    few = " ".join(f"{sentence}." for sentence in SENTENCES[:4])
    for line in (SENTENCES[1], few, LONG, "", "I go home"):
        parts = list(runtime.stream(line))
        assert "".join(parts) == runtime.translate(line, beam=1)[0].text
        python = list(translator.stream(line))
        assert "".join(parts) == "".join(python)
        assert line == LONG or parts == python, (
            "Python yields the further parts of a long line one by one"
        )


def test_a_line_is_translated_alone_as_among_others_and_by_any_number_of_threads(
    make: Maker,
) -> None:
    _, runtime = make("transformer", "transformer", "int8")
    lines = [
        " ".join(words)
        for words in itertools.permutations(["나는", "집에", "빵을", "먹는다", "I", "you"], 4)
    ]
    together = runtime.translate(lines, beam=4)
    runtime.threads = 1
    assert [runtime.translate(line, beam=4)[0].tokens for line in lines] == [
        result.tokens for result in together
    ]
    runtime.threads = 2


def test_one_model_serves_many_threads(make: Maker) -> None:
    from concurrent.futures import ThreadPoolExecutor

    _, runtime = make("transformer", "recurrent")
    expected = [result.text for result in runtime.translate(SENTENCES, beam=3)]
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda line: runtime.translate(line, beam=3)[0].text, SENTENCES * 20))
    assert texts == expected * 20


# --- files


def _few(folder: Path) -> Path:
    """Write few sentences to compare on: without a file there are 64, on which random weights
    seldom end.
    """
    path = folder / "sentences.txt"
    path.write_text("".join(f"{sentence}\n" for sentence in SENTENCES), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a runtime file beside its run."""
    path = folder(tmp_path_factory.mktemp("exported") / "run", end=0.5)
    (path / "README.md").write_text("# A card\n", encoding="utf-8")
    export(path, path.with_suffix(".regard"), source=_few(path.parent))
    return path.with_suffix(".regard")


def test_an_exported_file_is_loaded_like_a_folder(exported: Path) -> None:
    runtime = regard.load(exported)
    assert isinstance(runtime, RuntimeTranslator)
    card = runtime.model.card
    assert card["precision"] == "int8"
    assert card["readme"] == "# A card\n"
    assert card["parameters"] == sum(
        p.numel() for p in load_folder(exported.with_suffix("")).model.parameters()
    )
    assert runtime.search == load_folder(exported.with_suffix("")).settings.search
    assert not list(exported.parent.glob("*.part"))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda _: b"", "is empty"),
        (lambda _: b"REGARD", "no runtime file, or cut short"),
        (lambda _: b"x" * 100, "it is no runtime file"),
        (lambda data: data[:-100], "cut short, or longer"),
        (lambda data: data + b"\0", "cut short, or longer"),
        (
            lambda data: data[:8] + b"\2" + data[9:],
            "is of format 2, and this version of Regard reads format 1",
        ),
        (lambda data: data[:12] + data[15:11:-1] + data[16:], "the other byte order"),
        (lambda data: data[:5000] + bytes([data[5000] ^ 1]) + data[5001:], "its checksum is wrong"),
    ],
)
def test_damaged_files_are_refused_in_a_sentence(
    exported: Path, tmp_path: Path, damage: Any, message: str
) -> None:
    path = tmp_path / "damaged.regard"
    path.write_bytes(damage(exported.read_bytes()))
    with pytest.raises(ModelFolderError, match=message) as refused:
        regard.load(path)
    assert str(path) in str(refused.value)


def _nested(levels: int) -> Any:
    return [_nested(levels - 1)] if levels else 1


WRONG: dict[str, Any] = {
    "regard": [None, 7, ["0.1"], "x" * 5000, "\x1b[31m"],
    "precision": [None, {}, True, "a\nb"],
    "fingerprint": [3.5, "\u2028"],
    "languages": [
        None,
        "en",
        [],
        ["en"],
        ["en", "de", "fr"],
        ["en", None],
        [["en"], "de"],
        {"en": "de"},
        ["x" * 5000, "de"],
    ],
    "language_codes": [
        None,
        5,
        "en",
        [1],
        {"en": 1},
        [f">>x{number}<<" for number in range(100_000)],
    ],
    "parameters": [None, "1", True, 1.5, 10**16, [], float("nan")],
    "search": [
        None,
        [],
        "beam",
        {"beam": 10**400},
        {"beam": [1] * 5000},
        {"score_threshold": float("inf")},
    ]
    + [{"score_threshold": wrong} for wrong in ("low", True, 0.5, [])]
    + [{"beam": wrong} for wrong in ("wide", 0, 2.5, None, True, 10**6)]
    + [
        {"unknown": 1},
        {"split": "maybe"},
        {"mbr": True, "beam": 1},
        {"groups": 2, "beam": 3},
        {"max_line": None},
    ],
    "familiar": [
        None,
        [],
        "text",
        {"pairs": "AAAA" * 9000, "most": 1},
        {"pairs": "AAAA"},
        {"pairs": 5, "most": 1},
    ]
    + [{"pairs": "AAAA", "most": wrong} for wrong in (-1, 1.5, None, "1")]
    + [{"pairs": "AAA", "most": 1}, {"pairs": "AAAA", "most": 1, "more": 1}],
    "warnings": [None, "text", [1], [None], ["x" * 5000]],
    "alignment": [
        [],
        "top",
        3,
        {"layer": "x" * 5000},
        {"head": float("nan")},
        {"head": _nested(80)},
    ],
    "readme": [None, 1, ["text"]],
    "x" * 5000: [1],
    "other": [_nested(60), float("-inf"), {"a": {"b": ["\0"]}}],
}
UNUSUAL: dict[str, Any] = {
    "languages": [["", ""], ["english", "de"], ["en", "en"]],
    "language_codes": [[">>fra<<", ">>fra<<", "", "<>"]],
    "parameters": [0, -1],
    "search": [{}, {"score_threshold": -2}, {"groups": 2, "beam": 4}, {"sample": True, "top_k": 5}],
    "familiar": [{}, {"pairs": "AAAA", "most": 0}],
    "alignment": [None, {}, {"layer": 1}],
    "readme": ["", "x" * 10**6, "\0\x1b"],
    "other": [None, [], "text"],
}


def test_usual_cards_are_opened_without_pydantic() -> None:
    """Whatever training records of a corpus is usual, too."""
    usual = {
        **SearchSettings().model_dump(),
        "longest_source": 40,
        "line_sentences": 1.25,
        "line_clauses": 3,
    }
    assert [name for name, value in usual.items() if not runtime_model._is_usual(name, value)] == []


def test_wrong_cards_are_refused_when_opened_and_unusual_ones_work(tmp_path: Path) -> None:
    model = load_folder(folder(tmp_path / "run", end=0.5))
    packed = pack_model(model.model, "float32")
    path = tmp_path / "model.regard"
    card = {"search": json.loads(model.settings.search.model_dump_json())}

    def open_card(name: str, value: Any) -> RuntimeTranslator:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path.write_bytes(runtime_file(model, packed, None, {**card, name: value}))
            return RuntimeTranslator(path)

    for name, values in WRONG.items():
        for value in values:
            with pytest.raises(ModelFolderError) as refused:
                open_card(name, value)
            assert all(len(cause) < 300 and str(path) in cause for cause in refused.value.causes)
    for name, values in UNUSUAL.items():
        for value in values:
            translator = open_card(name, value)
            assert translator.translate(SENTENCES[:1])
            about = ServedFile(translator, 10**7).about()
            for read in (lambda t: t.languages, lambda t: t.search):
                with contextlib.suppress(ConfigurationError):
                    read(translator)
            for languages in (None, ("xx", "yy")):
                served = served_model("model", about, languages)
                known_languages(about, languages)
                assert LanguagePairs([served]).languages


@posix
@pytest.mark.parametrize("change", ["cut", "emptied", "grown", "other", "time set back"])
def test_a_file_that_is_changed_while_it_is_open_gives_a_sentence(
    exported: Path, tmp_path: Path, change: str
) -> None:
    """Neither other text, nor the end of the process by a page that is no longer there."""
    path = tmp_path / "model.regard"
    content = exported.read_bytes()
    shutil.copy2(exported, path)
    os.utime(path, (0, 0))
    runtime = RuntimeTranslator(path)
    stream = runtime.model.stream(SENTENCES[0], runtime.model.options())
    queue = runtime.model.queue(1)
    if change in ("cut", "emptied"):
        os.truncate(path, 5000 if change == "cut" else 0)
    else:
        start = len(content) if change == "grown" else 6000
        with path.open("r+b") as file:
            file.seek(start)
            file.write(bytes(3000))
    if change == "time set back":
        os.utime(path, (0, 0))
    message = "model.regard: changed while it was open, so translations would be wrong; write a new file beside it"
    for _ in range(2):
        with pytest.raises(ModelFolderError, match=message):
            runtime.translate(SENTENCES)
    with pytest.raises(ModelFolderError, match=message):
        list(stream)
    queue.submit(1, SENTENCES[:1], runtime.model.options())
    ticket, result = queue.take(60) or (0, [])
    assert ticket == 1
    assert isinstance(result, ModelFolderError)
    assert runtime.model.card["readme"] == "# A card\n"


@posix
def test_a_file_may_lose_its_name_while_it_is_open(exported: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.regard"
    shutil.copy2(exported, path)
    runtime = RuntimeTranslator(path)
    expected = [line.text for line in runtime.translate(SENTENCES)]
    path.chmod(0o600)
    (tmp_path / "new").write_bytes(b"another file")
    os.replace(tmp_path / "new", path)
    assert [line.text for line in runtime.translate(SENTENCES)] == expected


def test_missing_files_are_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError, match=r"nowhere.regard: cannot be read \(No such file"):
        RuntimeTranslator(tmp_path / "nowhere.regard")
    with pytest.raises(ModelFolderError, match="is not a file"):
        RuntimeTranslator(tmp_path)


def test_what_a_file_cannot_do_is_refused_with_all_causes(exported: Path) -> None:
    runtime = RuntimeTranslator(exported)
    with pytest.raises(
        UsageError, match=r"`mbr` needs the run folder.*\n?.*`groups` needs the run folder"
    ):
        runtime.translate("I", mbr=True, groups=2, beam=4)
    with pytest.raises(UsageError, match=r"nbest: wanted 1 to 3 \(the beam\), got 4"):
        runtime.translate("I", nbest=4)
    with pytest.raises(
        UsageError, match=r"`precision=float32`: .* is a runtime file, whose precision is int8"
    ):
        regard.load(exported, precision="float32")
    with pytest.raises(LineError, match="line 2 has more than 10 characters"):
        runtime.translate(["I", "x" * 11], max_line=10)


def test_other_files_are_not_replaced(exported: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(ExportError, match="something already that is no runtime file"):
        export(exported.with_suffix(""), tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "mine"
    shutil.copy(exported, tmp_path / "old.regard")
    export(exported.with_suffix(""), tmp_path / "old.regard", "float32", _few(tmp_path))
    assert regard.load(tmp_path / "old.regard").model.card["precision"] == "float32"


def test_commands_that_need_a_folder_say_so(exported: Path) -> None:
    with pytest.raises(
        ModelFolderError,
        match="is a runtime file, which translates and no more; give the run folder",
    ):
        load_translator(exported)


def test_a_model_of_an_experiment_warns_when_it_is_opened(tmp_path: Path) -> None:
    path = folder(tmp_path / "run", end=0.5)
    model = load_folder(path)
    values = {"precision": "float32", "search": {}, "warnings": ["no causal mask"]}
    path.with_suffix(".regard").write_bytes(
        runtime_file(model, pack_model(model.model), None, values)
    )
    with pytest.warns(UserWarning, match="trained for an experiment, not for use: no causal mask"):
        regard.load(path.with_suffix(".regard"))


def test_a_model_without_attention_has_no_alignments(make: Maker) -> None:
    _, runtime = make("recurrent", "no_attention")
    with pytest.raises(UsageError, match="no attention"):
        runtime.translate("I", alignments=True)


def test_models_that_cannot_be_exported_say_why(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="reads images"):
        export(captioner_folder(tmp_path / "captions"), tmp_path / "captions.regard")
    assert not (tmp_path / "captions.regard").exists()


# --- sources that are encoded already


NOTHING = runtime_model.Constraints()


def without_encoder(folder: Path, precision: Any = "float32") -> bytes:
    """Return the content of a captioner's runtime file: its encoder has no program."""
    model = load_folder(folder)
    return runtime_file(model, pack_model(model.model, precision), None, {}, reads_text=False)


@pytest.mark.parametrize("decoder", ["recurrent", "convolutional", "transformer"])
def test_encoded_sources_are_refused_unless_they_fit(tmp_path: Path, decoder: str) -> None:
    run = captioner_folder(tmp_path / "run", decoder)
    model = RuntimeModel.from_memory(without_encoder(run))
    sizes = load_folder(run).model.encoder.sizes
    options = model.options()
    ones = functools.partial(np.ones, dtype=np.float32)
    shapes = ((6, sizes.size), (6, sizes.embedding), (sizes.size * sizes.summary_rows,))

    def search(**changed: Any) -> Any:
        source = EncodedSource(3, *map(ones, shapes))
        for name, value in changed.items():
            setattr(source, name, value)
        lines = model.translate(
            [EncodedSource(3, *map(ones, shapes)), source], options, [NOTHING, NOTHING]
        )
        return [[(h.ids, h.score) for h in line.hypotheses] for line in lines]

    first, second = search()
    assert first == second
    needed = {
        "convolutional": ("output", "embedded"),
        "recurrent": ("output", "summary"),
        "transformer": ("output",),
    }
    wrong = [{name: value} for name in ("entries", "length") for value in (0, -1, 2**62)]
    for name in ("output", "embedded", "summary"):
        array = name.replace("output", "outputs")
        size = f"{name}_size"
        if name in needed[decoder]:
            wrong += [{array: None}, {size: 0}, {size: sizes.size + 1}, {size: -(2**62)}]
        else:
            assert search(**{array: None, size: 0}) == [first, first], (
                "the decoder does not read it"
            )
    for changed in wrong:
        with pytest.raises(
            UsageError, match=r"source 2: wanted 1 to 1048576 entries of a length of 1 to .*; got "
        ):
            search(**changed)
    for options.attention, options.alignments in ((1, 0), (0, 1)):
        with pytest.raises(UsageError, match="wanted 0 for sources that are encoded already"):
            search()
    options.attention = options.alignments = 0
    library = model._library
    error = ctypes.create_string_buffer(1024)
    assert not library.regard_translate_encoded(
        model._model, None, 2, None, ctypes.byref(_structure(options)), error, 1024
    )
    assert error.value.startswith(b"source 1: wanted 1 to 1048576 entries")
    for read in (
        lambda: model.translate(["I"], options),
        lambda: model.translate([[5, 3]], options),
        lambda: list(model.stream("I", options)),
        lambda: list(model.stream_ids([5, 3], NOTHING, options)),
        lambda: model.queue(1).submit(1, ["I"], options),
    ):
        with pytest.raises(
            UsageError, match="this model has no encoder, so it reads neither text nor token ids"
        ):
            read()


# --- without PyTorch

BLOCKED = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {packages}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name.split(".")[0])
sys.meta_path.insert(0, Missing())
from regard.cli import main
main({arguments})
"""


def without_pytorch(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command where the packages of the extra `train` are missing."""
    from regard.common.lazy import TRAINING_PACKAGES

    code = BLOCKED.format(packages=TRAINING_PACKAGES, arguments=list(arguments))
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.system
def test_the_command_line_translates_without_pytorch(exported: Path, tmp_path: Path) -> None:
    (tmp_path / "lines.ko").write_text("\n".join(SENTENCES) + "\n\n", encoding="utf-8")
    expected = regard.load(exported)
    for options in (
        ["--nbest", "2", "--beam", "4"],
        ["--format", "jsonl", "--alignments"],
    ):  # plain ones follow
        done = without_pytorch("translate", str(exported), "lines.ko", *options, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == len(SENTENCES) + 1
    assert [json.loads(line)["text"] for line in done.stdout.splitlines()] == [
        *(result.text for result in expected.translate(SENTENCES)),
        "",
    ]
    streamed = without_pytorch("translate", str(exported), "lines.ko", "--stream", cwd=tmp_path)
    assert streamed.stdout.splitlines()[: len(SENTENCES)] == [
        r.text for r in expected.translate(SENTENCES, beam=1)
    ]
    resumed = without_pytorch(
        "translate", str(exported), "lines.ko", "--output", "out", "--chunk", "2", cwd=tmp_path
    )
    assert resumed.returncode == 0, resumed.stderr
    assert (tmp_path / "out").read_text(encoding="utf-8").count("\n") == len(SENTENCES) + 1


@pytest.mark.system
@pytest.mark.filterwarnings("ignore:the translation")
def test_the_command_line_holds_constraints_and_samples_without_pytorch(
    exported: Path, tmp_path: Path
) -> None:
    (tmp_path / "lines").write_text("\n".join(SENTENCES), encoding="utf-8")
    own = [
        {"text": SENTENCES[0], "terms": ["home"]},
        {"text": SENTENCES[1], "forbid": ["b"], "prefix": "I"},
    ]
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, own)), encoding="utf-8")
    expected = regard.load(exported)
    given = Constraints(terms=("home",), forbid=("book",))
    each = [Constraints(terms=("home",)), Constraints("I", (), ("b",))]
    calls: list[tuple[list[str], list[Any]]] = [
        (
            ["lines", "--term", "home", "--forbid", "book"],
            expected.translate(SENTENCES, constraints=given),
        ),
        (
            ["lines", "--sample", "--top-k", "3", "--seed", "5"],
            expected.translate(SENTENCES, sample=True, top_k=3, seed=5),
        ),
        (["own.jsonl"], expected.translate(SENTENCES[:2], constraints=each)),
    ]
    for arguments, translations in calls:
        done = without_pytorch("translate", str(exported), *arguments, cwd=tmp_path)
        assert done.stdout.splitlines() == [one.text for one in translations], done.stderr


@pytest.mark.system
def test_commands_that_need_pytorch_say_how_to_install_it(exported: Path, tmp_path: Path) -> None:
    shutil.copytree(exported.with_suffix(""), tmp_path / "run")
    done = without_pytorch("translate", "run", cwd=tmp_path)
    assert done.returncode == 1
    assert "pip install 'regard[train]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert "no PyTorch" in without_pytorch("doctor", cwd=tmp_path).stdout
    checked = without_pytorch("doctor", str(exported), cwd=tmp_path)
    assert checked.stdout.startswith(f"ok  {exported}: ")
    assert "int8" in checked.stdout


@posix
def test_ctrl_c_does_not_wait_for_the_library() -> None:
    ends = threading.Event()
    results = list[bool]()

    def call() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        results.append(ends.wait(60))

    with pytest.raises(KeyboardInterrupt):
        interruptible(call)
    assert results == [], "the call goes on"
    ends.set()
    wait_until(lambda: results == [True], "the call ends")
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 // 0)


@pytest.mark.system
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--mbr"], "--mbr needs the run folder"),
        (["--with", "other"], "--with: "),
        (["--workers", "2"], "say how many with --threads"),
        (["--precision", "float32"], "whose precision is int8"),
    ],
)
def test_options_of_model_folders_are_refused(
    exported: Path, tmp_path: Path, options: list[str], message: str
) -> None:
    (tmp_path / "lines").write_text("I\n", encoding="utf-8")
    done = without_pytorch("translate", str(exported), "lines", *options, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr


def test_the_examples_in_python_run(
    exported: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = Path(__file__).parents[2] / "docs" / "runtime.md"
    codes = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert len(codes) == 2
    shutil.copy(exported, tmp_path / "translator.regard")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for code in codes:
        exec(compile(code, str(page), "exec"), names)
    assert "int8 # A card" in capsys.readouterr().out
    assert names["steps"]


@linux
@pytest.mark.system
def test_a_plain_line_needs_few_allocations(exported: Path, tmp_path: Path) -> None:
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("needs gcc or clang")
    program = tmp_path / "driver"
    driver = Path(__file__).with_name("allocations_driver.c")
    flags = ["-std=gnu11", "-march=native", "-I", str(native.FOLDER_OF_SOURCES)]
    wrapped = "-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc"
    sources = [str(driver), *map(str, native.SOURCES)]
    subprocess.run(
        [compiler, *flags, wrapped, "-o", str(program), *sources, "-lm", "-lpthread"], check=True
    )
    done = subprocess.run(
        [program, exported, SENTENCES[0]], capture_output=True, text=True, check=True
    )
    of_one, of_each = map(float, done.stdout.split())
    assert 0 < of_one <= 50
    assert 0 < of_each <= 34


@pytest.mark.system
def test_the_example_in_c_translates(exported: Path, tmp_path: Path) -> None:
    """The program of docs/runtime.md, linked with the library's sources."""
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("needs gcc or clang")
    page = Path(__file__).parents[2] / "docs" / "runtime.md"
    (tmp_path / "example.c").write_text(
        page.read_text("utf-8").split("```c\n")[1].split("```")[0], encoding="utf-8"
    )
    compile_program = functools.partial(subprocess.run, cwd=tmp_path, check=True)
    flags = ["-O0", "-std=gnu11", "-march=native", "-I", str(native.FOLDER_OF_SOURCES)]
    compile_program([compiler, *flags, "-c", *map(str, native.SOURCES)])
    objects = [*(f"{Path(source).stem}.o" for source in native.SOURCES), "-lm", "-lpthread"]
    compile_program([compiler, *flags, "-o", "example", "example.c", *objects])
    shutil.copy(exported, tmp_path / "translator.regard")
    done = subprocess.run(
        [str(tmp_path / "example")], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == regard.load(exported).translate("I was eating bread")[0].text + "\n"
    program = (tmp_path / "example.c").read_text("utf-8")
    continued = page.read_text("utf-8").split("```c\n")[2].split("```")[0]
    assert program.count("  regard_free(result);") == 1
    program = program.replace(
        "  regard_free(result);", f"  regard_free(result);\n{{ {continued}  regard_free(result); }}"
    )
    (tmp_path / "continued.c").write_text(program, encoding="utf-8")
    compile_program([compiler, *flags, "-o", "continued", "continued.c", *objects])
    command = [str(tmp_path / "continued")]
    steps = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout.splitlines()[1:]
    assert steps
    assert all(re.fullmatch(r"\d+ \d+ -\d+\.\d{3} \d", step) for step in steps)
    (tmp_path / "translator.regard").write_bytes(b"no model")
    failed = subprocess.run(
        [str(tmp_path / "example")], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert failed.returncode == 1
    assert (
        failed.stderr
        == "translator.regard: damaged (it is no runtime file, or cut short); copy it again, or export the model again\n"
    )


# --- hostile files


@pytest.fixture(scope="module")
def fuzzer(cached: FolderCache) -> Path:
    """Compile the library and its fuzzer with the address and undefined-behaviour sanitizers, until
    a source changes.
    """
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("needs gcc or clang")
    source = Path(__file__).with_name("fuzz_runtime.c")
    flags = [
        "-g",
        "-O0",
        "-std=gnu11",
        "-march=native",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
    ]

    def compile_fuzzer(folder: Path) -> None:
        inputs = ["-I", str(native.FOLDER_OF_SOURCES), *map(str, native.SOURCES), str(source)]
        command = [
            compiler,
            *flags,
            "-o",
            str(folder / "fuzz_runtime"),
            *inputs,
            "-lm",
            "-lpthread",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        (folder / "stderr").write_text(done.stderr[-200:], encoding="utf-8")

    folder = cached(
        "fuzz_runtime", compile_fuzzer, native.FOLDER_OF_SOURCES, source, Path(__file__)
    )
    if not (folder / "fuzz_runtime").exists():
        pytest.skip(f"this compiler has no sanitizers: {(folder / 'stderr').read_text('utf-8')}")
    return folder / "fuzz_runtime"


@pytest.mark.system
@pytest.mark.parametrize("count", [100, pytest.param(400, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("encoder", "decoder", "precision"),
    [
        ("transformer", "transformer", "int8"),
        ("recurrent", "recurrent", "float32"),
        ("convolutional", "convolutional", "bfloat16"),
        ("recurrent", "no_attention", "int8"),
        (None, "recurrent", "float32"),
        (None, "convolutional", "int8"),
    ],
)
def test_hostile_files_end_in_a_sentence(
    make: Maker,
    fuzzer: Path,
    tmp_path: Path,
    encoder: str | None,
    decoder: str,
    precision: Any,
    count: int,
) -> None:
    """Mutations with a valid checksum; by hand more: `fuzz_runtime FILE FIRST COUNT`."""
    path = tmp_path / "model.regard"
    if encoder is None:
        path.write_bytes(without_encoder(captioner_folder(tmp_path / "run", decoder), precision))
    else:
        path = make(encoder, decoder, precision)[1].model.path
    environment = {"ASAN_OPTIONS": "allocator_may_return_null=1:max_allocation_size_mb=2000"}
    command = [str(fuzzer), str(path), "0", str(count)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert f"{count} mutations" in done.stdout


def test_the_engine_of_a_server_reads_capitals_as_the_translator_does(make: Maker) -> None:
    _, runtime = make("transformer", "transformer")
    lines = ["OPEN THE FILE", "Close The Last Window Of All", SENTENCES[0], "PDF"]
    texts = ServedFile(RuntimeTranslator(runtime.model.path), 10**7).translate(
        lines, TextRequest(), 100.0
    )
    served = [line.hypotheses[0] for text in texts for line in text.lines]
    expected = translated(runtime, lines)[:-1]
    assert [one.text for one in served] == [one.text for one in expected]
    assert [one.tokens for one in served] == [one.tokens for one in expected]
    assert served[0].text.isupper()


KILLED_EXPORT = """
import os, signal, sys
from pathlib import Path
from regard.interchange import runtime
runtime.{step} = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
runtime.export(Path(sys.argv[1]), Path(sys.argv[2]))
"""


@linux
@pytest.mark.parametrize(
    "step",
    [
        "compare",
        *(pytest.param(step, marks=pytest.mark.slow) for step in ("_check", "RuntimeTranslator")),
    ],
)
def test_an_export_that_is_killed_leaves_nothing(tmp_path: Path, step: str) -> None:
    (tmp_path / "out").mkdir()
    arguments = [str(folder(tmp_path / "run", end=0.5)), str(tmp_path / "out" / "model.regard")]
    done = subprocess.run(
        [sys.executable, "-c", KILLED_EXPORT.format(step=step), *arguments], check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert list((tmp_path / "out").iterdir()) == []
