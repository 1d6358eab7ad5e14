"""Write the sample data into a folder, with a page that says what each file is for."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from regard.common.atomic import write_text
from regard.common.errors import UsageError
from regard.common.reading import package_toml
from regard.data.word_alignments import format_pharaoh
from regard.learn.samples.aligned_pairs import AlignedPair
from regard.learn.samples.images import CaptionedScene, image_sample
from regard.learn.samples.korean_english_corpus import korean_english

PAGE = "SAMPLE.md"
T = TypeVar("T")
PAGES = package_toml("regard.learn.samples", "pages.toml")


def write_sample(folder: Path, images: bool = False) -> list[str]:
    """Write the Korean–English pairs, or the captioned images, with a page that describes them.

    Return the lines of the page. All files are first written into a temporary folder and then
    moved. Raises UsageError, and writes nothing, if `folder` has a file of the same name with other
    content.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: is a file; give a folder, new or not")

    # The temporary folder must be on the same file system, so that files can be moved.
    absolute = folder.absolute()
    existing = next(path for path in (absolute, *absolute.parents) if path.exists())
    if existing == absolute:
        prefix = ".partial-"
    else:
        prefix = f"{absolute.relative_to(existing).parts[0]}.partial-"

    with TemporaryDirectory(dir=existing, prefix=prefix) as name:
        temporary = Path(name)
        page = _write_images(temporary) if images else _write_pairs(temporary)
        write_text(temporary / PAGE, "\n".join(page) + "\n")
        files = sorted(
            path.relative_to(temporary)
            for path in temporary.rglob("*")
            if path.is_file()
        )
        _check_unused(folder, temporary, files)
        for file in files:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.move(temporary / file, folder / file)
    return page


def _check_unused(folder: Path, temporary: Path, files: Iterable[Path]) -> None:
    """Raise UsageError if a file would be replaced by one with other content."""
    changed = []
    for file in files:
        present = folder / file
        new = temporary / file
        if present.exists() and present.read_bytes() != new.read_bytes():
            changed.append(file)
    if changed:
        others = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise UsageError(
            f"{folder / changed[0]}: is there already with other content{others}, and nothing was "
            "written; choose another folder, or move it away"
        )


def _write_pairs(folder: Path) -> list[str]:
    def example(pairs: Sequence[AlignedPair]) -> str:
        pair = min(pairs, key=lambda pair: abs(len(pair.source.split()) - 4))
        return f"{pair.source} · {pair.target} · `{format_pharaoh(pair.links)}`"

    sample = korean_english()
    sample.write(folder, "ko", "en")
    return _page("pairs", sample.splits, example)


def _write_images(folder: Path) -> list[str]:
    def example(scenes: Sequence[CaptionedScene]) -> str:
        return f"{scenes[0].file}: {scenes[0].captions['en'][0].text}"

    sample = image_sample()
    sample.write(folder)
    return _page("images", sample.splits, example)


def _page(
    kind: str, splits: Mapping[str, Sequence[T]], example: Callable[[Sequence[T]], str]
) -> list[str]:
    """Return the lines of the page, with a table row for each split of the sample."""
    page = PAGES[kind]
    rows = (
        f"| `{name}` | {len(items):,} | {page['parts'][name]} | {example(items)} |"
        for name, items in splits.items()
    )
    return [
        f"# {page['title']}",
        "",
        page["about"],
        page["head"],
        "|---|---|---|---|",
        *rows,
    ]
