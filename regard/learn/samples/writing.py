"""Write the sample data into a folder, with a page that says what each file is for."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from regard.common.atomic import write_text
from regard.common.errors import UsageError
from regard.data.word_alignments import format_pharaoh
from regard.learn.samples.corpus import korean_english
from regard.learn.samples.images import ImageSample, image_sample
from regard.learn.samples.pairs import Sample

PAGE = "README.md"
PAIRS = {
    "train": "to train on: `regard train --source train.ko --target train.en …`",
    "valid": "drawn like `train`: to validate on, `--valid-source valid.ko --valid-target valid.en`; its alignments "
    "choose a head: `regard align RUN --source valid.ko --target valid.en --gold valid.align --choose`",
    "test": "drawn like `train`: to score, `regard evaluate RUN --source test.ko --reference test.en`",
    "recombination": "verbs with objects that no other part combines, though all their words are in `train`: does a "
    "model recombine what it knows?",
    "length": "all lengths equally often: `regard evaluate RUN --source length.ko --reference length.en --by-length`, "
    "and `regard compare`",
}
IMAGES = {
    "train": "to train on: `regard train --images images --captions train.en.tsv --valid-captions valid.en.tsv …`",
    "valid": "combinations as in `train`: to validate on",
    "test": "combinations of shape, colour and place that `train` never shows: to score, "
    "`regard evaluate RUN --images images --captions test.en.tsv`",
}
ABOUT_PAIRS = (
    "한국어-영어 표본 데이터입니다. 문법으로 만들어 낸 문장이므로 자유롭게 쓸 수 있습니다. 한 줄에 한 문장이며,",
    "`.ko`와 `.en`의 같은 줄이 서로의 번역이고, `.align`은 낱말 정렬의 정답입니다(0부터 세며, 한국어 낱말-영어 낱말).",
    "",
    "Sentences drawn from a grammar, free to use. Each part has three files: line n of `PART.ko` and line n of",
    "`PART.en` are translations of each other, and line n of `PART.align` links their words, counted from 0:",
    "`0-0 2-1` links Korean word 0 to English word 0, and 2 to 1.",
)
ABOUT_IMAGES = (
    "코드로 그린 그림과 설명으로 된 표본 데이터입니다. 자유롭게 쓸 수 있습니다. `.tsv`의 한 줄은 파일 이름, 탭,",
    "설명 하나입니다. `.ko.tsv`는 한국어 설명입니다.",
    "",
    "Images of coloured shapes drawn by code, in `images/`, free to use. `PART.en.tsv` and `PART.ko.tsv` have lines",
    "of file name, tab, caption, several an image; `PART.regions.jsonl` says, for each noun of a caption, where what",
    "it names is in the image.",
)


def write_sample(folder: Path, images: bool = False) -> list[str]:
    """Write the Korean–English pairs, or the captioned images, and a page on them; return the lines of a summary.

    All files are written beside and then moved. Raises UsageError, before anything is written, if files of these names
    with other content are there.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: is a file; give a folder, new or not")
    near = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    prefix = ".partial-" if near == folder.absolute() else f"{folder.absolute().relative_to(near).parts[0]}.partial-"
    with TemporaryDirectory(dir=near, prefix=prefix) as name:
        temporary = Path(name)
        page = _write_images(temporary) if images else _write_pairs(temporary)
        write_text(temporary / PAGE, "\n".join(page) + "\n")
        files = sorted(path.relative_to(temporary) for path in temporary.rglob("*") if path.is_file())
        _check_unused(folder, temporary, files)
        for file in files:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.move(temporary / file, folder / file)
    return page


def _check_unused(folder: Path, temporary: Path, files: Iterable[Path]) -> None:
    changed = [
        file
        for file in files
        if (folder / file).exists() and (folder / file).read_bytes() != (temporary / file).read_bytes()
    ]
    if changed:
        others = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise UsageError(
            f"{folder / changed[0]}: is there already with other content{others}, and nothing was written; choose "
            "another folder, or move it away"
        )


def _write_pairs(folder: Path) -> list[str]:
    sample: Sample = korean_english()
    sample.write(folder, "ko", "en")
    lines = ["# Sample: Korean–English sentence pairs", "", *ABOUT_PAIRS, ""]
    lines += ["| part | pairs | what it is for | one of its pairs |", "|---|---|---|---|"]
    for name, pairs in sample.splits.items():
        short = min(pairs, key=lambda pair: abs(len(pair.source.split()) - 4))
        example = f"{short.source} · {short.target} · `{format_pharaoh(short.links)}`"
        lines.append(f"| `{name}` | {len(pairs):,} | {PAIRS[name]} | {example} |")
    return lines


def _write_images(folder: Path) -> list[str]:
    sample: ImageSample = image_sample()
    sample.write(folder)
    lines = ["# Sample: drawn images with captions", "", *ABOUT_IMAGES, ""]
    lines += ["| part | images | what it is for | its first caption |", "|---|---|---|---|"]
    for name, scenes in sample.splits.items():
        example = f"{scenes[0].file}: {scenes[0].captions['en'][0].text}"
        lines.append(f"| `{name}` | {len(scenes):,} | {IMAGES[name]} | {example} |")
    return lines
