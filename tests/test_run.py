"""regard.train: training from Python as by the command line, without printing."""

from __future__ import annotations

import os
import re
import shutil
import signal
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch

import regard
from regard.common.errors import (
    ConfigurationError,
    DataError,
    LineWarning,
    ModelFolderError,
    UsageError,
)
from regard.common.settings import read_toml
from regard.evaluation.text_metrics import scores
from regard.learn.samples import korean_english
from regard.model_folder import load_settings, load_tensors
from regard.pipeline import load
from regard.requests.train_request import TrainArguments
from regard.run import _Session
from regard.training import Recipe, World
from regard.training.compose_recipe import RecipeComposer

pytestmark = pytest.mark.system

SIDE = {"layers": 1, "size": 24, "heads": 2, "feedforward": 48, "dropout": 0}
SETTINGS: dict[str, object] = {
    **{
        f"model.{side}.{key}": value
        for side in ("encoder", "decoder")
        for key, value in SIDE.items()
    },
    "data.check": False,
    "tokenizer.size": 600,
    "batching.tokens": 256,
    "training.updates": 4,
    "training.validate_every": 2,
    "training.validate_with": 2,
    "training.precision": "float32",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    sizes = {"train": 100, "valid": 5, "test": 0, "recombination": 0, "length": 0}
    korean_english(sizes=sizes, short=1.0).write(folder, "ko", "en")
    return folder


def files(data: Path) -> dict[str, Any]:
    return {
        f"{prefix}{side}": data / f"{split}.{language}"
        for prefix, split in (("", "train"), ("valid_", "valid"))
        for side, language in (("source", "ko"), ("target", "en"))
    }


@pytest.fixture(scope="module")
def events() -> list[tuple[str, dict[str, Any]]]:
    """Return the events of the run."""
    return []


@pytest.fixture(scope="module")
def run(
    data: Path,
    events: list[tuple[str, dict[str, Any]]],
    tmp_path_factory: pytest.TempPathFactory,
) -> regard.Run:
    return regard.train(
        **files(data),
        out=tmp_path_factory.mktemp("runs") / "run",
        settings={**SETTINGS, "training.log_every": 2},
        threads=1,
        report=lambda *event: events.append(event),
    )


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_tensors(folder / "model.safetensors")


def equal(first: Path, second: Path) -> bool:
    first_weights = weights(first)
    second_weights = weights(second)
    return first_weights.keys() == second_weights.keys() and all(
        first_weights[name].equal(second_weights[name]) for name in first_weights
    )


# The model has learnt nothing.
@pytest.mark.filterwarnings("ignore:the translation has")
def test_a_run_holds_its_recipe_outcome_and_model(run: regard.Run) -> None:
    assert run.outcome.reason == "all updates done"
    assert run.outcome.progress.update == 4
    assert run.recipe == Recipe.parse(read_toml(run.folder / "train.toml"), "the run")
    assert set(run.best) == {"loss", "chrf", "bleu"}
    assert run.best["chrf"] == pytest.approx(run.outcome.progress.best, abs=1e-6), (
        "rounded in the journal"
    )
    assert [event["event"] for event in run.journal].count("valid") == 2

    (translation,) = run.load().translate("나는 집에 간다", no_repeat_ngram=1)
    assert isinstance(translation, regard.Translation)


def test_python_and_the_command_line_train_the_same_weights(
    run: regard.Run, data: Path, tmp_path: Path
) -> None:
    from regard.cli import main

    options = [
        f"--{name.replace('_', '-')}={file}" for name, file in files(data).items()
    ]
    options += [f"--set={key}={str(value).lower()}" for key, value in SETTINGS.items()]
    options += ["--set=training.log_every=2"]

    with pytest.raises(SystemExit) as ended:
        main(["train", *options, f"--out={tmp_path / 'run'}", "--threads=1", "--quiet"])
    assert ended.value.code == 0
    assert equal(run.folder, tmp_path / "run")
    assert read_toml(run.folder / "train.toml") == read_toml(
        tmp_path / "run" / "train.toml"
    )


def test_events_are_reported(
    run: regard.Run, events: list[tuple[str, dict[str, Any]]]
) -> None:
    names = [name for name, _ in events if name not in ("message", "progress")]
    assert names == ["train", "valid", "train", "valid", "end"]

    first = next(values for name, values in events if name == "progress")
    assert (first["update"], first["updates"], first["epoch"]) == (1, 4, 0)
    assert first["seconds_left"] > 0

    messages = [values["text"] for name, values in events if name == "message"]
    assert any(message.startswith("vocabulary: 624 tokens") for message in messages)
    assert any(message.startswith("next: ") for message in messages)
    assert messages[-1] == f"report: {run.folder / 'report.html'}"


def test_a_recipe_a_file_and_arguments_are_one(run: regard.Run, tmp_path: Path) -> None:
    for name, recipe in (("object", run.recipe), ("file", run.folder / "train.toml")):
        again = regard.train(recipe, out=tmp_path / name, threads=1)
        assert equal(run.folder, again.folder)


def test_a_run_is_resumed_with_more_updates_of_the_same_data(
    run: regard.Run, data: Path, tmp_path: Path
) -> None:
    """With other data nothing is trained or written; the same content goes on to the same weights,
    wherever it is now.
    """
    own = Path(shutil.copytree(data, tmp_path / "data"))
    settings = {**SETTINGS, "training.updates": 2}
    first = regard.train(
        **files(own), out=tmp_path / "run", settings=settings, threads=1
    )

    with pytest.raises(UsageError, match=r"there is a run already; add `resume=True`"):
        regard.train(**files(own), out=first.folder, settings=settings)

    before = contents(first.folder)
    text = (own / "train.en").read_text(encoding="utf-8")
    (own / "train.en").write_text(text.replace(" ", "  ", 1), encoding="utf-8")
    more = {"training.updates": 4}

    with pytest.raises(
        DataError,
        match=r"train.target: .*train.en has changed .*another `out=`.*\(`parent=`\)",
    ):
        regard.train(out=first.folder, resume=True, settings=more, threads=1)
    assert contents(first.folder) == before

    (own / "train.en").write_text(text, encoding="utf-8")
    own.rename(tmp_path / "moved")
    moved = files(tmp_path / "moved")
    resumed = regard.train(
        **moved, out=first.folder, resume=True, settings=more, threads=1
    )

    assert equal(run.folder, resumed.folder)

    child = regard.train(
        **files(data),
        out=tmp_path / "child",
        parent=first.folder,
        settings=more,
        threads=1,
    )
    assert child.outcome.progress.update == 4, "as the message proposes"
    assert child.recipe.model == run.recipe.model
    assert child.recipe.training.parent == str(first.folder)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_minutes_that_are_over_end_a_run_after_its_update(
    data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nothing is printed, and PyTorch has as many threads afterwards as before."""
    threads = torch.get_num_threads()
    capfd.readouterr()
    more = {
        "training.updates": None,
        "training.minutes": 1e-6,
        "training.validate_every": 100,
    }
    run = regard.train(
        **files(data), out=tmp_path / "run", settings={**SETTINGS, **more}, threads=1
    )
    assert (run.outcome.progress.update, run.outcome.reason) == (
        1,
        "the rest of its time is for the scores and the report",
    )
    assert (run.recipe.training.updates, run.recipe.training.minutes) == (1, None)

    assert tuple(capfd.readouterr()) == ("", "")
    assert torch.get_num_threads() == threads


def test_a_run_learns_below_which_score_a_translation_is_doubtful(
    run: regard.Run, data: Path, tmp_path: Path
) -> None:
    warnings.simplefilter("ignore", LineWarning)  # so few updates teach repetition
    lines = (data / "valid.ko").read_text(encoding="utf-8").splitlines()
    lowest = sorted(
        min(part.score for part in line.parts) for line in run.load().translate(lines)
    )

    assert load_settings(run.folder).search.score_threshold == pytest.approx(
        lowest[0], abs=1e-3
    )

    more = (data / "train.ko").read_text(encoding="utf-8").splitlines()
    folder = Path(shutil.copytree(run.folder, tmp_path / "copy"))
    session = _Session(
        out=folder,
        resume=True,
        sizes={},
        device="cpu",
        world=World(),
        report=None,
        parent=None,
    )
    session._learn_threshold(load(folder).translate(["---", *more]))
    doubtful = [
        translation.doubtful for translation in load(folder).translate(["---", *more])
    ]

    assert sum(doubtful) == 3, "three of a hundred lines with letters"

    session._learn_threshold(load(folder).translate(["---", "12:30"]))
    assert load_settings(folder).search.score_threshold is None

    own = {"training.updates": 1, "search.score_threshold": -3.0}  # as it was set
    child = regard.train(
        **files(data),
        out=tmp_path / "child",
        parent=run.folder,
        settings=own,
        threads=1,
    )

    assert load_settings(child.folder).search.score_threshold == -3.0

    source = run.load().tokenizer.source
    familiar = load_settings(run.folder).familiar

    assert familiar is not None
    assert not any(familiar.unseen(source.encode(line)) for line in more), (
        "what training has seen"
    )
    assert sum(
        familiar.unseen(source.encode(line)) > familiar.most for line in lines
    ) <= 0.03 * len(lines)
    assert (
        familiar.unseen(source.encode(" ".join(reversed(" ".join(more).split()))))
        > familiar.most
    )

    composer = RecipeComposer(TrainArguments(parent=run.folder, **files(data)))
    assert composer.compose().search.score_threshold is None, (
        "that of the parent is not inherited"
    )


# The model has learnt nothing.
@pytest.mark.filterwarnings("ignore:the translation has")
@pytest.mark.parametrize(("subject", "clauses", "parts"), [("ฉัน", 1, 2), ("ฉัน ", 2, 1)])
def test_a_run_learns_whether_spaces_part_sentences(
    tmp_path: Path, subject: str, clauses: int, parts: int
) -> None:
    """In Thai and Lao, by lines of the training data: if they have no spaces, those of a line part
    its sentences.
    """
    verbs = ["กลับบ้าน", "กินข้าว", "ทำงาน", "อ่านหนังสือ", "กำลังนอนหลับ"]
    rows = [
        f"{subject}{verb}{more}\tI {number} {more}"
        for number, verb in enumerate(verbs)
        for more in verbs
    ]
    (tmp_path / "pairs.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    settings = {**SETTINGS, "tokenizer.size": 350, "search.longest_source": 100}
    run = regard.train(
        pairs=tmp_path / "pairs.tsv", out=tmp_path / "run", settings=settings, threads=1
    )

    assert load_settings(run.folder).search.line_clauses == clauses

    (translation,) = run.load().translate("ฉันกลับบ้าน เขากินข้าว", max_length=3)
    assert len(translation.parts) == parts


def test_settings_of_another_run_are_not_resumed_with(
    run: regard.Run, data: Path, tmp_path: Path
) -> None:
    def train(name: str, **changes: object) -> Path:
        settings = {**SETTINGS, **changes}
        out = tmp_path / name
        return regard.train(**files(data), out=out, settings=settings, threads=1).folder

    started = train("run", **{"training.updates": 2, "training.log_every": 2})
    other = train("other", **{"training.updates": 1, "training.seed": 9})
    changed = train("changed", **{"training.updates": 1, "model.encoder.dropout": 0.3})
    # Another recipe, and the same run all the same.
    more = {"training.updates": 4, "training.log_every": 1}
    before = (started / "model.safetensors").read_bytes()

    for folder, why in (
        (other, "of another run"),
        (changed, "not as in train.toml: model"),
    ):
        shutil.copyfile(folder / "config.json", started / "config.json")
        with pytest.raises(
            ModelFolderError, match=rf"config\.json: .*{why}.*or delete it"
        ):
            regard.train(out=started, resume=True, settings=more, threads=1)
        assert (started / "model.safetensors").read_bytes() == before

    (started / "config.json").unlink()
    regard.train(out=started, resume=True, settings=more, threads=1)

    assert equal(run.folder, started)
    assert (started / "config.json").read_bytes() == (
        run.folder / "config.json"
    ).read_bytes()


def test_a_signal_stops_after_the_update_and_is_reported(
    data: Path, tmp_path: Path
) -> None:
    def interrupt(event: str, _: dict[str, Any]) -> None:
        if event == "valid":
            signal.raise_signal(signal.SIGINT)

    run = regard.train(
        **files(data), out=tmp_path / "run", settings=SETTINGS, report=interrupt
    )
    assert (run.outcome.stopped, run.outcome.progress.update) == (signal.SIGINT, 2)


def _tsv(path: Path) -> list[tuple[str, ...]]:
    return [
        tuple(line.split("\t"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]


# Few updates teach little.
@pytest.mark.filterwarnings("ignore::regard.common.errors.LineWarning")
@pytest.mark.parametrize("shards", [False, True])
def test_held_out_pairs_are_scored_once_at_the_end(
    data: Path, tmp_path: Path, shards: bool
) -> None:
    texts = {"source": data / "train.ko", "target": data / "train.en"}
    settings = {**SETTINGS, "data.shards": shards, "training.updates": 2}
    run = regard.train(
        **texts, out=tmp_path / "run", settings=settings, test=10, threads=1
    )
    test = _tsv(run.folder / "test.tsv")
    valid = _tsv(run.folder / "valid.tsv")

    assert (len(test), len(valid)) == (10, 4)
    assert not {*test} & {*valid}

    lines = set[str]()
    for path in texts.values():
        lines.update(path.read_text(encoding="utf-8").splitlines())

    assert {text for pair in (*test, *valid) for text in pair} <= lines

    (event,) = (event for event in run.journal if event["event"] == "test")
    assert (event["pairs"], event["update"]) == (10, 2)

    translations = run.load().translate([source for source, _ in test])
    expected = scores(
        [one.text for one in translations], [[target for _, target in test]]
    )
    assert [score["name"] for score in event["scores"]] == ["BLEU", "chrF"]
    for score, own in zip(event["scores"], expected, strict=False):
        assert score["value"] == pytest.approx(own.value)
        assert score["low"] <= score["high"]
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    bleu = event["scores"][0]["value"]

    assert f"10 pairs, beam 5, with 95 % intervals: BLEU {bleu:.1f} (" in page
    assert "- Test on 10 pairs, beam 5" in (run.folder / "README.md").read_text(
        encoding="utf-8"
    )

    longer = regard.train(
        out=run.folder, resume=True, settings={"training.updates": 3}, threads=1
    )
    assert (_tsv(run.folder / "test.tsv"), longer.recipe.data.test_count) == (test, 10)


# Few updates teach little.
@pytest.mark.filterwarnings("ignore::regard.common.errors.LineWarning")
def test_what_a_run_learns_from_text_in_shards_it_learns_when_it_is_resumed_too(
    data: Path, tmp_path: Path
) -> None:
    """As if it was killed between the summary of its shards and the files that are learnt."""
    learnt = ("config.json", "languages.json")
    settings = {**SETTINGS, "data.shards": True}
    run, killed = (
        regard.train(
            **files(data),
            out=tmp_path / name,
            settings={**settings, "training.updates": updates},
            threads=1,
        )
        for name, updates in (("run", 4), ("killed", 2))
    )
    for name in learnt:
        (killed.folder / name).unlink()
    more = {"training.updates": 4}
    regard.train(out=killed.folder, resume=True, settings=more, threads=1)

    for name in learnt:
        expected = (run.folder / name).read_bytes()
        assert (killed.folder / name).read_bytes() == expected


def test_a_file_to_test_on_is_scored_and_not_copied(data: Path, tmp_path: Path) -> None:
    """Two lines of two words have neither intervals nor a BLEU."""
    test = tmp_path / "own.tsv"
    test.write_text("나는 간다\tI go\n너는 온다\tyou come\n", encoding="utf-8")
    messages = list[str]()
    run = regard.train(
        **files(data),
        out=tmp_path / "run",
        settings={**SETTINGS, "training.updates": 1},
        test=test,
        threads=1,
        report=lambda _, values: messages.append(str(values.get("text"))),
    )
    (line,) = (text for text in messages if text.startswith("test on 2 pairs"))
    assert re.search(r"too few for intervals: BLEU [\d.]+, chrF [\d.]+$", line)
    note = messages[messages.index(line) + 1]
    assert note.startswith("BLEU means nothing here: ")

    assert [event["pairs"] for event in run.journal if event["event"] == "test"] == [2]
    assert not (run.folder / "test.tsv").exists()
    assert not (run.folder / "valid.tsv").exists()
    with pytest.raises(
        ConfigurationError, match=r"test_count \(3\) and test files exclude each other"
    ):
        regard.train(
            **files(data),
            out=tmp_path / "no",
            settings={"data.test_count": 3},
            test=test,
        )


def test_the_example_of_the_training_page_runs(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    page = (Path(__file__).parent.parent / "docs" / "training.md").read_text(
        encoding="utf-8"
    )
    (example,) = re.findall(r"```python\n(import regard\n.*?)```", page, re.DOTALL)

    assert '"training.updates": 500' in example

    for name in ("train.ko", "train.en"):
        (tmp_path / name).write_bytes((data / name).read_bytes())
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LineWarning)  # two updates teach little
        exec(example.replace("500", "2").replace("1000", "600"), {})

    assert "all updates done {'loss': " in capfd.readouterr().out


def test_arguments_that_exclude_each_other(data: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        regard.train(
            out=tmp_path,
            resume=True,
            preset="rnn",
            budget="30m",
            settings={"training.minutes": 5.0},
        )
    assert [cause.split(":")[0] for cause in raised.value.causes] == [
        "`preset=`",
        "`budget=`",
    ]
    with pytest.raises(
        ConfigurationError,
        match=r"unknown setting 'training.update'; did you mean 'training.updates'",
    ):
        regard.train(
            **files(data), out=tmp_path / "run", settings={"training.update": 1}
        )
    with pytest.raises(ConfigurationError, match="no training pairs"):
        regard.train(out=tmp_path / "run")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("minutes", [30, 2])
def test_a_dry_run_takes_the_time_of_its_budget(
    data: Path, monkeypatch: pytest.MonkeyPatch, minutes: int
) -> None:
    """Two trials differ by what else the machine does: the second one here is 1.6 times as slow."""
    from regard.run import dry_run
    from regard.training.budget import Trial

    trials = list[Trial]()

    def slower_each_time(*_: Any) -> Trial:
        trials.append(Trial(1.6 ** len(trials), 256.0, 10_000, 3))
        return trials[-1]

    # Reading the data takes part of the time.
    monkeypatch.setattr("regard.run.time", Mock(monotonic=lambda: 0.0))
    for module in ("budget", "run_report"):
        monkeypatch.setattr(f"regard.training.{module}.trial", slower_each_time)
    settings = {
        name: value for name, value in SETTINGS.items() if name != "training.updates"
    }
    request = TrainArguments(
        **files(data), settings=settings, budget=f"{minutes}m", device="cpu"
    )
    lines = dry_run(request)
    (time,) = (line for line in lines if line.startswith("time: "))

    assert re.search(rf"about {minutes}(\.0)? minutes", time), time
    assert any(
        f"time: {int(minutes * 60 / trial.seconds):,} updates" in time
        for trial in trials[:3]
    ), "of a size"


def test_a_gpu_sums_in_one_order_while_it_trains(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from regard.run import _deterministic

    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    with _deterministic("cpu", strict=True):
        assert not torch.are_deterministic_algorithms_enabled()

    # With images an operation without such a kernel goes on.
    for strict in (True, False):
        with suppress(KeyError), _deterministic("cuda:0", strict):
            assert torch.are_deterministic_algorithms_enabled()
            assert torch.is_deterministic_algorithms_warn_only_enabled() == (not strict)
            assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
            raise KeyError

    assert not torch.are_deterministic_algorithms_enabled()
