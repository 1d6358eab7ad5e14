"""Report of a captioner: whether it looks at the images, its commonest captions, and where it looks
for each word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from regard.common.counting import counted
from regard.evaluation.caption_metrics import (
    CIDER_MEANING,
    WordTokenizer,
    describe_captions,
    is_exact,
    validation_scores,
)
from regard.evaluation.training_report import (
    MORE_IMAGES,
    Course,
    RunReport,
    next_step,
)
from regard.pipeline import Caption, last_layer
from regard.visualisation import Overlay, SourceImage, draw_svg
from regard.visualisation.overlay import (
    layout_legend,
    layout_picture,
    layout_word_panels,
)
from regard.visualisation.rendering import draw_panels

CANDIDATES = 10
"""Number of training captions, the commonest, of which the best one is what needs no look."""
MOST = 0.9
"""Share of the images that the commonest captions are counted up to."""
FEW = 0.1
"""Number of captions, as a share of the images, up to which they are few."""
SHOWN = 10
"""Number of captions that the page counts."""


@dataclass(frozen=True)
class CaptionExample:
    """A validation image, its caption and what people wrote, and the attention map of each word."""

    image: Markup
    output: str
    references: Sequence[str]
    words: Sequence[Markup]

    @property
    def is_exact(self) -> bool:
        """True if the caption is one that people wrote."""
        return is_exact(self.output, self.references)


@dataclass(frozen=True)
class CaptionReport(RunReport):
    """Report of a captioner, with the captions that several images share, and examples."""

    page = "caption_report.html"
    common: tuple[tuple[str, int], ...]
    examples: Sequence[CaptionExample]

    def legend(self) -> Markup:
        """Draw the legend of the attention maps."""
        return Markup(draw_svg(layout_legend(), styled=False))


def make_caption_report(
    course: Course,
    outputs: Sequence[str],
    references: Sequence[Sequence[str]],
    training: Sequence[str],
    tokenize: WordTokenizer,
    examples: Sequence[CaptionExample] = (),
) -> CaptionReport:
    """Make the report from captions of validation images and from the training captions."""
    scores = validation_scores(outputs, references, tokenize)
    constants = {
        text: validation_scores([text] * len(outputs), references, tokenize)["cider"]
        for text, _ in Counter(training).most_common(CANDIDATES)
    }
    best = max(constants, key=constants.__getitem__, default="")
    blind = constants.get(best, 0.0)
    images = counted(len(outputs), "validation image")
    meaning = describe_captions(outputs, references, tokenize)
    compared = (
        f"CIDEr-D {scores['cider']:.2f} and chrF {scores['chrf']:.1f} on {images}; a captioner "
        f"that does not look has CIDEr-D {blind:.2f} by always saying “{best}”"
    )
    common = Counter(outputs).most_common()
    notes = [compared, CIDER_MEANING]
    count = 0
    for number, (_, images_of_caption) in enumerate(common, 1):
        count += images_of_caption
        if count >= MOST * len(outputs):
            if number <= FEW * len(outputs):
                captions = counted(number, "caption", "captions")
                notes.append(f"{count:,} of {images} have one of {captions}")
            break
    if scores["cider"] <= blind:
        notes.append(
            "the captions are no better than those of a captioner that does not look"
        )
    advice, command = "", ""
    is_perfect = all(map(is_exact, outputs, references))
    if not is_perfect:
        advice, command = next_step(course)
    elif course.has_few_images:
        advice = MORE_IMAGES.format(course.images)
    shared = tuple((text, count) for text, count in common[:SHOWN] if count > 1)
    return CaptionReport(meaning, advice, command, tuple(notes), shared, examples)


def make_example(
    caption: Caption, pixels: np.ndarray, references: Sequence[str]
) -> CaptionExample:
    """Draw an image, and the attention map of each word of its caption, if it has any."""
    readings = caption.readings
    assert readings is not None, "captioned with readings"
    assert readings.grid is not None, "an image has cells"
    image = SourceImage(
        pixels, readings.grid, readings.cell_centre, readings.cell_extent
    )
    panels: Sequence[Markup] = ()
    if caption.regions:
        choice = caption.chosen or last_layer(readings)
        maps = [
            readings.image_map(word, choice.layer, choice.head, choice.shifted)
            for word in range(len(readings.target_text))
        ]
        overlay = Overlay(image, readings.target_text, np.stack(maps))
        panels = [*map(Markup, draw_panels(layout_word_panels(overlay)))]
    picture = Markup(draw_svg(layout_picture(image), styled=False))
    return CaptionExample(picture, caption.text, references, panels)
