"""What is planted where a command works: links, modules, pipes, odd names, odd cards, files that
change meanwhile.
"""

from __future__ import annotations

import functools
import json
import os
import random
import shutil
import struct
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fuzz.cases import Case, kind
from fuzz.damage import COMMANDS, LINES, READ_BY
from fuzz.inputs import FEW, any_value
from fuzz.material import OUTSIDE, PLANTED, Material, plant_modules
from fuzz.process import run

from regard.runtime.native import checksum

WAIT = 45.0  # seconds of wall time, for what may hang
DRY_RUN = "train --source=pairs/train.ko --target=pairs/train.en --out=out --threads=1 --dry-run"
FOLDERS = {name: run for run, names in reversed(READ_BY.items()) for name in names}
USES = {
    **{
        name: (FOLDERS.get(name, "translator"), line)
        for name, (line, _) in COMMANDS.items()
    },
    "runtime": ("translator", "export translator out.regard --to=runtime --threads=1"),
    "dry run": ("translator", DRY_RUN),
    "processes": ("translator", f"{DRY_RUN} --processes=2"),
}
"""Command lines, each with the folder that it reads."""
WRITTEN = [
    "exports",
    "exports/runtime-float32.regard",
    "exports/runtime-int8.regard.part",
    "exports/ctranslate2-float32",
    "checkpoints",
    "checkpoints.part",
    "model.safetensors.part",
    "state.json",
    "journal.jsonl",
    "README.md",
    "README.md.part",
    "config.json.part",
    "lock",
    "run.lock",
    ".lock",
    "shards",
    "recipe.toml",
    "data.json",
]
"""Files and folders that a command might write into a folder that it only has to read."""


def _use(chance: random.Random, names: list[str]) -> tuple[str, list[str]]:
    name, line = USES[chance.choice(names)]
    return name, line.replace("RUN", name).split()


def _replace(
    folder: Path,
    material: Material,
    name: str,
    file: str,
    put: Callable[[Path, Path], object],
) -> None:
    """Copy a folder, and put something in the place of one of its files; `put` gets that path and
    the folder outside.
    """
    material.copy(folder, name)
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    put(path, folder.parent / OUTSIDE)


@kind(share=6)
def planted_links(chance: random.Random, material: Material) -> Case:
    """Link a file of a folder, or one that a command writes there, to one outside: it is neither
    published nor changed.
    """
    name, arguments = _use(chance, ["translate", "resume", "evaluate", "runtime"])
    to = chance.choice(("secret", "secret", "empty", "new"))
    file = chance.choice(material.files(name))
    if chance.random() < 0.6:
        file = f"{name}/{chance.choice(WRITTEN)}"

    def put(path: Path, outside: Path) -> None:
        path.symlink_to(outside / to)

    prepare = functools.partial(
        _replace, material=material, name=name, file=file, put=put
    )
    return Case(
        f"{' '.join(arguments[:2])} {file} -> {to}",
        arguments,
        prepare,
        LINES,
        patience=WAIT,
    )


@kind(share=3)
def planted_modules(chance: random.Random, material: Material) -> Case:
    """Put modules with the names of known ones into the current folder: no process imports them."""
    name, arguments = _use(chance, [*USES, "processes", "processes"])

    def prepare(folder: Path) -> None:
        material.copy(folder, name)
        plant_modules(folder, folder / PLANTED)

    return Case(f"modules beside {' '.join(arguments[:2])}", arguments, prepare, LINES)


@kind(share=3)
def pipes(chance: random.Random, material: Material) -> Case:
    """Put a named pipe, which nobody writes into, in the place of a file: no command waits for
    it.
    """
    name, arguments = _use(
        chance,
        ["translate", "resume", "evaluate", "align", "caption", "import", "runtime"],
    )
    files = [
        file
        for file in material.files(name)
        if file.count("/") == 1 or chance.random() < 0.3
    ]
    if chance.random() < 0.4:
        texts = ["pairs/test.ko", "pairs/train.ko"]
        files = texts if name != "captioner" else ["pairs/images/00.png"]
    file = chance.choice(files)
    prepare = functools.partial(
        _replace,
        material=material,
        name=name,
        file=file,
        put=lambda path, _: os.mkfifo(path),
    )
    return Case(
        f"{' '.join(arguments[:2])} {file} is a pipe",
        arguments,
        prepare,
        LINES,
        patience=WAIT,
    )


