"""Law over interfaces: a line has one translation, whichever way it is asked for.

What is told of it, too: score, doubtful, parts, warnings. Interfaces differ for the reasons of
`interface_reasons` alone.
"""

from __future__ import annotations

import base64
import gzip
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import live
import pytest
from helpers.cached_folders import FolderCache

import regard
from laws import interface_model
from laws import interfaces as by
from laws.interface_lines import MAKERS, interface_lines
from laws.interface_reasons import (
    REASONS,
    SECTIONS,
    Case,
    documented,
    reasons_of,
)
from regard.explain.explanation import explain
from regard.runtime import native

if (problem := native.why_unavailable()) is not None:
    pytest.skip(f"no C library on this machine: {problem}", allow_module_level=True)

pytestmark = pytest.mark.system
PART = 3 * len(MAKERS)
"""Lines of the default run."""
FEWER = {"page": len(MAKERS), "pytorch": PART, "without kernels": PART}
"""Lines at most of interfaces that take long."""
SHOWN = 5
Request = pytest.FixtureRequest


@pytest.fixture(scope="session")
def run_folder(cached: FolderCache) -> Path:
    """Train the model, once until its sources change."""
    return cached.in_process("interfaces", interface_model.train) / "run"


@pytest.fixture(scope="session")
def files(cached: FolderCache, run_folder: Path) -> Path:
    """Return the folder of runtime files of the model."""
    return cached.in_process("interface-files", interface_model.export, str(run_folder))


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the program in C, linked with the library that Python has loaded."""
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("needs gcc or clang")
    path = tmp_path_factory.mktemp("program") / "program"
    source = Path(__file__).with_name("interface_program.c")
    library = native.kernels()._name
    command = [
        compiler,
        f"-I{native.FOLDER_OF_SOURCES}",
        "-o",
        path,
        source,
        library,
        f"-Wl,-rpath={Path(library).parent}",
    ]
    subprocess.run(command, check=True)
    return path


@pytest.fixture(scope="module")
def server(file: Path) -> Iterator[by.Server]:
    """Serve the runtime file."""
    pytest.importorskip("uvicorn", reason="regard[serve] is not installed")
    with by.served(file) as server:
        yield server


@pytest.fixture(scope="module")
def precision(request: Request) -> str:
    """Return the precision of the weights, which each test names."""
    return str(request.param)


@pytest.fixture(scope="module")
def file(files: Path, precision: str) -> Path:
    """Return the runtime file."""
    return files / f"ko-en.{precision}.regard"


@pytest.fixture(scope="module")
def page_file(
    run_folder: Path, wasm: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Write the page of the model, whose weights are int8."""
    path = tmp_path_factory.mktemp("page") / "page.html"

    assert wasm.is_file()

    by.run_command("export", run_folder, "--to=page", path)
    return path


@pytest.fixture(scope="module")
def file_of_page(page_file: Path) -> Path:
    """Return the runtime file that the page holds: its embeddings are int8, too."""
    _, model = re.findall(
        r'<script type="text/plain" class="file">([^<]*)</script>',
        page_file.read_text("utf-8"),
    )
    path = page_file.with_name("page.regard")
    path.write_bytes(gzip.decompress(base64.b64decode(model)))
    return path


@pytest.fixture(scope="module")
def page(browser: Any, page_file: Path) -> Any:
    """Open the page."""
    page = browser.new_context(locale="en-GB", offline=True).new_page()
    page.goto(page_file.as_uri())
    page.wait_for_selector(f"html[data-loaded] {by.SHOWN}")
    return page


Interface = Callable[[Sequence[str], Request], list[by.Result]]


def _of(request: Request, *names: str) -> list[Any]:
    return [request.getfixturevalue(name) for name in names]


