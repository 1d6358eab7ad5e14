"""The lab: all experiments run on little data and give whole findings; folders, stops and bad
input.
"""

from __future__ import annotations

import base64
import io
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from fontTools.ttLib import TTFont
from helpers import system_marks
from helpers.time_limits import wait_until

from regard.common.errors import DataError, TrainingError, UsageError
from regard.learn.lab import (
    EXPERIMENTS,
    Findings,
    Text,
    experiment_runs,
    find_experiment,
    run_experiment,
)
from regard.learn.lab import bench as bench_module
from regard.learn.lab.bench import Bench, Plan
from regard.learn.lab.data import write_crowded, write_lengths, write_lists
from regard.learn.lab.experiment import Experiment
from regard.learn.lab.experiment_page import render_page
from regard.learn.lab.experiments import norm, positions, scaling
from regard.learn.lab.findings import OUTCOMES, Curve, Graph, Part, Plot, Table, Verdict
from regard.learn.lab.measures import text_scores
from regard.learn.lab.models import recurrent
from regard.learn.lab.sweep import Sweep
from regard.learn.lab.training import DIVERGED, STARTUP, TrainingPool
from regard.learn.lab.verdicts import above
from regard.learn.samples import korean_english
from regard.model_folder import load_tensors
from regard.training.journal import read
from regard.training.run_lock import is_locked

TESTS = Path(__file__).parent.parent
HANGUL = re.compile("[가-힣]")
PLAN = Plan(4, (2e-3, 4e-3, 8e-3), extra=1)
TINY = recurrent(size=16, embedding=16, encoder={"size": 8, "embedding": 16})


def write_little(folder: Path) -> None:
    """Write a sample of the same form with little in it."""
    folder.mkdir(parents=True)
    sizes = {"train": 300, "valid": 8, "test": 8, "recombination": 0, "length": 60}
    korean_english(sizes=sizes).write(folder, "ko", "en")
    (folder / "SAMPLE.md").write_text("a little sample")


