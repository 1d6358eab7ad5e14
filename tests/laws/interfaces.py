"""Every interface that translates, as a function from lines to results; public commands, requests
and calls alone.
"""

from __future__ import annotations

import io
import json
import os
import re
import struct
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

import regard
from regard.common.errors import LineWarning

ROOT = Path(__file__).parents[2]
PATHS = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
COMMAND = (sys.executable, "-m", "regard")
BATCH = {"lines": 100, "characters": 60_000}
"""What a request to the server has at most."""


@dataclass(frozen=True)
class Result:
    """What an interface tells of the translation of a line; None: it does not tell.

    `parts`: the source and the translation of each, or their number.
    """

    text: str
    score: float | None = None
    doubtful: bool | None = None
    parts: tuple[tuple[str, str], ...] | int | None = None
    warnings: tuple[str, ...] | None = None
    quality: float | None = None


def _run(
    command: Sequence[object], given: bytes = b"", **options: Any
) -> tuple[bytes, bytes]:
    """Run a command that must succeed; return its output and its messages."""
    environment = {
        **os.environ,
        "PYTHONPATH": PATHS,
        "OMP_NUM_THREADS": "1",
        **options.pop("variables", {}),
    }
    done = subprocess.run(
        [*map(str, command)],
        input=given,
        capture_output=True,
        env=environment,
        check=False,
        **options,
    )

    assert done.returncode == 0, done.stderr.decode("utf-8")[-2000:]

    return done.stdout, done.stderr


def run_command(
    *arguments: object, given: bytes = b"", **options: Any
) -> tuple[bytes, bytes]:
    """Run `regard …`; return its output and its messages."""
    return _run([*COMMAND, *arguments], given, **options)


def by_python(lines: Sequence[str], path: Path, **options: Any) -> list[Result]:
    """Translate by `regard.load`."""
    translator = regard.load(path, **options)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        translations = translator.translate(lines)

    notes: list[list[str]] = [[] for _ in lines]

    for warning in caught:
        assert isinstance(warning.message, LineWarning), warning
        notes[warning.message.index].append(str(warning.message))

    results = []

    for translation, own in zip(translations, notes, strict=True):
        told = getattr(translation, "notes", own)
        assert list(told) == own, "what is warned of is part of the result"
        parts = tuple((part.source, part.text) for part in translation.parts)
        doubtful = translation.doubtful
        results.append(
            Result(
                translation.text,
                translation.score,
                doubtful,
                parts,
                tuple(own),
                translation.quality,
            )
        )

    return results


WITHOUT_KERNELS = """
import json, sys
from dataclasses import astuple
from laws.interfaces import by_python
print(json.dumps([astuple(result) for result in by_python(json.load(sys.stdin), sys.argv[1])]))
"""


def without_kernels(lines: Sequence[str], folder: Path) -> list[Result]:
    """Translate by a run folder in a process that may not use the C library."""
    command = [sys.executable, "-c", WITHOUT_KERNELS, str(folder)]
    output, _ = _run(
        command, json.dumps(lines).encode(), variables={"REGARD_KERNELS": "off"}
    )
    return [
        Result(text, score, doubtful, tuple(map(tuple, parts)), tuple(notes), quality)
        for text, score, doubtful, parts, notes, quality in json.loads(output)
    ]


