"""The player as a GIF and as an SVG that moves, and heads side by side."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from regard.errors import UsageError
from regard.visualisation import Alignment, ExplanationData, Heads, save
from regard.visualisation.colours import colour
from regard.visualisation.heads import layout_heads
from regard.visualisation.layout import Box, Text
from regard.visualisation.player import layout_frames

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("words", [1, 5, 40])
def test_every_frame_has_the_same_size_and_nothing_leaves_it(told: Callable[..., ExplanationData], words: int) -> None:
    pictures = layout_frames(told(words, 2, 1))
    assert len(pictures) == words + 1
    assert len({(picture.width, picture.height) for picture in pictures}) == 1
    for picture in pictures:
        for mark in picture.marks():
            if isinstance(mark, Text):
                assert all(-1 <= x <= picture.width and 0 <= y <= picture.height for x, y in mark.corners()), mark
            elif isinstance(mark, Box):
                assert mark.x >= 0
                assert mark.x + mark.width <= picture.width
                assert mark.y + mark.height <= picture.height


def test_a_frame_says_what_is_read_and_what_may_come(told: Callable[..., ExplanationData]) -> None:
    story = told(5, 2, 1)
    second = layout_frames(story)[1]
    groups = {group.name: group.marks for group in second.groups}
    texts = {name: [mark.text for mark in marks if isinstance(mark, Text)][1:] for name, marks in groups.items()}
    assert texts["looks"] == list(story.source)
    assert texts["written"] == list(story.target[:2])
    assert texts["options"] == [story.target[1], "75.0 %", "lost", "12.5 %"]
    assert texts["tree"] == [story.target[0], "lost", story.target[1], "lost"]
    wide = [mark.width for mark in groups["context"] if isinstance(mark, Box)][1:]
    parts = [float(w) for w in story.shown_weights()[1] if w >= 0.04]
    assert wide == [pytest.approx(part * (second.width - 36) - 1) for part in parts]


def test_a_gif_has_a_frame_for_each_piece_in_true_colours(told: Callable[..., ExplanationData], tmp_path: Path) -> None:
    story = told(4, 1, 1)
    with Image.open(save(story, tmp_path / "a.gif")) as image:
        assert image.n_frames == 5  # type: ignore[attr-defined]
        assert image.info["loop"] == 0
        assert image.convert("RGB").getpixel((2, 2)) == (255, 255, 255)
        colours = {pixel for _, pixel in image.convert("RGB").getcolors(1 << 20) or []}
    top = max(
        range(101),
        key=lambda n: tuple(int(colour(f"w{n}", "light")[i : i + 2], 16) for i in (1, 3, 5)) in colours and n,
    )
    assert top >= 50, "the strongest weight keeps its colour"
    assert (tmp_path / "a.gif").read_bytes() == save(story, tmp_path / "b.gif").read_bytes()


def test_an_svg_moves_without_a_program(told: Callable[..., ExplanationData], tmp_path: Path) -> None:
    text = save(told(4, 1, 1), tmp_path / "a.svg").read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    moving = [g for g in root.iter(f"{SVG}g") if "animation-delay" in (g.get("style") or "")]
    assert [g.get("style") for g in moving] == [f"animation-delay:{900 * n}ms" for n in range(5)]
    assert [g.get("class") for g in moving] == ["f"] * 4 + ["f l"]
    assert "prefers-reduced-motion:reduce" in text
    assert "<script" not in text


def test_a_story_without_a_search_cannot_be_played(told: Callable[..., ExplanationData], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to play"):
        save(replace(told(2, 1, 1), steps=()), tmp_path / "a.gif")
    with pytest.raises(UsageError, match=r"\.html, \.gif or \.svg; got 'a.png'"):
        save(told(2, 1, 1), tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("rows", "columns", "count"), [(1, 1, 1), (5, 4, 4), (12, 20, 8), (80, 80, 16)])
def test_heads_stand_side_by_side(
    rows: int, columns: int, count: int, random_alignment: Callable[..., Alignment], tmp_path: Path
) -> None:
    some = [random_alignment(rows, columns, seed=n, caption=f"head {n + 1}") for n in range(count)]
    picture = layout_heads(Heads(tuple(some), "layer 1, all heads"))
    names = [mark.text for mark in picture.marks() if isinstance(mark, Text)]
    assert [f"head {n + 1}" for n in range(count)] == [name for name in names if name.startswith("head ")]
    assert (some[0].source[0] in names) == (max(rows, columns) <= 19)
    for mark in picture.marks():
        if isinstance(mark, Text):
            assert all(0 <= x <= picture.width and 0 <= y <= picture.height for x, y in mark.corners()), mark
    save(Heads(tuple(some)), tmp_path / "heads.png")


def test_heads_of_other_words_are_refused(random_alignment: Callable[..., Alignment]) -> None:
    with pytest.raises(UsageError, match="the same words"):
        Heads((random_alignment(2, 3), random_alignment(3, 3)))
    with pytest.raises(UsageError, match="no head"):
        Heads(())