INTERFACES: dict[str, Interface] = {
    "run folder": lambda lines, r: by.by_python(
        lines, *_of(r, "run_folder"), precision=r.getfixturevalue("precision")
    ),
    "pytorch": lambda lines, r: by.by_python(
        lines, *_of(r, "run_folder"), engine="pytorch"
    ),
    "without kernels": lambda lines, r: by.without_kernels(
        lines, *_of(r, "run_folder")
    ),
    "json lines": lambda lines, r: by.by_json_lines(lines, *_of(r, "file", "tmp_path")),
    "v1": lambda lines, r: r.getfixturevalue("server").by_own(lines),
    "libretranslate": lambda lines, r: r.getfixturevalue("server").by_libretranslate(
        lines
    ),
    "deepl": lambda lines, r: r.getfixturevalue("server").by_deepl(lines),
    "node": lambda lines, r: by.by_node(lines, *_of(r, "file", "node", "wasm")),
    "page": lambda lines, r: by.by_page(lines, *_of(r, "page")),
    "c": lambda lines, r: by.by_c(lines, *_of(r, "file", "program")),
}
"""What translates, beside a runtime file in Python, by which all are measured."""
AT_NIGHT = {"without kernels"}
"""Left out by the default run, in which tests of tokenizers and sentences compare C with Python."""
ONLY = {"pytorch": "float32", "without kernels": "float32", "page": "int8"}
"""The only precision of some of them."""


def _each(*precisions: str) -> Any:
    """Return the parameters of a test of each interface in some precisions."""
    parameters = []

    for precision in precisions:
        for name in INTERFACES:
            if ONLY.get(name, precision) == precision:
                marks = [pytest.mark.slow] if name in AT_NIGHT else []
                parameters.append(pytest.param(name, precision, marks=marks))

    return pytest.mark.parametrize(
        ("interface", "precision"), parameters, indirect=["precision"], scope="module"
    )


@lru_cache(maxsize=4)
def _expected(file: Path, count: int) -> list[by.Result]:
    return by.by_python([line for _, line in interface_lines(count)], file)


def check(
    interface: str, precision: str, count: int, request: Request, *, whole: bool
) -> None:
    """Translate lines by an interface, and compare; in the whole law each reason explains
    something.
    """
    given = interface_lines(count)[: FEWER.get(interface)]
    actual = INTERFACES[interface]([line for _, line in given], request)
    file = request.getfixturevalue("file_of_page" if interface == "page" else "file")
    expected = _expected(file, len(given))
    reasons = reasons_of(interface, precision)
    lines_of = Counter[str]()
    unexplained = list[str]()

    for (kind, line), *results in zip(given, expected, actual, strict=True):
        case = Case(kind, line, *results)
        explained_by = set[str]()
        for field in case.differing:
            own = [reason.name for reason in reasons if reason.explains(case, field)]
            explained_by.update(own[:1])
            if not own:
                unexplained.append(case.describe(field))
        lines_of.update(explained_by)

    shown = "\n".join(unexplained[:SHOWN])

    assert not unexplained, f"{len(unexplained)} differences, such as:\n{shown}"

    for reason in reasons:
        count_of_lines = lines_of[reason.name]
        most = max(1, reason.most * len(given))
        assert count_of_lines <= most, f"too many lines: {reason.name}"
        assert count_of_lines or reason.most < 1 or not whole, (
            f"{reason.name} explains nothing of {interface} any more; delete it"
        )


@_each("float32")
def test_some_lines(interface: str, precision: str, request: Request) -> None:
    check(interface, precision, PART, request, whole=False)


@pytest.mark.slow
@_each(*interface_model.PRECISIONS)
def test_all_lines(interface: str, precision: str, request: Request) -> None:
    check(interface, precision, 2000, request, whole=True)


def test_show_and_pages_name_the_same_lost_words(
    run_folder: Path, files: Path, node: str, wasm: Path, tmp_path: Path
) -> None:
    """Each word that is named is one without which the translation is the same."""
    lines = [pair.source for pair in interface_model.sample().splits["test"][:40]]
    script = tmp_path / "regard.js"
    script.write_text(live.start_script(), encoding="utf-8")
    file = files / "ko-en.float32.regard"
    by_page = by.lost_words(lines, node, wasm, file, script)
    translator = regard.load(run_folder)
    named = [
        [line.split()[i] for i in explain(translator, line, None, False).data.unread]
        for line in lines
    ]

    assert named == by_page
    assert any(named)

    for line, words in zip(lines, named, strict=True):
        before = translator.translate(line)[0].text
        for word in words:
            rest = line.split()
            rest.remove(word)
            assert translator.translate(" ".join(rest))[0].text == before


@pytest.mark.parametrize("page", SECTIONS)
def test_the_reasons_are_those_of_the_documentation(page: str) -> None:
    names = documented(page)

    assert len(names) == len(REASONS)
    assert page.startswith("ko/") or names == [reason.name for reason in REASONS]
