"""Card, report and test scores are of the weights in the folder, whatever ends a run and whenever.

What they should say is computed by sacreBLEU and safetensors from that folder alone.
"""

from __future__ import annotations

import csv
import html
import re
import shutil
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sacrebleu.metrics.chrf import CHRF
from safetensors import safe_open

import regard
from regard.common.errors import LineWarning, TrainingError, UsageError
from regard.interchange import runtime
from regard.learn.samples import korean_english
from regard.learn.samples.images import image_sample
from regard.runtime.model import RuntimeModel

pytestmark = [
    pytest.mark.system,
    pytest.mark.filterwarnings("ignore::regard.common.errors.LineWarning"),
]

SIDES = ("encoder", "decoder")
SIDE = {"layers": 1, "size": 24, "heads": 2, "feedforward": 48, "dropout": 0}
SETTINGS: dict[str, object] = {
    **{f"model.{side}.{key}": value for side in SIDES for key, value in SIDE.items()},
    "data.check": False,
    "tokenizer.size": 600,
    "batching.tokens": 256,
    "schedule.warmup": 4,
    "training.updates": 4,
    "training.validate_every": 4,
    "training.best_by": "loss",  # which falls at each of these validations
    "training.precision": "float32",
}


class Killed(BaseException):
    """Stands for a kill: nothing handles it."""


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run that has ended after four updates, with its test score."""
    folder = tmp_path_factory.mktemp("pages")
    sizes = {"train": 100, "valid": 5, "test": 0, "recombination": 0, "length": 0}
    korean_english(sizes=sizes, short=1.0).write(folder, "ko", "en")
    return regard.train(
        source=folder / "train.ko",
        target=folder / "train.en",
        out=folder / "run",
        settings=SETTINGS,
        test=8,
        threads=1,
    ).folder


def weights_update(run: Path) -> int:
    with safe_open(run / "model.safetensors", "pt") as file:
        return int(file.metadata()["update"])


def chrf(run: Path, name: str, pairs: Path | None = None, **search: Any) -> float:
    """Return the chrF of the weights in the folder on held-out pairs in it, or on other pairs."""
    path = pairs or run / f"{name}.tsv"
    lines = path.read_text(encoding="utf-8").splitlines()
    sources, targets = zip(*(line.split("\t") for line in lines), strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LineWarning)
        translations = regard.load(run).translate(list(sources), **search)
    outputs = [translation.text for translation in translations]
    return float(CHRF().corpus_score(outputs, [list(targets)]).score)


def assert_all_is_of_the_weights(run: Path) -> None:
    """Compare what card and report claim, if they are there, with the weights."""
    update = weights_update(run)
    if (run / "README.md").exists():
        card = (run / "README.md").read_text(encoding="utf-8")
        (said,) = re.findall(r"Validation at update (\d+), .* chrF ([\d.]+),", card)
        assert (int(said[0]), float(said[1])) == (
            update,
            pytest.approx(chrf(run, "valid", beam=1), abs=0.006),
        )
        for score in re.findall(r"^- Test on .*chrF (\d+\.\d+)", card, re.MULTILINE):
            assert float(score) == pytest.approx(chrf(run, "test"), abs=0.06)
        for other in re.findall(r"Earlier test, of the weights at update (\d+)", card):
            assert int(other) != update
    if (run / "report.html").exists():
        page = (run / "report.html").read_text(encoding="utf-8")
        (of, search) = re.findall(
            r"of the weights at update (\d+), by ([^.]+)\.", page
        )[0]
        assert int(of) == update
        beam = 1 if search == "greedy search" else int(search.split()[-1])
        (score,) = re.findall(r"chrF ([\d.]+) on \d+ validation lines", page)
        assert float(score) == pytest.approx(chrf(run, "valid", beam=beam), abs=0.06)
        for score in re.findall(r"<p>Test, on pairs .*?chrF (\d+\.\d+)", page):
            assert float(score) == pytest.approx(chrf(run, "test"), abs=0.06)


def test_an_ended_run_tells_of_its_weights(started: Path) -> None:
    assert weights_update(started) == 4
    card = (started / "README.md").read_text(encoding="utf-8")
    assert "- Test on 8 pairs" in card
    assert ": 8 pairs, beam 5" in (started / "report.html").read_text("utf-8")
    assert_all_is_of_the_weights(started)


def test_test_translations_are_a_table_to_correct(started: Path) -> None:
    pairs = (started / "test.tsv").read_text(encoding="utf-8").splitlines()
    sources = [pair.split("\t")[0] for pair in pairs]
    expected = [one.text for one in regard.load(started).translate(sources)]
    path = started / "test-translations.csv"
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [f"{row['source']}\t{row['reference']}" for row in rows] == pairs
    assert [row["translation"] for row in rows] == expected


POINTS = {
    "before the weights are renamed": "regard.training.best_weights.save_tensors",
    "before the journal has them": "regard.training.trainer.Trainer._record",
    "before the report": "regard.evaluation.run_pages.RunPages.write_report",
    "before the card": "regard.training.model_card.write",
    "before the checkpoint": "regard.training.checkpoint.save_parts",
    "before the test": "regard.run._Session._score_test",
    "before the closing": "regard.run._Session._finish",
    "nowhere": "",
}


FIRST_POINTS = [
    "before the journal has them",
    "before the card",
    "before the checkpoint",
    "before the closing",
]
"""Points of each kind: amid a validation, amid its pages, between both and the checkpoint, and at
the end. The fuzzer kills at drawn ones.
"""


@pytest.mark.parametrize(
    "point",
    [
        *FIRST_POINTS,
        *(
            pytest.param(point, marks=pytest.mark.slow)
            for point in POINTS
            if point not in FIRST_POINTS
        ),
    ],
)
def test_a_run_killed_at_a_point_tells_of_its_weights_and_of_those_it_is_resumed_with(
    started: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    run = Path(shutil.copytree(started, tmp_path / "run"))
    longer = {"training.updates": 12}

    def kill(*_: object, **__: object) -> None:
        raise Killed

    def kill_after_resuming(self: Any, event: str, **_: object) -> None:
        if event == "valid":
            raise Killed

    if point == "nowhere":
        regard.train(out=run, resume=True, settings=longer, threads=1)
    else:
        with monkeypatch.context() as patch:
            stop = kill_after_resuming if "journal" in point else kill
            if point == "before the card":  # that of the resumption is written
                write = regard.training.model_card.write
                calls = list[int]()

                def kill_at_the_second(*arguments: Any) -> None:
                    calls.append(1)
                    if len(calls) == 2:
                        raise Killed
                    write(*arguments)

                stop = kill_at_the_second
            patch.setattr(POINTS[point], stop)
            with pytest.raises(Killed):
                regard.train(out=run, resume=True, settings=longer, threads=1)
    assert_all_is_of_the_weights(run)
    if point in ("before the checkpoint", "before the test", "before the closing"):
        assert (run / "README.md").exists()
        assert (run / "report.html").exists()

    regard.train(out=run, resume=True, settings=longer, threads=1)
    assert weights_update(run) == 12
    assert_all_is_of_the_weights(run)
    card = (run / "README.md").read_text(encoding="utf-8")
    assert "- Test on 8 pairs" in card
    assert "Earlier test, of the weights at update 4, on 8 pairs" in card


def test_ctrl_c_leaves_card_and_report_of_the_best_weights_and_old_tests_as_history(
    started: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(started, tmp_path / "run"))

    def interrupt(event: str, _: dict[str, Any]) -> None:
        if event == "valid":
            signal.raise_signal(signal.SIGINT)

    more = {"training.updates": 100}
    ended = regard.train(
        out=run, resume=True, settings=more, threads=1, report=interrupt
    )
    assert ended.outcome.stopped == signal.SIGINT
    assert weights_update(run) == 8
    assert_all_is_of_the_weights(run)
    card = (run / "README.md").read_text(encoding="utf-8")
    assert "stopped by Ctrl-C" in card
    assert "- Test on" not in card
    assert "Earlier test, of the weights at update 4" in card
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "Earlier test, of the weights at update 4: 8 pairs" in page

    runtime.export(run, tmp_path / "run.regard", "float32")
    readme = RuntimeModel(tmp_path / "run.regard").card["readme"]
    assert readme == card
    assert "Validation at update 8," in readme


def test_an_error_leaves_card_and_report_of_the_best_weights(
    started: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Path(shutil.copytree(started, tmp_path / "run"))

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("regard.training.checkpoint.save_parts", full)
    with pytest.raises(TrainingError, match="No space left"):
        regard.train(out=run, resume=True, settings={"training.updates": 12}, threads=1)
    assert (run / "report.html").exists()
    assert_all_is_of_the_weights(run)


def test_the_card_keeps_the_command_that_made_the_model(
    started: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Path(shutil.copytree(started, tmp_path / "run"))
    for updates in (5, 6, 6):
        command = ["regard", "train", "--resume", "--seed", str(updates)]
        monkeypatch.setattr(sys, "argv", command)
        settings = {"training.updates": updates}
        regard.train(out=run, resume=True, settings=settings, threads=1)
    first, second = (f"`regard train --resume --seed {n}`" for n in (5, 6))
    card = (run / "README.md").read_text(encoding="utf-8")
    assert f"- Commands: called from Python, then {first}, then {second}\n" in card


def test_a_run_is_resumed_for_a_time(
    started: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock of which each update takes ten seconds: two minutes hold eleven and the end."""
    run = Path(shutil.copytree(started, tmp_path / "run"))
    after = "regard.training.trainer._Clock.after"
    monkeypatch.setattr(after, lambda _, update: 10.0 * update)
    monkeypatch.setattr("regard.run._Session._minutes", 0.0)
    ends = list[float]()

    def hear(event: str, values: dict[str, Any]) -> None:
        if event == "budget":
            ends.append(values["minutes"])

    elapsed = _elapsed(run)
    ended = regard.train(out=run, resume=True, budget="2m", threads=1, report=hear)
    assert ends == [pytest.approx(2 + elapsed / 60, abs=1e-4)]
    update = ended.outcome.progress.update
    assert 10 * update + 20 >= 120 + elapsed
    assert update > 4
    assert ended.recipe.training.updates == update
    assert ended.recipe.training.minutes is None
    assert_all_is_of_the_weights(run)

    with pytest.raises(UsageError, match=r"`budget=`: it and training.updates both"):
        regard.train(out=run, resume=True, budget="2m", settings=SETTINGS)


