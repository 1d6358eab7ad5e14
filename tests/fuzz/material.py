"""Folders and files that the cases read: small models trained by the command itself, and what other
toolkits write.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from fuzz.process import run
from helpers import image_folders
from helpers.text_table import items

SIZES = {"train": 120, "valid": 6, "test": 6, "recombination": 0, "length": 0}
SETTINGS = items("""
    tokenizer.size=600 batching.tokens=256 schedule.warmup=10 schedule.peak=0.015
    search.beam=2 search.max_ratio=1.0 search.max_extra=5
    training.precision=float32 training.ema_decay=0.9 training.best_by=loss
    training.validate_with=3
""")
"""Settings of each training; further ones are put behind them."""
TRAINING = items("""
    training.updates=100 training.validate_every=50
    model.encoder.size=16 model.encoder.dropout=0 model.decoder.size=16 model.decoder.dropout=0
""")
TRANSFORMER = items("""
    model.encoder.layers=1 model.encoder.heads=2 model.encoder.feedforward=32
    model.decoder.layers=1 model.decoder.heads=2 model.decoder.feedforward=32
""")
RECURRENT = items("""
    model.encoder.embedding=16 model.decoder.embedding=16 model.decoder.attention_size=16
""")
IMAGES = items("""
    data.images.height=8 data.images.width=8 data.images.cell=4 tokenizer.size=280
""")
CAPTIONER = items("""
    model.encoder.heads=2 model.encoder.depths=[1] model.encoder.width=8
    model.encoder.stem=strided
    model.decoder.heads=2 model.decoder.layers=1 model.decoder.feedforward=32
""")
SECRET = "marker-of-a-file-that-nobody-named"
OUTSIDE = "outside"
"""Name of a folder, beside that of a case, that no command is given."""
PLANTED = "planted-code-was-run"
"""Name of the file that planted code makes."""
MODULES = items("""
    numpy uvicorn fastapi starlette h11 httptools uvloop websockets orjson ujson PIL multipart
    python_multipart prometheus_client pydantic sentencepiece safetensors ctranslate2
    sitecustomize usercustomize regard_plugin colorama ray rich typer sacrebleu tomllib timm
    pyarrow fsspec upath tensorboard transformers torch regard json shutil
""")


def plant_modules(folder: Path, marker: Path) -> None:
    """Write modules into a folder that make the file `marker` when they are imported."""
    for name in MODULES:
        (folder / f"{name}.py").write_text(
            f"open({str(marker)!r}, 'a').write({name!r} + ' ')\nraise ImportError\n"
        )


def make_outside(folder: Path) -> dict[str, bytes]:
    """Make a folder that links may lead to: a file with the secret, and an empty folder; return its
    contents.
    """
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "empty").mkdir(parents=True)
    (folder / "secret").write_text(SECRET)
    return contents(folder)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder, with their contents, and its folders."""
    paths = folder.rglob("*")
    return {
        str(path): path.read_bytes() if path.is_file() else b"a folder"
        for path in paths
    }


def leaks(folder: Path, outputs: Sequence[bytes]) -> bool:
    """Return whether the secret is in an output, or in a file of a folder."""
    files = [
        path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()
    ]
    contents = [*outputs, *(path.read_bytes() for path in files)]
    return any(SECRET.encode() in content for content in contents)


def sets(*settings: str) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]


def pair_options(folder: Path) -> list[str]:
    """Return the options of `regard train` for the pairs of a folder."""
    return [
        f"--source={folder}/train.ko",
        f"--target={folder}/train.en",
        f"--valid-source={folder}/valid.ko",
        f"--valid-target={folder}/valid.en",
    ]


def image_options(folder: Path) -> list[str]:
    """Return the options of `regard train` for the captioned images of a folder."""
    return [
        f"--images={folder}/images",
        f"--captions={folder}/captions.tsv",
        f"--valid-captions={folder}/valid.tsv",
    ]


class Material:
    """The folders `translator`, `recurrent`, `captioner` (runs), `marian`, `published`, `data`,
    `images`; runtime files.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        if not (root / "complete").exists():
            shutil.rmtree(root, ignore_errors=True)
            root.mkdir(parents=True)
            self._make()
            (root / "complete").touch()

    def fresh(self, reference: str) -> Callable[[Path], None]:
        """Return what copies the undamaged folder, which `reference` names before its colon, into a
        case's folder.
        """
        return functools.partial(self.copy, name=reference.split(":")[0])

    def copy(self, folder: Path, name: str) -> None:
        """Copy a folder, and sentence pairs or images beside it as `pairs`; commands may write into
        copies only.
        """
        shutil.copytree(self.root / name, folder / name)
        shutil.copytree(
            self.root / ("images" if name == "captioner" else "data"), folder / "pairs"
        )

    def runtime_file(self, name: str) -> Path:
        """Return the runtime file of a run."""
        return self.root / f"{name}.regard"

    def files(self, name: str) -> list[str]:
        """Return the files of a folder, relative to the root."""
        return sorted(
            str(path.relative_to(self.root))
            for path in (self.root / name).rglob("*")
            if path.is_file()
        )

    def _make(self) -> None:
        sys.path.append(str(Path(__file__).parents[1] / "interchange"))
        from marian_folders import marian_folder

        from regard.interchange.checksums import write_sums
        from regard.learn.samples import korean_english

        korean_english(sizes=SIZES, short=1.0).write(self.root / "data", "ko", "en")
        image_folders.folder(self.root / "images", count=12)
        pairs = [*pair_options(self.root / "data"), *sets(*SETTINGS, *TRAINING)]
        images = [*image_options(self.root / "images"), *sets(*SETTINGS, *TRAINING)]
        self._fill_cache()
        self._run("train", "--out=translator", *pairs, *sets(*TRANSFORMER))
        preset = "--preset=rnn-bahdanau"
        self._run("train", "--out=recurrent", *pairs, preset, *sets(*RECURRENT))
        captioner = sets(*IMAGES, *CAPTIONER)
        self._run("train", "--out=captioner", *images, *captioner)
        for name in ("translator", "recurrent"):
            file = self.runtime_file(name).name
            self._run("export", name, file, "--to=runtime", "--precision=float32")
        marian_folder(self.root / "marian")
        shutil.copytree(self.root / "marian", self.root / "published")
        write_sums(self.root / "published")

    def _fill_cache(self) -> None:
        """Copy the kernels that the tests run with, which take seconds to compile, from the cache
        of this user.

        A new process looks them up: this one, and all that it forks, may have loaded others
        already.
        """
        code = "from regard.runtime import native; print(native.why_unavailable() or native.kernels()._name)"
        environment = dict(os.environ)
        cache = Path(environment.pop("REGARD_CACHE"))
        command = [sys.executable, "-c", code]
        kernels = Path(
            subprocess.check_output(command, env=environment, text=True).strip()
        )
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        if kernels.name.startswith("kernels-"):
            shutil.copy(kernels, cache)

    def _run(self, *arguments: str) -> None:
        outcome = run([*arguments, "--threads=1"], self.root)
        assert outcome.status == 0, outcome.err
