"""The wheel holds every file of the package, and works in an environment that has nothing else of
it.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from first_use import PACKAGES, ROOT, SENTENCE, Environment, use, wheel_in
from helpers.small_models import folder
from helpers.system_marks import posix
from packaging.requirements import Requirement

from regard.interchange.runtime import export
from regard.pipeline import RuntimeTranslator
from regard.runtime import native

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution and the wheel that is built from it, without a
    network.
    """
    pytest.importorskip(
        "hatchling",
        reason="the build needs hatchling: the extra `dev` is not installed",
    )
    folder = tmp_path_factory.mktemp("dist")
    command = [
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--outdir",
        str(folder),
        str(ROOT),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr

    return folder


def _files(*folders: str) -> set[str]:
    """Return the files that git keeps or would add, with `/` between folders."""
    command = [
        "git",
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
        *folders,
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("this is no git repository, so the list of files is not known")
    return set(filter(None, done.stdout.decode().split("\0")))


def test_the_wheel_holds_every_file_of_the_package_and_the_libraries_that_were_built(
    dist: Path,
) -> None:
    # Git ignores them; those that were built are packaged.
    libraries = ROOT / "regard" / "runtime" / "lib"
    files = _files("regard") | {
        path.relative_to(ROOT).as_posix() for path in libraries.rglob("*regard.*")
    }
    assert {
        "regard/runtime/c/kernels.c",
        "regard/py.typed",
        "regard/visualisation/assets/explanation_page.js",
    } <= files
    with zipfile.ZipFile(wheel_in(dist)) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        assert names == files
        for name in files:
            assert wheel.read(name) == (ROOT / name).read_bytes(), name
        assert any(
            name.endswith(".dist-info/licenses/LICENSE") for name in wheel.namelist()
        )


def test_the_source_distribution_holds_every_file_of_the_repository(dist: Path) -> None:
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as source:
        names = {
            member.name.split("/", 1)[1]
            for member in source.getmembers()
            if member.isfile()
        }
    assert {name for name in names if not name.startswith("regard/runtime/lib/")} - {
        "PKG-INFO"
    } == _files()


def test_the_wheel_trains_translates_and_draws(dist: Path, tmp_path: Path) -> None:
    environment = Environment.create(tmp_path)
    environment.python(
        "-m", "pip", "install", "--no-index", "--no-deps", str(wheel_in(dist))
    )
    environment.share(
        [
            path
            for path in sys.path
            if Path(path).name in ("site-packages", "dist-packages")
        ]
    )
    assert use(environment) != SENTENCE


def _closure(names: set[str]) -> set[str]:
    """Return the distributions that these need, with them; extras are left out."""
    needed = set[str]()
    while names:
        name = names.pop()
        needed.add(name)
        for text in metadata.requires(name) or ():
            requirement = Requirement(text)
            if (
                requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            ) and requirement.name not in needed:
                names.add(requirement.name)
    return needed


def _link(names: set[str], folder: Path) -> None:
    """Make installed distributions importable from a folder by links to their files."""
    for name in names:
        distribution = metadata.distribution(name)
        for part in {
            file.parts[0] for file in distribution.files or () if file.parts[0] != ".."
        }:
            if not (folder / part).exists():
                (folder / part).symlink_to(Path(str(distribution.locate_file(part))))


@posix
def test_the_wheel_translates_a_runtime_file_without_pytorch_and_without_a_compiler(
    dist: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not native.is_ready_made():
        pytest.skip(
            "the ready-made library of this machine was not built from today's sources: make library"
        )
    run = folder(tmp_path / "run", end=0.5)
    export(run, tmp_path / "translator.regard")
    environment = Environment.create(tmp_path)
    environment.python(
        "-m", "pip", "install", "--no-index", "--no-deps", str(wheel_in(dist))
    )
    own = {Requirement(text) for text in metadata.requires("regard") or ()}
    needed = {
        r.name for r in own if r.marker is None or r.marker.evaluate({"extra": ""})
    }
    _link(_closure(needed), Path(environment.python("-c", PACKAGES).strip()))
    monkeypatch.setenv("PATH", "/nonexistent")

    assert (
        environment.python(
            "-c", "import importlib.util; print(importlib.util.find_spec('torch'))"
        ).strip()
        == "None"
    )

    expected = (
        RuntimeTranslator(tmp_path / "translator.regard").translate(SENTENCE)[0].text
    )
    file = str(tmp_path / "translator.regard")

    assert (
        environment.regard("translate", file, stdin=f"{SENTENCE}\n") == f"{expected}\n"
    )

    (environment.folder / "lines").write_text(f"{SENTENCE}\n", encoding="utf-8")
    assert environment.regard(
        "translate", file, "lines", "--nbest", "1", "--alignments"
    ).startswith(expected)
    assert "ready-made library" in environment.regard("doctor")
    assert not environment.cache.exists(), "nothing was compiled"
