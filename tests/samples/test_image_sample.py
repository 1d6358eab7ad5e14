"""The image sample: captions are true in both languages, and the test split has combinations unseen
in training.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from helpers.text_table import lines, rows
from PIL import Image

from regard.learn.samples.images import (
    LANGUAGES,
    SIDE,
    UNSEEN,
    CaptionedScene,
    Entity,
    ImageSample,
    Meaning,
    draw,
    image_sample,
)
from regard.learn.samples.images.drawing import INKS
from regard.learn.samples.images.scene import COLOURS, PLACES, SHAPES, mask

CIRCLE = Entity("circle", "red", 1, "small")
STAR = Entity("star", "blue", 1, "large")
STARS = Entity("star", "orange", 3)


@pytest.fixture(scope="module")
def sample() -> ImageSample:
    return image_sample(400, 50, 150, seed=3)


@pytest.fixture(scope="module")
def scenes(sample: ImageSample) -> list[CaptionedScene]:
    return [scene for split in sample.splits.values() for scene in split]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_wording_is_parsed_to_the_exact_meaning(
    scenes: list[CaptionedScene], language: str
) -> None:
    wordings = LANGUAGES[language]
    for image in scenes:
        meaning = image.scene.meaning
        assert set(image.captions[language]) <= set(wordings.captions(meaning))
        for caption in wordings.captions(meaning):
            assert wordings.states_exactly(caption.text, meaning), caption

            mentions = wordings.mentions(caption.text)

            for mention, (word, index) in zip(mentions, caption.nouns, strict=True):
                assert mention.word == word, caption
                assert mention.entity == meaning.entities[index], caption


def captions_of(language: str, *objects: Entity, **more: str) -> list[str]:
    captions = LANGUAGES[language].captions(Meaning(objects, **more))
    return [caption.text for caption in captions]


def test_english_captions_agree_with_hand_written_ones() -> None:
    assert captions_of("en", CIRCLE, STARS, relation="left") == lines("""
        a small red circle to the left of three orange stars
        there is a small red circle to the left of three orange stars
        a small red circle is to the left of three orange stars
        a small red circle on the left and three orange stars on the right
        three orange stars to the right of a small red circle
        three orange stars are to the right of a small red circle
    """)
    assert captions_of("en", Entity("cross", "orange", 2)) == lines("""
        two orange crosses
        there are two orange crosses
        a picture of two orange crosses
    """)

    inside = captions_of(
        "en", Entity("heart", "orange"), Entity("square", "blue"), relation="inside"
    )
    assert inside[0] == "an orange heart inside a blue square"

    placed = captions_of("en", STAR, place="top left")
    assert "a large blue star in the top left corner" in placed


def test_captions_in_korean_have_the_right_particles_and_counters() -> None:
    assert captions_of("ko", CIRCLE, STAR, relation="left") == lines("""
        큰 파란 별 왼쪽에 작은 빨간 동그라미가 있다
        큰 파란 별의 왼쪽에 작은 빨간 동그라미가 있다
        작은 빨간 동그라미가 큰 파란 별 왼쪽에 있다
        작은 빨간 동그라미는 왼쪽에, 큰 파란 별은 오른쪽에 있다
        작은 빨간 동그라미 오른쪽에 큰 파란 별이 있다
        큰 파란 별이 작은 빨간 동그라미 오른쪽에 있다
    """)
    assert captions_of("ko", STARS) == lines("""
        주황색 별이 세 개 있다
        주황색 별 세 개가 있다
        주황색 별 세 개가 보인다
    """)

    above = captions_of("ko", STARS, STAR, relation="above")
    assert "주황색 별 세 개는 위에, 큰 파란 별은 아래에 있다" in above
    for inner, outer, text in (
        (Entity("star", "green"), Entity("square", "black"), "검은 네모가 초록색 별을"),
        (
            Entity("cross", "green"),
            Entity("circle", "black"),
            "검은 동그라미가 초록색 십자가를",
        ),
    ):
        inside = captions_of("ko", inner, outer, relation="inside")
        assert f"{text} 둘러싸고 있다" in inside

    placed = captions_of("ko", CIRCLE, place="bottom right")
    assert placed[0] == "오른쪽 아래에 작은 빨간 동그라미가 있다"


@pytest.mark.parametrize(
    ("language", "text"),
    rows("""
        en | a small red circle to the left of
        en | a small red circle to the left of a large blue star star
        en | a red small circle to the left of a large blue star
        en |
        ko | 작은 빨간 동그라미가 큰 파란 별 왼쪽에
        ko | 작은 동그라미가 큰 파란 별 왼쪽에 있다
    """),
)
def test_ungrammatical_captions_have_no_meaning(language: str, text: str) -> None:
    assert LANGUAGES[language].meaning(text) is None
    assert not LANGUAGES[language].states_exactly(text, Meaning((CIRCLE, STAR), "left"))


@pytest.mark.parametrize(
    ("language", "text"),
    rows("""
        en | a small red circle to the right of a large blue star
        en | a small red circle above a large blue star
        en | a small red circle to the left of a small blue star
        en | a red circle to the left of a large blue star
        en | a small red circle on the left
        en | two red circles to the left of a large blue star
        ko | 큰 파란 별이 작은 빨간 동그라미 왼쪽에 있다
        ko | 작은 빨간 동그라미가 있다
    """),
)
def test_a_missing_extra_or_wrong_fact_is_detected(language: str, text: str) -> None:
    wordings = LANGUAGES[language]
    assert wordings.meaning(text) is not None
    assert not wordings.states_exactly(text, Meaning((CIRCLE, STAR), "left"))


def test_the_test_split_has_unseen_combinations(sample: ImageSample) -> None:
    found = {}
    texts = {}
    for name, split in sample.splits.items():
        found[name] = [set(image.scene.combinations()) for image in split]
        captions = [own for image in split for own in image.captions.values()]
        texts[name] = {caption.text for own in captions for caption in own}

    assert texts["train"].isdisjoint(texts["test"])

    known = set().union(*found["train"])
    assert UNSEEN.isdisjoint(known.union(*found["valid"]))
    assert all(combinations & UNSEEN for combinations in found["test"])

    parts = {part for combination in known for part in combination}
    assert parts >= {*SHAPES, *COLOURS, *PLACES, 2, 3, 4}
    assert parts >= {part for combination in UNSEEN for part in combination}

    seen = {combination[1:] for combination in known}
    assert seen == {*itertools.product(COLOURS, SHAPES)}, (
        "each colour of each shape is seen"
    )

    unseen = UNSEEN & set().union(*found["test"])
    kinds = {combination[0] for combination in unseen}

    assert kinds >= {"first left", "second above", "first inside", 2, 3, "top"}


def test_regions_contain_their_objects(scenes: list[CaptionedScene]) -> None:
    shares = []

    for image in scenes[::4]:
        pixels = np.asarray(draw(image.scene)).astype(int)
        for index, item in enumerate(image.scene.meaning.entities):
            region = image.scene.mask(index)
            shares.append(region.mean())
            coloured = (np.abs(pixels - INKS[item.colour]) < 24).all(-1)

            assert coloured[region].mean() > 0.2, (image, item)

            colours = [other.colour for other in image.scene.meaning.entities]

            if colours.count(item.colour) == 1:
                outside = ~mask(image.scene.boxes[index])
                # An edge of two colours may look like a third.
                assert coloured[outside].sum() <= 2, (image, item)

    assert np.mean(shares) <= 0.10


def test_boxes_agree_with_relations(scenes: list[CaptionedScene]) -> None:
    for image in scenes:
        scene = image.scene
        relation = scene.meaning.relation

        if relation in ("left", "above"):
            start = 0 if relation == "left" else 1  # left and right, or top and bottom
            first, second = scene.boxes
            end = max(box[start + 2] for box in first)
            assert end <= min(box[start] for box in second)

        boxes = [box for group in scene.boxes for box in group]

        for box in boxes:
            assert 0 <= box.left < box.right <= SIDE
            assert 0 <= box.top < box.bottom <= SIDE

        if relation != "inside":
            assert not any(a.meets(b) for a, b in itertools.combinations(boxes, 2))


def test_the_region_of_an_outer_object_is_a_frame() -> None:
    scenes = [image.scene for image in image_sample(40, 0, 0).splits["train"]]
    scene = next(scene for scene in scenes if scene.meaning.relation == "inside")
    inner = scene.mask(0)
    outer = scene.mask(1)
    (whole,) = scene.boxes[1]

    assert not (inner & outer).any()

    area = (whole.right - whole.left) * (whole.bottom - whole.top)
    assert inner.sum() + outer.sum() == area


def test_the_same_seed_gives_the_same_sample(
    sample: ImageSample, tmp_path: Path
) -> None:
    small = image_sample(12, 3, 4, seed=3)
    assert small.splits["train"] == sample.splits["train"][:12]
    assert image_sample(3, 0, 0, seed=4).splits["train"] != small.splits["train"][:3]

    for folder in ("one", "two"):
        small.write(tmp_path / folder)

    for path in sorted((tmp_path / "one").rglob("*.*")):
        other = tmp_path / "two" / path.relative_to(tmp_path / "one")
        assert path.read_bytes() == other.read_bytes()

    images = sorted((tmp_path / "one" / "images").iterdir())
    assert len(images) == 19
    with Image.open(images[0]) as image:
        assert (image.size, image.mode) == ((SIDE, SIDE), "RGB")

    scene = small.splits["train"][0]
    text = (tmp_path / "one" / "train.ko.tsv").read_text(encoding="utf-8")

    assert text.startswith(f"{scene.file}\t{scene.captions['ko'][0].text}\n")

    scene = small.splits["test"][0]
    word, index = scene.captions["en"][0].nouns[0]
    text = (tmp_path / "one" / "test.regions.jsonl").read_text()
    region = json.loads(text.partition("\n")[0])
    boxes = [list(box) for box in scene.scene.region(index)]
    wanted = {"file": scene.file, "language": "en", "word": word, "boxes": boxes}

    assert region == {**wanted, "caption": 0}
