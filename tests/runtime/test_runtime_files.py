"""Runtime files: exported, opened, refused if they are damaged or hostile, and used without
PyTorch.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.small_models import SENTENCES, captioner_folder, folder
from helpers.system_marks import linux, posix

import regard
from regard.cli import main
from regard.common.errors import ExportError, LineError, ModelFolderError, UsageError
from regard.common.lazy import TRAINING_PACKAGES
from regard.interchange.runtime import export
from regard.model_folder import load_folder
from regard.pipeline import RuntimeTranslator, load_translator
from regard.runtime import native
from regard.runtime.engine import pack_model
from regard.runtime.engine.runtime_file import runtime_file
from regard.runtime.model import Constraints as LibraryConstraints
from regard.runtime.model import EncodedSource, RuntimeModel
from regard.search import Constraints
from regard.serving.description import known_languages, served_model
from regard.serving.language_pairs import LanguagePairs
from regard.serving.served_translator import ServedFile
from tests.runtime.conftest import Sanitised
from tests.runtime.pairs import Maker

if (problem := native.why_unavailable()) is not None:
    pytest.skip(f"no C library on this machine: {problem}", allow_module_level=True)

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "runtime.md"
run_program = functools.partial(subprocess.run, capture_output=True, text=True)


def _few(folder: Path) -> Path:
    """Write few sentences to compare on: without a file there are 64, on which random weights
    seldom end.
    """
    path = folder / "sentences.txt"
    path.write_text("\n".join(SENTENCES), encoding="utf-8")
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

    model = load_folder(exported.with_suffix(""))
    card = runtime.model.card

    assert card["precision"] == "int8"
    assert card["readme"] == "# A card\n"
    assert card["parameters"] == sum(p.numel() for p in model.model.parameters())
    assert runtime.search == model.settings.search
    assert not list(exported.parent.glob("*.part"))


def test_whatever_search_settings_a_folder_may_have_a_file_may_have(
    tmp_path: Path,
) -> None:
    settings = {"no_repeat_ngram": 100_000, "max_length": 10**9, "max_whole": 10**9}
    run = folder(tmp_path / "run", "recurrent", "recurrent", end=0.5, **settings)
    export(run, run.with_suffix(".regard"), source=_few(tmp_path))

    options = RuntimeModel(run.with_suffix(".regard")).options()

    assert {name: getattr(options, name) for name in settings} == settings


def test_other_files_are_not_replaced(exported: Path, tmp_path: Path) -> None:
    run = exported.with_suffix("")
    notes = tmp_path / "notes.txt"
    notes.write_text("mine", encoding="utf-8")

    with pytest.raises(ExportError, match="something already that is no runtime file"):
        export(run, notes)
    assert notes.read_text(encoding="utf-8") == "mine"

    old = Path(shutil.copy(exported, tmp_path / "old.regard"))
    export(run, old, "float32", _few(tmp_path))

    assert regard.load(old).model.card["precision"] == "float32"
    with pytest.raises(ExportError, match="reads images"):
        export(captioner_folder(tmp_path / "captions"), tmp_path / "captions.regard")


@linux
def test_an_export_that_is_killed_leaves_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    run = folder(tmp_path / "run", end=0.5)
    child = os.fork()
    if not child:

        def kill(*_: object, **__: object) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        monkeypatch.setattr("regard.interchange.runtime.compare", kill)
        try:
            export(run, out / "model.regard")
        finally:
            os._exit(1)

    _, status = os.waitpid(child, 0)

    assert os.WIFSIGNALED(status)
    assert list(out.iterdir()) == []


# --- opening


def test_what_cannot_be_opened_is_refused_in_a_sentence(
    exported: Path,
    tmp_path: Path,
) -> None:
    with pytest.raises(
        ModelFolderError, match=r"nowhere.regard: cannot be read \(No such file"
    ):
        RuntimeTranslator(tmp_path / "nowhere.regard")
    with pytest.raises(ModelFolderError, match="is not a file"):
        RuntimeTranslator(tmp_path)

    with pytest.raises(ModelFolderError, match="translates and no more; give the run"):
        load_translator(exported)

    message = r"`precision=float32`: .* is a runtime file, whose precision is int8"

    with pytest.raises(UsageError, match=message):
        regard.load(exported, precision="float32")


def test_damaged_files_are_refused_in_a_sentence(
    exported: Path,
    tmp_path: Path,
) -> None:
    data = exported.read_bytes()
    flipped = bytes([data[5000] ^ 1])
    path = tmp_path / "damaged.regard"
    for content, message in (
        (b"", "is empty"),
        (b"REGARD", "no runtime file, or cut short"),
        (b"x" * 100, "it is no runtime file"),
        (data[:-100], "cut short, or longer"),
        (data + b"\0", "cut short, or longer"),
        (data[:8] + b"\2" + data[9:], "is of format 2, and .* reads format 1"),
        (data[:12] + data[15:11:-1] + data[16:], "the other byte order"),
        (data[:5000] + flipped + data[5001:], "its checksum is wrong"),
    ):
        path.write_bytes(content)
        with pytest.raises(ModelFolderError, match=f"{path}: .*{message}"):
            regard.load(path)


DEEP: Any = 1
for _ in range(80):
    DEEP = [DEEP]
WRONG: dict[str, list[Any]] = {
    "regard": [None, "x" * 5000, "\x1b[31m"],
    "languages": [["en"], ["en", None]],
    "language_codes": [{"en": 1}, ["x"] * 5_000],
    "parameters": ["1", True, 10**16, float("nan")],
    "search": [None, {"beam": 10**400}, {"unknown": 1}, {"groups": 2, "beam": 3}],
    "familiar": [{"pairs": "AAAA"}, {"pairs": "AAA", "most": 1}],
    "warnings": [[1]],
    "alignment": [[], {"head": DEEP}],
    "x" * 5000: [1],
    "other": [float("-inf"), {"a": {"b": ["\0"]}}],
}
UNUSUAL: dict[str, list[Any]] = {
    "languages": [["english", "de"], ["en", "en"]],
    "language_codes": [[">>fra<<", ">>fra<<", "", "<>"]],
    "search": [{}, {"groups": 2, "beam": 4}, {"sample": True, "top_k": 5}],
    "familiar": [{}, {"pairs": "AAAA", "most": 0}],
    "alignment": [{"layer": 1}],
    "readme": ["x" * 10**6, "\0\x1b"],
}


def test_wrong_cards_are_refused_when_opened_and_unusual_ones_work(
    tmp_path: Path,
) -> None:
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
            for cause in refused.value.causes:
                assert str(path) in cause
                assert len(cause) < 300

    for name, values in UNUSUAL.items():
        for value in values:
            translator = open_card(name, value)

            assert translator.translate(SENTENCES[:1])

            about = ServedFile(translator, 10**7).about()
            for languages in (None, ("xx", "yy")):
                known_languages(about, languages)
                assert LanguagePairs(
                    [served_model("model", about, languages)]
                ).languages


def test_a_model_of_an_experiment_warns_when_it_is_opened(tmp_path: Path) -> None:
    model = load_folder(folder(tmp_path / "run", end=0.5))
    path = tmp_path / "model.regard"
    values = {"precision": "float32", "search": {}, "warnings": ["no causal mask"]}
    path.write_bytes(runtime_file(model, pack_model(model.model), None, values))
    with pytest.warns(
        UserWarning, match="trained for an experiment, not for use: no causal mask"
    ):
        regard.load(path)


@posix
@pytest.mark.parametrize("change", ["cut", "grown", "time set back"])
def test_a_file_that_is_changed_while_it_is_open_gives_a_sentence(
    exported: Path,
    tmp_path: Path,
    change: str,
) -> None:
    """Neither other text, nor the end of the process by a page that is no longer there."""
    path = tmp_path / "model.regard"
    shutil.copy2(exported, path)
    os.utime(path, (0, 0))
    runtime = RuntimeTranslator(path)
    stream = runtime.model.stream(SENTENCES[0], runtime.model.options())
    queue = runtime.model.queue(1)
    size = path.stat().st_size
    if change == "cut":
        os.truncate(path, 5000)
    else:
        with path.open("r+b") as file:
            file.seek(size if change == "grown" else 6000)
            file.write(bytes(3000))

    if change == "time set back":
        os.utime(path, (0, 0))
    message = "model.regard: changed while it was open, so translations would be wrong"
    for _ in range(2):
        with pytest.raises(ModelFolderError, match=message):
            runtime.translate(SENTENCES)

    with pytest.raises(ModelFolderError, match=message):
        list(stream)

    queue.submit(1, SENTENCES[:1], runtime.model.options())
    ticket, result = queue.take(60) or (0, [])

    assert ticket == 1
    assert isinstance(result, ModelFolderError)


def test_what_a_file_cannot_do_is_refused_with_all_causes(exported: Path) -> None:
    runtime = RuntimeTranslator(exported)
    message = r"`mbr` needs the run folder.*\n?.*`groups` needs the run folder"

    with pytest.raises(UsageError, match=message):
        runtime.translate(
            "I",
            mbr=True,
            groups=2,
            beam=4,
        )
    with pytest.raises(UsageError, match=r"nbest: wanted 1 to 3 \(the beam\), got 4"):
        runtime.translate("I", nbest=4)
    with pytest.raises(LineError, match="line 2 has more than 10 characters"):
        runtime.translate(["I", "x" * 11], max_line=10)


# --- sources that are encoded already


def without_encoder(run: Path, precision: Any = "float32") -> bytes:
    """Return the content of a captioner's runtime file: its encoder has no program."""
    model = load_folder(run)
    return runtime_file(
        model,
        pack_model(model.model, precision),
        None,
        {},
        reads_text=False,
    )


