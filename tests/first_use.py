"""Use an installed wheel as its first user does: from the command line, in a folder outside the
repository.

`python tests/first_use.py DIST` installs the wheel in the folder DIST into an empty environment,
with its dependencies in the versions of constraints.txt, and uses it. It needs only the standard
library.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SENTENCE = "나는 빵을 먹고 있었다"
SIZES = {"train": 1000, "valid": 20, "test": 0, "recombination": 0, "length": 0}
SAMPLE = f"from regard.learn.samples import korean_english; korean_english(sizes={SIZES}).write('.', 'ko', 'en')"
VERSION = "from importlib.metadata import version; print(version('regard'))"
PACKAGES = "import sysconfig; print(sysconfig.get_path('purelib'))"
WHERE = "import pathlib, regard; print(pathlib.Path(regard.__file__).resolve())"
READY_MADE = "from regard.runtime.native import is_ready_made; print(is_ready_made())"
KERNELS = (
    "from regard.runtime.native import why_unavailable; print(why_unavailable() or '')"
)
SETTINGS = """
    tokenizer.size=1200 batching.tokens=512 batching.micro_batches=1 training.precision=float32
    training.updates=20 training.validate_every=20 training.best_by=loss training.validate_with=20
    model.encoder.layers=1 model.encoder.size=32 model.encoder.heads=2
    model.decoder.layers=1 model.decoder.size=32 model.decoder.heads=2
"""
PAIRS = """
    --source train.ko --target train.en --valid-source valid.ko --valid-target valid.en
"""


@dataclass(frozen=True)
class Environment:
    """A virtual environment, and the folder in which its commands are run."""

    home: Path
    folder: Path

    @classmethod
    def create(cls, folder: Path) -> Environment:
        """Create an empty environment and an empty folder to work in."""
        home = folder / "environment"
        work = folder / "work"
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        work.mkdir()
        return cls(home.resolve(), work.resolve())

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    def share(self, folders: Sequence[str]) -> None:
        """Make the packages in these folders importable, but no editable install: their .pth files
        are not read.
        """
        own = Path(self.python("-c", PACKAGES).strip())
        (own / "shared.pth").write_text("\n".join(folders), encoding="utf-8")

    def python(self, *arguments: str) -> str:
        """Run Python; return what it printed."""
        return self._run("python", *arguments)

    def regard(self, *arguments: str, stdin: str = "") -> str:
        """Run the command `regard`; return what it printed."""
        return self._run("regard", *arguments, stdin=stdin)

    def _run(self, name: str, *arguments: str, stdin: str = "") -> str:
        folder = self.home / ("Scripts" if os.name == "nt" else "bin")
        command = shutil.which(name, path=str(folder))
        assert command is not None, f"{self.home} has no {name}"
        variables = {"PYTHONUTF8": "1", "REGARD_CACHE": str(self.cache)}
        for key, value in os.environ.items():
            if not key.startswith(("PYTHON", "REGARD_")):
                variables[key] = value
        done = subprocess.run(
            [command, *arguments],
            cwd=self.folder,
            env=variables,
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

        assert done.returncode == 0, f"{name} {arguments}\n{done.stdout}{done.stderr}"
        return done.stdout


def wheel_in(folder: Path) -> Path:
    """Return the only wheel in a folder."""
    (wheel,) = folder.glob("*.whl")
    return wheel


def use(environment: Environment) -> str:
    """Train a small model for some updates, translate a sentence, draw it; return the
    translation.
    """
    package = Path(environment.python("-c", WHERE).strip())
    assert package.is_relative_to(environment.home), f"{package} is not installed"
    version = environment.python("-c", VERSION).strip()
    assert environment.regard("--version").split() == ["regard", version]

    environment.python("-c", SAMPLE)
    settings = [part for setting in SETTINGS.split() for part in ("--set", setting)]
    environment.regard("train", *PAIRS.split(), *settings, "--out", "run", "--quiet")
    translate = ["translate", "run", "--min-length", "3"]
    (translation,) = environment.regard(*translate, stdin=f"{SENTENCE}\n").splitlines()
    assert translation.strip(), "the translation is empty"

    _check_kernels(environment)
    _check_figures(environment)
    return translation


def _check_kernels(environment: Environment) -> None:
    """Check that translation had kernels, ready-made or compiled; elsewhere than on Linux a reason
    why not is printed.
    """
    reason = environment.python("-c", KERNELS).strip()
    if reason and sys.platform != "linux":
        print(f"no native kernels: {reason}")
        return

    assert not reason, reason

    ready_made = environment.python("-c", READY_MADE).strip() == "True"
    assert ready_made or [*environment.cache.glob("kernels-*.so")], (
        "translation compiled no kernels"
    )


def _check_figures(environment: Environment) -> None:
    """Check that a page holds its packaged style and script, and that an image can be drawn with
    the packaged font.
    """
    for name in ("attention.html", "attention.png"):
        environment.regard("show", "run", SENTENCE, "--out", name)
    page = (environment.folder / "attention.html").read_text(encoding="utf-8")
    for part in (*SENTENCE.split(), "<style>", "<script"):
        assert part in page, f"the page lacks {part}"
    assert (environment.folder / "attention.png").stat().st_size > 1000


def main(dist: str) -> None:
    """Install the wheel in `dist` with its dependencies, and use it."""
    with tempfile.TemporaryDirectory() as folder:
        environment = Environment.create(Path(folder))
        install = ["-m", "pip", "install", "-c", str(ROOT / "constraints.txt")]
        environment.python(*install, f"{wheel_in(Path(dist).resolve())}[train]")
        print(environment.regard("doctor"))
        print(f"{SENTENCE} → {use(environment)}   (after 20 updates)")


if __name__ == "__main__":
    main(*sys.argv[1:])