NAMED = [
    ("translate translator ODD --threads=1", "pairs/test.ko"),
    ("translate translator pairs/test.ko --output=ODD --threads=1", ""),
    ("translate translator ODD --format=jsonl --threads=1", "pairs/test.ko"),
    ("translate ODD --threads=1", "translator"),
    ("export translator ODD --to=runtime --threads=1", ""),
    ("caption captioner ODD --format=jsonl --threads=1", "pairs/images/00.png"),
    ("caption captioner ODD --threads=1", "pairs/images"),
    (
        "train --source=pairs/train.ko --target=ODD --out=out --threads=1 --quiet"
        " --set training.updates=1 --set tokenizer.size=300",
        "pairs/train.en",
    ),
    ("show translator 빵을 --out=ODD.svg --threads=1", ""),
    (
        "align translator --source=ODD --target=pairs/test.en --threads=1",
        "pairs/test.ko",
    ),
]
"""Command lines with the place of an odd name, and what gets it."""


@kind(share=3)
def odd_names(chance: random.Random, material: Material) -> Case:
    """Give files and folders names that are not UTF-8, or hold control characters, options or
    formats.
    """
    names = [
        b"\xff",
        b"a\xfe\x80b",
        b"\xed\xa0\x80",
        "가".encode("euc-kr"),
        b"a\nb",
        b"\x1b[31m",
        b"%s",
        b"{}",
        b" ",
        b"-x",
        b"a:b",
        "\u202e".encode(),
        b"x" * 250,
    ]
    odd = os.fsdecode(chance.choice(names))
    line, renamed = chance.choice(NAMED)
    arguments = [part.replace("ODD", f"./{odd}") for part in line.split()]
    name = "captioner" if "captioner" in line else "translator"

    def prepare(folder: Path) -> None:
        material.copy(folder, name)
        if renamed:
            os.rename(folder / renamed, os.path.join(folder, odd))

    return Case(f"{line} named {odd!r}", arguments, prepare, LINES)


@functools.cache
def _translations(
    material: Material, name: str, lines: bytes, *options: str
) -> tuple[bytes, ...]:
    """Return the lines that a runtime file translates to."""
    arguments = ["translate", str(material.runtime_file(name)), *FEW, *options]
    with tempfile.TemporaryDirectory() as folder:
        return tuple(run(arguments, Path(folder), lines).out.splitlines())


def _overwrite(path: Path, new: Path, size: int | None, seconds: float) -> None:
    """Let a file be written anew, or cut, while this process works."""

    def change() -> None:
        start = time.monotonic()
        maps = Path("/proc/self/maps")
        # Until it is open.
        while path.name not in maps.read_text() and time.monotonic() < start + 1:
            time.sleep(0.001)
        time.sleep(seconds)
        if size is None:
            path.write_bytes(new.read_bytes())
        else:
            os.truncate(path, size)

    threading.Thread(target=change, daemon=True).start()


@kind(share=2)
def files_changed_meanwhile(chance: random.Random, material: Material) -> Case:
    """Change a runtime file in place while it translates: refused, or every line is as one of the
    files says.
    """
    lines = LINES.decode().splitlines()[0] + "\n그는 학교에 간다\n"
    text = (lines * chance.choice((1, 100, 1_000))).encode()
    seconds = chance.choice((0.0, 0.05, 0.2, 0.5))
    size = chance.choice((None, None, 0, 5_000, 100_000))
    path = Path("translator.regard")

    def prepare(folder: Path) -> None:
        shutil.copyfile(material.runtime_file("translator"), folder / path)

    def is_right(out: bytes) -> bool:
        known = set[bytes]()
        for name in ("translator", "recurrent"):
            known.update(_translations(material, name, lines.encode(), *options))
        return {*out.splitlines()} <= known

    before = functools.partial(
        _overwrite, path, material.runtime_file("recurrent"), size, seconds
    )
    label = "overwritten" if size is None else f"cut to {size} bytes"
    options = chance.choice(([], ["--stream"], ["--beam=1"]))
    arguments = ["translate", str(path), *FEW, *options]
    return Case(
        f"{' '.join(arguments)}, which is {label} after {seconds} s",
        arguments,
        prepare,
        text,
        is_right=is_right,
        before=before,
        patience=WAIT,
    )