def test_encoded_sources_are_refused_unless_they_fit(tmp_path: Path) -> None:
    run = captioner_folder(tmp_path / "run", "recurrent")
    model = RuntimeModel.from_memory(without_encoder(run))
    options = model.options()
    sizes = load_folder(run).model.encoder.sizes
    shapes = ((6, sizes.size), (6, sizes.embedding), (sizes.size * sizes.summary_rows,))
    arrays = [np.ones(shape, np.float32) for shape in shapes]

    def search(**changed: Any) -> Any:
        source = EncodedSource(3, *arrays)
        for name, value in changed.items():
            setattr(source, name, value)
        lines = model.translate([EncodedSource(3, *arrays), source], options)
        return [[(h.ids, h.score) for h in line.hypotheses] for line in lines]

    first, second = search()

    assert first == second
    assert search(embedded=None, embedded_size=0) == [first, first], (
        "the decoder does not read it"
    )

    message = "source 2: wanted 1 to 1048576 entries of a length of 1 to .*; got "
    for name in ("entries", "length", "output_size", "summary_size"):
        for value in (0, -1, 2**62):
            with pytest.raises(UsageError, match=message):
                search(**{name: value})
    for name in ("outputs", "summary"):
        with pytest.raises(UsageError, match=message):
            search(**{name: None})

    options.alignments = 1

    with pytest.raises(
        UsageError, match="wanted 0 for sources that are encoded already"
    ):
        search()


