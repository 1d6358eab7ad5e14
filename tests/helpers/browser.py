"""A real browser and its pages, node, and the library as WebAssembly; tests that need what is
missing are skipped.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers.text_table import items

PROGRAMS = map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
CHROMIUM = next(filter(None, PROGRAMS), None)
FLAGS = items("""
    --no-sandbox --disable-gpu --in-process-gpu --disable-quic --renderer-process-limit=1
""")
"""What playwright does not give by itself: it starts Chromium without a window and without all
that asks the network. One process draws all pages, instead of a new one for each.
"""
COLOUR_RULES = ["color-contrast", "link-in-text-block"]
"""Rules of axe whose results depend on colours, of those that it uses by itself."""
INSTALLED = Path(__file__).parents[1] / "serving" / "node_modules"
NODE_MODULES = Path(os.environ.get("NODE_MODULES", INSTALLED))


@pytest.fixture(scope="session")
def axe() -> str:
    """Return the script of axe-core, which finds what keeps people from using a page."""
    script = NODE_MODULES / "axe-core" / "axe.min.js"
    if not script.is_file():
        pytest.skip("axe-core is not installed: npm ci --prefix tests/serving")
    return script.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def wasm() -> Path:
    """Return the library for browsers, if it was built from today's sources."""
    # Late: annotations of what is imported before conftest.py are not checked.
    from regard.runtime import native

    try:
        return native.wasm_file()
    except RuntimeError as problem:
        pytest.skip(str(problem))


@pytest.fixture(scope="session")
def node() -> str:
    program = shutil.which("node")
    if program is None:
        pytest.skip("node is not installed")
    return program


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Start Chromium, once in each worker."""
    if not CHROMIUM:
        pytest.skip("there is no Chromium: apt install chromium")
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed"
    )
    with playwright.sync_playwright() as play:
        started = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)
        yield started, loop
        asyncio._set_running_loop(loop)
        started.close()


@pytest.fixture(scope="module")
def browser(chromium: Any) -> Iterator[Any]:
    """Return Chromium.

    The event loop of playwright runs in the thread of the tests; between modules that use the
    browser it does not count as running, so that others can run one of their own.
    """
    started, loop = chromium
    asyncio._set_running_loop(loop)
    yield started
    for context in started.contexts:
        context.close()

    asyncio._set_running_loop(None)


@pytest.fixture(scope="module")
def contexts() -> dict[str, Any]:
    """Return the contexts of the browser that a module has opened, by their options."""
    return {}


@pytest.fixture
def open_page(browser: Any, contexts: dict[str, Any]) -> Iterator[Callable[..., Any]]:  # noqa: C901 - one branch for each kind of problem of a page
    """Return a function that opens a page, in a context of the module that has the given options.

    The test fails if a page has an error, writes a message, or requests what is not its own.
    """
    problems: list[str] = []
    pages: list[Any] = []

    def note_message(message: Any) -> None:
        # The browser's own note of a status, or of a server that is away.
        if not message.text.startswith("Failed to load resource"):
            problems.append(message.text)

    def open_address(
        address: str | Path,
        wait: str = "html[data-ready]",
        script: str = "",
        **options: Any,
    ) -> Any:
        url = address if isinstance(address, str) else address.as_uri()
        scheme, _, rest = url.partition("://")
        host = rest.partition("/")[0]
        own = ("data:", f"{scheme}://{host}/", f"blob:{scheme}://{host}/")
        if scheme == "file":
            own = ("data:", "file:", "blob:")

        def note_request(request: Any) -> None:
            if not request.url.startswith(own):
                problems.append(request.url)

        key = repr(sorted(options.items()))
        if key not in contexts:
            contexts[key] = browser.new_context(**({"locale": "en-GB"} | options))
        page = contexts[key].new_page()
        pages.append(page)
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", note_message)
        page.on("request", note_request)
        if script:
            page.add_init_script(script)
        page.goto(url)
        if wait:
            page.wait_for_selector(wait)
        return page

    yield open_address
    # Closing a page ends its requests, which is no fault of the test.
    reported = list(problems)
    # A page that goes on running slows down the next ones.
    for page in pages:
        if page.url.startswith("http"):
            page.evaluate("localStorage.clear()")
        page.close()
    assert reported == [], reported


def assert_accessible_and_narrow(
    page: Any, axe: str, widths: Sequence[int] = (1280, 400)
) -> None:
    """Check with axe, and that nothing scrolls sideways, on a wide screen and on a phone."""
    page.evaluate(axe)
    for width in widths:
        page.set_viewport_size({"width": width, "height": 800})
        violations = _violations(page)
        assert not violations, f"at {width}: {violations}"
        assert page.evaluate("document.documentElement.scrollWidth") == width


def assert_readable_in_the_dark(page: Any, widths: Sequence[int] = (1280, 400)) -> None:
    """Check a page that `assert_accessible_and_narrow` has checked by the rules of axe for colours,
    in dark ones.
    """
    page.emulate_media(color_scheme="dark")
    assert page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    for width in widths:
        page.set_viewport_size({"width": width, "height": 800})
        violations = _violations(page, COLOUR_RULES)
        assert not violations, f"at {width}, in the dark: {violations}"


def _violations(page: Any, rules: Sequence[str] = ()) -> list[Any]:
    """Return the rules of axe that a page breaks, of all or of the given ones, with places."""
    options: dict[str, object] = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = {"type": "rule", "values": [*rules]}
    violations: list[Any] = page.evaluate(
        """options => axe.run(document, options)
        .then(r => r.violations.map(v => [v.id, v.nodes.map(n => n.html)]))""",
        options,
    )
    return violations
