"""The report of a captioner: captions that many images share, and what needs no look."""

from __future__ import annotations

from pathlib import Path

from regard.evaluation.caption_metrics import words
from regard.evaluation.caption_report import make_caption_report
from regard.evaluation.training_report import Course, render_report
from regard.training.run_record import RunRecord

COLOURS = ["red", "blue", "green", "white"]
REFERENCES = [[f"a {COLOURS[n % 4]} shape on the left {n}"] for n in range(40)]
OUTPUTS = ["a red shape"] * 20 + ["a blue shape"] * 17 + ["one", "two", "three"]


def test_captions_that_many_images_share_are_counted() -> None:
    report = make_caption_report(
        Course(Path("run"), []), OUTPUTS, REFERENCES, ["a red shape"], words
    )
    assert "37 of 40 validation images have one of 2 captions" in report.notes
    assert report.common[:2] == (("a red shape", 20), ("a blue shape", 17))
    page = render_report(
        report, "run", RunRecord(None, update=7), "greedy search", ["<b>"], []
    )
    assert "37 of 40 validation images have one of 2 captions." in page
    assert "weights at update 7, by greedy search" in page
    assert "&lt;b&gt;" in page

    own = [text for (text,) in REFERENCES]
    other = make_caption_report(Course(Path("run"), []), own, REFERENCES, [], words)
    assert not other.notes
    assert not other.lines()[1:]


def test_a_captioner_that_does_not_look_is_the_best_constant_one() -> None:
    """Of all captions of the training the one that fits most of the references."""
    references = [["a dog runs in the park"]] * 9 + [["a cat sleeps on a mat"]]
    training = ["the sea", "the sea", "a dog runs in the park"]
    constant = make_caption_report(
        Course(Path("run"), []), ["the sea"] * 10, references, training, words
    )
    assert constant.meaning.endswith("by always saying “a dog runs in the park”")
    assert "no better than those of a captioner that does not look" in constant.notes[1]

    right = [text for (text,) in references]
    looking = make_caption_report(
        Course(Path("run"), []), right, references, training, words
    )
    assert not any("does not look" in note for note in looking.notes)
