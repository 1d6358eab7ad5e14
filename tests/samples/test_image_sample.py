"""The image sample: captions are true in both languages, and the test split has combinations unseen
in training.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
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
        assert set(image.captions[language]) <= set(wordings.captions(image.scene.meaning))
        for caption in wordings.captions(image.scene.meaning):
            assert wordings.states_exactly(caption.text, image.scene.meaning), caption
            mentions = wordings.mentions(caption.text)
            assert [mention.word for mention in mentions] == [word for word, _ in caption.nouns], (
                caption
            )
            assert [mention.entity for mention in mentions] == [
                image.scene.meaning.entities[index] for _, index in caption.nouns
            ]


def test_english_captions_agree_with_hand_written_ones() -> None:
    def captions(
        *objects: Entity, relation: str | None = None, place: str | None = None
    ) -> list[str]:
        return [
            caption.text for caption in LANGUAGES["en"].captions(Meaning(objects, relation, place))
        ]

    assert captions(CIRCLE, STARS, relation="left") == [
        "a small red circle to the left of three orange stars",
        "there is a small red circle to the left of three orange stars",
        "a small red circle is to the left of three orange stars",
        "a small red circle on the left and three orange stars on the right",
        "three orange stars to the right of a small red circle",
        "three orange stars are to the right of a small red circle",
    ]
    assert captions(Entity("cross", "orange", 2)) == [
        "two orange crosses",
        "there are two orange crosses",
        "a picture of two orange crosses",
    ]
    assert captions(Entity("heart", "orange"), Entity("square", "blue"), relation="inside")[0] == (
        "an orange heart inside a blue square"
    )
    assert "a large blue star in the top left corner" in captions(STAR, place="top left")


def test_captions_in_korean_have_the_right_particles_and_counters() -> None:
    def captions(
        *objects: Entity, relation: str | None = None, place: str | None = None
    ) -> list[str]:
        return [
            caption.text for caption in LANGUAGES["ko"].captions(Meaning(objects, relation, place))
        ]

    assert captions(CIRCLE, STAR, relation="left") == [
        "큰 파란 별 왼쪽에 작은 빨간 동그라미가 있다",
        "큰 파란 별의 왼쪽에 작은 빨간 동그라미가 있다",
        "작은 빨간 동그라미가 큰 파란 별 왼쪽에 있다",
        "작은 빨간 동그라미는 왼쪽에, 큰 파란 별은 오른쪽에 있다",
        "작은 빨간 동그라미 오른쪽에 큰 파란 별이 있다",
        "큰 파란 별이 작은 빨간 동그라미 오른쪽에 있다",
    ]
    assert captions(STARS) == [
        "주황색 별이 세 개 있다",
        "주황색 별 세 개가 있다",
        "주황색 별 세 개가 보인다",
    ]
    assert "주황색 별 세 개는 위에, 큰 파란 별은 아래에 있다" in captions(
        STARS, STAR, relation="above"
    )
    inside = captions(Entity("star", "green"), Entity("square", "black"), relation="inside")
    assert "검은 네모가 초록색 별을 둘러싸고 있다" in inside
    inside = captions(Entity("cross", "green"), Entity("circle", "black"), relation="inside")
    assert "검은 동그라미가 초록색 십자가를 둘러싸고 있다" in inside
    assert captions(CIRCLE, place="bottom right")[0] == "오른쪽 아래에 작은 빨간 동그라미가 있다"


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "a small red circle to the left of"),
        ("en", "a small red circle to the left of a large blue star star"),
        ("en", "a red small circle to the left of a large blue star"),
        ("en", ""),
        ("ko", "작은 빨간 동그라미가 큰 파란 별 왼쪽에"),
        ("ko", "작은 동그라미가 큰 파란 별 왼쪽에 있다"),
    ],
)
def test_ungrammatical_captions_have_no_meaning(language: str, text: str) -> None:
    assert LANGUAGES[language].meaning(text) is None
    assert not LANGUAGES[language].states_exactly(text, Meaning((CIRCLE, STAR), "left"))


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "a small red circle to the right of a large blue star"),
        ("en", "a small red circle above a large blue star"),
        ("en", "a small red circle to the left of a small blue star"),
        ("en", "a red circle to the left of a large blue star"),
        ("en", "a small red circle on the left"),
        ("en", "two red circles to the left of a large blue star"),
        ("ko", "큰 파란 별이 작은 빨간 동그라미 왼쪽에 있다"),
        ("ko", "작은 빨간 동그라미가 있다"),
    ],
)
def test_a_missing_extra_or_wrong_fact_is_detected(language: str, text: str) -> None:
    wordings = LANGUAGES[language]
    assert wordings.meaning(text) is not None
    assert not wordings.states_exactly(text, Meaning((CIRCLE, STAR), "left"))


def test_the_test_split_has_unseen_combinations(sample: ImageSample) -> None:
    splits = {
        name: [set(image.scene.combinations()) for image in split]
        for name, split in sample.splits.items()
    }
    assert all(
        UNSEEN.isdisjoint(combinations)
        for name in ("train", "valid")
        for combinations in splits[name]
    )
    assert all(combinations & UNSEEN for combinations in splits["test"])
    parts = {
        part
        for combinations in splits["train"]
        for combination in combinations
        for part in combination
    }
    assert {part for combination in UNSEEN for part in combination} <= parts
    assert parts >= {*SHAPES, *COLOURS, *PLACES, 2, 3, 4}
    pairs = {combination[1:] for combinations in splits["train"] for combination in combinations}
    assert pairs == {(colour, shape) for colour in COLOURS for shape in SHAPES}, (
        "each colour of each shape is seen"
    )
    assert {image.scene.meaning.place for image in sample.splits["train"]} >= set(PLACES)
    kinds = {
        combination[0] for combinations in splits["test"] for combination in combinations & UNSEEN
    }
    assert kinds >= {"first left", "second above", "first inside", 2, 3, "top"}, (
        "single objects and relations are new"
    )
    texts = {
        name: {c.text for scene in split for cs in scene.captions.values() for c in cs}
        for name, split in sample.splits.items()
    }
    assert texts["train"].isdisjoint(texts["test"])


def test_regions_contain_their_objects(scenes: list[CaptionedScene]) -> None:
    shares = []
    for image in scenes:
        pixels = np.asarray(draw(image.scene)).astype(int)
        for index, item in enumerate(image.scene.meaning.entities):
            region = image.scene.mask(index)
            shares.append(region.mean())
            coloured = (np.abs(pixels - INKS[item.colour]) < 24).all(-1)
            assert coloured[region].mean() > 0.2, (image, item)
            same_colour = [
                candidate
                for candidate in image.scene.meaning.entities
                if candidate.colour == item.colour
            ]
            if len(same_colour) == 1:
                outside = ~mask(image.scene.boxes[index])
                # An edge of two colours may look like a third.
                assert coloured[outside].sum() <= 2, (
                    image,
                    item,
                )
    assert np.mean(shares) <= 0.10


def test_boxes_agree_with_relations(scenes: list[CaptionedScene]) -> None:
    for image in scenes:
        scene = image.scene
        if scene.meaning.relation in ("left", "above"):
            first, second = scene.boxes
            side = (2, 0) if scene.meaning.relation == "left" else (3, 1)
            assert max(box[side[0]] for box in first) <= min(box[side[1]] for box in second)
        single = [box for group in scene.boxes for box in group]
        assert all(
            0 <= box.left < box.right <= SIDE and 0 <= box.top < box.bottom <= SIDE
            for box in single
        )
        if scene.meaning.relation != "inside":
            assert not any(a.meets(b) for i, a in enumerate(single) for b in single[:i])


def test_the_same_seed_gives_the_same_sample(sample: ImageSample, tmp_path: Path) -> None:
    small = image_sample(12, 3, 4, seed=3)
    assert small.splits["train"] == sample.splits["train"][:12]
    assert image_sample(3, 0, 0, seed=4).splits["train"] != small.splits["train"][:3]
    for folder in ("one", "two"):
        small.write(tmp_path / folder)
    for path in sorted((tmp_path / "one").rglob("*.*")):
        assert (
            path.read_bytes()
            == (tmp_path / "two" / path.relative_to(tmp_path / "one")).read_bytes()
        )


def test_the_folder_can_be_read_back(tmp_path: Path) -> None:
    small = image_sample(5, 2, 2, seed=5)
    small.write(tmp_path)
    assert len(list((tmp_path / "images").iterdir())) == 9
    with Image.open(tmp_path / "images" / "train-00000.png") as image:
        assert image.size == (SIDE, SIDE)
        assert image.mode == "RGB"
    lines = [
        line.split("\t")
        for line in (tmp_path / "train.ko.tsv").read_text(encoding="utf-8").splitlines()
    ]
    assert [tuple(line) for line in lines] == [
        (image.file, caption.text)
        for image in small.splits["train"]
        for caption in image.captions["ko"]
    ]
    regions = [
        json.loads(line) for line in (tmp_path / "test.regions.jsonl").read_text().splitlines()
    ]
    first = small.splits["test"][0]
    nouns = [
        r for r in regions if (r["file"], r["language"], r["caption"]) == (first.file, "en", 0)
    ]
    assert [(noun["word"], noun["boxes"]) for noun in nouns] == [
        (word, [list(box) for box in first.scene.region(index)])
        for word, index in first.captions["en"][0].nouns
    ]


def test_the_region_of_an_outer_object_is_a_frame() -> None:
    scenes = [image.scene for image in image_sample(40, 0, 0).splits["train"]]
    scene = next(scene for scene in scenes if scene.meaning.relation == "inside")
    inner = scene.mask(0)
    outer = scene.mask(1)
    assert not (inner & outer).any()
    (whole,) = scene.boxes[1]
    assert inner.sum() + outer.sum() == (whole.right - whole.left) * (whole.bottom - whole.top)
