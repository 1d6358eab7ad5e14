"""Preparation of captioned images: the same in memory, on disk and after resuming, never half
written.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from albums import folder, named, noise

from regard.common.errors import ConfigurationError, DataError
from regard.data import image_cache
from regard.data.batch import Example, TrainingBatch, collate
from regard.data.batch_stream import BatchingSettings, Position
from regard.data.corpus import CorpusSettings
from regard.data.image_cache import cached_images
from regard.data.images import ImageSettings, ImageSizeSettings, SourcePixels
from regard.data.prepare import PreparedData, prepare_data
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.data.vocabulary import BOS, EOS, PAD

SMALL = TokenizerSettings(size=290)
BATCHING = BatchingSettings(tokens=80, micro_batches=2)


def _prepare(
    images: dict[str, object], run: Path, tokenizer: Tokenizer | None = None
) -> PreparedData:
    data = CorpusSettings.parse({"images": images}, "test")
    return prepare_data(data, tokenizer or SMALL, BATCHING, 7, run)


def _equal_batches(first: TrainingBatch, second: TrainingBatch) -> bool:
    same = torch.equal(first.source, second.source) and torch.equal(
        first.target_out, second.target_out
    )
    return same and first.indices == second.indices


def test_batches_hold_images_and_all_their_captions(tmp_path: Path) -> None:
    data = _prepare(named(folder(tmp_path, captions=3), captions_per_image=3), tmp_path / "run")
    assert (data.pairs, data.facts["train"].pairs, data.facts["valid"].pairs) == (27, 27, 9)
    indices = []
    for plan in data.batches.epoch(0):
        batch = plan.batch()
        B = len(batch.source)
        N = len(batch.target_out)
        assert batch.source.shape == (B, 3, 8, 8)
        assert N == 3 * B
        assert batch.source_keep is None
        assert batch.tokens == plan.tokens == int((batch.target_out != PAD).sum())
        assert (batch.target_in[:, 0] == BOS).all()
        assert max(4, 3 * batch.target_out.shape[1]) * B <= 40 or B == 1
        for row, example in enumerate(plan.examples):
            captions = [data.tokenizer.target.decode(ids) for ids in example.targets]
            assert captions == [
                f"a {captions[0].split()[1]} image {'again ' * k}." for k in range(3)
            ]
            assert example.targets == tuple(
                [i for i in batch.target_out[3 * row + k].tolist() if i != PAD] for k in range(3)
            )
        indices += batch.indices
    assert sorted(indices) == list(range(9))
    assert data.batches.epoch_stats.tokens == (
        36.0,
        float(sum(p.tokens for p in data.batches.epoch(0))),
    )


def test_captions_per_image_limits_the_targets(tmp_path: Path) -> None:
    data = _prepare(named(folder(tmp_path, captions=3), captions_per_image=2), tmp_path / "run")
    counts = sorted(
        len(example.targets) for plan in data.batches.epoch(0) for example in plan.examples
    )
    assert counts == [1] * 9 + [2] * 9
    assert all(
        len({len(example.targets) for example in plan.examples}) == 1
        for plan in data.batches.epoch(0)
    )


def test_images_of_unequal_sizes_are_padded(tmp_path: Path) -> None:
    path = folder(tmp_path, count=6)
    noise((20, 11)).save(path / "images" / "00.png")
    data = _prepare(named(path, height=0, width=0), tmp_path / "run")
    examples = [example for plan in data.batches.epoch(0) for example in plan.examples]
    batch = collate(examples)
    B, _, Y, X = batch.source.shape
    assert (Y, X) == (20, 16)
    assert batch.source_keep is not None
    keep = batch.source_keep.view(B, Y, X)
    for row, example in enumerate(examples):
        assert isinstance(example.source, SourcePixels)
        height, width = example.source.size
        assert keep[row, :height, :width].all()
        assert keep[row].sum() == height * width
        assert torch.equal(batch.source[row, :, :height, :width], example.source.tensor())
        assert (batch.source[row].masked_select(~keep[row]) == 0).all()


def test_several_threads_give_the_same_tensors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = _prepare(
        named(folder(tmp_path), random_crop=0.3, colour_jitter=0.2), tmp_path / "run"
    ).batches
    single_threaded = [plan.batch() for plan in batches.epoch(0)]
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    assert all(
        _equal_batches(a, plan.batch())
        for a, plan in zip(single_threaded, batches.epoch(0), strict=True)
    )


def test_augmentation_depends_on_epoch_and_seed_alone(tmp_path: Path) -> None:
    images = named(folder(tmp_path), flip=True, random_crop=0.3, colour_jitter=0.2)
    batches = _prepare(images, tmp_path / "run").batches
    first, repeated, following = (batches.epoch(n) for n in (0, 0, 1))
    assert all(_equal_batches(a.batch(), b.batch()) for a, b in zip(first, repeated, strict=True))
    by_line = [
        {line: e for plan in plans for line, e in zip(plan.indices, plan.examples, strict=True)}
        for plans in (first, following)
    ]
    assert all(
        not torch.equal(by_line[0][i].source.tensor(), by_line[1][i].source.tensor())
        for i in by_line[0]
    )  # type: ignore[union-attr]
    stream = batches.updates()
    updates = [next(stream) for _ in range(12)]
    resumed = batches.updates(Position.from_json(asdict(updates[4].after)))
    for update in updates[5:]:
        expected = next(resumed)
        assert all(
            _equal_batches(a.batch(), b.batch())
            for a, b in zip(update.plans, expected.plans, strict=True)
        )


def test_images_with_sides_in_their_captions_are_not_mirrored(tmp_path: Path) -> None:
    path = folder(tmp_path)
    text = (path / "captions.tsv").read_text().replace("01.png\ta green", "01.png\tleft of a green")
    (path / "captions.tsv").write_text(text)
    data = _prepare(named(path), tmp_path / "run")
    assert (
        "  mirroring (data.images.flip): on, except for the 1 of 9 images with a caption that says left or right"
        in data.report
    )
    mirrored = {
        line
        for n in range(12)
        for plan in data.batches.epoch(n)
        for line, example in zip(plan.indices, plan.examples, strict=True)
        if isinstance(example.source, SourcePixels) and example.source.augment.mirrored
    }
    assert mirrored == {0, 2, 3, 4, 5, 6, 7, 8}
    example = next(e for plan in data.batches.epoch(0) for e in plan.examples)
    assert isinstance(example.source, SourcePixels)
    straight, mirror = (
        replace(example.source, augment=replace(example.source.augment, mirrored=m)).tensor()
        for m in (False, True)
    )
    assert torch.equal(straight.flip(2), mirror)


@pytest.mark.parametrize(("kind", "flips"), [("char", False), ("whitespace", False), ("bpe", True)])
def test_images_of_writing_are_not_mirrored(tmp_path: Path, kind: str, flips: bool) -> None:
    data = CorpusSettings.parse({"images": named(folder(tmp_path))}, "test")
    tokenizer = TokenizerSettings.parse(
        {"kind": kind, "size": 290 if kind == "bpe" else None}, "test"
    )
    prepared = prepare_data(data, tokenizer, BATCHING, 7, tmp_path / "run")
    assert any("flip): on" in line for line in prepared.report) == flips
    for plan in prepared.batches.epoch(0):
        for example in plan.examples:
            assert prepared.tokenizer.target.decode(example.target).startswith("a ")
            assert kind != "whitespace" or len(example.target) == 5


def test_nothing_is_resampled_if_nothing_varies(tmp_path: Path) -> None:
    data = _prepare(named(folder(tmp_path), flip=False), tmp_path / "run")
    by_line = [
        {i: e for p in data.batches.epoch(n) for i, e in zip(p.indices, p.examples, strict=True)}
        for n in (0, 1)
    ]
    assert by_line[0] == by_line[1], "the very same objects"


def test_a_random_crop_shows_different_parts(tmp_path: Path) -> None:
    data = _prepare(named(folder(tmp_path), fit="crop", flip=False), tmp_path / "run")
    boxes = {
        e.source.augment.box
        for n in range(6)
        for p in data.batches.epoch(n)
        for e in p.examples
        if isinstance(e.source, SourcePixels)
    }
    assert len(boxes) == 4, "8 of 11 columns, from 0 to 3"
    assert {box[2] - box[0] for box in boxes} == {8}


def test_the_cache_on_disk_equals_the_one_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder(tmp_path, count=8)
    size_settings = ImageSizeSettings(height=6, width=5)
    paths = sorted((path / "images").iterdir())
    (path / "images" / "03.png").write_bytes(b"")
    in_memory = cached_images(paths, size_settings, tmp_path / "kept")
    assert not (tmp_path / "kept").exists(), "small images stay in memory"
    monkeypatch.setattr(image_cache, "IN_MEMORY", 200)
    for reused in (False, True, True):
        messages: list[str] = []
        images = cached_images(paths, size_settings, tmp_path / "kept", messages.append)
        assert messages == [], f"used again: {reused}"
        assert (images.sizes, images.problems, images.digest) == (
            in_memory.sizes,
            in_memory.problems,
            in_memory.digest,
        )
        assert all(np.array_equal(images[i], in_memory[i]) for i in range(8) if i != 3)
        assert isinstance(images.pixels, np.memmap)
    assert list(images.problems) == [3]
    assert not list(tmp_path.glob(".*.partial"))


@pytest.mark.parametrize(
    "harm", ["pixel", "cut", "index", "no index", "another image", "another size"]
)
def test_a_damaged_or_outdated_cache_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    monkeypatch.setattr(image_cache, "IN_MEMORY", 200)
    paths = sorted((folder(tmp_path, count=8) / "images").iterdir())
    size_settings = ImageSizeSettings(height=6, width=5)
    cache = tmp_path / "kept"
    first = cached_images(paths, size_settings, cache)
    original = first.pixels.copy()
    pixels = cache / "pixels.npy"
    index = cache / "index.json"
    if harm == "pixel":
        data = bytearray(pixels.read_bytes())
        data[-1] ^= 1
        pixels.write_bytes(data)
    elif harm == "cut":
        pixels.write_bytes(pixels.read_bytes()[:-1])
    elif harm == "index":
        index.write_text(index.read_text()[:-20])
    elif harm == "no index":
        index.unlink()
    elif harm == "another image":
        noise((12, 16)).save(paths[2])
    else:
        size_settings = ImageSizeSettings(height=5, width=6)
    messages: list[str] = []
    rebuilt = cached_images(paths, size_settings, cache, messages.append)
    assert len(messages) == 1
    assert messages[0].endswith("the images are decoded again")
    assert np.array_equal(rebuilt.pixels, original) == (
        harm not in ("another image", "another size")
    )
    assert np.array_equal(cached_images(paths, size_settings, cache).pixels, rebuilt.pixels)


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
    assert [part in cause for cause, part in zip(refused.value.causes, parts, strict=True)] == [
        True
    ] * 5
    assert not (tmp_path / "run").exists()
    data = _prepare(named(path, skip_bad=True), tmp_path / "run")
    assert data.pairs == 16
    assert sum("skipped: " in line for line in data.report) == 3
    assert "  skipped: 2 images that cannot be read" in data.report


def test_changed_images_are_reported(tmp_path: Path) -> None:
    path = folder(tmp_path)
    data = _prepare(named(path), tmp_path / "run")
    assert _prepare(named(path), tmp_path / "run", data.tokenizer).changes == ()
    noise((12, 16)).save(path / "images" / "00.png")
    with (path / "valid.tsv").open("a") as file:
        file.write("11.png\tone more\n")
    changes = _prepare(named(path, colour_jitter=0.1), tmp_path / "run", data.tokenizer).changes
    assert len(changes) == 3
    for change, part in zip(
        changes,
        ("valid.captions: ", "train.images: ", "data.images.colour_jitter is 0.1"),
        strict=True,
    ):
        assert part in change


@pytest.mark.parametrize("change", ["image", "caption"])
def test_changed_images_are_refused_of_a_resumed_run(tmp_path: Path, change: str) -> None:
    path = folder(tmp_path)
    tokenizer = _prepare(named(path), tmp_path / "run").tokenizer
    if change == "image":
        noise((12, 16)).save(path / "images" / "00.png")
    else:
        file = Path(str(named(path)["captions"]))
        file.write_text(file.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    settings = CorpusSettings.parse({"images": named(path)}, "the test")
    with pytest.raises(
        DataError,
        match=rf"train.{change}s: .* has changed since the run began .*put back what it was",
    ):
        prepare_data(settings, tokenizer, BATCHING, 7, tmp_path / "run", resumed=True)


def test_images_are_held_out(tmp_path: Path) -> None:
    images = named(folder(tmp_path))
    data = _prepare({**images, "valid_captions": None}, tmp_path / "run")
    assert any("1 image was held out" in line for line in data.report)
    assert (data.facts["train"].pairs, data.facts["valid"].pairs) == (16, 2)


def test_captions_are_resegmented(tmp_path: Path) -> None:
    data = CorpusSettings.parse({"images": named(folder(tmp_path), flip=False)}, "test")
    prepared = prepare_data(
        data, SMALL, BATCHING.with_values(subword_dropout=0.5), 7, tmp_path / "run"
    )
    texts = [
        {
            i: [prepared.tokenizer.target.decode(t) for t in e.targets]
            for p in prepared.batches.epoch(n)
            for i, e in zip(p.indices, p.examples, strict=True)
        }
        for n in (0, 1)
    ]
    ids = [
        {
            i: e.targets
            for p in prepared.batches.epoch(n)
            for i, e in zip(p.indices, p.examples, strict=True)
        }
        for n in (0, 1)
    ]
    assert texts[0] == texts[1]
    assert ids[0] != ids[1]
    assert all(target[-1] == EOS for targets in ids[0].values() for target in targets)


@pytest.mark.parametrize(
    ("values", "because"),
    [
        ({"images": {"folder": "a"}}, "folder is given without captions"),
        ({"images": {"captions": "a"}}, "captions is given without folder"),
        (
            {"images": {"folder": "a", "captions": "b"}, "source": "c", "target": "d"},
            "images exclude source",
        ),
        (
            {"images": {"folder": "a", "captions": "b"}, "mix": [{"pairs": "c"}]},
            "images exclude source",
        ),
        ({"images": {"folder": "a", "captions": "b", "hight": 3}}, "did you mean 'images.height'"),
    ],
)
def test_contradicting_settings_are_refused(values: dict[str, object], because: str) -> None:
    with pytest.raises(ConfigurationError, match=because):
        CorpusSettings.parse(values, "test")


def test_splitting_keeps_captions_with_their_image(tmp_path: Path) -> None:
    data = _prepare(named(folder(tmp_path)), tmp_path / "run")
    examples = [example for plan in data.batches.epoch(0) for example in plan.examples][:5]
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


def test_a_pair_of_texts_has_one_target() -> None:
    example = Example([5, EOS], [6, EOS])
    assert example.source_ids == [5, EOS]
    assert example.targets == ([6, EOS],)
    assert ImageSettings(folder="a", captions="b").size_settings == ImageSizeSettings()


CORPORA = Path(__file__).parents[3] / "shared" / "data"


@pytest.mark.parametrize(
    ("name", "images", "kind", "counts"),
    [
        ("flickr8k", {"height": 16, "width": 16, "cell": 4}, "bpe", (5000, 1000)),
        ("im2latex_sample", {"height": 0, "width": 0}, "whitespace", (100, 100)),
    ],
)
def test_real_corpora(
    tmp_path: Path, name: str, images: dict[str, object], kind: str, counts: tuple[int, int]
) -> None:
    """Read the validation part of a public corpus as published."""
    path = CORPORA / name
    if not path.is_dir():
        pytest.skip(f"the corpus {name} is not here ({path}): it may not be shipped")
    files = {"folder": str(path / "images"), "captions": str(path / "captions_val.tsv")}
    data = CorpusSettings.parse({"images": {**files, **images}}, "test")
    prepared = prepare_data(
        data, TokenizerSettings.parse({"kind": kind}, "test"), BatchingSettings(), 1, tmp_path
    )
    captions, image_count = counts
    assert sum(facts.pairs for facts in prepared.facts.values()) == captions
    assert f"{image_count - image_count // 20:,} images" in prepared.report[0]
    for plan in prepared.batches.epoch(0)[:3]:
        assert plan.batch().source.shape[1] == 3
