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

from regard.common.checksums import sealed
from regard.common.settings import read_toml
from regard.evaluation.caption_metrics import cider_scores
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
    last = validations[-1]
    assert last["cider"] > 0
    assert {"loss", "chrf", "bleu", "attention"} <= last.keys()

    card = text_of(captioner / "README.md")
    for part in (
        "# A captioning model",
        f"CIDEr-D {last['cider']:.2f}",
        "| train | 36 |",
        "regard caption run IMAGE",
    ):
        assert part in card

    config = json.loads(text_of(captioner / "config.json"))
    sizes = {"height": 8, "width": 8, "cell": 4, "fit": "stretch", "blank": False}
    assert sizes.items() <= config["images"].items()
    assert config["search"]["longest_source"] is None
    assert config["search"]["max_length"] > 3

    fingerprints = json.loads(text_of(captioner / "data.json"))["files"]
    names = "train.captions train.images valid.captions valid.images"
    assert sorted(fingerprints) == names.split()

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


def test_json_lines_hold_regions_and_hypotheses(
    regard: Command, captioner: Path, images: Path
) -> None:
    file = images / "00.png"
    command = f"caption {captioner} {file} --nbest 2 --threads 1"
    line = json.loads(regard(f"{command} --format jsonl --regions").out)
    assert line["file"] == str(file)
    assert line["nbest"][0].items() <= line.items()
    assert [region["word"] for region in line["regions"]] == line["text"].split()

    for region in line["regions"]:
        left, top, right, bottom = region["box"]
        assert 0 <= left < right <= 1
        assert 0 <= top < bottom <= 1

    plain = [row.split("\t")[2] for row in regard(command).lines]
    assert plain == [hypothesis["text"] for hypothesis in line["nbest"]]


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
    assert regard.ended(f"{command} --temperature 0").status == 2


