"""What is planted where a command works: links, modules, pipes, odd names, odd cards, files that
change meanwhile.
"""

from __future__ import annotations

import functools
import itertools
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
from fuzz.material import OUTSIDE, PLANTED, Material, plant_modules, sets
from fuzz.process import run

from regard.runtime.native import checksum

WAIT = 45.0  # seconds of wall time, for what may hang
TO_RUNTIME = ["export", "translator", "out.regard", "--to=runtime", "--threads=1"]
FOLDERS = {name: run for run, names in reversed(READ_BY.items()) for name in names}
USES = {
    name: (run, [argument.replace("RUN", run) for argument in arguments])
    for name, (arguments, _) in COMMANDS.items()
    for run in [FOLDERS.get(name, "translator")]
}
USES |= {"runtime": ("translator", TO_RUNTIME)}
PROCESSES = [
    "train",
    "--source=pairs/train.ko",
    "--target=pairs/train.en",
    "--out=out",
    "--threads=1",
    "--dry-run",
]
USES |= {
    "processes": ("translator", [*PROCESSES, "--processes=2"]),
    "dry run": ("translator", PROCESSES),
}
"""Commands, each with the folder that it reads."""
WRITTEN = [
    *(
        "exports",
        "exports/runtime-float32.regard",
        "exports/runtime-int8.regard.part",
        "exports/ctranslate2-float32",
    ),
    *(
        "checkpoints",
        "checkpoints.part",
        "model.safetensors.part",
        "state.json",
        "journal.jsonl",
        "README.md",
        "lock",
    ),
    *(
        "README.md.part",
        "config.json.part",
        "run.lock",
        ".lock",
        "shards",
        "recipe.toml",
        "data.json",
    ),
]
"""Files and folders that a command might write into a folder that it only has to read."""


def _use(chance: random.Random, names: list[str]) -> tuple[str, list[str]]:
    return USES[chance.choice(names)]


