"""The sample of pictures: captions say what is seen, in both languages, and the test shows what training never did."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.samples.images import (
    LANGUAGES,
    SIDE,
    UNSEEN,
    Captioned,
    Meaning,
    PictureSample,
    Thing,
    draw,
    pictures,
)
from regard.samples.images.drawing import INKS
from regard.samples.images.scene import COLOURS, PLACES, SHAPES, mask

CIRCLE, STAR = Thing("circle", "red", 1, "small"), Thing("star", "blue", 1, "large")
STARS = Thing("star", "orange", 3)


@pytest.fixture(scope="module")
def sample() -> PictureSample:
    return pictures(400, 50, 150, seed=3)


@pytest.fixture(scope="module")
def everything(sample: PictureSample) -> list[Captioned]:
    return [each for some in sample.splits.values() for each in some]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_wording_is_read_as_exactly_what_is_seen(everything: list[Captioned], language: str) -> None:
    tongue = LANGUAGES[language]
    for each in everything:
        assert set(each.captions[language]) <= set(tongue.captions(each.scene.meaning))
        for caption in tongue.captions(each.scene.meaning):
            assert tongue.is_true(caption.text, each.scene.meaning), caption
            named = tongue.named(caption.text)
            assert [name.word for name in named] == [word for word, _ in caption.nouns], caption
            assert [name.thing for name in named] == [each.scene.meaning.things[thing] for _, thing in caption.nouns]


def test_captions_in_english() -> None:
    def said(*things: Thing, relation: str | None = None, place: str | None = None) -> list[str]:
        return [caption.text for caption in LANGUAGES["en"].captions(Meaning(things, relation, place))]

    assert said(CIRCLE, STARS, relation="left") == [
        "a small red circle to the left of three orange stars",
        "there is a small red circle to the left of three orange stars",
        "a small red circle is to the left of three orange stars",
        "a small red circle on the left and three orange stars on the right",
        "three orange stars to the right of a small red circle",
        "three orange stars are to the right of a small red circle",
    ]
    assert said(Thing("cross", "orange", 2)) == [
        "two orange crosses",
        "there are two orange crosses",
        "a picture of two orange crosses",
    ]
    assert said(Thing("heart", "orange"), Thing("square", "blue"), relation="inside")[0] == (
        "an orange heart inside a blue square"
    )
    assert "a large blue star in the top left corner" in said(STAR, place="top left")


def test_captions_in_korean_have_the_right_particles_and_counters() -> None:
    def said(*things: Thing, relation: str | None = None, place: str | None = None) -> list[str]:
        return [caption.text for caption in LANGUAGES["ko"].captions(Meaning(things, relation, place))]

    assert said(CIRCLE, STAR, relation="left") == [
        "큰 파란 별 왼쪽에 작은 빨간 동그라미가 있다",
        "큰 파란 별의 왼쪽에 작은 빨간 동그라미가 있다",
        "작은 빨간 동그라미가 큰 파란 별 왼쪽에 있다",
        "작은 빨간 동그라미는 왼쪽에, 큰 파란 별은 오른쪽에 있다",
        "작은 빨간 동그라미 오른쪽에 큰 파란 별이 있다",
        "큰 파란 별이 작은 빨간 동그라미 오른쪽에 있다",
    ]
    assert said(STARS) == ["주황색 별이 세 개 있다", "주황색 별 세 개가 있다", "주황색 별 세 개가 보인다"]
    assert "주황색 별 세 개는 위에, 큰 파란 별은 아래에 있다" in said(STARS, STAR, relation="above")
    inside = said(Thing("star", "green"), Thing("square", "black"), relation="inside")
    assert "검은 네모가 초록색 별을 둘러싸고 있다" in inside
    inside = said(Thing("cross", "green"), Thing("circle", "black"), relation="inside")
    assert "검은 동그라미가 초록색 십자가를 둘러싸고 있다" in inside
    assert said(CIRCLE, place="bottom right")[0] == "오른쪽 아래에 작은 빨간 동그라미가 있다"


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
def test_what_makes_no_sense_says_nothing(language: str, text: str) -> None:
    assert LANGUAGES[language].meaning(text) is None
    assert not LANGUAGES[language].is_true(text, Meaning((CIRCLE, STAR), "left"))


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
def test_one_fact_less_more_or_other_is_noticed(language: str, text: str) -> None:
    tongue = LANGUAGES[language]
    assert tongue.meaning(text) is not None
    assert not tongue.is_true(text, Meaning((CIRCLE, STAR), "left"))


def test_the_test_shows_combinations_that_training_does_not(sample: PictureSample) -> None:
    shown = {name: [set(each.scene.combinations()) for each in some] for name, some in sample.splits.items()}
    assert all(UNSEEN.isdisjoint(each) for name in ("train", "valid") for each in shown[name])
    assert all(each & UNSEEN for each in shown["test"])
    parts = {part for each in shown["train"] for combination in each for part in combination}
    assert {part for combination in UNSEEN for part in combination} <= parts
    assert parts >= {*SHAPES, *COLOURS, *PLACES, 2, 3, 4}
    pairs = {combination[1:] for each in shown["train"] for combination in each}
    assert pairs == {(colour, shape) for colour in COLOURS for shape in SHAPES}, "each colour of each shape is seen"
    assert {each.scene.meaning.place for each in sample.splits["train"]} >= set(PLACES)
    kinds = {combination[0] for each in shown["test"] for combination in each & UNSEEN}
    assert kinds >= {"first left", "second above", "first inside", 2, 3, "top"}, "single things and relations are new"
    said = {
        name: {c.text for each in some for cs in each.captions.values() for c in cs}
        for name, some in sample.splits.items()
    }
    assert said["train"].isdisjoint(said["test"])


def test_regions_hold_what_they_name(everything: list[Captioned]) -> None:
    shares = []
    for each in everything:
        pixels = np.asarray(draw(each.scene)).astype(int)
        for number, thing in enumerate(each.scene.meaning.things):
            region = each.scene.mask(number)
            shares.append(region.mean())
            own = (np.abs(pixels - INKS[thing.colour]) < 24).all(-1)
            assert own[region].mean() > 0.2, (each, thing)
            others = [other for other in each.scene.meaning.things if other.colour == thing.colour]
            if len(others) == 1:
                outside = ~mask(each.scene.boxes[number])
                assert own[outside].sum() <= 2, (each, thing)  # an edge of two colours may look like a third
    assert np.mean(shares) <= 0.10


def test_things_stand_as_they_are_said_to(everything: list[Captioned]) -> None:
    for each in everything:
        scene = each.scene
        if scene.meaning.relation in ("left", "above"):
            first, second = scene.boxes
            side = (2, 0) if scene.meaning.relation == "left" else (3, 1)
            assert max(box[side[0]] for box in first) <= min(box[side[1]] for box in second)
        single = [box for some in scene.boxes for box in some]
        assert all(0 <= box.left < box.right <= SIDE and 0 <= box.top < box.bottom <= SIDE for box in single)
        if scene.meaning.relation != "inside":
            assert not any(a.meets(b) for i, a in enumerate(single) for b in single[:i])


def test_the_same_seed_gives_the_same_sample(sample: PictureSample, tmp_path: Path) -> None:
    small = pictures(12, 3, 4, seed=3)
    assert small.splits["train"] == sample.splits["train"][:12]
    assert pictures(3, 0, 0, seed=4).splits["train"] != small.splits["train"][:3]
    for folder in ("one", "two"):
        small.write(tmp_path / folder)
    for path in sorted((tmp_path / "one").rglob("*.*")):
        assert path.read_bytes() == (tmp_path / "two" / path.relative_to(tmp_path / "one")).read_bytes()


def test_the_folder_can_be_read_back(tmp_path: Path) -> None:
    small = pictures(5, 2, 2, seed=5)
    small.write(tmp_path)
    assert len(list((tmp_path / "images").iterdir())) == 9
    with Image.open(tmp_path / "images" / "train-00000.png") as image:
        assert image.size == (SIDE, SIDE)
        assert image.mode == "RGB"
    lines = [line.split("\t") for line in (tmp_path / "train.ko.tsv").read_text(encoding="utf-8").splitlines()]
    assert [tuple(line) for line in lines] == [
        (each.file, caption.text) for each in small.splits["train"] for caption in each.captions["ko"]
    ]
    regions = [json.loads(line) for line in (tmp_path / "test.regions.jsonl").read_text().splitlines()]
    first = small.splits["test"][0]
    own = [each for each in regions if each["file"] == first.file and each["language"] == "en" and each["caption"] == 0]
    assert [(each["word"], each["boxes"]) for each in own] == [
        (word, [list(box) for box in first.scene.region(thing)]) for word, thing in first.captions["en"][0].nouns
    ]


def test_one_thing_inside_another_leaves_it_a_frame() -> None:
    scenes = [each.scene for each in pictures(40, 0, 0).splits["train"]]
    scene = next(scene for scene in scenes if scene.meaning.relation == "inside")
    inner, outer = scene.mask(0), scene.mask(1)
    assert not (inner & outer).any()
    (whole,) = scene.boxes[1]
    assert inner.sum() + outer.sum() == (whole.right - whole.left) * (whole.bottom - whole.top)