def _lines_of(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def by_json_lines(lines: Sequence[str], path: Path, folder: Path) -> list[Result]:
    """Translate a file by `regard translate FILE --output --format jsonl`."""
    (folder / "lines.txt").write_bytes(_lines_of(lines))
    out = folder / "out.jsonl"
    options = ["--format=jsonl", f"--output={out}"]
    _, errors = run_command("translate", path, "lines.txt", *options, cwd=folder)
    rows = [json.loads(row) for row in out.read_text("utf-8").split("\n")[:-1]]

    assert [row["line"] for row in rows] == [*range(1, len(lines) + 1)]

    notes = _printed_notes(errors, "lines.txt", len(lines))
    results = []

    for row, own in zip(rows, notes, strict=True):
        results.append(
            Result(
                row["text"],
                row["score"],
                row["doubtful"],
                _parts(row["parts"]),
                own,
                row["quality"],
            )
        )

    return results


def _parts(rows: Sequence[Any]) -> tuple[tuple[str, str], ...]:
    return tuple((row["source"], row["text"]) for row in rows)


def _printed_notes(errors: bytes, name: str, count: int) -> list[tuple[str, ...]]:
    """Return the warnings of each line that a command has printed."""
    notes: list[list[str]] = [[] for _ in range(count)]
    pattern = rf"^warning: {re.escape(name)}, line (\d+): (.*)$"

    for number, note in re.findall(pattern, errors.decode("utf-8"), re.M):
        # Which is of the whole file.
        if not note.startswith("most characters were never seen"):
            notes[int(number) - 1].append(note)

    return [tuple(own) for own in notes]


class Server:
    """A server of the command, in a process of its own."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client

    def by_own(self, lines: Sequence[str]) -> list[Result]:
        """Translate by /v1/translate."""
        rest = {"scores": True, "source": "ko", "target": "en"}
        results = []

        for row in self._asked(
            lines, "/v1/translate", "text", rest, answer="translations"
        ):
            best = [(line["source"], line["hypotheses"][0]) for line in row["lines"]]
            results.append(
                Result(
                    row["text"],
                    sum(hypothesis["score"] for _, hypothesis in best),
                    row.get("doubtful", False),
                    tuple((source, hypothesis["text"]) for source, hypothesis in best),
                    tuple(row.get("warnings", ())),
                    row.get("quality"),
                )
            )

        return results

    def by_libretranslate(self, lines: Sequence[str]) -> list[Result]:
        """Translate by /translate."""
        rest = {"source": "ko", "target": "en"}
        texts = self._asked(lines, "/translate", "q", rest, answer="translatedText")
        return [Result(text) for text in texts]

    def by_deepl(self, lines: Sequence[str]) -> list[Result]:
        """Translate by /v2/translate."""
        rest = {"source_lang": "KO", "target_lang": "EN-GB"}
        rows = self._asked(lines, "/v2/translate", "text", rest, answer="translations")
        return [Result(row["text"]) for row in rows]

    def _asked(
        self,
        lines: Sequence[str],
        path: str,
        name: str,
        rest: dict[str, Any],
        answer: str,
    ) -> list[Any]:
        rows: list[Any] = []

        for batch in batches(lines):
            response = self.client.post(path, json={name: batch, **rest})
            assert response.status_code == 200, response.text[:2000]
            rows += response.json()[answer]

        return rows


def batches(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield the lines of each request."""
    batch: list[str] = []

    for line in lines:
        if batch and (
            len(batch) == BATCH["lines"]
            or sum(map(len, batch)) + len(line) > BATCH["characters"]
        ):
            yield batch
            batch = []
        batch.append(line)

    yield batch


@contextmanager
def served(path: Path) -> Iterator[Server]:
    """Serve a model by `regard serve` while the context is open."""
    command = [
        *COMMAND,
        "serve",
        str(path),
        "--port=0",
        "--threads=1",
        "--deadline=600",
        "--reload-seconds=0",
    ]
    environment = {**os.environ, "PYTHONPATH": PATHS}

    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env=environment,
    ) as process:
        assert process.stderr
        try:
            address = next(
                match[1]
                for line in process.stderr
                if (match := re.search(r"listening at (\S+)", line))
            )
            # Or it would wait for a full pipe.
            reader = threading.Thread(target=process.stderr.read, daemon=True)
            reader.start()
            with httpx.Client(base_url=address, timeout=600) as client:
                yield Server(client)
        finally:
            process.terminate()


def by_node(lines: Sequence[str], path: Path, node: str, wasm: Path) -> list[Result]:
    """Translate by regard.js under node."""
    program = ROOT / "tests" / "js" / "translate.mjs"
    request = json.dumps({"lines": lines, "options": {}})
    output, _ = _run([node, program, wasm, path], request.encode())
    results = []

    for answer in json.loads(output)["answers"]:
        parts = answer["parts"]
        results.append(
            Result(
                answer["text"],
                answer["score"],
                answer["doubtful"],
                parts if isinstance(parts, int) else _parts(parts),
                tuple(answer["notes"]),
                answer["quality"],
            )
        )

    return results


def lost_words(
    lines: Sequence[str], node: str, wasm: Path, file: Path, script: Path
) -> list[list[str]]:
    """Return the words of each line that the script of the start page names as lost."""
    program = ROOT / "tests" / "site" / "lost_words.mjs"
    output, _ = _run([node, program, wasm, file, script], json.dumps(lines).encode())
    return [answer["unread"] for answer in json.loads(output)]


SHOWN = "#translation[aria-busy=false] .line-of-text:not(.pending)"
"""The sentences of a page that has translated its text."""
READ = """all => all.map(paragraph => {
  const sentences = [...paragraph.querySelectorAll(".line-of-text")].map(sentence => sentence.textContent);
  return [sentences.filter(text => text !== "–").join(" "), paragraph.querySelector("[data-doubt]") !== null];
})"""


def by_page(lines: Sequence[str], page: Any) -> list[Result]:
    """Translate by a page that is open in a browser, line by line."""
    results = []

    for line in lines:
        page.fill("#input", line)
        page.wait_for_selector("#translation[aria-busy=false]")
        rows = page.locator("#translation p").evaluate_all(READ)
        text = "\n".join(paragraph for paragraph, _ in rows)
        results.append(Result(text, doubtful=any(doubtful for _, doubtful in rows)))

    return results


def by_c(lines: Sequence[str], path: Path, program: Path) -> list[Result]:
    """Translate by a program in C."""
    given = b""

    for line in map(str.encode, lines):
        given += struct.pack("<q", len(line)) + line

    output, _ = _run([program, path], given)
    written = io.BytesIO(output)

    def read(form: str) -> Any:
        return struct.unpack(form, written.read(8))[0]

    def text() -> str:
        return written.read(read("<q")).decode("utf-8")

    results = []

    for _ in lines:
        best = text()
        score = read("<d")
        parts = tuple((text(), text()) for _ in range(read("<q")))
        notes = tuple(filter(None, text().split("\n")))
        results.append(Result(best, score, None, parts, notes))

    return results
