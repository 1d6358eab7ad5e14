"""A captioner trained, used and evaluated by the commands."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from albums import COLOURS, noise
from command import CAPTIONER, Command, sets
from systems import posix

from regard.common.settings import read_toml
from regard.evaluation.caption_metrics import cider_scores, tokens, words
from regard.pipeline import Captioner, load_captioner
from regard.training.journal import read


@pytest.fixture(scope="module")
def model(captioner: Path) -> Captioner:
    return load_captioner(captioner)


def _colour(number: int) -> str:
    return list(COLOURS)[number % 4]


def test_a_run_folder_records_its_data(captioner: Path, image_folder: Path) -> None:
    validations = [line for line in read(captioner / "journal.jsonl") if line["event"] == "valid"]
    assert validations[-1]["cider"] > 0
    assert {"loss", "chrf", "bleu", "cider", "attention"} <= validations[-1].keys()
    card = (captioner / "README.md").read_text()
    assert card.startswith("# A captioning model")
    assert f"CIDEr-D {validations[-1]['cider']:.2f}" in card
    assert "| train | 36 |" in card
    assert "regard caption run IMAGE" in card
    config = json.loads((captioner / "config.json").read_text())
    size_settings = {
        "height": 8,
        "width": 8,
        "max_side": 512,
        "fit": "stretch",
        "cell": 4,
        "blank": False,
        "max_pixels": 50_000_000,
        "max_file_side": 65_535,
    }
    assert config["images"] == size_settings
    assert config["search"]["longest_source"] is None
    assert config["search"]["max_length"] > 3
    fingerprints = json.loads((captioner / "data.json").read_text())["files"]
    assert set(fingerprints) == {"train.captions", "valid.captions", "train.images", "valid.images"}
    assert read_toml(captioner / "train.toml")["data"]["images"]["folder"] == str(
        image_folder / "images"
    )


def test_files_and_folders_are_captioned_in_order(
    regard: Command, captioner: Path, image_folder: Path, model: Captioner
) -> None:
    files = sorted((image_folder / "images").iterdir())
    done = regard("caption", captioner, image_folder / "images", files[2], "--threads", 1)
    rows = [line.split("\t") for line in done.lines]
    assert [file for file, _ in rows] == [str(file) for file in [*files, files[2]]]
    assert [text for _, text in rows[:24]] == [caption.text for caption in model.caption(files)]
    right = sum(_colour(number) in text for number, (_, text) in enumerate(rows[:24]))
    assert right > 18, "it has learnt to distinguish colours"
    mixed = Path(shutil.copytree(image_folder / "images", "mixed"))
    (mixed / "note.txt").write_text("not an image, and not named like one")
    captioned = regard("caption", captioner, mixed, "--threads", 1)
    assert [line.split("\t")[1] for line in captioned.lines] == [text for _, text in rows[:24]]


def test_json_lines_hold_regions_and_hypotheses(
    regard: Command, captioner: Path, image_folder: Path
) -> None:
    options = ["--format", "jsonl", "--nbest", 2, "--regions", "--threads", 1]
    line = json.loads(
        regard("caption", captioner, image_folder / "images" / "00.png", *options).out
    )
    assert line["file"] == str(image_folder / "images" / "00.png")
    assert [line["text"], line["score"]] == [line["nbest"][0]["text"], line["nbest"][0]["score"]]
    assert len(line["nbest"]) == 2
    assert [region["word"] for region in line["regions"]] == line["text"].split()
    for region in line["regions"]:
        left, top, right, bottom = region["box"]
        assert 0 <= left < right <= 1
        assert 0 <= top < bottom <= 1
    plain = regard(
        "caption", captioner, image_folder / "images" / "00.png", "--nbest", 2, "--threads", 1
    ).lines
    assert [row.split("\t")[2] for row in plain] == [
        hypothesis["text"] for hypothesis in line["nbest"]
    ]


def test_search_options_are_those_of_translation(
    regard: Command, captioner: Path, image_folder: Path
) -> None:
    file = image_folder / "images" / "01.png"
    assert (
        regard("caption", captioner, file, "--prefix", "a blue")
        .lines[0]
        .split("\t")[1]
        .startswith("a blue")
    )
    assert "green" not in regard("caption", captioner, file, "--forbid", "green").out
    sampled = [
        regard("caption", captioner, file, "--sample", "--temperature", 3.0, "--seed", s).out
        for s in (1, 1, 2)
    ]
    assert sampled[0] == sampled[1] != sampled[2]
    ensemble = regard("caption", captioner, file, "--with", captioner, "--beam", 2).out
    assert ensemble == regard("caption", captioner, file, "--beam", 2).out


def test_file_names_may_hold_any_bytes(
    regard: Command, captioner: Path, image_folder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "named"
    folder.mkdir()
    for name in (b"caf\xe9.png", b"dog.png"):
        try:
            shutil.copy(image_folder / "images" / "00.png", os.fsencode(folder) + b"/" + name)
        except OSError as problem:
            pytest.skip(f"this file system wants names in UTF-8: {problem}")
    done = regard.ended("caption", captioner, folder, "--format", "jsonl", "--threads", 1)
    assert [json.loads(line)["file"] for line in done.lines] == [
        f"{folder}/caf\ufffd.png",
        f"{folder}/dog.png",
    ]


def test_images_that_cannot_be_used_are_reported_last(
    regard: Command, captioner: Path, image_folder: Path, tmp_path: Path
) -> None:
    good = image_folder / "images" / "00.png"
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "text.jpg").write_text("text")
    causes = [
        "missing.png: no such file",
        "empty.jpg: the file is empty",
        "text.jpg: text ('text')",
    ]
    done = regard.fails(
        "caption", captioner, "empty.jpg", "missing.png", good, "text.jpg", status=1, because=causes
    )
    assert done.lines[0].startswith(f"{good}\t")
    assert len(done.lines) == 1


def test_files_of_other_kinds_in_a_folder_are_counted(
    regard: Command, captioner: Path, image_folder: Path
) -> None:
    folder = Path("mixed")
    folder.mkdir()
    (folder / "sub.svg").mkdir()
    shutil.copy(image_folder / "images" / "00.png", folder / "a.png")
    assert regard("caption", captioner, folder).warnings == []
    for name in ("b.heic", "c.svg", "d.HEIC", "e.svg", "README"):
        (folder / name).touch()
    done = regard("caption", captioner, folder)
    assert done.warnings == [
        "mixed: 5 files of other kinds passed over: README, .heic, .svg, .HEIC"
    ]
    assert len(done.lines) == 1


def test_missing_files_and_empty_folders_are_named(
    regard: Command, captioner: Path, tmp_path: Path
) -> None:
    (tmp_path / "none").mkdir()
    (tmp_path / "a.png").touch()
    causes = ["none: no image in this folder", "b.png: no such file; did you mean a.png?"]
    regard.fails("caption", captioner, "none", "b.png", status=1, because=causes)


def test_captioners_refuse_text_and_translators_refuse_images(
    regard: Command, captioner: Path, recurrent: Path, image_folder: Path, data: Path
) -> None:
    image = image_folder / "images" / "00.png"
    text = data / "test.ko"
    regard.fails(
        "caption", recurrent, image, status=2, because="reads text, not images; translate with it"
    )
    regard.fails(
        "translate", captioner, text, status=2, because="reads images, not text; caption with it"
    )
    arguments = ["--source", text, "--reference", data / "test.en"]
    regard.fails("evaluate", captioner, *arguments, status=2, because="reads images, not text")
    arguments = ["--images", image_folder / "images", "--captions", image_folder / "valid.tsv"]
    regard.fails("evaluate", recurrent, *arguments, status=2, because="reads text, not images")


@posix
def test_the_first_example_of_the_docs_runs(
    captioner: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Path(__file__).parents[2] / "docs" / "captions.md"
    code = page.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "captions").symlink_to(captioner)
    noise().save(tmp_path / "dog.jpg")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(code, str(page), "exec"), names)
    assert str(names["caption"])


def test_the_other_examples_of_the_docs_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Path(__file__).parents[2] / "docs" / "captions.md"
    monkeypatch.chdir(tmp_path)
    for code in page.read_text(encoding="utf-8").split("```python\n")[2:]:
        exec(compile(code.split("```")[0], str(page), "exec"), {})
    assert len(list((tmp_path / "shapes" / "images").iterdir())) == 35


def test_captions_are_scored_against_all_references(
    regard: Command, captioner: Path, image_folder: Path, model: Captioner
) -> None:
    arguments = [
        "--images",
        image_folder / "images",
        "--captions",
        image_folder / "valid.tsv",
        "--threads",
        1,
    ]
    lines = regard("evaluate", captioner, *arguments).lines
    names = [line.split()[0] for line in lines]
    assert names == ["BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "chrF", "CIDEr-D", "exact"]
    assert all("nrefs:2|" in line and line.endswith("|beam:2") for line in lines)
    report = json.loads(regard("evaluate", captioner, *arguments, "--format", "json").out)
    rows = [line.split("\t") for line in (image_folder / "valid.tsv").read_text().splitlines()]
    files = list(dict.fromkeys(file for file, _ in rows))
    references = [[text for name, text in rows if name == file] for file in files]
    outputs = [
        caption.text
        for caption in model.caption([image_folder / "images" / file for file in files])
    ]
    ciders = cider_scores(outputs, references)
    assert report["CIDEr-D"]["score"] == pytest.approx(sum(ciders) / len(ciders))
    assert lines[5].split()[1] == f"{report['CIDEr-D']['score']:.2f}"


def test_two_captioners_are_compared(regard: Command, captioner: Path, image_folder: Path) -> None:
    arguments = [
        "--images",
        image_folder / "images",
        "--captions",
        image_folder / "valid.tsv",
        "--against",
        captioner,
        "--threads",
        1,
    ]
    lines = regard("evaluate", captioner, *arguments).lines
    assert lines[0] == lines[8] == str(captioner)
    assert lines[1:8] == lines[9:16]
    assert lines[16].endswith(
        "+0.00 (95 % interval +0.00 to +0.00), p = 1.0000; paired bootstrap, 10,000 draws"
    )
    report = json.loads(regard("evaluate", captioner, *arguments, "--format", "json").out)
    (other,) = report["against"]
    assert other["cider_difference"]["p"] == 1
    assert other["CIDEr-D"] == report["CIDEr-D"]


def test_captioners_with_different_tokenizers_are_not_compared(
    regard: Command, captioner: Path, image_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizers = iter([tokens, words])
    monkeypatch.setattr(
        "regard.evaluation.caption_metrics.tokenizer_for", lambda _: next(tokenizers)
    )
    arguments = [
        "--images",
        image_folder / "images",
        "--captions",
        image_folder / "valid.tsv",
        "--against",
        captioner,
    ]
    done = regard.ended("evaluate", captioner, *arguments)
    assert done.status == 2
    assert "are compared by tokens and those of" in done.causes[0]


@pytest.mark.parametrize(
    ("options", "causes"),
    [
        ([], ["there is nothing to score"]),
        (["--source", "a"], ["--reference is missing"]),
        (["--pairs", "a", "--source", "b"], ["--source and --pairs: score one or the other"]),
        (["--pairs", "a", "--images", "b"], ["--pairs and --images: score either"]),
        (["--images", "a"], ["--captions is missing"]),
        (
            ["--images", "a", "--captions", "b", "--source", "c"],
            ["score either sentences or images"],
        ),
        (["--images", "a", "--captions", "b", "--by-length"], ["--by-length: only with --source"]),
    ],
)
def test_incomplete_scoring_options_are_refused(
    regard: Command, captioner: Path, options: list[str], causes: list[str]
) -> None:
    regard.fails("evaluate", captioner, *options, status=2, because=causes)


def test_options_of_zero_are_respected(
    regard: Command, captioner: Path, image_folder: Path
) -> None:
    image = sorted((image_folder / "images").iterdir())[0]
    command = [
        "caption",
        captioner,
        image,
        "--nbest",
        2,
        "--beam",
        2,
        "--format",
        "jsonl",
        "--threads",
        1,
    ]
    scores = [
        json.loads(regard(*command, "--length-penalty", value).out)["score"]
        for value in ("0", "0.0000001", "1")
    ]
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)
    assert scores[0] != pytest.approx(scores[2], abs=1e-4)
    assert regard.ended(*command, "--temperature", "0").status == 2


def test_a_resumed_run_equals_an_uninterrupted_one(
    regard: Command, caption_options: list[str], tmp_path: Path
) -> None:
    settings = sets(
        [
            *CAPTIONER,
            "data.images.random_crop=0.2",
            "data.images.colour_jitter=0.1",
            "training.validate_every=4",
        ]
    )
    base = [*caption_options, *settings, "--threads", 1]
    regard("train", *base, "--set", "training.updates=8", "--out", "whole")
    regard("train", *base, "--set", "training.updates=4", "--out", "parts")
    regard("train", *base, "--set", "training.updates=8", "--out", "parts", "--resume")
    for name in ("model.safetensors", "checkpoints/update-00000008/model.safetensors"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_resumed_run_keeps_its_image_size(
    regard: Command, caption_options: list[str], tmp_path: Path
) -> None:
    base = [*caption_options, *sets(CAPTIONER), "--threads", 1, "--out", "run"]
    regard("train", *base, "--set", "training.updates=2")
    more = ["--set", "data.images.height=16", "--set", "training.updates=3"]
    done = regard("train", *base, *more, "--resume")
    assert (
        "data.images.height was 8 and is 16 now: 8 holds, the model reads images of that size"
        in done.err
    )
    done = regard("train", "--resume", "--out", "run", "--set", "training.updates=4")
    assert "use it: regard caption run" in done.err
    tuned = regard(
        "train",
        *caption_options,
        "--from",
        "run",
        "--set",
        "training.updates=2",
        "--out",
        "tuned",
        "--threads",
        1,
    )
    assert "vocabulary: 280 tokens of run" in tuned.err
    assert json.loads((tmp_path / "tuned" / "config.json").read_text())["images"]["height"] == 8


def test_a_dry_run_writes_nothing(
    regard: Command, caption_options: list[str], tmp_path: Path
) -> None:
    done = regard("train", *caption_options, *sets(CAPTIONER), "--dry-run", "--threads", 1)
    assert "model: " in done.lines[0]
    assert "resnet encoder, transformer decoder" in done.lines[0]
    assert any(line.startswith("speed: ") for line in done.lines)
    assert list(tmp_path.iterdir()) == []


def test_bad_data_is_refused_or_skipped(regard: Command, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    for name in ("a.png", "b.png", "c.png"):
        noise().save(tmp_path / "images" / name)
    (tmp_path / "images" / "b.png").write_bytes(b"")
    text = "a.png\ta thing\nb.png\tanother thing\nc.png\t \nd.png\ta thing\nc.png\tthe third\na.png\tit\n"
    (tmp_path / "captions.tsv").write_text(text)
    files = ["--images", "images", "--captions", "captions.tsv", "--valid-captions", "captions.tsv"]
    arguments = [
        *files,
        *sets([setting for setting in CAPTIONER if "tokenizer.size" not in setting]),
        "--threads",
        1,
        "--set",
        "training.updates=1",
    ]
    causes = [
        *("line 3: the caption of c.png has no text", "line 4: there is no image d.png"),
        *("b.png: the file is empty", "skip_bad = true"),
    ]
    regard.fails("train", *arguments, "--out", "run", status=1, because=causes)
    done = regard("train", *arguments, "--out", "run", "--set", "data.images.skip_bad=true")
    assert "skipped: 2 images that cannot be read" in done.err
    assert "train: 2 images in images, 3 captions" in done.err


def test_data_and_model_must_fit(
    regard: Command, caption_options: list[str], corpus: list[str]
) -> None:
    text_model = ["train", *caption_options, "--preset", "transformer-tiny", "--out", "run"]
    regard.fails(
        *text_model,
        status=2,
        because="'transformer' reads text, and the data are images; take resnet",
    )
    image_model = ["train", *corpus, "--preset", "caption-rnn", "--out", "run"]
    regard.fails(
        *image_model,
        status=2,
        because="'resnet' reads images, and the data are sentences; give --images",
    )
    regard.fails(
        "train",
        *caption_options,
        *corpus,
        "--out",
        "run",
        status=2,
        because="images exclude source, target",
    )
    validation = ["train", *corpus, "--set", "training.best_by=cider", "--out", "run"]
    regard.fails(*validation, status=2, because="'cider' compares captions of images")
    regard.fails(
        "train",
        *caption_options[:2],
        "--out",
        "run",
        status=2,
        because="folder is given without captions",
    )
