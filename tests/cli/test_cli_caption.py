"""A captioner trained, used and evaluated by the commands."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from command import CAPTIONER, Command, lines_of, sets, text_of, write_lines
from helpers.image_folders import COLOURS, noise
from helpers.system_marks import posix

from regard.common.settings import read_toml
from regard.evaluation.caption_metrics import cider_scores, tokens, words
from regard.pipeline import Captioner, load_captioner
from regard.training.journal import read

PAGE = Path(__file__).parents[2] / "docs" / "captions.md"


@pytest.fixture(scope="module")
def model(captioner: Path) -> Captioner:
    return load_captioner(captioner)


@pytest.fixture(scope="module")
def images(image_folder: Path) -> Path:
    return image_folder / "images"


@pytest.fixture(scope="module")
def scored(captioner: Path, image_folder: Path) -> str:
    """Return the command that scores captions of the images to validate on."""
    files = f"--images {image_folder}/images --captions {image_folder}/valid.tsv"
    return f"evaluate {captioner} {files} --threads 1"


def test_a_run_folder_records_its_data(captioner: Path, image_folder: Path) -> None:
    validations = [
        line for line in read(captioner / "journal.jsonl") if line["event"] == "valid"
    ]
    assert validations[-1]["cider"] > 0
    assert {"loss", "chrf", "bleu", "attention"} <= validations[-1].keys()

    card = text_of(captioner / "README.md")
    assert card.startswith("# A captioning model")
    assert f"CIDEr-D {validations[-1]['cider']:.2f}" in card
    assert "| train | 36 |" in card
    assert "regard caption run IMAGE" in card

    config = json.loads(text_of(captioner / "config.json"))
    sizes = {"height": 8, "width": 8, "cell": 4, "fit": "stretch", "blank": False}
    assert sizes.items() <= config["images"].items()
    assert config["search"]["longest_source"] is None
    assert config["search"]["max_length"] > 3

    fingerprints = json.loads(text_of(captioner / "data.json"))["files"]
    assert set(fingerprints) == {
        "train.captions",
        "valid.captions",
        "train.images",
        "valid.images",
    }

    recipe = read_toml(captioner / "train.toml")
    assert recipe["data"]["images"]["folder"] == str(image_folder / "images")


def test_files_and_folders_are_captioned_in_order(
    regard: Command, captioner: Path, images: Path, model: Captioner
) -> None:
    files = sorted(images.iterdir())
    done = regard(f"caption {captioner} {images} {files[2]} --threads 1")
    rows = [line.split("\t") for line in done.lines]
    assert [file for file, _ in rows] == [str(file) for file in [*files, files[2]]]

    texts = [text for _, text in rows[:24]]
    assert texts == [caption.text for caption in model.caption(files)]

    right = [list(COLOURS)[number % 4] in text for number, text in enumerate(texts)]
    assert sum(right) > 18, "it has learnt to distinguish colours"


def test_files_of_other_kinds_in_a_folder_are_counted(
    regard: Command, captioner: Path, images: Path
) -> None:
    Path("mixed/sub.svg").mkdir(parents=True)
    shutil.copy(images / "00.png", "mixed/a.png")
    for name in ("b.heic", "c.svg", "d.HEIC", "e.svg", "README"):
        Path("mixed", name).touch()

    done = regard(f"caption {captioner} mixed")
    assert len(done.lines) == 1

    kinds = "README, .heic, .svg, .HEIC"
    assert done.warnings == [f"mixed: 5 files of other kinds passed over: {kinds}"]


def test_json_lines_hold_regions_and_hypotheses(
    regard: Command, captioner: Path, images: Path
) -> None:
    file = images / "00.png"
    command = f"caption {captioner} {file} --nbest 2 --threads 1"
    line = json.loads(regard(f"{command} --format jsonl --regions").out)
    assert line["file"] == str(file)

    best, second = line["nbest"]
    assert (line["text"], line["score"]) == (best["text"], best["score"])
    assert [region["word"] for region in line["regions"]] == line["text"].split()

    for region in line["regions"]:
        left, top, right, bottom = region["box"]
        assert 0 <= left < right <= 1
        assert 0 <= top < bottom <= 1

    plain = [row.split("\t")[2] for row in regard(command).lines]
    assert plain == [best["text"], second["text"]]


def test_search_options_reach_the_search(
    regard: Command, captioner: Path, images: Path
) -> None:
    command = f"caption {captioner} {images}/01.png --threads 1"
    assert "\ta blue" in regard(f"{command} --prefix 'a blue'").out
    assert "green" not in regard(f"{command} --forbid green").out

    sampling = f"{command} --sample --temperature 3.0 --seed"
    sampled = [regard(f"{sampling} {seed}").out for seed in (1, 1, 2)]
    assert sampled[0] == sampled[1] != sampled[2]

    ensemble = regard(f"{command} --with {captioner} --beam 2").out
    assert ensemble == regard(f"{command} --beam 2").out

    scores = []
    for penalty in ("0", "0.0000001", "1"):
        done = regard(f"{command} --format jsonl --length-penalty {penalty}")
        scores.append(json.loads(done.out)["score"])
    assert scores[0] == pytest.approx(scores[1], abs=1e-4), "zero is no missing value"
    assert scores[0] != pytest.approx(scores[2], abs=1e-4)
    assert regard.ended(f"{command} --temperature 0").status == 2


def test_file_names_may_hold_any_bytes(
    regard: Command, captioner: Path, images: Path
) -> None:
    Path("named").mkdir()
    try:
        shutil.copy(images / "00.png", b"named/caf\xe9.png")
    except OSError as problem:
        pytest.skip(f"this file system wants names in UTF-8: {problem}")
    shutil.copy(images / "00.png", "named/dog.png")
    lines = regard(f"caption {captioner} named --format jsonl --threads 1").lines
    names = [json.loads(line)["file"] for line in lines]
    assert names == ["named/caf\ufffd.png", "named/dog.png"]


def test_images_that_cannot_be_used_are_reported_last(
    regard: Command, captioner: Path, images: Path
) -> None:
    Path("none").mkdir()
    Path("empty.jpg").touch()
    Path("text.jpg").write_text("text")
    good = images / "00.png"
    causes = [
        "none: no image in this folder",
        "empty.jp: no such file; did you mean empty.jpg?",
    ]
    regard.fails(f"caption {captioner} none empty.jp", status=1, because=causes)

    causes = [
        "missing.png: no such file",
        "empty.jpg: the file is empty",
        "text.jpg: text ('text')",
    ]
    command = f"caption {captioner} empty.jpg missing.png {good} text.jpg"
    done = regard.fails(command, status=1, because=causes)
    assert done.out.startswith(f"{good}\t")
    assert len(done.lines) == 1


def test_captioners_refuse_text_and_translators_refuse_images(
    regard: Command,
    captioner: Path,
    transformer: Path,
    images: Path,
    scored: str,
    data: Path,
) -> None:
    text = data / "test.ko"
    because = "reads text, not images; translate with it"
    regard.fails(f"caption {transformer} {images}/00.png", because=because)

    because = "reads images, not text; caption with it"
    regard.fails(f"translate {captioner} {text}", because=because)

    files = f"--source {text} --reference {data}/test.en"
    regard.fails(f"evaluate {captioner} {files}", because="reads images, not text")

    other = scored.replace(str(captioner), str(transformer))
    regard.fails(other, because="reads text, not images")


@posix
def test_the_examples_of_the_docs_run(
    captioner: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = re.findall(r"```python\n(.*?)```", text_of(PAGE), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    Path("runs/captions").symlink_to(captioner)
    noise().save("dog.jpg")
    names: dict[str, object] = {}
    exec(compile(first, str(PAGE), "exec"), names)
    assert str(names["caption"])

    for code in others:
        exec(compile(code, str(PAGE), "exec"), {})
    assert len(os.listdir("shapes/images")) == 35


def test_captions_are_scored_against_all_references(
    regard: Command, scored: str, image_folder: Path, model: Captioner
) -> None:
    lines = regard(scored).lines
    names = [line.split()[0] for line in lines]
    assert names == ["BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "chrF", "CIDEr-D", "exact"]
    assert all("nrefs:2|" in line and line.endswith("|beam:2") for line in lines)

    report = json.loads(regard(f"{scored} --format json").out)
    references: dict[str, list[str]] = {}
    for line in lines_of(image_folder / "valid.tsv"):
        file, text = line.split("\t")
        references.setdefault(file, []).append(text)

    captions = model.caption([image_folder / "images" / file for file in references])
    ciders = cider_scores(
        [caption.text for caption in captions], [*references.values()]
    )
    score = report["CIDEr-D"]["score"]
    assert score == pytest.approx(sum(ciders) / len(ciders))
    assert lines[5].split()[1] == f"{score:.2f}"


def test_two_captioners_are_compared(
    regard: Command, scored: str, captioner: Path
) -> None:
    lines = regard(f"{scored} --against {captioner}").lines
    assert lines[0] == lines[8] == str(captioner)
    assert lines[1:8] == lines[9:16]

    equal = "+0.00 (95 % interval +0.00 to +0.00), p = 1.0000; paired bootstrap, 10,000 draws"
    assert lines[16].endswith(equal)

    report = json.loads(regard(f"{scored} --against {captioner} --format json").out)
    (other,) = report["against"]
    assert other["cider_difference"]["p"] == 1
    assert other["CIDEr-D"] == report["CIDEr-D"]


def test_captioners_with_different_tokenizers_are_not_compared(
    regard: Command, scored: str, captioner: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizers = iter([tokens, words])
    metrics = "regard.evaluation.caption_metrics"
    monkeypatch.setattr(f"{metrics}.tokenizer_for", lambda _: next(tokenizers))
    done = regard.ended(f"{scored} --against {captioner}")
    assert done.status == 2
    assert "are compared by tokens and those of" in done.causes[0]


@pytest.mark.parametrize(
    ("options", "because"),
    [
        ("", "there is nothing to score"),
        ("--source a", "--reference is missing"),
        ("--pairs a --source b", "--source and --pairs: score one or the other"),
        ("--pairs a --images b", "--pairs and --images: score either"),
        ("--images a", "--captions is missing"),
        ("--images a --captions b --source c", "score either sentences or images"),
        ("--images a --captions b --by-length", "--by-length: only with --source"),
    ],
)
def test_incomplete_scoring_options_are_refused(
    regard: Command, captioner: Path, options: str, because: str
) -> None:
    regard.fails(f"evaluate {captioner} {options}", because=because)


def test_a_resumed_run_equals_an_uninterrupted_one(
    regard: Command, caption_options: list[str]
) -> None:
    """It keeps its image size, as a run does that is tuned from it."""
    augmented = "data.images.random_crop=0.2 data.images.colour_jitter=0.1"
    base = ["train", *caption_options, *sets(CAPTIONER, augmented), "--threads", 1]
    long = sets("training.updates=8 training.validate_every=4")
    regard(*base, *long, "--out", "whole")
    regard(*base, *long, "--set", "training.updates=4", "--out", "parts")
    done = regard(
        *base, *long, "--set", "data.images.height=16", "--out", "parts", "--resume"
    )
    assert (
        "data.images.height was 8 and is 16 now: 8 holds, the model reads images"
        in done.err
    )
    assert "use it: regard caption parts" in done.err

    for name in ("model.safetensors", "checkpoints/update-00000008/model.safetensors"):
        assert Path("parts", name).read_bytes() == Path("whole", name).read_bytes()

    more = "--from whole --set training.updates=1 --out tuned --threads 1"
    tuned = regard("train", *caption_options, *more.split())
    assert "vocabulary: 280 tokens of whole" in tuned.err
    assert json.loads(text_of("tuned/config.json"))["images"]["height"] == 8


def test_bad_data_is_refused_or_skipped(regard: Command) -> None:
    Path("images").mkdir()
    for name in ("a.png", "c.png"):
        noise().save(Path("images", name))

    Path("images/b.png").touch()
    rows = ["a.png\ta thing", "b.png\tanother thing", "c.png\t ", "d.png\ta thing"]
    write_lines("rows.tsv", [*rows, "c.png\tthe third", "a.png\tit"])
    files = "--images images --captions rows.tsv --valid-captions rows.tsv --out run"
    settings = CAPTIONER.replace("tokenizer.size=280", "")
    arguments = [
        "train",
        *files.split(),
        *sets(settings, "training.updates=1"),
        "--threads",
        1,
    ]
    causes = [
        "line 3: the caption of c.png has no text",
        "line 4: there is no image d.png",
        "b.png: the file is empty",
        "skip_bad = true",
    ]
    regard.fails(*arguments, status=1, because=causes)

    done = regard(*arguments, "--set", "data.images.skip_bad=true")
    assert "skipped: 2 images that cannot be read" in done.err
    assert "train: 2 images in images, 3 captions" in done.err


def test_data_and_model_must_fit(
    regard: Command, caption_options: list[str], corpus: list[str]
) -> None:
    for files, more, because in (
        (
            caption_options,
            "--preset transformer-tiny",
            "reads text, and the data are images",
        ),
        (
            corpus,
            "--preset caption-rnn",
            "reads images, and the data are sentences; give --images",
        ),
        ([*caption_options, *corpus], "", "images exclude source, target"),
        (corpus, "--set training.best_by=cider", "'cider' compares captions of images"),
        (caption_options[:2], "", "folder is given without captions"),
    ):
        regard.fails("train", *files, *more.split(), "--out", "run", because=because)
