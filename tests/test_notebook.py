"""Runs and comparisons as a notebook shows them: short texts, tables, data frames and a bar."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from xml.etree import ElementTree

import pytest
import torch
from comparison.sample import make_comparison
from helpers.small_models import captioner_folder, folder

import regard
from regard.common.errors import UsageError
from regard.common.notebook import html_table, progress_bar
from regard.run import Run
from regard.training import Outcome, Progress

EVENTS: list[dict[str, Any]] = [
    {"event": "machine", "time": 1.0},
    {"event": "train", "update": 5, "cross_entropy": 3.25, "time": 2.0},
    {"event": "valid", "update": 5, "loss": 3.0, "chrf": 12.5, "time": 3.0},
    {"event": "callback", "update": 5, "sharpness": 0.5, "time": 4.0},
]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    lines = [json.dumps(event) + "\n" for event in EVENTS]
    (tmp_path / "journal.jsonl").write_text("".join(lines))
    progress = Progress(update=5, best=12.5, best_by="chrf", best_update=5)
    return Run(tmp_path, Mock(), Outcome(progress, "all <updates> are done"))


def cells(html: str) -> list[list[str]]:
    """Return the texts of a table, which has to be well-formed."""
    rows = ElementTree.fromstring(html).iter("tr")
    return [[cell.text or "" for cell in row] for row in rows]


def test_a_run_shows_itself_in_a_line_and_a_table(run: Run) -> None:
    assert repr(run) == (
        f"Run({str(run.folder)!r}, 5 updates, chrf 12.50: all <updates> are done)"
    )
    html = run._repr_html_()
    assert cells(html) == [["update", "loss", "chrf"], ["5", "3.00", "12.50"]]
    assert ElementTree.fromstring(html).findtext("caption") == repr(run)


def test_a_comparison_shows_itself_in_a_line_and_a_table() -> None:
    comparison = make_comparison(sentences=4, systems=2, seeds=2)
    html = comparison._repr_html_()
    systems, runs, length, *sentences = ElementTree.fromstring(html)
    head, *rows = cells(ElementTree.tostring(runs, "unicode"))

    assert len(repr(comparison)) < 200
    assert "2 systems with 4 runs" in repr(comparison)
    assert head[:3] == ["system", "run", "seed"]
    for row, result in zip(rows, comparison.runs, strict=True):
        assert row[:3] == [result.system, result.name, str(result.seed)]
        for score in result.scores:
            ends = f"{score.low:.2f} to {score.high:.2f}"
            assert row[head.index(score.name)] == f"{score.value:.2f} ({ends})"
    head, first, second = cells(ElementTree.tostring(systems, "unicode"))
    assert head[:4] == ["system", "runs", "BLEU", "BLEU − baseline"]
    score = comparison.systems[0].scores[0]
    assert first[2] == f"{score.mean:.2f} ({score.low:.2f} to {score.high:.2f})"
    mean = comparison.difference(comparison.systems[1], "TER")
    assert mean is not None
    assert second[-1] == f"−{-mean:.2f} (−0.50 to 7.00, Welch's p 0.062)"

    head, first, *_ = cells(ElementTree.tostring(length, "unicode"))
    bucket = comparison.breakdowns[0].systems[comparison.baseline][0]
    assert head[:4] == ["source words", "number", "system", "chrF"]
    assert first[:3] == [bucket.label, str(bucket.items), comparison.baseline]
    texts = [sentence.text for sentence in sentences]
    summary = [sentence.en for sentence in comparison.summary]
    assert texts == ["Summary", *summary, "Notes", *comparison.notes]


def test_systems_with_one_run_each_have_one_table() -> None:
    comparison = make_comparison(sentences=4, systems=2, seeds=1)
    systems, *others = ElementTree.fromstring(comparison._repr_html_())
    assert [part.tag for part in others].count("table") == 1
    assert len(cells(ElementTree.tostring(systems, "unicode"))) == 3


def test_a_small_number_is_not_shown_as_zero() -> None:
    numbers = {"p": 0.000999, "least": 0.0, "mean": 12.345}
    assert cells(html_table("", [numbers]))[1] == ["0.001", "0.00", "12.35"]


def test_results_print_in_a_line_or_a_line_for_each_layer() -> None:
    translation = regard.Translation("one two", ("▁one", "▁two"), -1.25)
    assert repr([translation]) == "[Translation('one two', score=-1.250)]"
    model = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.zeros(3, 4, 8)
    with regard.watch(model) as weights:
        model(x, x, x)
    assert repr(weights) == f"{next(iter(weights))} (3, 2, 4, 4)"


@pytest.mark.parametrize(
    ("seeds", "kind", "test"),
    [(1, "bootstrap", "paired bootstrap"), (3, "Student", "Welch")],
)
def test_a_frame_by_system_has_means_intervals_and_p(
    monkeypatch: pytest.MonkeyPatch, seeds: int, kind: str, test: str
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=list))
    comparison = make_comparison(sentences=4, systems=2, seeds=seeds)
    rows = comparison.to_frame("system")

    for row, system in zip(rows, comparison.systems, strict=True):
        assert (row["system"], row["seeds"]) == (system.name, seeds)
        runs = [run for run in comparison.runs if run.system == system.name]
        for i, score in enumerate(system.scores):
            values = [row[f"{score.name} {end}"] for end in ("mean", f"{kind} low")]
            assert values == [score.mean, score.low]
            assert row[f"{score.name} {kind} high"] == score.high
            # In the sample each run is certainly higher, and TER is lower.
            count = row[f"{score.name} runs significant this way"]
            is_higher = score.name != "TER"
            expected = None if system.name == comparison.baseline else seeds * is_higher
            assert count == expected
            assert all(run.scores[i].p == 0.001 for run in runs if expected is not None)
            assert (f"{score.name} {test} p" in row) == (score.lead is not None)
            if score.lead is not None:
                names = ("minus baseline", f"{test} low", f"{test} high", f"{test} p")
                shown = [row[f"{score.name} {name}"] for name in names]
                lead = score.lead
                assert shown == [lead.value, lead.low, lead.high, lead.p]


def test_frames_have_a_row_for_each_event_or_run(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=list))
    comparison = make_comparison(sentences=4, systems=2, seeds=1)

    assert run.to_frame() == EVENTS[1:]
    rows = comparison.to_frame()
    assert [row["run"] for row in rows] == [result.name for result in comparison.runs]
    for row, result in zip(rows, comparison.runs, strict=True):
        bleu = result.scores[0]
        assert row["BLEU"] == bleu.value
        assert (row.get("BLEU against") or "") == bleu.against
        assert row.get("BLEU difference") == (bleu.lead and bleu.lead.value)
        assert row["weights of update"] == result.tested_update
        assert row["words of an output"] == result.mean_length
        assert result.cost is None or row["weights"] == result.cost.weights


def test_frames_have_a_row_for_each_score_and_each_range(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=list))
    comparison = make_comparison(sentences=4, systems=2, seeds=2)
    scores = [score for run in comparison.runs for score in run.scores]
    for row, score in zip(comparison.to_frame("score"), scores, strict=True):
        assert (row["value"], row["bootstrap low"]) == (score.value, score.low)
        assert row.get("against", "") == score.against
        lead = score.lead
        values = tuple(row.get(f"difference{end}") for end in ("", " low", " high"))
        assert values == ((lead.value, lead.low, lead.high) if lead else (None,) * 3)
    parts = comparison.breakdowns
    buckets = [one for part in parts for of in part.systems.values() for one in of]
    for row, bucket in zip(comparison.to_frame("range"), buckets, strict=True):
        lead_values = row["minus baseline"], row["its low"], row["its high"]
        assert (row["label"], row["value"]) == (bucket.label, bucket.value)
        assert lead_values == (bucket.lead or (None,) * 3)
    with pytest.raises(UsageError, match="`by=seed`: wanted run, system, score, range"):
        comparison.to_frame("seed")  # type: ignore[arg-type]


def test_without_pandas_a_frame_is_refused_in_a_sentence(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)

    with pytest.raises(UsageError, match="pip install pandas"):
        run.to_frame()


def test_a_notebook_has_a_bar_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    assert progress_bar() is None

    shown: list[str] = []
    shell = SimpleNamespace()
    handle = SimpleNamespace(update=shown.append)
    display = SimpleNamespace(HTML=str, display=lambda *_, **__: handle)
    ipython = SimpleNamespace(get_ipython=lambda: shell, display=display)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)

    assert progress_bar() is None, "a terminal has no cells"

    shell.kernel = object()
    report = progress_bar()
    assert report is not None
    values = {"update": 5, "updates": 20, "cross_entropy": 3.25, "seconds_left": 70.0}
    report("message", {"text": "vocabulary"})
    report("train", values)
    report("valid", {"update": 5, "chrf": 12.0})
    report("end", {"update": 20, "seconds": 9.0, "reason": "all <updates> are done"})

    assert len(shown) == 3
    assert 'value="5" max="20"' in shown[0]
    assert shown[0].endswith("update 5 of 20 · cross_entropy 3.25 · 1 min 10 s left")
    assert "chrf 12.00" in shown[1]
    assert 'value="20" max="20"' in shown[2]
    assert shown[2].endswith("all &lt;updates&gt; are done")


def test_a_run_without_a_last_update_has_a_bar_without_an_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown: list[str] = []
    handle = SimpleNamespace(update=shown.append)
    display = SimpleNamespace(HTML=str, display=lambda *_, **__: handle)
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(
        sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell)
    )
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    values = {"update": 5, "updates": None, "seconds_left": None}
    for title in ("", "rnn-seed<1>"):
        report = progress_bar(title)
        assert report is not None
        report("progress", values)

    assert shown == [
        "<progress ></progress> update 5",
        "<progress ></progress> rnn-seed&lt;1&gt; · update 5",
    ]


def test_a_task_is_checked(tmp_path: Path) -> None:
    text = folder(tmp_path / "text")
    images = captioner_folder(tmp_path / "images")
    translator = regard.load(text, task="translation")
    captioner = regard.load(images, task="captions")

    assert isinstance(translator, regard.Translator)
    assert isinstance(captioner, regard.Captioner)
    with pytest.raises(UsageError, match="is a model for captions; take the other"):
        regard.load(images, task="translation")
    with pytest.raises(UsageError, match="`task=`: wanted 'speech'"):
        regard.load(text, task="speech")
