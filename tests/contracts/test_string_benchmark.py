"""The benchmark of strings: its lines are those of its generator, and its script asks each kind of
translator in its own words.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from contracts.string_cases import benchmark, lines

pytestmark = pytest.mark.system  # other programs, or servers

RUN = benchmark("run")


def test_lines_are_those_of_the_generator() -> None:
    assert benchmark("make_strings").make() == lines()
    assert len({line["text"] for line in lines()}) == len(lines()) == 1000
    assert sum("de" in line and "ko" in line for line in lines()) == 60


def test_spans_of_a_line_occur_in_it_and_in_its_translations() -> None:
    """Of those that a language may have otherwise, numbers and free escapes are left out."""
    for line in lines():
        for text in [
            line["text"],
            *(line[name] for name in ("de", "ko") if name in line),
        ]:
            for span in set(line["spans"]) - {"#", "''"}:
                if not re.match("~[0-9]", span):
                    assert text.count(span) >= line["spans"].count(span), (text, span)


class _Answers(BaseHTTPRequestHandler):
    """Translators of three interfaces, which answer with the text that came."""

    def log_message(self, *_arguments: object) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answers: dict[str, Any] = {
            "/translate": lambda: {"translatedText": body["q"]},
            "/v2/translate": lambda: {
                "translations": [{"text": text} for text in body["text"]]
            },
            "/v1/chat/completions": lambda: {
                "choices": [{"message": {"content": body["messages"][-1]["content"]}}]
            },
        }
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(answers[self.path]()).encode())


@pytest.fixture
def translators() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def run(monkeypatch: pytest.MonkeyPatch, *options: str) -> None:
    """Run the script with some of the lines."""
    monkeypatch.setattr(sys, "argv", ["run.py", *options])
    RUN.main()


@pytest.fixture
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a file of every fiftieth line in the place of all."""
    path = tmp_path / "few.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines()[::50]))
    monkeypatch.setattr(RUN, "LINES", path)
    return path


@pytest.mark.parametrize("interface", ["libretranslate", "deepl", "openai"])
def test_each_interface_is_asked(
    interface: str,
    translators: str,
    few: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    saved = few.with_name("out.jsonl")
    run(monkeypatch, f"--{interface}", translators, "--codes", "--save", str(saved))
    assert "| **all** | 20 | 20 | 0 | 0 | 0 |" in capsys.readouterr().out

    run(monkeypatch, "--outputs", str(saved), "--codes")
    assert "| **all** | 20 | 20 | 0 | 0 | 0 |" in capsys.readouterr().out


def test_marks_and_missing_lines_are_counted(
    few: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = [{"translation": line["text"] + " {zz} 77"} for line in lines()[::50]]
    outputs[0]["marks"] = ["invented"]
    saved = few.with_name("out.jsonl")
    saved.write_text("".join(json.dumps(output) + "\n" for output in outputs))
    run(monkeypatch, "--outputs", str(saved))
    assert "| **all** | 20 | 0 | 0 | 1 | 19 |" in capsys.readouterr().out

    saved.write_text('{"translation": "a"}\n')
    with pytest.raises(SystemExit):
        run(monkeypatch, "--outputs", str(saved))
    assert "has 1 lines; few.jsonl has 20" in capsys.readouterr().err


def test_baselines_place_all_spans() -> None:
    line = {"text": "The <b>red</b> cat of %s sleeps.", "spans": ["<b>", "</b>", "%s"]}
    assert RUN.without_spans(line) == "The red cat of sleeps."
    assert RUN.append(line, "Die Katze schläft.") == "Die Katze schläft. <b> </b> %s"
    assert (
        RUN.proportional(line, "Die rote Katze schläft.")
        == "Die <b> rote </b> Katze %s schläft."
    )