LITTLE = {
    "sample": write_little,
    "length-sample": partial(
        write_lengths, parts={"test": 40, "valid": 8, "train": 300}
    ),
    "lists": partial(write_lists, parts={"test": 40, "valid": 8, "train": 300}),
    "image-sample": partial(write_crowded, parts={"train": 24, "valid": 8, "test": 8}),
}


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train for four updates on little data, and without shipped results, which are of other
    models.
    """
    sweep = Bench.sweep

    def briefly(self: Bench, arms: Any, names: Any, plan: Plan, *others: Any) -> Sweep:
        small = {name: _with_few_tokens(values) for name, values in arms.items()}
        return sweep(self, small, names, replace(plan, updates=4), *others)

    monkeypatch.setattr(Bench, "sweep", briefly)
    monkeypatch.setattr(bench_module, "DATA", LITTLE)


def _with_few_tokens(values: dict[str, Any]) -> dict[str, Any]:
    if "size" not in values["tokenizer"]:
        return values
    return {**values, "tokenizer": {**values["tokenizer"], "size": 600}}


def texts_of(findings: Findings) -> list[Text]:
    texts = [findings.graph.caption, *findings.remarks]
    for part in findings.verdict.parts:
        texts += [part.claim, part.reason, part.change]

    for table in findings.tables:
        for row in ([table.title], table.columns, *table.rows):
            texts += [cell for cell in row if isinstance(cell, Text)]

    return texts


def check(findings: Findings) -> None:
    """Check that findings are whole: every text in both languages, a cell for each column,
    something to draw.
    """
    for text in texts_of(findings):
        assert text.en
        assert text.ko
        assert not HANGUL.search(re.sub("“[^”]*”", "", text.en)), text.en

    for table in findings.tables:
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.columns)}, table.title

    assert findings.verdict.outcome in OUTCOMES

    for plot in findings.graph.plots:
        assert all(curve.points for curve in plot.curves)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_runs_to_whole_findings(
    name: str, tmp_path: Path, little: None
) -> None:
    out = tmp_path / name
    check(run_experiment(name, out, workers=2))

    page = (out / "index.html").read_text("utf-8")

    assert EXPERIMENTS[name].title.en in page
    assert "<script" not in page
    assert "<svg" in page

    content = json.loads((out / "result.json").read_text("utf-8"))
    assert content["experiment"] == name
    assert (out / "graph.svg").stat().st_size > 500

    # Again: nothing is trained, and the page is in Korean.
    run_experiment(name, out, workers=2, language="ko")
    assert EXPERIMENTS[name].title.ko in (out / "index.html").read_text("utf-8")


def _tiny(bench: Bench) -> Findings:
    arms = {"tiny": TINY, "other": recurrent("no_attention", {"size": 8}, size=16)}
    names = {"tiny": "tiny", "other": "other"}
    sweep = bench.sweep(arms, names, PLAN, text_scores(bench))
    claim = Text("Tried.", "해 보았습니다.")
    part = above(sweep.dots("tiny"), sweep.dots("other"), claim)
    graph = Graph((sweep.plot("chrF"),), Text("Two models.", "두 모델."))

    return Findings(Verdict((part,)), (sweep.table("Runs", {"chrF": "chrF"}),), graph)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """Register an experiment of two tiny models."""
    experiment = Experiment(
        "tiny",
        Text("Tiny", "작은 실험"),
        Text("It runs.", "된다."),
        "000",
        Text("S.", "다."),
        Text("A.", "가."),
        Text("B.", "나."),
        _tiny,
    )
    monkeypatch.setitem(EXPERIMENTS, "tiny", experiment)

    return experiment


@pytest.mark.slow
def test_full_sweeps_rates_and_quick_trains_one_seed_at_the_best(
    tmp_path: Path, little: None, tiny: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(name: str, full: bool = False) -> tuple[Findings, dict[str, Any]]:
        findings = run_experiment("tiny", tmp_path / name, full=full, workers=2)
        result = json.loads((tmp_path / name / "result.json").read_text("utf-8"))
        return findings, result["sweep"]

    findings, shipped = run("full", full=True)
    check(findings)

    runs = shipped["runs"]

    for arm, best in shipped["best"].items():
        mine = [run for run in runs if run["arm"] == arm]
        at_best = [run for run in mine if run["rate"] == best]
        others = [run for run in mine if run["rate"] != best]

        assert {run["rate"] for run in mine} >= set(PLAN.rates)
        assert sorted(run["seed"] for run in at_best) == [1, 2, 3]
        assert {run["seed"] for run in others} == {1}
        assert all(run["scores"] for run in at_best)
        assert not any(run["scores"] for run in others), "they are only validated"

        valid = {run["rate"]: run["valid"] for run in mine if run["seed"] == 1}
        assert valid[best] == max(valid.values())

    weights = [*(tmp_path / "full" / "runs").rglob("model.safetensors")]
    before = {path: path.stat().st_mtime_ns for path in weights}
    run("full", full=True)
    after = {path: path.stat().st_mtime_ns for path in before}

    assert after == before, "what has ended is not trained again"

    monkeypatch.setattr(
        experiment_runs, "shipped_results", lambda _: Sweep.of_shipped(shipped)
    )
    findings, again = run("quick")

    check(findings)

    assert again["best"] == shipped["best"]
    assert len(again["runs"]) == len(runs), "own runs take the place of shipped ones"

    trained = {path.name for path in (tmp_path / "quick" / "runs").iterdir()}
    best = shipped["best"].items()
    assert trained == {f"{arm}-{rate:.3g}-seed1" for arm, rate in best}

    shipped["recipes"]["tiny"] = "another"
    assert run("changed")[0].verdict.outcome == "undecided", "one seed is left"

    monkeypatch.setattr(experiment_runs, "shipped_results", lambda _: None)
    assert "no results of --full" in run("alone")[0].remarks[-1].en


def test_another_folder_of_an_experiment_is_refused(
    tmp_path: Path, tiny: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = r"no experiment is called 'tinny'; did you mean 'tiny'\?"
    with pytest.raises(UsageError, match=message):
        run_experiment("tinny", tmp_path / "a")

    message = r"no experiment is called 'zzz'; there are .*attention"
    with pytest.raises(UsageError, match=message):
        find_experiment("zzz")

    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")

    with pytest.raises(UsageError, match="holds other files; choose another folder"):
        run_experiment("tiny", tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]

    out = tmp_path / "out"
    monkeypatch.setattr(Bench, "sweep", lambda *_: next(iter(())))

    with pytest.raises(StopIteration):
        run_experiment("tiny", out)

    message = r"another experiment was begun there \(effort quick\)"
    with pytest.raises(UsageError, match=message):
        run_experiment("tiny", out, full=True)

    (out / "lab.json").write_text("{")
    with pytest.raises(DataError, match="damaged; delete"):
        run_experiment("tiny", out)

    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="nothing can be written"):
        run_experiment("tiny", tmp_path / "file" / "out")


def test_a_run_that_diverges_scores_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, little: None
) -> None:
    write_little(tmp_path / "sample")
    monkeypatch.setattr(
        TrainingPool, "train", lambda _, jobs: {job.folder: DIVERGED for job in jobs}
    )
    bench = Bench(tmp_path, True, 2, 1, lambda _: None)
    plan = Plan(4, (4e-3, 8e-3))
    sweep = bench.sweep({"bad": TINY}, {"bad": "bad"}, plan, text_scores(bench))

    # Where nothing is learnt, the sweep goes on to lower rates.
    assert {run.rate for run in sweep.runs} == {5e-4, 1e-3, 2e-3, 4e-3, 8e-3}

    seeds = [run.seed for run in sweep.runs if run.rate == 5e-4]
    assert sorted(seeds) == [1, 2, 3]
    assert len(sweep.runs) == 4 + 3
    assert {run.valid for run in sweep.runs} == {0.0}
    assert sweep.dots("bad").values == (0.0, 0.0, 0.0)
    assert bench.own("bad") == []


@pytest.mark.system
def test_a_run_that_fails_otherwise_is_reported(tmp_path: Path, little: None) -> None:
    write_little(tmp_path / "sample")
    (tmp_path / "sample" / "valid.en").write_text("")  # cannot be read beside valid.ko
    bench = Bench(tmp_path, True, 2, 1, lambda _: None)
    plan = Plan(4, (1e-3,))

    with pytest.raises(TrainingError, match=r"tiny-0\.001-seed1: .*valid"):
        bench.sweep({"tiny": TINY}, {"tiny": "tiny"}, plan, text_scores(bench))


STOPPED = """
import sys
from pathlib import Path
sys.path.insert(0, {folder!r})
import test_lab
from regard.learn.lab import bench, EXPERIMENTS, run_experiment
bench.DATA = test_lab.LITTLE
def run(b):
    b.sweep({{"tiny": test_lab.TINY}}, {{"tiny": "tiny"}}, test_lab.Plan(120, (4e-3,), 0, 1), lambda _: {{}})
    raise SystemExit(7)