def test_weights_are_not_chosen_by_a_bleu_that_means_nothing(tmp_path: Path) -> None:
    rows = [f"{n} 번\tno {n}" for n in range(60)]
    (tmp_path / "pairs.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    messages = list[str]()
    run = regard.train(
        pairs=tmp_path / "pairs.tsv",
        out=tmp_path / "run",
        settings={**SETTINGS, "tokenizer.size": 350, "training.best_by": "bleu"},
        threads=1,
        report=lambda _, values: messages.append(str(values.get("text"))),
    )
    assert run.outcome.progress.best_by == "chrf"
    assert run.outcome.progress.best == pytest.approx(run.best["chrf"], abs=1e-6)
    assert any("'bleu' means nothing for validation lines" in text for text in messages)
    card = (run.folder / "README.md").read_text(encoding="utf-8")
    assert "which means nothing for lines of fewer than four words" in card


def messages_of(**arguments: Any) -> tuple[Path, list[str]]:
    """Train; return the folder and the messages."""
    messages = list[str]()
    run = regard.train(
        **arguments,
        threads=1,
        report=lambda _, values: messages.append(str(values.get("text"))),
    )
    return run.folder, messages


@pytest.mark.parametrize("is_held_out", [True, False])
def test_a_fine_tuned_model_is_scored_on_the_validation_pairs_of_its_parent(
    started: Path, tmp_path: Path, is_held_out: bool
) -> None:
    """They are in its folder, or where its recipe says."""
    parent = Path(shutil.copytree(started, tmp_path / "parent"))
    if not is_held_out:
        data = started.parent
        parent = regard.train(
            source=data / "train.ko",
            target=data / "train.en",
            valid_pairs=started / "valid.tsv",
            out=tmp_path / "other",
            settings=SETTINGS,
            threads=1,
        ).folder
    rows = [f"나는 {n}번 집에 간다\tfoo bar {n}" for n in range(40)]
    (tmp_path / "own.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    child, messages = messages_of(
        pairs=tmp_path / "own.tsv",
        parent=parent,
        out=tmp_path / "child",
        settings={"training.updates": 20, "training.precision": "float32"},
        languages="ko,en",
    )
    (line,) = (text for text in messages if "before fine-tuning" in text)
    before, after = (
        chrf(run, "valid", beam=1, pairs=started / "valid.tsv")
        for run in (parent, child)
    )
    assert f"chrF {before:.1f} before fine-tuning and {after:.1f} now on " in line
    assert ("[[data.mix]]" in line) == (before - after >= 1)
    page = (child / "report.html").read_text(encoding="utf-8")
    assert "before fine-tuning" in page
    assert not any("translates Korean" in text for text in messages)


def test_a_parent_of_other_languages_is_said(started: Path, tmp_path: Path) -> None:
    rows = [f"na {n}\tto the house of {n}" for n in range(40)]
    (tmp_path / "own.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    _, messages = messages_of(
        pairs=tmp_path / "own.tsv",
        parent=started,
        out=tmp_path / "child",
        settings={"training.updates": 1},
        languages="tr,en",
    )
    assert any(
        f"{started} translates ko → en, and these pairs are tr → en" in text
        for text in messages
    )


def test_a_captioner_has_a_report_of_its_weights(
    tmp_path: Path, open_page: Callable[..., Any]
) -> None:
    image_sample(60, 8, 1).write(tmp_path)
    settings = {
        "model.encoder.kind": "vit",
        "model.encoder.patch_size": 8,
        "model.decoder.kind": "transformer",
        **{key: value for key, value in SETTINGS.items() if "training" in key},
        **{f"model.{side}.{key}": SIDE[key] for key in SIDE for side in SIDES},
        "tokenizer.size": 300,
        "batching.tokens": 512,
        "data.images.height": 32,
        "data.images.width": 32,
        "training.updates": 12,
    }
    run, messages = messages_of(
        images=tmp_path / "images",
        captions=tmp_path / "train.en.tsv",
        valid_captions=tmp_path / "valid.en.tsv",
        out=tmp_path / "run",
        settings=settings,
    )
    lines = (tmp_path / "valid.en.tsv").read_text(encoding="utf-8").splitlines()
    names = list(dict.fromkeys(line.split("\t")[0] for line in lines))
    captions = regard.load(run).caption([tmp_path / "images" / name for name in names])
    (commonest, count) = Counter(one.text for one in captions).most_common(1)[0]
    page = (run / "report.html").read_text(encoding="utf-8")
    assert f"weights at update {weights_update(run)}, by a beam of" in page
    row = f'<th scope="row">{commonest}</th><td class="number">{count}</td>'
    assert (row in page) == (count > 1)
    assert "a captioner that does not look has CIDEr-D" in page
    assert page.count('aria-label="Example') == len(captions)
    shown = html.unescape(page)
    assert all(line.split("\t")[1] in shown for line in lines), "what was written"
    assert any("a captioner that does not look" in text for text in messages)
    assert messages[-1] == f"report: {run / 'report.html'}"
    assert open_page((run / "report.html").as_uri(), "h1").title() == "Report of run"


def test_the_end_of_a_run_takes_a_part_of_its_time(
    started: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is translated within it is a sample, and said to be one."""
    monkeypatch.setattr("regard.evaluation.sampling.LEAST", 3)
    monkeypatch.setattr("regard.run.CLOSING_SHARE", 0.0)
    run = Path(shutil.copytree(started, tmp_path / "run"))
    _, messages = messages_of(out=run, resume=True, settings={"training.updates": 8})
    assert any(
        "test on 3 pairs, beam 5, too few for inter" in text for text in messages
    )
    of_test = (
        "3 of 8 test pairs were drawn at random, as the end of a run takes a tenth"
    )
    assert any(of_test in text for text in messages)
    assert any("3 of 4 validation lines were drawn" in text for text in messages)


def _elapsed(run: Path) -> float:
    """Return the seconds of a run by its newest checkpoint."""
    newest = sorted((run / "checkpoints").iterdir())[-1]
    text = (newest / "state.json").read_text(encoding="utf-8")
    return float(re.findall(r'"elapsed": ([\d.e-]+)', text)[0])