def _replace(
    folder: Path, material: Material, name: str, file: str, put: Callable[[Path, Path], object]
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
    file = (
        f"{name}/{chance.choice(WRITTEN)}"
        if chance.random() < 0.6
        else chance.choice(material.files(name))
    )

    def put(path: Path, outside: Path) -> None:
        path.symlink_to(outside / to)

    prepare = functools.partial(_replace, material=material, name=name, file=file, put=put)
    return Case(
        f"{' '.join(arguments[:2])} {file} -> {to}", arguments, prepare, LINES, patience=WAIT
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
        chance, ["translate", "resume", "evaluate", "align", "caption", "import", "runtime"]
    )
    files = [file for file in material.files(name) if file.count("/") == 1 or chance.random() < 0.3]
    if chance.random() < 0.4:
        side = "ko" if name != "captioner" else "png"
        files = [
            f"pairs/{each}"
            for each in ("test.ko", "test.en", "train.ko", "images/00.png")
            if each.endswith(side)
        ]
    file = chance.choice(files)
    prepare = functools.partial(
        _replace, material=material, name=name, file=file, put=lambda path, _: os.mkfifo(path)
    )
    return Case(
        f"{' '.join(arguments[:2])} {file} is a pipe", arguments, prepare, LINES, patience=WAIT
    )


@kind(share=3)
def odd_names(chance: random.Random, material: Material) -> Case:
    """Give files and folders names that are not UTF-8, or hold control characters, options or
    formats.
    """
    names = [b"\xff", b"a\xfe\x80b", b"\xed\xa0\x80", "가".encode("euc-kr"), b"a\nb", b"\x1b[31m", b"%s", b"{}", b" ", b"-x", b"a:b", "\u202e".encode(), b"x" * 250]  # fmt: skip
    odd = os.fsdecode(chance.choice(names))
    forms: dict[str, tuple[str, list[str], str]] = {
        "text": ("translator", ["translate", "translator", f"./{odd}", *FEW], "pairs/test.ko"),
        "output": ("translator", ["translate", "translator", "pairs/test.ko", f"--output=./{odd}", *FEW], ""),
        "jsonl": ("translator", ["translate", "translator", f"./{odd}", "--format=jsonl", *FEW], "pairs/test.ko"),
        "folder": ("translator", ["translate", f"./{odd}", *FEW], "translator"),
        "export": ("translator", ["export", "translator", f"./{odd}", "--to=runtime", "--threads=1"], ""),
        "image": ("captioner", ["caption", "captioner", f"./{odd}", "--format=jsonl", "--threads=1"], "pairs/images/00.png"),
        "images": ("captioner", ["caption", "captioner", f"./{odd}", "--threads=1"], "pairs/images"),
        "out": ("translator", ["train", "--source=pairs/train.ko", f"--target=./{odd}", "--out=out", *sets("training.updates=1", "tokenizer.size=300"), "--quiet", "--threads=1"], "pairs/train.en"),
        "show": ("translator", ["show", "translator", "나는 집에 간다", f"--out=./{odd}.svg", "--threads=1"], ""),
        "align": ("translator", ["align", "translator", f"--source=./{odd}", "--target=pairs/test.en", "--threads=1"], "pairs/test.ko"),
    }  # fmt: skip
    form = chance.choice(list(forms))
    name, arguments, renamed = forms[form]

    def prepare(folder: Path) -> None:
        material.copy(folder, name)
        if renamed:
            os.rename(folder / renamed, os.path.join(folder, odd))

    return Case(f"{form} named {odd!r}", arguments, prepare, LINES)


@functools.cache
def _translations(material: Material, name: str, lines: bytes, *options: str) -> tuple[bytes, ...]:
    """Return the lines that a runtime file translates to."""
    arguments = ["translate", str(material.runtime_file(name)), *FEW, *options]
    with tempfile.TemporaryDirectory() as folder:
        return tuple(run(arguments, Path(folder), lines).out.splitlines())


def _overwrite(path: Path, new: Path, size: int | None, seconds: float) -> None:
    """Let a file be written anew, or cut, while this process works."""

    def change() -> None:
        start = time.monotonic()
        maps = Path("/proc/self/maps")
        while (
            path.name not in maps.read_text() and time.monotonic() < start + 1
        ):  # until it is open
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
        start = text[: len(lines.encode())]
        known = (
            _translations(material, name, start, *options) for name in ("translator", "recurrent")
        )
        return {*out.splitlines()} <= {*itertools.chain.from_iterable(known)}

    before = functools.partial(_overwrite, path, material.runtime_file("recurrent"), size, seconds)
    label = "overwritten" if size is None else f"cut to {size} bytes"
    options = chance.choice(([], ["--stream"], ["--beam=1"]))
    arguments = ["translate", str(path), *FEW, *options]
    return Case(f"{' '.join(arguments)}, which is {label} after {seconds} s", arguments, prepare, text, is_right=is_right, before=before, patience=WAIT)  # fmt: skip


def with_card(data: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    """Return a runtime file with another card, and the checksum that it then has; a card that is no
    object is bytes.
    """
    count = struct.unpack_from("<I", data, 32)[0]
    records = [list(struct.unpack_from("<2I2Q", data, 64 + 24 * n)) for n in range(count)]
    card = next(record for record in records if record[0] == 1)
    values = json.loads(data[card[2] : card[2] + card[3]])
    changed = change(values)
    new = (
        changed
        if isinstance(changed, bytes)
        else json.dumps(values).encode("utf-8", "surrogatepass")
    )
    card[2], card[3] = -(-len(data) // 64) * 64, len(new)
    body = data[64 + 24 * count :] + bytes(card[2] - len(data)) + new
    payload = b"".join(struct.pack("<2I2Q", *record) for record in records) + body
    header = data[:16] + struct.pack("<2Q", 64 + len(payload), checksum(payload)) + data[32:64]
    return header + payload


CARD_KEYS = ["precision", "search", "parameters", "readme", "languages", "source", "target", "regard", "fingerprint", "doubt", "split", "codes", "pairs", "name"]  # fmt: skip


@kind(share=5)
def odd_cards(chance: random.Random, material: Material) -> Case:
    """Change the card of a whole runtime file, checksum and all: refused in a sentence, or used."""
    value = chance.choice((any_value(chance), [str(n) for n in range(chance.choice((3, 100_000)))], {}, [], -1, "x" * 100_000))  # fmt: skip
    depth = chance.randrange(3)
    number = chance.randrange(1 << 30)

    def change(values: dict[str, Any]) -> bytes | None:
        own = random.Random(number)
        if own.random() < 0.1:
            return own.choice((b"[]", b"null", b"", b"{", b"[" * 100_000, b"\xff", b'{"a": 1e999}'))
        place: Any = values
        for _ in range(depth):
            place = next(
                (inner for inner in place.values() if isinstance(inner, dict) and inner), place
            )
        place[own.choice([*place, *place, *CARD_KEYS])] = value
        return None

    def prepare(folder: Path) -> None:
        data = material.runtime_file("translator").read_bytes()
        (folder / "translator.regard").write_bytes(with_card(data, change))

    commands = [["translate", "translator.regard", *FEW], ["doctor", "translator.regard"], ["translate", "translator.regard", "--format=jsonl", "--nbest=2", "--threads=1"]]  # fmt: skip
    arguments = chance.choice(commands)
    return Case(
        f"{arguments[0]} with the card changed by {number}: {str(value)[:40]!r}",
        arguments,
        prepare,
        LINES,
    )


@kind(share=2)
def addresses(chance: random.Random, material: Material) -> Case:
    """Give addresses where files are wanted: refused in a sentence; nobody is called, for nobody
    answers at them.
    """
    scheme = chance.choice(
        ("http", "https", "ftp", "file", "s3", "gs", "hf", "data", "HTTP", "javascript", "zip")
    )
    address = f"{scheme}:{chance.choice(('//127.0.0.1:9/x', '//[::1]:9/x', '///etc/passwd', '//', 'x', '//127.0.0.1:9/x.gz', '//' + 'a' * 5000))}"  # fmt: skip
    train = [
        "train",
        "--out=out",
        *sets("training.updates=1", "tokenizer.size=300"),
        "--quiet",
        "--threads=1",
    ]
    forms = [
        ["translate", "translator", address, *FEW],
        ["translate", address, *FEW],
        ["translate", "translator", "pairs/test.ko", f"--output={address}", *FEW],
        [*train, f"--source={address}", "--target=pairs/train.en"],
        [*train, "--source=pairs/train.ko", f"--target={address}"],
        [*train, f"--pairs={address}"],
        [*train, address],
        [
            "evaluate",
            "translator",
            "--source=pairs/test.ko",
            f"--reference={address}",
            "--threads=1",
        ],
        ["align", "translator", f"--source={address}", f"--target={address}", "--threads=1"],
        ["caption", "translator", address, "--threads=1"],
        ["export", "translator", address, "--to=runtime", "--threads=1"],
        ["import", "huggingface", address, "out"],
        ["show", "translator", "나는", f"--out={address}", "--threads=1"],
    ]
    arguments = chance.choice(forms)
    prepare = functools.partial(Material.copy, material, name="translator")
    return Case(
        " ".join(argument[:60] for argument in arguments), arguments, prepare, b"a\n", patience=WAIT
    )
