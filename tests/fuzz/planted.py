"""What is planted where a command works: links, modules, pipes, files that change meanwhile."""

from __future__ import annotations

import functools
import os
import random
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from fuzz.cases import Case, kind
from fuzz.damage import COMMANDS, LINES, READ_BY, command_line
from fuzz.inputs import FEW
from fuzz.material import OUTSIDE, PLANTED, Material, plant_modules
from fuzz.process import run
from helpers.text_table import items

WAIT = 45.0  # seconds of wall time, for what may hang
DRY_RUN = "train --source=pairs/train.ko --target=pairs/train.en --out=out --dry-run"
FOLDERS = {name: run for run, names in reversed(READ_BY.items()) for name in names}
USES = {
    name: (FOLDERS.get(name, "translator"), line)
    for name, (line, _) in COMMANDS.items()
}
USES["runtime"] = ("translator", "export translator out.regard --to=runtime")
USES["dry run"] = ("translator", DRY_RUN)
USES["processes"] = ("translator", f"{DRY_RUN} --processes=2")
"""Command lines, each with the folder that it reads."""
WRITTEN = items("""
    exports exports/runtime-float32.regard exports/runtime-int8.regard.part
    exports/ctranslate2-float32 checkpoints checkpoints.part model.safetensors.part state.json
    journal.jsonl README.md README.md.part config.json.part lock run.lock .lock shards recipe.toml
    data.json
""")
"""Files and folders that a command might write into a folder that it only has to read."""


def _replaced(
    material: Material,
    use: str,
    draw_file: Callable[[str], str],
    put: Callable[[Path, Path], object],
    what: str,
) -> Case:
    """Return the case of a command in whose folder something stands in the place of a file; `put`
    gets that path and the folder outside.
    """
    name, line = USES[use]
    file = draw_file(name)

    def prepare(folder: Path) -> None:
        material.copy(folder, name)
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        put(path, folder.parent / OUTSIDE)

    arguments = command_line(line, name)
    return Case(f"{use} {file} {what}", arguments, prepare, LINES, patience=WAIT)


@kind(share=6)
def planted_links(chance: random.Random, material: Material) -> Case:
    """Link a file of a folder, or one that a command writes there, to one outside: it is neither
    published nor changed.
    """
    use = chance.choice(("translate", "resume", "evaluate", "runtime"))
    to = chance.choice(("secret", "secret", "empty", "new"))

    def draw_file(name: str) -> str:
        if chance.random() < 0.6:
            return f"{name}/{chance.choice(WRITTEN)}"
        return chance.choice(material.files(name))

    def put(path: Path, outside: Path) -> None:
        path.symlink_to(outside / to)

    return _replaced(material, use, draw_file, put, f"-> {to}")


@kind(share=3)
def planted_modules(chance: random.Random, material: Material) -> Case:
    """Put modules with the names of known ones into the current folder: no process imports them."""
    use = chance.choice([*USES, "processes", "processes"])
    name, line = USES[use]

    def prepare(folder: Path) -> None:
        material.copy(folder, name)
        plant_modules(folder, folder / PLANTED)

    arguments = command_line(line, name)
    return Case(f"modules beside {use}", arguments, prepare, LINES)


@kind(share=3)
def pipes(chance: random.Random, material: Material) -> Case:
    """Put a named pipe, which nobody writes into, in the place of a file: no command waits for
    it.
    """
    uses = items("translate resume evaluate align caption import runtime")

    def draw_file(name: str) -> str:
        if chance.random() < 0.6:
            return chance.choice(material.files(name))
        if name == "captioner":
            return "pairs/images/00.png"
        return chance.choice(("pairs/test.ko", "pairs/train.ko"))

    def put(path: Path, _: Path) -> None:
        os.mkfifo(path)

    return _replaced(material, chance.choice(uses), draw_file, put, "is a pipe")


@functools.cache
def _translations(
    material: Material, name: str, source: bytes, *options: str
) -> tuple[bytes, ...]:
    """Return the lines that a runtime file translates to."""
    arguments = ["translate", str(material.runtime_file(name)), *FEW, *options]
    with tempfile.TemporaryDirectory() as folder:
        return tuple(run(arguments, Path(folder), source).out.splitlines())


def _overwrite(path: Path, new: bytes, seconds: float) -> None:
    """Let a file be written anew while this process works."""

    def change() -> None:
        start = time.monotonic()
        maps = Path("/proc/self/maps")
        # Until it is open.
        while path.name not in maps.read_text() and time.monotonic() < start + 1:
            time.sleep(0.001)
        time.sleep(seconds)
        path.write_bytes(new)

    threading.Thread(target=change, daemon=True).start()


@kind(share=2)
def files_changed_meanwhile(chance: random.Random, material: Material) -> Case:
    """Change a runtime file in place while it translates: refused, or every line is as one of the
    files says.
    """
    source = b"\n".join([*LINES.splitlines()[:2], b""])
    text = source * chance.choice((1, 100, 1_000))
    seconds = chance.choice((0.0, 0.05, 0.2, 0.5))
    path = Path("translator.regard")
    new = material.runtime_file("recurrent").read_bytes()
    new = new[: chance.choice((None, None, 0, 5_000, 100_000))]
    options = chance.choice(([], ["--stream"], ["--beam=1"]))

    def prepare(folder: Path) -> None:
        shutil.copyfile(material.runtime_file("translator"), folder / path)

    def is_right(out: bytes) -> bool:
        known = set[bytes]()
        for name in ("translator", "recurrent"):
            known.update(_translations(material, name, source, *options))
        return {*out.splitlines()} <= known

    before = functools.partial(_overwrite, path, new, seconds)
    arguments = ["translate", str(path), *FEW, *options]
    return Case(
        f"{' '.join(arguments)}, overwritten by {len(new)} bytes after {seconds} s",
        arguments,
        prepare,
        text,
        is_right=is_right,
        before=before,
        patience=WAIT,
    )
