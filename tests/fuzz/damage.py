"""Damage to every kind of file of a folder, and the commands that read it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

from fuzz.cases import Case, kind
from fuzz.material import Material
from helpers.text_table import items, rows

Damage = Callable[[Path, random.Random], None]
LINES = "나는 빵을 먹고 있었다\n그는 학교에 간다\n\nnever seen: ßøж\n".encode()


NUMBERS = [
    b"-1",
    b"0",
    b"1e308",
    b"9" * 20,
    b"9" * 5000,
    b"NaN",
    b"null",
    b'"1"',
    b"[" * 3000,
]


def _edit(change: Callable[[bytearray, random.Random], bytes | bytearray]) -> Damage:
    def damage(path: Path, chance: random.Random) -> None:
        path.write_bytes(
            change(bytearray(path.read_bytes()) or bytearray(b"\0"), chance)
        )

    return damage


def _flip(data: bytearray, chance: random.Random) -> bytearray:
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return data


def _block(data: bytearray, chance: random.Random) -> bytearray:
    start = chance.randrange(len(data))
    end = min(len(data), start + chance.choice((2, 16, 512, 4096)))
    count = end - start
    data[start:end] = chance.choice((bytes(count), chance.randbytes(count)))
    return data


def _digit(data: bytearray, chance: random.Random) -> bytearray:
    """Replace a digit by another one, or by what no setting means."""
    numbers = [b"%d" % chance.randrange(10)] * 2 * len(NUMBERS) + NUMBERS
    digits = [match.start() for match in re.finditer(rb"\d", data[:100_000])]
    if digits:
        start = chance.choice(digits)
        data[start : start + 1] = chance.choice(numbers)
    return data


def _link(path: Path, chance: random.Random) -> None:
    path.unlink()
    path.symlink_to(
        chance.choice((path.name, "/dev/zero", "/dev/null", "nowhere", "."))
    )


def _folder(path: Path, chance: random.Random) -> None:
    del chance
    path.unlink()
    path.mkdir()


OTHERS = [b"[]", b"null", b"{}", b"[" * 100_000, b'{"a":' * 50_000, b"\xff\xfe"]
DAMAGES: list[Damage] = [
    *[_edit(_flip)] * 4,
    *[_edit(_block)] * 2,
    *[_edit(_digit)] * 3,
    _edit(lambda data, chance: data[: chance.randrange(len(data))]),
    _edit(lambda *_: b""),
    _edit(lambda _, chance: chance.choice(OTHERS)),
    _edit(lambda data, chance: data + chance.randbytes(chance.choice((1, 9, 1000)))),
    lambda path, _: path.unlink(),
    _link,
    _folder,
]
COMMANDS = {
    command: (line, outputs.split())
    for command, line, outputs in rows("""
        translate | translate RUN --format=jsonl --nbest=2 |
        align     | align RUN --source=pairs/test.ko --target=pairs/test.en |
        evaluate  | evaluate RUN --source=pairs/test.ko --reference=pairs/test.en |
        show      | show RUN 빵을 --out=out.svg | out.svg
        resume    | train --out=RUN --resume --set training.updates=120 --quiet | RUN/model.safetensors
        caption   | caption RUN pairs/images --format=jsonl |
        export    | export RUN out --to=huggingface | out/model.safetensors
        import    | import huggingface RUN out | out/model.safetensors
        from      | train --from=RUN --source=pairs/test.ko --target=pairs/test.en --out=out --set training.updates=20 | out/model.safetensors
    """)
}
"""Command lines with the name of a folder to put in, and the files that are their output."""
READ_BY = {
    "translator": items("translate align evaluate show resume resume translate"),
    "recurrent": items("translate resume"),
    "captioner": items("caption resume"),
    "marian": ["import"],
    "published": ["import"],  # with checksums
}


def command_line(line: str, name: str) -> list[str]:
    """Return the arguments of a command that reads a folder of this name."""
    return [*line.replace("RUN", name).split(), "--threads=1"]


@kind(share=44)
def damaged_file(chance: random.Random, material: Material) -> Case:
    """Damage one file of a run or of a published model, and run a command that reads the folder."""
    name = chance.choice(list(READ_BY))
    command = chance.choice(READ_BY[name])
    files = material.files(name)
    if command != "resume":  # what only resuming reads is drawn less often
        files += 3 * [file for file in files if file.count("/") == 1]
    file = chance.choice(files)
    damage = chance.choice(DAMAGES)
    seed = chance.randrange(1 << 30)

    def prepare(folder: Path) -> None:
        material.copy(folder, name)
        damage(folder / file, random.Random(seed))

    line, outputs = COMMANDS[command]
    return Case(
        f"{command} {file} damaged by {DAMAGES.index(damage)}",
        command_line(line, name),
        prepare,
        LINES,
        reference=f"{name}:{command}",
        outputs=[output.replace("RUN", name) for output in outputs],
    )
