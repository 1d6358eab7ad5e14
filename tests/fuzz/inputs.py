"""Hostile text, options, settings, JSON lines, files of pairs, and images."""

from __future__ import annotations

import functools
import gzip
import io
import json
import random
import shutil
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import pydantic
import typer
from fuzz.cases import Case, kind
from fuzz.material import Material, sets
from helpers.text_table import items, lines
from PIL import Image

from regard.cli import app
from regard.training.recipe import Recipe

ALPHABETS = [
    "a",
    "ab ",
    "가나다라",
    "나는 ",
    "\u0301",
    "a\u0301",
    "a\u0301\u0316",
    "\u1112\u1161\u11ab",
    "👩\u200d👩\u200d👧",
    "\u202e",
    "\u200b",
    " ",
    "\t ",
    "漢字",
    "0123456789",
    ".",
    ". ",
    "! A",
    "<>&\"'",
    "\x00",
    "\x1b[31m",
    "\ufeff",
    "\u2028",
    "\r",
    "\x0b\x0c\x1c\x85",
    "\ud83d",
    "ﷺ",
    "İı",
    "ß",
    "\U0001f1f0",
    "(((",
    "\\",
    "%s",
    "{}",
    "▁",
    "@@ ",
    "<unk>",
    "</s>",
]
NUMBERS = [
    *items("""
        0 -1 1 nan inf -inf 1e308 1e-320 1.5 x true null [] {} 1_000 ٣ 0x10 -- 2147483648
        9223372036854775808
    """),
    *("", " ", "\x00", "9" * 20, "9" * 400, "9" * 5000, "[" * 5000),
]
LENGTHS = [1, 3, 30, 300, 3_000, 30_000, 300_000]
FEW = ["--max-length=8", "--threads=1"]
RUNS = ("translator", "recurrent", "captioner")
ONE_UPDATE = items("""
    training.updates=1 batching.tokens=64 tokenizer.size=300
    model.encoder.size=8 model.encoder.layers=1 model.decoder.size=8 model.decoder.layers=1
""")


