"""Trainings and translations that are killed: their command lines, the undisturbed ones, and what
is compared.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuzz import moments
from fuzz.material import IMAGES, SETTINGS, SIZES, image_options, pair_options, sets
from fuzz.process import run
from helpers import image_folders
from helpers.text_table import items, rows

from regard.learn.samples import korean_english
from regard.models import DECODERS, ENCODERS
from regard.training.recipe import preset, presets

TINY: dict[str, Any] = {
    "layers": 1,
    "size": 16,
    "heads": 2,
    "feedforward": 32,
    "embedding": 16,
    "attention_size": 16,
    "dropout": 0.1,
    "depths": [1],
    "width": 8,
    "patch_size": 4,
    "stride": 4,
}
UPDATES = items("""
    training.updates=40 training.validate_every=8 training.log_every=1
""")
WAYS = {
    way: settings.split()
    for way, settings in rows("""
        every update | training.checkpoint_minutes=0 batching.micro_batches=2
        shards       | data.shards=true tokenizer.joint=false
        resampled    | batching.subword_dropout=0.1 training.rdrop=1 training.rdrop_after=10
        own outputs  | training.scheduled_sampling=0.5 training.scheduled_sampling_ramp=20
    """)
}
"""Ways to train: more checkpoints, further files, further random numbers."""
LONGER = items("""
    training.updates=100 training.validate_every=50 model.encoder.dropout=0
""")
TRANSLATOR = "translator"
"""The family whose model translates files; it learns for longer, so that lines get different
translations.
"""
FORMATS = [
    [],
    ["--format=jsonl"],
    ["--alignments"],
    ["--nbest=2"],
    ["--format=jsonl", "--alignments", "--nbest=2"],
    ["--sample", "--seed=3"],
]
TIMES = {"time", "seconds", "validation_seconds", "tokens_per_second", "seconds_left"}
STARTS_AND_STOPS = ("machine", "resume", "restored", "end")
SENTENCE = "나는 집에 간다"


@dataclass(frozen=True)
class Undisturbed:
    """A command that was not killed: the folder with its results, its arguments, and its calls that
    change files.
    """

    folder: Path
    arguments: list[str]
    calls: list[moments.Call]


class Families:
    """The families by name, with their data in `root`; what is made of them is made once and kept
    there.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.options = _options(root)
        if not (root / "complete").exists():
            shutil.rmtree(root, ignore_errors=True)
            root.mkdir(parents=True)
            korean_english(sizes=SIZES, short=1.0).write(root, "ko", "en")
            lines = (root / "train.ko").read_text().splitlines()
            chosen = [lines[n * 7 % len(lines)] if n % 9 else "" for n in range(200)]
            (root / "lines.ko").write_text("\n".join([*chosen, ""]))
            (root / "one.ko").write_text(f"{SENTENCE}\n")
            image_folders.folder(root / "images", count=12)
            (root / "complete").touch()

    @property
    def names(self) -> list[str]:
        """The names of the families that are killed in training."""
        return [name for name in self.options if name != TRANSLATOR]

    def trained(self, family: str) -> Undisturbed:
        """Train a model of the family, unless that was done before."""
        arguments = ["train", *self.options[family], "--out=run", "--threads=1"]
        return self._make(f"train {family}", arguments)

    def translated(self, form: int, packed: bool) -> Undisturbed:
        """Translate a file in a form, unless that was done before."""
        model = self.trained(TRANSLATOR).folder / "run"
        output = "out.gz" if packed else "out"
        paths = [str(model), str(self.root / "lines.ko"), f"--output={output}"]
        options = ["--chunk=10", *FORMATS[form], "--threads=1", "--quiet"]
        arguments = ["translate", *paths, *options]
        return self._make(f"translate {form} {output}", arguments)

    def use(self, run_folder: Path) -> list[str]:
        """The arguments that translate a sentence, or caption an image, with a model."""
        config = json.loads((run_folder / "config.json").read_text())
        command, file = "translate", "one.ko"
        if config["model"]["encoder"]["kind"] in _kinds(ENCODERS, "images"):
            command, file = "caption", "images/images/00.png"
        return [command, str(run_folder), str(self.root / file), "--no-repeat-ngram=4"]

    def _make(self, name: str, arguments: list[str]) -> Undisturbed:
        folder = self.root / name
        log = self.root / f"{name}.calls"
        complete = self.root / f"{name}.complete"
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            record = functools.partial(moments.record, log)
            outcome = run(arguments, folder, before=record)
            assert outcome.status == 0, f"{name}: {outcome.err}"
            complete.touch()
        return Undisturbed(folder, arguments, moments.recorded(log))