def with_card(data: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    """Return a runtime file with another card, and the checksum that it then has; a card that is no
    object is bytes.
    """
    count = struct.unpack_from("<I", data, 32)[0]
    records = [
        list(struct.unpack_from("<2I2Q", data, 64 + 24 * n)) for n in range(count)
    ]
    card = next(record for record in records if record[0] == 1)
    values = json.loads(data[card[2] : card[2] + card[3]])
    changed = change(values)
    new = json.dumps(values).encode("utf-8", "surrogatepass")
    if isinstance(changed, bytes):
        new = changed
    card[2], card[3] = -(-len(data) // 64) * 64, len(new)
    body = data[64 + 24 * count :] + bytes(card[2] - len(data)) + new
    payload = b"".join(struct.pack("<2I2Q", *record) for record in records) + body
    header = (
        data[:16]
        + struct.pack("<2Q", 64 + len(payload), checksum(payload))
        + data[32:64]
    )
    return header + payload


CARD_KEYS = [
    "precision",
    "search",
    "parameters",
    "readme",
    "languages",
    "source",
    "target",
    "regard",
    "fingerprint",
    "doubt",
    "split",
    "codes",
    "pairs",
    "name",
]


@kind(share=5)
def odd_cards(chance: random.Random, material: Material) -> Case:
    """Change the card of a whole runtime file, checksum and all: refused in a sentence, or used."""
    many = [str(number) for number in range(chance.choice((3, 100_000)))]
    value = chance.choice((any_value(chance), many, {}, [], -1, "x" * 100_000))
    depth = chance.randrange(3)
    number = chance.randrange(1 << 30)

    def change(values: dict[str, Any]) -> bytes | None:
        own = random.Random(number)
        if own.random() < 0.1:
            return own.choice(
                (b"[]", b"null", b"", b"{", b"[" * 100_000, b"\xff", b'{"a": 1e999}')
            )
        place: Any = values
        for _ in range(depth):
            inner = [
                value for value in place.values() if isinstance(value, dict) and value
            ]
            place = inner[0] if inner else place
        place[own.choice([*place, *place, *CARD_KEYS])] = value
        return None

    def prepare(folder: Path) -> None:
        data = material.runtime_file("translator").read_bytes()
        (folder / "translator.regard").write_bytes(with_card(data, change))

    options = chance.choice((FEW, ["--format=jsonl", "--nbest=2", "--threads=1"]))
    translate = ["translate", "translator.regard", *options]
    arguments = chance.choice((translate, translate, ["doctor", "translator.regard"]))
    label = f"{arguments[0]} with the card changed by {number}: {str(value)[:40]!r}"
    return Case(label, arguments, prepare, LINES)


TRAIN = "train --out=out --set training.updates=1 --set tokenizer.size=300 --quiet --threads=1"
ADDRESSED = [
    "translate translator ADDRESS --threads=1",
    "translate ADDRESS --threads=1",
    "translate translator pairs/test.ko --output=ADDRESS --threads=1",
    f"{TRAIN} --source=ADDRESS --target=pairs/train.en",
    f"{TRAIN} --source=pairs/train.ko --target=ADDRESS",
    f"{TRAIN} --pairs=ADDRESS",
    f"{TRAIN} ADDRESS",
    "evaluate translator --source=pairs/test.ko --reference=ADDRESS --threads=1",
    "align translator --source=ADDRESS --target=ADDRESS --threads=1",
    "caption translator ADDRESS --threads=1",
    "export translator ADDRESS --to=runtime --threads=1",
    "import huggingface ADDRESS out",
    "show translator 빵을 --out=ADDRESS --threads=1",
]
"""Command lines with the place of an address."""


@kind(share=2)
def addresses(chance: random.Random, material: Material) -> Case:
    """Give addresses where files are wanted: refused in a sentence; nobody is called, for nobody
    answers at them.
    """
    schemes = [
        "http",
        "https",
        "ftp",
        "file",
        "s3",
        "gs",
        "hf",
        "data",
        "HTTP",
        "javascript",
        "zip",
    ]
    rest = [
        "//127.0.0.1:9/x",
        "//[::1]:9/x.gz",
        "///etc/passwd",
        "//",
        "x",
        f"//{'a' * 5000}",
    ]
    address = f"{chance.choice(schemes)}:{chance.choice(rest)}"
    line = chance.choice(ADDRESSED)
    arguments = line.replace("ADDRESS", address).split()
    prepare = functools.partial(Material.copy, material, name="translator")
    return Case(f"{line}: {address[:60]}", arguments, prepare, b"a\n", patience=WAIT)