def test_images_that_cannot_be_used_are_reported_last(
    regard: Command, captioner: Path, images: Path
) -> None:
    """Files of other kinds in a folder are counted."""
    for name in ("none", "mixed/sub.svg"):
        Path(name).mkdir(parents=True)
    Path("empty.jpg").touch()
    causes = [
        "none: no image in this folder",
        "empty.jp: no such file; did you mean empty.jpg?",
    ]
    regard.fails(f"caption {captioner} none empty.jp", status=1, because=causes)

    shutil.copy(images / "00.png", "mixed/a.png")
    Path("mixed/b.PNG").write_text("text")
    for name in ("b.heic", "c.svg", "d.HEIC", "e.svg", "README"):
        Path("mixed", name).touch()
    causes = [
        "missing.png: no such file",
        "empty.jpg: the file is empty",
        "mixed/b.PNG: text ('text')",
    ]
    command = f"caption {captioner} empty.jpg missing.png mixed"
    done = regard.fails(command, status=1, because=causes)
    assert done.lines == regard(f"caption {captioner} mixed/a.png").lines

    kinds = "README, .heic, .svg, .HEIC"
    assert done.warnings == [f"mixed: 5 files of other kinds passed over: {kinds}"]


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
    regard: Command,
    scored: str,
    image_folder: Path,
    captioner: Path,
    model: Captioner,
) -> None:
    """A captioner that is compared with itself is its equal."""
    done = regard(scored)
    lines = done.lines
    names = [line.split()[0] for line in lines]
    assert names == ["BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "chrF", "CIDEr-D", "exact"]
    assert all("nrefs:2|" in line and line.endswith("|beam:2") for line in lines)

    report = json.loads(regard(f"{scored} --against {captioner} --format json").out)
    references: dict[str, list[str]] = {}
    for line in lines_of(image_folder / "valid.tsv"):
        file, text = line.split("\t")
        references.setdefault(file, []).append(text)

    captions = model.caption([image_folder / "images" / file for file in references])
    texts = [caption.text for caption in captions]
    rows = zip(texts, references.values(), strict=True)
    exact = sum(text in written for text, written in rows)
    assert f"{exact} of {len(texts)} captions " in done.err
    assert "CIDEr-D is high where" in done.err

    ciders = cider_scores(texts, [*references.values()])
    score = report["CIDEr-D"]["score"]
    assert score == pytest.approx(sum(ciders) / len(ciders))
    assert lines[5].split()[1] == f"{score:.2f}"

    (other,) = report["against"]
    assert other["cider_difference"]["p"] == 1
    assert other["CIDEr-D"] == report["CIDEr-D"]

    compared = regard(f"{scored} --against {captioner}").lines
    assert compared[0] == compared[8] == str(captioner)
    assert compared[9:16] == compared[1:8]

    equal = "+0.00 (95 % interval +0.00 to +0.00), p = 1.0000; paired bootstrap, 10,000 draws"
    assert compared[16].endswith(equal)

    shutil.copytree(captioner, "short")
    config = json.loads(text_of("short/config.json"))
    config["search"]["max_length"] = 1
    Path("short/config.json").write_text(json.dumps(sealed(config)), encoding="utf-8")
    done = regard(f"{scored} --against short --format json")
    report = json.loads(done.out)
    (other,) = report["against"]
    gain = other["CIDEr-D"]["score"] - report["CIDEr-D"]["score"]
    assert other["cider_difference"]["difference"] == pytest.approx(gain)
    assert gain < 0, "the other model minus this one"


def test_resumed_and_tuned_runs_keep_their_image_size(
    regard: Command, captioner: Path, caption_options: list[str]
) -> None:
    shutil.copytree(captioner, "run")
    more = sets("data.images.height=16 training.updates=121")
    done = regard("train", *caption_options, *more, "--out", "run", "--resume")
    changed = "data.images.height was 8 and is 16 now: 8 holds, the model reads images"
    assert changed in done.err
    assert "use it: regard caption run" in done.err

    one = "--from run --set training.updates=1 --out tuned --threads 1"
    tuned = regard("train", *caption_options, *one.split())
    assert "vocabulary: 280 tokens of run" in tuned.err
    assert json.loads(text_of("tuned/config.json"))["images"]["height"] == 8


def test_held_out_images_are_scored_at_the_end(
    regard: Command, image_folder: Path
) -> None:
    files = ["--images", f"{image_folder}/images"]
    settings = CAPTIONER.replace("tokenizer.size=280", "training.updates=2")
    test = ["--captions", f"{image_folder}/captions.tsv", "--test", 4, "--threads", 1]
    done = regard("train", *files, *test, *sets(settings), "--out", "run")
    assert "4 images were held out to test on" in done.err
    assert "test on 4 images, beam 2, too few for intervals: " in done.err

    (event,) = (
        line for line in read(Path("run/journal.jsonl")) if line["event"] == "test"
    )
    values = {score["name"]: score["value"] for score in event["scores"]}
    command = "evaluate run --captions run/test.tsv --format json --threads 1"
    scored = regard(*command.split(), *files)
    scores = json.loads(scored.out)
    for name in ("chrF", "CIDEr-D"):
        assert values[name] == pytest.approx(scores[name]["score"], abs=1e-3)
    rows = [f"other\tnone\t{row}" for row in lines_of("run/test.tsv")]
    write_lines("wide.csv", ["Text\tNo\tFile\tWords", *rows])
    wide = command.replace("run/test.tsv", "wide.csv --columns File,Words")
    assert json.loads(regard(*wide.split(), *files).out)["chrF"] == scores["chrF"]
    assert "Test on 4 images, beam 2" in text_of("run/README.md")
    trained = {row.split("\t")[0] for row in lines_of("run/test.tsv")}
    assert len(trained) == 4

    file = ["--captions", f"{image_folder}/captions.tsv", "--test", "test.tsv"]
    because = "score a file of captions when training has ended (`regard evaluate RUN"
    regard.fails("train", *files, *file, "--out", "b", status=2, because=because)


def test_bad_data_is_refused_or_skipped(regard: Command) -> None:
    Path("images").mkdir()
    for name in ("a.png", "c.png"):
        noise().save(Path("images", name))

    Path("images/b.png").touch()
    rows = ["a.png\ta thing", "b.png\tanother thing", "c.png\t ", "d.png\ta thing"]
    write_lines("rows.tsv", [*rows, "c.png\tthe third", "a.png\tit"])
    files = "--images images --captions rows.tsv --valid-captions rows.tsv --out run"
    settings = CAPTIONER.replace("tokenizer.size=280", "training.updates=1")
    command = ["train", *files.split(), *sets(settings), "--threads", 1]
    causes = [
        "line 3: the caption of c.png has no text",
        "line 4: there is no image d.png",
        "b.png: the file is empty",
        "--set data.images.skip_bad=true trains without",
    ]
    regard.fails(*command, status=1, because=causes)

    done = regard(*command, "--set", "data.images.skip_bad=true")
    assert "skipped: 2 images that cannot be read" in done.err
    assert "train: 2 images in images, 3 captions" in done.err