def any_text(chance: random.Random, length: int) -> str:
    alphabet = "".join(chance.sample(ALPHABETS, chance.choice((1, 1, 2, 3))))
    if chance.random() < 0.5:
        return (alphabet * (length // len(alphabet) + 1))[:length]
    return "".join(chance.choices(alphabet, k=length))


def _bytes(text: str, chance: random.Random) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    return data if chance.random() < 0.9 else data.replace(b"a", b"\xff")


def _case(
    name: str,
    arguments: list[str],
    material: Material,
    files: dict[str, bytes] | None = None,
    **rest: Any,
) -> Case:
    """Return the case of a command in a folder with runs, pairs, images, and these files."""

    def prepare(folder: Path) -> None:
        for origin in ("translator", "recurrent", "captioner", "marian", "images"):
            shutil.copytree(material.root / origin, folder / origin)
        shutil.copytree(material.root / "data", folder / "pairs")
        for path, data in (files or {}).items():
            (folder / path).write_bytes(data)

    return Case(name, arguments, prepare, **rest)


@kind(share=16)
def hostile_text(chance: random.Random, material: Material) -> Case:
    """Translate odd text; where it is long, twice as much of it too."""
    name = chance.choice(("translator", "recurrent"))
    length = chance.choice(LENGTHS)
    text = any_text(chance, length)
    option = chance.choice(
        ("--format=jsonl", "--alignments", "--nbest=2", "--beam=1", "--stream")
    )
    options = chance.choice(([], [option]))
    packed = chance.random() < 0.1 and length > 100
    # Text of no known script is refused at once.
    beginning = chance.choice(("", "나는 빵을 먹고 있었다\n")).encode()

    def case(text: str, double: Case | None = None) -> Case:
        data = beginning + _bytes(text, chance)
        arguments = ["translate", name, *options, *FEW]
        label = f"{' '.join(arguments)}: {length} of {text[:12]!r}"
        if not packed:
            return _case(label, arguments, material, stdin=data, double=double)
        files = {"in.gz": gzip.compress(data, mtime=0)}
        return _case(label, [*arguments, "in.gz"], material, files, double=double)

    return case(text, case(text + text) if length >= 3_000 else None)


PROSE = lines("""
    나는 빵을 먹고 있었다
    선생님은 사과를 보고 있다
    그는 왔다
    나
    hello
    나는 3 개를 샀다
""")


@functools.cache
def _options() -> list[tuple[str, str, bool]]:
    """Return command, option and whether it is a flag, of all options of all commands."""
    group: Any = typer.main.get_command(app)
    unsafe = items("--help --debug --device --threads --budget")
    options = list[tuple[str, str, bool]]()
    for name in CALLS:
        command = group.commands[name]
        for param in (*command.params, *getattr(command, "search_params", ())):
            option = param.opts[0]
            if option.startswith("--") and option not in unsafe:
                options.append((name, option, bool(getattr(param, "is_flag", False))))
    return options


CALLS = {
    "translate": ["translator"],
    "caption": ["captioner", "images"],
    "evaluate": ["translator", "--source=pairs/test.ko", "--reference=pairs/test.en"],
    "align": ["translator", "--source=pairs/test.ko", "--target=pairs/test.en"],
    "show": ["translator", "나는 집에 간다"],
    "train": ["--source=pairs/train.ko", "--target=pairs/train.en", "--out=out"],
    "export": ["translator", "out"],
    "import": ["huggingface", "marian", "out"],
}
WORDS = items("text jsonl auto nowhere translator out . / pairs/test.ko a=b")


@kind(share=14)
def odd_options(chance: random.Random, material: Material) -> Case:
    """Call a command with up to four options, most of them with values that mean nothing."""
    command = chance.choice([*CALLS])
    own = [(option, is_flag) for name, option, is_flag in _options() if name == command]
    arguments = [command, *CALLS[command], "--threads=1"]
    if command == "train":
        arguments.append("--dry-run")
    for option, is_flag in chance.sample(own, min(len(own), chance.randrange(1, 5))):
        text = any_text(chance, chance.choice((1, 5, 50, 6_000)))
        value = chance.choice([*NUMBERS, *WORDS, *[text] * 10]).replace("\x00", "")
        value = value.encode("utf-8", "replace").decode()
        arguments.append(option if is_flag else f"{option}={value}")
    label = " ".join(argument[:60] for argument in arguments)
    return _case(label, arguments, material, stdin=b"a b\n")


def _leaves(model: Any, prefix: str = "") -> Iterator[str]:
    """Yield the keys of all settings of a model of pydantic, in all its variants."""
    for name, field in model.model_fields.items():
        models = list(_models(field.annotation))
        for inner in models:
            yield from _leaves(inner, f"{prefix}{name}.")
        if not models:
            yield f"{prefix}{name}"


def _models(annotation: Any) -> Iterator[Any]:
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        if issubclass(annotation, pydantic.BaseModel):
            yield annotation
        return
    for part in get_args(annotation):
        yield from _models(part)


@functools.cache
def _settings() -> list[str]:
    return sorted(set(_leaves(Recipe)))


VALUES = [
    *NUMBERS,
    *lines("""
    none
    "x"
    [1, 2]
    {a = 1}
    1e20
    10000000
    0.5
"""),
]


@kind(share=8)
def odd_settings(chance: random.Random, material: Material) -> Case:
    """Train for an update with up to three settings that mean nothing."""
    keys = chance.sample(_settings(), chance.randrange(1, 4))
    odd = [f"{key}={chance.choice(VALUES)}".replace("\x00", "") for key in keys]
    arguments = ["train", *CALLS["train"], *sets(*ONE_UPDATE, *odd)]
    arguments += ["--threads=1", "--quiet", *chance.choice(([], ["--dry-run"]))]
    return _case(f"train with {' '.join(o[:60] for o in odd)}", arguments, material)


def any_value(chance: random.Random, depth: int = 0) -> Any:
    numbers = [None, True, 0, -1, 1e308, float("nan"), 10**20, 10**400]
    if depth > 2 or chance.random() < 0.6:
        text = any_text(chance, chance.choice((0, 1, 10, 1000)))
        return chance.choice((chance.choice(numbers), text, "나는 집에 간다"))
    if chance.random() < 0.5:
        count = chance.choice((0, 1, 3, 300))
        return [any_value(chance, depth + 1) for _ in range(count)]
    count = chance.choice((0, 1, 3))
    return {any_text(chance, 3): any_value(chance, depth + 1) for _ in range(count)}


@kind(share=8)
def json_lines(chance: random.Random, material: Material) -> Case:
    """Translate JSON lines whose fields hold anything."""
    made = [_json_line(chance) for _ in range(chance.choice((1, 2, 5)))]
    form = chance.choice(([], ["--format=jsonl"]))
    arguments = ["translate", "translator", "--input=jsonl", *form, *FEW]
    stdin = b"\n".join(made)
    return _case(f"JSON lines {made[0][:60]!r}", arguments, material, stdin=stdin)


def _json_line(chance: random.Random) -> bytes:
    fields = ("text", "prefix", "terms", "forbid", "other")
    chosen = chance.sample(fields, chance.randrange(4))
    values: Any = {field: any_value(chance) for field in chosen}
    if chance.random() < 0.8:
        values["text"] = PROSE[0]
    if chance.random() < 0.3:
        length = chance.choice((1, 5, 20_000))
        count = chance.choice((1, 300))
        values["terms"] = [any_text(chance, length) for _ in range(count)]
    line = json.dumps(values).encode()
    if chance.random() < 0.8:
        return line
    number = b'{"text": ' + b"9" * 5000 + b"}"
    half = line[: len(line) // 2]
    return chance.choice((half, number, b"[" * 100_000, b"[]", b"1", b"\xff"))


@kind(share=4)
def odd_corpora(chance: random.Random, material: Material) -> Case:
    """Train for an update on files of odd pairs, alignments or recipes."""
    count = chance.choice((1, 3, 40))

    def texts() -> bytes:
        made = [any_text(chance, chance.choice(LENGTHS[:5])) for _ in range(count)]
        return _bytes("\n".join(made), chance)

    source = texts()
    recipe = chance.choice((_bytes(any_text(chance, 200), chance), b"[" * 5000))
    files = {
        "a": source,
        "b": texts(),
        "links": _bytes(any_text(chance, 50), chance),
        "pairs.tsv": source.replace(b" ", b"\t"),
        "recipe.toml": recipe,
    }
    line = chance.choice(("--source=a --target=b", "--pairs=pairs.tsv", "recipe.toml"))
    inputs = line.split()
    if chance.random() < 0.2:
        inputs.append("--alignments=links")
    arguments = ["train", *inputs, "--out=out", *sets(*ONE_UPDATE)]
    arguments += ["--threads=1", "--quiet"]
    return _case(f"train on {inputs}: {source[:20]!r}", arguments, material, files)


SIZES = ((1, 1), (1, 5000), (5000, 1), (3, 3), (16, 12))
LARGE_SIZES = ((4000, 4000), (1, 49_000_000))


def any_image(
    chance: random.Random, sizes: Sequence[tuple[int, int]] = (*SIZES, *LARGE_SIZES)
) -> bytes:
    """Draw an image, most of the time a damaged one, or what is none."""
    if chance.random() < 0.2:
        return chance.choice(NO_IMAGES)
    mode = chance.choice(items("1 L P RGB RGBA I;16 F CMYK LA"))
    size = chance.choice(sizes)
    form = chance.choice(items("PNG JPEG GIF TIFF WEBP BMP PPM"))
    data = io.BytesIO()
    try:
        Image.new(mode, size).save(data, form)
    except (OSError, OverflowError, ValueError):  # a format without this mode or size
        Image.new("RGB", (16, 12)).save(data, "PNG")
    content = bytearray(data.getvalue())
    for _ in range(chance.choice((0, 0, 1, 1, 5))):
        content[chance.randrange(min(len(content), 200))] = chance.randrange(256)
    if chance.random() < 0.2:
        content = content[: chance.randrange(len(content))]
    return bytes(content)


NO_IMAGES = [
    b"<!DOCTYPE html>\n<html></html>",
    b"PK\x03\x04" + bytes(60),
    b"",
    b"GIF89a",
    b"BM" + bytes(60),
    b"\x89PNG\r\n\x1a\n" + bytes(50),
    b"\x93NUMPY\x01\x00v\x00{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2, 3), }\n",
    b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9' onload='x'/>",
    b"\x00\x00\x00\x18ftypheic\x00\x00\x00\x00mif1heic" + bytes(40),
    b"\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom" + bytes(40),
]
"""Bytes that are no image: they are refused, or it is said."""


@kind(share=8)
def odd_images(chance: random.Random, material: Material) -> Case:
    """Caption images of odd sizes, modes and formats, most of them damaged, or what is none."""
    image = any_image(chance)
    name = f"image{chance.choice(('.png', '.jpg', '.gif', '.webp'))}"
    arguments = ["caption", "captioner", name, "--format=jsonl", "--threads=1"]
    is_whole = image not in NO_IMAGES
    label = f"caption {name}: {image[:12]!r}"
    return _case(label, arguments, material, {name: image}, is_whole=is_whole)
