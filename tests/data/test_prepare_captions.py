"""Preparation of captioned images: the same in memory, on disk and after resuming, never half
written.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.image_folders import folder, named, noise

from regard.common.errors import ConfigurationError, DataError
from regard.data import image_cache
from regard.data.batch import Example, TrainingBatch, collate
from regard.data.batch_stream import BatchingSettings, Position
from regard.data.caption_files import CaptionedImage, CaptionSet, hold_out_images
from regard.data.corpus_settings import CorpusSettings
from regard.data.image_cache import ImageCache, cached_images
from regard.data.images import ImageSizeSettings, SourcePixels
from regard.data.prepare import PreparedData, prepare_data
from regard.data.prepare_captions import CaptionCorpus
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.data.vocabulary import BOS, EOS, PAD

SMALL = TokenizerSettings(size=290)
BATCHING = BatchingSettings(tokens=80, micro_batches=2)


def _prepare(
    images: dict[str, object], run: Path, tokenizer: Tokenizer | None = None
) -> PreparedData:
    data = CorpusSettings.parse({"images": images}, "test")
    return prepare_data(data, tokenizer or SMALL, BATCHING, 7, run)


def assert_equal(first: TrainingBatch, second: TrainingBatch) -> None:
    assert torch.equal(first.source, second.source)
    assert torch.equal(first.target_out, second.target_out)
    assert first.indices == second.indices


def by_line(data: PreparedData, epoch: int) -> dict[int, Example]:
    """Return the examples of an epoch by their line."""
    examples = {}
    for plan in data.batches.epoch(epoch):
        examples.update(zip(plan.indices, plan.examples, strict=True))
    return examples


def pixels_of(example: Example) -> SourcePixels:
    assert isinstance(example.source, SourcePixels)
    return example.source


def test_batches_hold_images_and_their_captions(tmp_path: Path) -> None:
    images = named(folder(tmp_path, captions=3), captions_per_image=2)
    data = _prepare(images, tmp_path / "run")

    assert data.pairs == 27
    assert data.facts["valid"].pairs == 9

    captions = []
    tokens = 0

    for plan in data.batches.epoch(0):
        batch = plan.batch()
        B = len(batch.source)

        assert batch.source.shape == (B, 3, 8, 8)
        assert batch.source_keep is None
        assert batch.tokens == plan.tokens == int((batch.target_out != PAD).sum())
        assert (batch.target_in[:, 0] == BOS).all()
        assert batch.target_out.numel() <= 40 or B == 1

        (count,) = {len(example.targets) for example in plan.examples}
        assert count <= 2

        lines = [line for line in plan.indices for _ in range(count)]
        targets = [ids for example in plan.examples for ids in example.targets]
        rows = zip(lines, targets, batch.target_out.tolist(), strict=True)

        for line, ids, padded in rows:
            assert [i for i in padded if i != PAD] == ids
            captions.append((line, data.tokenizer.target.decode(ids)))

        tokens += plan.tokens

    assert len({*captions}) == 27
    assert all(caption.startswith("a ") for _, caption in captions)
    assert data.batches.epoch_stats.tokens[1] == tokens


def test_images_of_unequal_sizes_are_padded(tmp_path: Path) -> None:
    path = folder(tmp_path, count=6)
    noise((20, 11)).save(path / "images" / "00.png")
    data = _prepare(named(path, height=0, width=0), tmp_path / "run")
    examples = [*by_line(data, 0).values()]
    batch = collate(examples)
    B, _, Y, X = batch.source.shape

    assert (Y, X) == (20, 16)
    assert batch.source_keep is not None

    keep = batch.source_keep.view(B, Y, X)

    for row, example in enumerate(examples):
        image = pixels_of(example)
        height, width = image.size

        assert keep[row, :height, :width].all()
        assert keep[row].sum() == height * width

        padded = batch.source[row]
        assert torch.equal(padded[:, :height, :width], image.tensor())
        assert (padded.masked_select(~keep[row]) == 0).all()


def test_augmentation_depends_on_epoch_and_seed_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = named(folder(tmp_path), flip=True, random_crop=0.3, colour_jitter=0.2)
    data = _prepare(images, tmp_path / "run")
    expected = [plan.batch() for plan in data.batches.epoch(0)]
    monkeypatch.setattr("os.cpu_count", lambda: 16)

    for batch, plan in zip(expected, data.batches.epoch(0), strict=True):
        assert_equal(batch, plan.batch())

    following = by_line(data, 1)

    for line, example in by_line(data, 0).items():
        first = pixels_of(example).tensor()
        second = pixels_of(following[line]).tensor()

        assert not torch.equal(first, second)

    stream = data.batches.updates()
    updates = [next(stream) for _ in range(12)]
    resumed = data.batches.updates(Position.from_json(asdict(updates[4].after)))

    for update in updates[5:]:
        for plan, other_plan in zip(update.plans, next(resumed).plans, strict=True):
            assert_equal(plan.batch(), other_plan.batch())


def test_images_with_sides_in_their_captions_are_not_mirrored(tmp_path: Path) -> None:
    path = folder(tmp_path)
    text = (path / "captions.tsv").read_text()
    text = text.replace("01.png\ta green", "01.png\tleft of a green")
    (path / "captions.tsv").write_text(text)
    data = _prepare(named(path), tmp_path / "run")
    message = "except for the 1 of 9 images with a caption that"

    assert message in "\n".join(data.report)

    mirrored = set()
    for epoch in range(12):
        for line, example in by_line(data, epoch).items():
            if pixels_of(example).augment.mirrored:
                mirrored.add(line)

    assert mirrored == {0, 2, 3, 4, 5, 6, 7, 8}

    source = pixels_of(example)
    straight = replace(source, augment=replace(source.augment, mirrored=False))
    mirror = replace(source, augment=replace(source.augment, mirrored=True))

    assert torch.equal(straight.tensor().flip(2), mirror.tensor())


@pytest.mark.parametrize("kind", ["char", "whitespace", "bpe"])
def test_images_of_writing_are_not_mirrored(tmp_path: Path, kind: str) -> None:
    data = CorpusSettings.parse({"images": named(folder(tmp_path))}, "test")
    settings = {"kind": kind, "size": 290 if kind == "bpe" else None}
    tokenizer = TokenizerSettings.parse(settings, "test")
    prepared = prepare_data(data, tokenizer, BATCHING, 7, tmp_path / "run")

    assert any("flip): on" in line for line in prepared.report) == (kind == "bpe")
    for example in by_line(prepared, 0).values():
        assert prepared.tokenizer.target.decode(example.target).startswith("a ")
        assert kind != "whitespace" or len(example.target) == 5


def test_a_random_crop_shows_different_parts(tmp_path: Path) -> None:
    data = _prepare(named(folder(tmp_path), fit="crop", flip=False), tmp_path / "run")
    boxes = set()
    for epoch in range(6):
        for example in by_line(data, epoch).values():
            boxes.add(pixels_of(example).augment.box)

    assert len(boxes) == 4, "8 of 11 columns, from 0 to 3"
    assert {box[2] - box[0] for box in boxes} == {8}


def test_a_cache_on_disk_is_used_again_or_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = sorted((folder(tmp_path, count=8) / "images").iterdir())
    paths[3].write_bytes(b"")
    kept = tmp_path / "kept"
    messages: list[str] = []

    def decode(height: int = 6) -> ImageCache:
        size = ImageSizeSettings(height=height, width=5)
        return cached_images(paths, size, kept, messages.append)

    def assert_made_again_once(height: int = 6) -> ImageCache:
        rebuilt = decode(height)
        (message,) = messages

        assert message.endswith("the images are decoded again")

        again = decode(height)
        assert messages == [message]
        assert np.array_equal(again.pixels, rebuilt.pixels)

        messages.clear()
        return rebuilt

    in_memory = decode()
    assert not kept.exists(), "small images stay in memory"

    monkeypatch.setattr(image_cache, "MAX_BYTES_IN_MEMORY", 200)

    for _ in range(3):
        images = decode()
        for name in ("sizes", "problems", "digest"):
            assert getattr(images, name) == getattr(in_memory, name)
        for i in {*range(8)} - {3}:
            assert np.array_equal(images[i], in_memory[i])
        assert isinstance(images.pixels, np.memmap)

    assert list(images.problems) == [3]
    assert messages == []
    assert not list(tmp_path.glob(".*.partial"))

    original = images.pixels.copy()

    for name, harm in (
        ("pixels.npy", _change_a_pixel),
        ("pixels.npy", _cut),
        ("index.json", _cut),
        ("index.json", Path.unlink),
    ):
        harm(kept / name)
        assert np.array_equal(assert_made_again_once().pixels, original)

    noise((12, 16)).save(paths[2])
    assert not np.array_equal(assert_made_again_once().pixels, original)
    assert_made_again_once(height=7)

    del paths[3]
    assert not assert_made_again_once(height=7).problems


def _change_a_pixel(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    path = folder(tmp_path)
    (path / "images" / "00.png").write_bytes(b"")
    (path / "images" / "11.png").write_text("text")
    with (path / "captions.tsv").open("a") as file:
        file.write("no.png\tx\n04.png\t \n")

    with pytest.raises(DataError) as refused:
        _prepare(named(path), tmp_path / "run")

    parts = [
        "line 19: there is no image no.png",
        "line 20: the caption of 04.png has no text",
        "00.png: the file is empty",
        "11.png: text ('text')",
        "skip_bad",
    ]
    for cause, part in zip(refused.value.causes, parts, strict=True):
        assert part in cause
    assert not (tmp_path / "run").exists()

    data = _prepare(named(path, skip_bad=True), tmp_path / "run")
    assert data.pairs == 16
    assert sum("skipped: " in line for line in data.report) == 3
    assert "  skipped: 2 images that cannot be read" in data.report


def test_the_requested_columns_of_captions_are_read(tmp_path: Path) -> None:
    path = folder(tmp_path)
    text = (path / "captions.tsv").read_text(encoding="utf-8")
    rows = [f"other\t{row.split(chr(9))[1]}\t{row}" for row in text.splitlines()]
    (path / "wide.tsv").write_text("\n".join(["Who\tNot\tFile\tText", *rows]))
    images = named(path, captions=str(path / "wide.tsv"), valid_captions=None)
    values = {"images": images, "columns": "File,Text"}
    data = CorpusSettings.parse(values, "test")
    wide = prepare_data(data, SMALL, BATCHING, 7, tmp_path / "wide")
    plain = _prepare(named(path, valid_captions=None), tmp_path / "plain")
    assert wide.facts == plain.facts


def test_changed_images_are_reported(tmp_path: Path) -> None:
    path = folder(tmp_path)
    data = _prepare(named(path), tmp_path / "run")

    assert _prepare(named(path), tmp_path / "run", data.tokenizer).changes == ()

    noise((12, 16)).save(path / "images" / "00.png")
    settings = CorpusSettings.parse({"images": named(path)}, "the test")
    run = tmp_path / "run"
    message = r"train.images: .* has changed .*put back what it was"

    with pytest.raises(DataError, match=message):
        prepare_data(settings, data.tokenizer, BATCHING, 7, run, resumed=True)

    with (path / "valid.tsv").open("a") as file:
        file.write("11.png\tone more\n")
    images = named(path, colour_jitter=0.1)
    captions, pixels, setting = _prepare(images, run, data.tokenizer).changes

    assert "valid.captions: " in captions
    assert "train.images: " in pixels
    assert "data.images.colour_jitter is 0.1" in setting


@pytest.mark.parametrize(
    ("count", "held_out"), [(2, 1), (39, 3), (40, 8), (59, 8), (80, 8), (300, 30)]
)
def test_a_tenth_or_eight_images_are_held_out(count: int, held_out: int) -> None:
    images = tuple(CaptionedImage(f"{n}.png", ("x",)) for n in range(count))
    captions = CaptionSet("train", Path("a"), Path("c.csv"), "CSV", images)
    train, valid = hold_out_images(captions, seed=1)
    assert (len(train), len(valid)) == (count - held_out, held_out)
    assert {*train.images}.isdisjoint(valid.images)


def test_images_are_held_out_to_test_on(tmp_path: Path) -> None:
    path = folder(tmp_path)
    images = named(path, valid_captions=None)

    def prepare(count: int) -> PreparedData:
        values = {"images": images, "test_count": count}
        data = CorpusSettings.parse(values, "test")
        return prepare_data(data, SMALL, BATCHING, 7, tmp_path / f"run{count}")

    data = prepare(3)
    assert isinstance(data.test, CaptionCorpus)
    assert isinstance(data.valid, CaptionCorpus)
    tested = {image.file for image in data.test.caption_set.images}
    valid = {image.file for image in data.valid.caption_set.images}
    assert (len(tested), len(valid), tested & valid) == (3, 1, set())
    assert {name: facts.pairs for name, facts in data.facts.items()} == {
        "train": 10,
        "valid": 2,
        "test": 6,
    }
    report = "\n".join(data.report)
    assert "3 images were held out to test on" in report
    assert "test: none of its 3 images is also in train" in report
    with pytest.raises(DataError, match=r"at most half of the 9 images .* take 4"):
        prepare(5)


@pytest.mark.parametrize("holds_out", [True, False])
def test_a_run_whose_held_out_images_were_others_is_not_resumed(
    tmp_path: Path, holds_out: bool
) -> None:
    images = named(folder(tmp_path))
    if holds_out:
        images["valid_captions"] = None
    run = tmp_path / "run"
    data = _prepare(images, run)
    record = run / "data.json"
    content = json.loads(record.read_text(encoding="utf-8"))
    record.write_text(json.dumps({**content, "version": 2}), encoding="utf-8")
    if not holds_out:
        assert _prepare(images, run, data.tokenizer).changes == ()
        return
    with pytest.raises(DataError, match=r"held out other data for validation"):
        _prepare(images, run, data.tokenizer)


def test_few_images_are_noted_once(tmp_path: Path) -> None:
    data = _prepare(named(folder(tmp_path)), tmp_path / "run")
    start = "9 training images: the captioner will learn them by heart"
    assert sum(line.startswith(start) for line in data.report) == 1


def test_a_folder_of_a_similar_name_is_suggested(tmp_path: Path) -> None:
    path = folder(tmp_path)
    images = named(path, folder=str(path / "imgaes"))
    with pytest.raises(
        DataError, match=rf"images=`; did you mean {path / 'images'}\?$"
    ):
        _prepare(images, tmp_path / "run")


def test_images_are_held_out(tmp_path: Path) -> None:
    images = named(folder(tmp_path))
    data = _prepare({**images, "valid_captions": None}, tmp_path / "run")

    assert any("1 image was held out" in line for line in data.report)

    shared = {**images, "valid_captions": images["captions"]}
    report = _prepare(shared, tmp_path / "shared").report

    assert any("9 of 9 images are also in train (00.png" in line for line in report)
    assert (data.facts["train"].pairs, data.facts["valid"].pairs) == (16, 2)


def test_captions_are_resegmented(tmp_path: Path) -> None:
    images = named(folder(tmp_path), flip=False)
    data = CorpusSettings.parse({"images": images}, "test")
    batching = BATCHING.with_values(subword_dropout=0.5)
    prepared = prepare_data(data, SMALL, batching, 7, tmp_path / "run")
    first = by_line(prepared, 0)
    second = by_line(prepared, 1)
    decode = prepared.tokenizer.target.decode
    differing = 0

    for line, example in first.items():
        other = second[line]
        assert [*map(decode, example.targets)] == [*map(decode, other.targets)]
        assert all(target[-1] == EOS for target in example.targets)

        differing += example.targets != other.targets

    assert differing > 4

    unvaried = _prepare(images, tmp_path / "unvaried")
    assert by_line(unvaried, 0) == by_line(unvaried, 1), "the very same objects"


@pytest.mark.parametrize(
    ("values", "because"),
    [
        ({"folder": "a"}, "folder is given without captions"),
        ({"captions": "a"}, "captions is given without folder"),
        ({"folder": "a", "captions": "b", "hight": 3}, "did you mean 'images.height'"),
    ],
)
def test_contradicting_settings_are_refused(
    values: dict[str, object], because: str
) -> None:
    with pytest.raises(ConfigurationError, match=because):
        CorpusSettings.parse({"images": values}, "test")

    texts: dict[str, object]

    for texts in ({"source": "c", "target": "d"}, {"mix": [{"pairs": "c"}]}):
        values = {"images": {"folder": "a", "captions": "b"}, **texts}
        with pytest.raises(ConfigurationError, match="images exclude source"):
            CorpusSettings.parse(values, "test")


def test_splitting_keeps_captions_with_their_image(tmp_path: Path) -> None:
    data = _prepare(named(folder(tmp_path)), tmp_path / "run")
    examples = [*by_line(data, 0).values()][:5]
    batch = collate(examples)
    parts = batch.split(2)

    assert [part.indices for part in parts] == [[0, 2, 4], [1, 3]]
    for part in parts:
        expected = collate([examples[line] for line in part.indices])
        assert torch.equal(part.source, expected.source)
        assert part.tokens == expected.tokens

        width = expected.target_out.shape[1]
        assert torch.equal(part.target_out[:, :width], expected.target_out)
        assert (part.target_out[:, width:] == PAD).all()
