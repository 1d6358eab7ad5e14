"""Make the environment of each peer under .envs/, with exactly the versions of peers/NAME.txt.

python benchmarks/setup.py            all of them
python benchmarks/setup.py eole hf    these
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PEERS", "Peer", "SetupError", "make", "python_of"]

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = HERE / ".envs"
PYTHON = (3, 11)  # the pinned versions are wheels for this one
LINES_SHOWN = 12
TORCH = "torch==2.13.0"


class SetupError(Exception):
    """An environment could not be made; the message says which and why."""


@dataclass(frozen=True)
class Peer:
    """Peculiarities of installing one peer."""

    imports: str  # the module that must be importable in the end
    # Built from source before torch is installed, at the pinned versions.
    built_first: tuple[str, ...] = ()
    building: tuple[str, ...] = ()  # packages needed to build them
    # Modules imported at start and unused by all measured code.
    stubs: tuple[str, ...] = ()


PEERS = {
    "hf": Peer("transformers"),
    # Without torch, which it imports where there is one.
    "ctranslate2": Peer("ctranslate2"),
    # Optional transforms import these, and every transform is imported at start; fasttext would
    # have to be compiled.
    "opennmt": Peer("onmt.bin.train", stubs=("fasttext", "spacy")),
    "eole": Peer("eole.bin.main", stubs=("fasttext",)),
    "joeynmt": Peer("joeynmt.training"),
    # Its archive lacks the source of an extension that is built only if torch is installed, and
    # that nothing needs.
    "fairseq": Peer(
        "numpy",
        built_first=("fairseq",),
        building=("cython", "numpy", "setuptools", "wheel"),
    ),
}


def python_of(name: str) -> Path:
    """Return the interpreter of a peer's environment."""
    return ENVIRONMENTS / name / "bin" / "python"


def make(name: str) -> bool:
    """Make the environment of a peer, unless it exists with the same pins. Return whether it was
    made.
    """
    stamp = ENVIRONMENTS / name / "ready"
    recipe = _recipe(name)
    if stamp.is_file() and stamp.read_text() == recipe:
        return False
    shutil.rmtree(stamp.parent, ignore_errors=True)
    _run(name, [_interpreter(name), "-m", "venv", str(stamp.parent)])
    _install(name, PEERS[name])
    stamp.write_text(recipe)
    return True


def _interpreter(name: str) -> str:
    """Return this Python if the pins are for it, else the one of their version on the PATH."""
    if sys.version_info[:2] == PYTHON:
        return sys.executable
    version = ".".join(map(str, PYTHON))
    interpreter = shutil.which(f"python{version}")
    if interpreter is None:
        raise SetupError(
            f"{name}: the pins are for Python {version}; install python{version}, which is not on "
            "the PATH"
        )
    return interpreter


def _install(name: str, peer: Peer) -> None:
    pins = HERE / "peers" / f"{name}.txt"
    if peer.built_first:
        _pip(name, "-c", str(pins), *peer.building)
        _pip(
            name,
            "--no-deps",
            "--no-build-isolation",
            "-c",
            str(pins),
            *peer.built_first,
        )
    if TORCH in pins.read_text().splitlines():
        # With exactly this requirement, and first: any other installs gigabytes of CUDA libraries.
        _pip(name, "-c", str(pins), TORCH)
    # The pins are complete, so nothing is resolved: several peers declare versions of torch that
    # they do not need.
    _pip(name, "--no-deps", "-r", str(pins))
    packages = next((ENVIRONMENTS / name / "lib").glob("python*/site-packages"))
    for stub in peer.stubs:
        (packages / f"{stub}.py").write_text(
            f'"""Stands in for {stub}: imported at start, used by no measured code."""\n'
        )
    _run(name, [str(python_of(name)), "-W", "ignore", "-c", f"import {peer.imports}"])


def _pip(name: str, *words: str) -> None:
    quiet = ["--quiet", "--disable-pip-version-check"]
    _run(name, [str(python_of(name)), "-m", "pip", "install", *quiet, *words])


def _run(name: str, command: list[str]) -> None:
    process = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=HERE
    )
    if process.returncode:
        last = [
            line
            for line in process.stdout.splitlines()
            if not line.startswith("WARNING")
        ][-LINES_SHOWN:]
        raise SetupError(
            "\n    ".join([f"{name}: this failed: {' '.join(command)}", *last])
        )


def _recipe(name: str) -> str:
    """Return a fingerprint of the pins and the way of installing."""
    pins = (HERE / "peers" / f"{name}.txt").read_bytes()
    return hashlib.sha256(pins + repr(PEERS[name]).encode()).hexdigest()


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the named environments; return 1 if one could not be made, after trying all."""
    parser = argparse.ArgumentParser(
        description="Make the environments of the systems Regard is compared with."
    )
    parser.add_argument(
        "peers",
        nargs="*",
        metavar="PEER",
        help=f"of {', '.join(PEERS)}; all if none is named",
    )
    names = parser.parse_args(arguments).peers or list(PEERS)
    if unknown := [name for name in names if name not in PEERS]:
        parser.error(
            f"no peer is called {' or '.join(unknown)}; there are {', '.join(PEERS)}"
        )
    failed = 0
    for name in names:
        print(f"{name}: …", end=" ", flush=True)
        try:
            print("made" if make(name) else "exists already")
        except SetupError as error:
            failed = 1
            print(f"failed\n{error}")
    return failed


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