def test_a_model_without_an_encoder_reads_neither_text_nor_ids(tmp_path: Path) -> None:
    model = RuntimeModel.from_memory(
        without_encoder(captioner_folder(tmp_path / "run"))
    )
    options = model.options()
    calls = (
        lambda: model.translate(["I"], options),
        lambda: model.translate([[5, 3]], options),
        lambda: list(model.stream("I", options)),
        lambda: list(model.stream_ids([5, 3], LibraryConstraints(), options)),
        lambda: model.queue(1).submit(1, ["I"], options),
    )
    for call in calls:
        with pytest.raises(
            UsageError, match="this model has no encoder, so it reads neither text"
        ):
            call()


# --- without PyTorch

BLOCKED = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {packages}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name.split(".")[0])
sys.meta_path.insert(0, Missing())
from regard.cli import main
for arguments in {calls}:
    try:
        main(arguments)
    except SystemExit as ended:
        print("status", ended.code, flush=True)
"""


@pytest.mark.system
@pytest.mark.filterwarnings("ignore:the translation")
def test_the_command_line_does_without_pytorch_or_says_how_to_install_it(
    exported: Path,
    tmp_path: Path,
) -> None:
    """All commands run in one process, in which the packages of the extra `train` are missing."""
    (tmp_path / "lines").write_text("\n".join(SENTENCES) + "\n\n", encoding="utf-8")
    own = {"text": SENTENCES[1], "forbid": ["b"], "prefix": "I"}
    (tmp_path / "own.jsonl").write_text(json.dumps(own), encoding="utf-8")
    file = str(exported)
    translate = ["translate", file, "lines"]
    sampling = ["--sample", "--top-k", "3", "--seed", "5", "--forbid", "book"]
    calls = [
        [*translate, "--format", "jsonl", "--alignments", "--nbest", "2"],
        [*translate, "--stream"],
        [*translate, *sampling],
        ["translate", file, "own.jsonl", "--output", "out"],
        ["doctor"],
        ["doctor", file],
        ["translate", str(exported.with_suffix(""))],
    ]
    code = BLOCKED.format(packages=TRAINING_PACKAGES, calls=calls)
    command = [sys.executable, "-c", code]
    done = run_program(
        command,
        cwd=tmp_path,
        check=True,
        timeout=120,
    )
    printed = re.split(r"status (?:None|0|(1))\n", done.stdout)
    (
        jsonl,
        _,
        streamed,
        _,
        sampled,
        _,
        own_output,
        _,
        doctor,
        _,
        checked,
        _,
        _,
        failed,
    ) = printed[:14]
    runtime = regard.load(exported)

    def expected(**options: Any) -> list[str]:
        translations = runtime.translate([*SENTENCES, ""], **options)
        return [translation.text for translation in translations]

    assert [json.loads(line)["text"] for line in jsonl.splitlines()] == expected()
    assert streamed.splitlines() == expected(beam=1)

    constraints = Constraints(forbid=("book",))
    search = {"sample": True, "top_k": 3, "seed": 5}

    assert sampled.splitlines() == expected(**search, constraints=constraints)

    constraints = Constraints("I", (), ("b",))
    (translation,) = runtime.translate(SENTENCES[1], constraints=constraints)

    assert own_output == ""
    assert (tmp_path / "out").read_text(encoding="utf-8") == f"{translation.text}\n"

    assert "no PyTorch" in doctor
    assert checked.startswith(f"ok  {exported}: ")
    assert "int8" in checked
    assert failed == "1"
    assert "pip install 'regard[train]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_options_of_model_folders_are_refused(
    exported: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = tmp_path / "lines"
    lines.write_text("I\n", encoding="utf-8")
    for options, message in (
        (["--mbr"], "--mbr needs the run folder"),
        (["--with", "other"], "--with: "),
        (["--workers", "2"], "say how many with --threads"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["translate", str(exported), str(lines), *options])
        assert ended.value.code == 2
        assert message in capsys.readouterr().err


# --- the examples of the documentation, and C


def _code(language: str) -> list[str]:
    page = PAGE.read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def test_the_examples_in_python_run(
    exported: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copy(exported, tmp_path / "translator.regard")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for code in _code("python"):
        exec(compile(code, str(PAGE), "exec"), names)

    assert "int8 # A card" in capsys.readouterr().out
    assert names["steps"]


@pytest.mark.system
def test_the_examples_in_c_translate(exported: Path, tmp_path: Path) -> None:
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("needs gcc or clang")
    program, continued, *_ = _code("c")
    file = tmp_path / "translator.regard"
    shutil.copy(exported, file)
    end = "  regard_free(result);"

    assert program.count(end) == 1

    text = program.replace(end, f"{end}\n{{ {continued}{end} }}")
    (tmp_path / "example.c").write_text(text, encoding="utf-8")
    library = native.kernels()._name
    command = [compiler, f"-I{native.FOLDER_OF_SOURCES}", "-o", "example", "example.c"]
    command += [library, f"-Wl,-rpath={Path(library).parent}"]
    run_program(command, cwd=tmp_path, check=True)
    done = run_program([tmp_path / "example"], cwd=tmp_path, check=True)
    translated, *steps = done.stdout.splitlines()
    (translation,) = regard.load(exported).translate("I was eating bread")

    assert translated == translation.text
    assert steps

    for step in steps:
        assert re.fullmatch(r"\d+ \d+ -\d+\.\d{3} \d", step)

    file.write_bytes(b"no model")
    failed = run_program([tmp_path / "example"], cwd=tmp_path, check=False)

    assert failed.returncode == 1
    assert failed.stderr.startswith(
        "translator.regard: damaged (it is no runtime file, or cut"
    )


HOSTILE = [
    ("transformer", "transformer", "int8"),
    ("recurrent", "recurrent", "float32"),
    ("convolutional", "convolutional", "bfloat16"),
    ("recurrent", "no_attention", "int8"),
    (None, "recurrent", "float32"),
    (None, "convolutional", "int8"),
]
"""Encoder, decoder and precision of files; without an encoder they are those of captioners."""


@pytest.mark.system
@pytest.mark.parametrize(
    ("encoder", "decoder", "precision", "count"),
    [
        (*HOSTILE[0], 60),
        *(pytest.param(*case, 400, marks=pytest.mark.slow) for case in HOSTILE),
    ],
)
def test_hostile_files_end_in_a_sentence(  # noqa: PLR0913 - the columns of its table
    make: Maker,
    sanitised: Sanitised,
    tmp_path: Path,
    encoder: str | None,
    decoder: str,
    precision: str,
    count: int,
) -> None:
    """Mutations with a valid checksum; by hand more: `fuzz_runtime FILE FIRST COUNT`."""
    if encoder is None:
        path = tmp_path / "model.regard"
        run = captioner_folder(tmp_path / "run", decoder)
        path.write_bytes(without_encoder(run, precision))
    else:
        _, runtime = make(encoder, decoder, precision)
        path = runtime.model.path

    options = "allocator_may_return_null=1:max_allocation_size_mb=2000"
    program = sanitised(HERE / "fuzz_runtime.c", native.SOURCES)
    command = [program, path, "0", str(count)]
    environment = {"ASAN_OPTIONS": options}
    done = run_program(
        command,
        check=False,
        env=environment,
        timeout=300,
    )

    assert done.returncode == 0, done.stderr[-2000:]
    assert f"{count} mutations" in done.stdout
