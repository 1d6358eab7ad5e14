"""Set-up of all tests.

In tests of attention, layers, models, losses and laws the calls of these are checked against their
annotated shapes and types (laws/checking.py); REGARD_SHAPES=all checks the whole package in all
tests, and REGARD_SHAPES=0 nothing.
"""

import gc
import importlib
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import laws.checking
import pytest
import torch
from helpers import forked_commands
from helpers.browser import (  # noqa: F401  fixtures of all folders
    axe,
    browser,
    chromium,
    contexts,
    node,
    open_page,
    wasm,
)
from helpers.cached_folders import FolderCache
from helpers.text_table import items, lines
from jaxtyping import config as jaxtyping_config

# The modules of the site, which are no package.
sys.path.append(str(Path(__file__).parents[1] / "site"))
assert "regard" not in sys.modules, (
    "regard was imported before its annotations could be checked"
)
AXES = "regard.attention regard.layers regard.models regard.training.loss regard.data.batch"
CHECKED = {"0": [], "1": items(AXES), "all": ["regard"]}
"""The modules whose annotations are checked, by REGARD_SHAPES: by default those in which axes are
declared.
"""
SHAPES = os.environ.get("REGARD_SHAPES", "1")
laws.checking.install(CHECKED[SHAPES])
pytest.register_assert_rewrite("laws.models", "laws.learning")
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # The tests were started in the background; commands under test need the signal.
    signal.signal(signal.SIGINT, signal.default_int_handler)
WHOLE = os.environ.get("REGARD_MODELS") == "all"
SYSTEM: dict[str, list[str]] = {
    "cli": ["test_in_flags.py", "test_progress.py"],
    "comparison": [],
    "demo": [],
    "interchange": ["test_checksums.py", "test_probe_sentences.py"],
    "js": [],
    "isolation": [],
    "samples": [],
    "serving": items("""
        test_answers.py test_exchanges.py test_own_endpoints.py
        test_server_docs.py test_server_keys.py test_server_limits.py test_server_metrics.py
        test_server_pairs.py test_server_schema.py test_server_security.py
    """),
}
"""Folders whose tests `make quick` leaves out, and the files in them that it takes: of servers
those over a service without a model.
"""
QUICK_CASES = 1
"""Cases of each test in `make quick`, of those that are not broad."""
forked_commands.install()
if hasattr(os, "register_at_fork"):
    # Garbage of the parent may join threads, as CTranslate2 does: a fork has none of them.
    os.register_at_fork(after_in_child=gc.freeze)
# No test finds what another, or another run, left in the cache.
os.environ["REGARD_EXPORTS"] = "off"
torch.set_num_threads(1)
# Nor do processes that tests start: the threads of busy machines wait for each other.
os.environ["OMP_NUM_THREADS"] = "1"
# What is installed stays, and reading it takes half a second.
metadata.packages_distributions = cache(metadata.packages_distributions)
# No test survives a power failure, and each sync of some ten thousand takes milliseconds.
os.fsync = lambda _: None
# A warning fails every test that raises it, not only the first.
torch.set_warn_always(True)


HARDWARE = lines("""
    this processor
    VNNI
    a GPU
    Windows
    Linux
    macOS
    this file system
    root
    may not be shipped
""")
"""Words in the reasons of tests that are skipped for want of hardware, another system, or data that
nobody may ship.
"""


def _lacking(terminal: Any) -> list[str]:
    """Return the reasons for which tests were skipped, other than hardware."""
    reports = terminal.stats.get("skipped", ()) if terminal else ()
    lacking = set[str]()
    for report in reports:
        if isinstance(report.longrepr, tuple):
            reason = report.longrepr[2].removeprefix("Skipped: ")
            if not any(word in reason for word in HARDWARE):
                lacking.add(reason)
    return sorted(lacking)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say in one line what the run lacked; each reason says how to get it."""
    if lacking := _lacking(terminalreporter):
        things = " · ".join(lacking)
        text = f"NOT TESTED for want of {len(lacking)} things: {things}"
        terminalreporter.line(text, yellow=True)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run of `.ci/run` in which something that can be installed was missing."""
    is_worker = hasattr(session.config, "workerinput")
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") and not is_worker and _lacking(terminal):
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


def pytest_collectstart() -> None:
    """Look for no garbage while tests are collected: there is none."""
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Exempt the thousands of collected tests from garbage collection, which would look through
    them again and again.
    """
    forked_commands.compare_few_sentences()
    if "regard.visualisation.fonts" in sys.modules and getattr(
        session.config, "cache", None
    ):
        importlib.import_module("helpers.cached_faces").install(
            session.config.cache.mkdir("faces")
        )
    gc.collect()
    gc.freeze()
    gc.enable()


SHAPED = ("attention", "layers", "models", "laws", "test_loss.py")
"""Folders and files of tests in which annotations are checked."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Check annotations where models and their parts are tested; step by step with every
    model, others with few.

    What the command of an earlier test set for its process, as `--quiet` does, is as at the start
    again.
    """
    if command := sys.modules.get("regard.cli.app"):
        command.begin(())
    name = item.path.name
    is_shaped = bool({name, item.path.parent.name} & {*SHAPED})
    if item.get_closest_marker("broad") and name != "test_step_by_step.py":
        is_shaped = False
    is_free = name == "test_wrong_objects.py" or not (is_shaped or SHAPES == "all")
    jaxtyping_config.update("jaxtyping_disable", is_free)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a cache folder of this test's own, with the kernels."""
    from regard.runtime import private_cache  # late: its annotations may be checked

    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    for lasting in private_cache.lasting_folders():
        for kernels in lasting.glob("kernels-*.so"):
            shutil.copy(kernels, folder)
    monkeypatch.setenv(private_cache.FOLDER, str(folder))
    return folder


@pytest.fixture(scope="session")
def cached(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> FolderCache:
    """Return the cache of folders that take long to make."""
    return FolderCache(pytestconfig, tmp_path_factory.mktemp("folders"))


@pytest.fixture(autouse=True)
def _seed_every_test() -> Iterator[None]:
    """Seed every test, so that it draws the same random numbers alone and among other tests.

    `torch.manual_seed` would also queue a seed with its stack for each kind of device: 5 ms a test.
    """
    generator = torch.default_generator
    before = generator.get_state()
    generator.manual_seed(0)
    yield
    generator.set_state(before)


def _is_system(path: Path) -> bool:
    units = SYSTEM.get(path.parent.name)
    return path.is_file() and units is not None and path.name not in units


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files of system tests unread if none of their tests can be selected."""
    if "not system" in config.option.markexpr and _is_system(collection_path):
        return True
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make quick` leaves out as `system`, and two of three `broad` cases as `slow`.

    `make quick` leaves out whole folders, and of each test all but its first cases. Which third of
    the broad cases is left depends on the length of the test's name, so laws over the same models
    take different ones.
    """
    quick = Counter[str]()
    further = Counter[str]()
    for item in items:
        test = item.nodeid.partition("[")[0]
        if item.get_closest_marker("broad"):
            turn = (len(test) + further[test]) % 3
            is_taken = WHOLE or turn == 0
            item.add_marker("system" if is_taken else "slow")
            further[test] += 1
            continue
        quick[test] += 1
        if _is_system(item.path) or quick[test] > QUICK_CASES:
            item.add_marker("system")