EXPERIMENTS["tiny"] = test_lab.Experiment("tiny", *[test_lab.Text("a", "가")] * 2, "000", *[test_lab.Text("a", "가")] * 2, run)
run_experiment("tiny", Path(sys.argv[1]), workers=1, say=print)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@system_marks.posix
def test_training_goes_on_after_a_stop(tmp_path: Path, number: int) -> None:
    """Ctrl-C reaches the training process, a kill of the experiment stops it; both times its
    checkpoint is saved.
    """
    script = tmp_path / "script.py"
    code = STOPPED.format(folder=str(Path(__file__).parent))
    script.write_text(code, encoding="utf-8")
    paths = os.pathsep.join(map(str, (TESTS.parent, TESTS)))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}

    def start(out: Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, str(script), str(out)], env=environment
        )

    assert start(tmp_path / "whole").wait() == 7

    stopped = start(tmp_path / "stopped")
    run = Path("runs", "tiny-0.004-seed1")
    journal = tmp_path / "stopped" / run / "journal.jsonl"

    def has_begun() -> bool:
        assert stopped.poll() is None

        return any(event["event"] == "train" for event in read(journal))

    wait_until(has_begun, "training begins", 600)
    stopped.send_signal(number)
    stopped.wait()
    end = "the training ends with its parent"
    wait_until(lambda: not is_locked(journal.parent), end)
    (ended,) = [event for event in read(journal) if event["event"] == "end"]

    assert ended["reason"] == "stopped by SIGTERM"
    assert ended["update"] < 120
    assert start(tmp_path / "stopped").wait() == 7

    weights = run / "model.safetensors"
    whole = load_tensors(tmp_path / "whole" / weights)
    resumed = load_tensors(tmp_path / "stopped" / weights)

    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_probes_give_what_the_notes_compute() -> None:
    variance, gradient = scaling.probe("dot", 100)
    assert variance == pytest.approx(100, rel=0.03)

    scaled, more = scaling.probe("scaled_dot", 100)
    assert scaled == pytest.approx(1, rel=0.03)
    assert more > 2 * gradient

    rows = norm._worked_example().rows
    assert rows[0][1:] == ("3.000, 5.000, −2.000", "2.000", "8.667")
    assert rows[1][2:] == ("0.000", "1.000")
    assert rows[2][2:] == ("3.000", "4.000"), "the variance of 2x + 3 is 4"

    weights = scaling._softmax_table().rows
    assert weights[0][1] == "0.826, 0.124, 0.050"

    shuffled = positions.shuffle("a b c d e f")
    assert shuffled == positions.shuffle("a b c d e f")
    assert shuffled != "a b c d e f"


