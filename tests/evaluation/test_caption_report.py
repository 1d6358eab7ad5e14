"""The report of a captioner: captions that many images share, and what needs no look."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

from regard.evaluation.caption_metrics import words
from regard.evaluation.caption_report import (
    CaptionExample,
    CaptionReport,
    make_caption_report,
)
from regard.evaluation.training_report import Course, render_report
from regard.training.run_record import RunRecord

COLOURS = ["red", "blue", "green", "white"]
REFERENCES = [[f"a {COLOURS[n % 4]} shape on the left {n}"] for n in range(40)]
OUTPUTS = ["a red shape"] * 20 + ["a blue shape"] * 17 + ["one", "two", "three"]


def page_of(report: CaptionReport) -> str:
    record = RunRecord(None, update=7)
    return render_report(report, "run", record, "greedy search", ["<b>"])


def test_captions_that_many_images_share_are_counted() -> None:
    report = make_caption_report(
        Course(Path("run"), []), OUTPUTS, REFERENCES, ["a red shape"], words
    )
    assert "37 of 40 validation images have one of 2 captions" in report.notes
    assert report.common[:2] == (("a red shape", 20), ("a blue shape", 17))
    page = page_of(report)
    assert "37 of 40 validation images have one of 2 captions." in page
    assert "weights at update 7, by greedy search" in page
    assert "&lt;b&gt;" in page

    own = [text for (text,) in REFERENCES]
    other = make_caption_report(Course(Path("run"), []), own, REFERENCES, [], words)
    assert not any("have one of" in note for note in other.notes)
    assert not any(line.startswith("next") for line in other.lines())
    assert "Captions that several images have" not in page_of(other)


def test_a_captioner_that_does_not_look_is_the_best_constant_one() -> None:
    """Of all captions of the training the one that fits most of the references."""
    references = [["a dog runs in the park"]] * 9 + [["a cat sleeps on a mat"]]
    training = ["the sea", "the sea", "a dog runs in the park"]
    constant = make_caption_report(
        Course(Path("run"), []), ["the sea"] * 10, references, training, words
    )
    assert constant.notes[0].endswith("by always saying “a dog runs in the park”")
    assert (
        "no better than those of a captioner that does not look" in constant.notes[-1]
    )

    right = [text for (text,) in references]
    looking = make_caption_report(
        Course(Path("run"), []), right, references, training, words
    )
    assert not any("no better" in note for note in looking.notes)


def test_exact_captions_and_words_in_common_are_counted() -> None:
    outputs = ["A red box.", "two cats", ""]
    references = [["a red box.", "A red box."], ["a dog", "two dogs"], ["nothing"]]
    report = make_caption_report(
        Course(Path("run"), [], images=60), outputs, references, [], words
    )
    exact = "1 of 3 captions is exactly one that people wrote for the image"
    assert report.lines()[0] == f"{exact}; 4 of 5 words are in what they wrote"
    assert "CIDEr-D is high where" in report.notes[1]


def test_few_images_are_the_next_step_even_if_all_captions_are_right() -> None:
    course = Course(Path("run"), [], images=60)
    report = make_caption_report(course, ["a"], [["a"]], ["a"], words)
    assert report.lines()[1].startswith("next: more images with captions")


def test_the_page_shows_what_people_wrote_beside_what_the_model_says() -> None:
    """All references of an image, and whether the caption is one of them."""
    image = Markup("<svg></svg>")
    examples = [
        CaptionExample(image, "a cat", ["a cat", "a <b>pet</b>"], [image] * 2),
        CaptionExample(image, "a dog", ["a cow"], []),
    ]
    outputs = [example.output for example in examples]
    references = [example.references for example in examples]
    page = page_of(
        make_caption_report(
            Course(Path("run"), []), outputs, references, outputs, words, examples
        )
    )
    first, second = page.split("<section")[1:]
    assert "<p>a cat</p>\n<h3>Written for this image</h3>\n<p>a cat</p>" in first
    assert "<p>a &lt;b&gt;pet&lt;/b&gt;</p>" in first
    assert "<strong>Exactly one of them" in first
    assert "<p>a dog</p>\n<h3>Written for this image</h3>\n<p>a cow</p>" in second
    assert "<strong>Not exactly one of them" in second
    assert page.count("cell with the largest weight") == 2, "one legend: text and title"