def _options(root: Path) -> dict[str, list[str]]:
    """The options of `regard train` by family: each preset, each kind that no preset has, and ways
    to train.
    """
    pairs = pair_options(root)
    images = image_options(root / "images")
    image_kinds = _kinds(ENCODERS, "images")
    families = dict[str, list[str]]()

    def add(name: str, base: str, more: Iterable[str] = (), **kinds: str) -> None:
        for side, settings in preset(base)["model"].items():
            kinds.setdefault(side, settings.get("kind", "transformer"))
        own = [f"model.{side}.kind={kind}" for side, kind in kinds.items()]
        own += [*_sizes(kinds), *SETTINGS, *UPDATES]
        data = pairs
        if kinds["encoder"] in image_kinds:
            own += IMAGES
            data = images
        families[name] = [*data, f"--preset={base}", *sets(*own, *more)]

    for name in presets():
        add(name, name)
    reached = " ".join(" ".join(options) for options in families.values())
    for side, kinds in (("encoder", ENCODERS), ("decoder", DECODERS)):
        for kind in _kinds(kinds):
            is_installed = kind != "timm" or importlib.util.find_spec("timm")
            if f"model.{side}.kind={kind}" not in reached and is_installed:
                is_image = side == "encoder" and kind in image_kinds
                base = "caption-transformer" if is_image else "transformer-tiny"
                add(kind, base, **{side: kind})
    for number, (way, settings) in enumerate(WAYS.items()):
        add(way, presets()[number % 5], settings)
    add("guided", "transformer-tiny", ["training.guided=0.1"])
    families["guided"].append(f"--alignments={root}/train.align")
    add(TRANSLATOR, "transformer-tiny", LONGER)
    return families


def _sizes(kinds: dict[str, str]) -> list[str]:
    """Small sizes, as far as these kinds of encoder and decoder have them."""
    registered = {"encoder": ENCODERS, "decoder": DECODERS}
    sizes = list[str]()
    for side, kind in kinds.items():
        (fields,) = (
            settings.model_fields
            for settings in registered[side]
            if settings.model_fields["kind"].default == kind
        )
        own = [name for name in TINY if name in fields]
        sizes += [f"model.{side}.{name}={TINY[name]}" for name in own]
    return sizes


def _kinds(registered: Iterable[Any], reads: str = "") -> list[str]:
    """The names of kinds, all or those that read images."""
    chosen = [k for k in registered if reads in ("", getattr(k, "reads", ""))]
    return [k.model_fields["kind"].default for k in chosen]


def differences(wanted: Path, got: Path) -> list[str]:
    """Compare two folders: the same files, and in each the same bytes, but for times of day and
    durations.
    """
    expected = _files(wanted)
    present = _files(got)
    problems = [f"{name}: missing" for name in sorted(expected - present)]
    problems += [f"{name}: left behind" for name in sorted(present - expected)]
    for name in sorted(expected & present):
        if _comparable(wanted / name) != _comparable(got / name):
            problems.append(f"{name}: other bytes")
    return problems


def _files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def _comparable(path: Path) -> object:
    """The content of a file without times of day and durations; of a file that cannot be parsed,
    its bytes.
    """
    content = path.read_bytes()
    with contextlib.suppress(ValueError):
        return _without_times(path, content)
    return content


def _without_times(path: Path, content: bytes) -> object:
    if path.name == "journal.jsonl":
        events = [json.loads(line) for line in content.splitlines()]
        kept = [
            event for event in events[:-1] if event["event"] not in STARTS_AND_STOPS
        ]
        kept += events[-1:]
        return [{key: event[key] for key in event.keys() - TIMES} for event in kept]
    if path.name == "state.json":
        values = json.loads(content)
        values["checksum"] = ""
        values["state"] |= {"seconds": 0, "elapsed": 0, "closing": 0}
        return values
    if path.name == "README.md":
        return re.sub(rb"target tokens, \d+ s,", b"", content)
    return content


def why_unusable(families: Families, run_folder: Path, case: Path) -> str:
    """Say why what training left behind cannot be used although it holds a model; empty if it can.

    If there are no weights yet, its use has to be refused in a sentence.
    """
    if not (run_folder / "config.json").exists():
        return ""
    has_weights = (run_folder / "model.safetensors").exists()
    commands = [families.use(run_folder)]
    if has_weights:
        commands.append(["doctor", str(run_folder)])
    for arguments in commands:
        outcome = run(arguments, case)
        if outcome.is_internal or outcome.is_aloud == has_weights:
            said = outcome.err + outcome.out.decode()
            return f"regard {' '.join(arguments)}: {outcome.status} {said}"
    return ""