@pytest.mark.system
def test_the_page_is_legible_in_korean_without_a_korean_font_and_keeps_intervals_together() -> (
    None
):
    table = Table(Text("Runs", "학습한 모델"), ("", "n"), (("a", "1"),))
    curve = Curve("chrF", ((0.0, 1.0), (1.0, 2.0)))
    graph = Graph((Plot("chrF", "", (curve,)),), Text("A line.", "선."))
    claim = Text("Four are better.", "네 개가 낫습니다.")
    reason = Text("Four: 80.6 (78.1 … 82.9).", "네 개: 80.6 (78.1 … 82.9).")
    change = Text("a seed below 70", "70보다 낮은 시드")
    verdict = Verdict((Part("holds", claim, reason, change),))
    findings = Findings(verdict, (table,), graph)
    experiment = replace(EXPERIMENTS["heads"], source="002, 003")
    page = render_page(experiment, findings, "regard lab heads", (), "ko")

    assert "<span>80.6 (78.1 … 82.9)</span>." in page
    assert "70보다 낮은 시드" in page
    assert "(노트 002, 003)" in page
    assert "font-src data:" in page

    embedded = page.split("base64,")[1].split(")")[0]
    font = TTFont(io.BytesIO(base64.b64decode(embedded)))
    letters = {ord(letter) for letter in "학습한모델낫습니다"}

    assert letters <= set(font.getBestCmap())

    english = render_page(experiment, findings, "", (), "en")
    assert "(Notes 002, 003)" in english


@pytest.mark.parametrize(
    ("workers", "minutes", "expected"),
    [(1, [1, 2, 3], 6), (2, [3, 1, 1], 3), (4, [1, 2], 2)],
)
def test_a_forecast_is_of_workers_that_begin_the_next_training_when_they_are_free(
    workers: int, minutes: list[int], expected: int
) -> None:
    lines = list[str]()
    seconds = [60 * each - STARTUP for each in minutes]
    TrainingPool(workers, lines.append).forecast(seconds)

    assert lines == [f"training: about {expected:.1f} min, by the shipped results"]
