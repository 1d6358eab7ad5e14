"""Translate strings of programs through every interface, and count those that break in silence.

    python benchmarks/strings/interfaces.py RUN [--strings FILE.jsonl ...] [--drawn 500 --seed 9]
                                            [--page] [--show 5] [--only PATTERN]

RUN is a run folder; a runtime file and a page are exported from it into a temporary folder. Texts
are translated by the command (lines, JSON lines, a table), Python, the runtime file, node, the page
(with `--page`, in Chromium) and the server's three interfaces, there as text and as a paragraph of
HTML and of XML, the string escaped, without and with a tag around it.

A string is broken by the rules of `many.py`, and by formatjs and msgfmt, if they are installed. It
is marked if the interface says so (`broken`), or leaves it as it was. The last column counts texts
that differ from those of Python.
"""

from __future__ import annotations

import argparse
import csv
import html
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import httpx
import regard
from make_strings import make
from many import faults

ROOT = Path(__file__).parents[2]
NODE_MODULES = ROOT / "tests" / "serving" / "node_modules"
AT_ONCE = 50
COMMAND = (sys.executable, "-m", "regard")
DIALECTS = {"python": "python-brace", "printf": "c"}
"""Dialects by the kinds of strings whose names differ."""
ICU_READER = """
const { parse } = require("@formatjs/icu-messageformat-parser");
const names = (elements) => elements.flatMap((e) => [
  ...(e.type === 7 ? ["#"] : e.type >= 1 && e.type <= 6 ? [e.value] : []),
  ...Object.values(e.options || {}).flatMap(({ value }) => names(value)),
]);
const given = JSON.parse(require("fs").readFileSync(0, "utf8"));
console.log(JSON.stringify(given.map((text) => {
  try { return names(parse(text, { ignoreTag: true })).sort().join(" "); } catch { return null; }
})));
"""


class Output(NamedTuple):
    """A translation; `is_marked`: the interface says that its string would break."""

    text: str
    is_marked: bool = False


Outputs = list[Output]


def run(*arguments: object, given: str = "", **options: Any) -> str:
    """Run a command that must succeed, and return what it prints."""
    done = subprocess.run(
        [*map(str, arguments)],
        input=given,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        **options,
    )
    if done.returncode:
        raise SystemExit(f"{arguments[:4]} failed: {done.stderr[-2000:]}")
    printed: str = done.stdout
    return printed


def by_python(texts: Sequence[str], model: Path) -> Outputs:
    """Translate by `regard.load`."""
    translator = regard.load(model)
    return [Output(row.text, row.broken) for row in translator.translate(texts)]


def by_lines(texts: Sequence[str], model: Path) -> Outputs:
    """Translate lines; what is marked is only a warning, which has no place among them."""
    given = "".join(f"{text}\n" for text in texts)
    lines = run(*COMMAND, "translate", model, given=given).split("\n")[:-1]
    return [*map(Output, lines)]


def by_json_lines(texts: Sequence[str], model: Path) -> Outputs:
    """Translate lines to JSON lines."""
    given = "".join(f"{text}\n" for text in texts)
    rows = run(*COMMAND, "translate", model, "--format=jsonl", given=given)
    answers = [json.loads(row) for row in rows.split("\n")[:-1]]
    return [Output(row["text"], row.get("broken", False)) for row in answers]


def by_table(texts: Sequence[str], model: Path, folder: Path) -> Outputs:
    """Translate a column of a table."""
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(
        [["key", "text"], *((number, text) for number, text in enumerate(texts))]
    )
    table, out = folder / "strings.csv", folder / "out.csv"
    table.write_text(written.getvalue(), encoding="utf-8")
    out.unlink(missing_ok=True)
    run(*COMMAND, "translate", model, table, "--column=text", f"--output={out}")
    return [*map(Output, out.read_text(encoding="utf-8").split("\n")[:-1])]


def by_node(texts: Sequence[str], runtime: Path) -> Outputs:
    """Translate by the module of JavaScript under node."""
    program = ROOT / "tests" / "js" / "translate.mjs"
    wasm = ROOT / "regard" / "runtime" / "lib" / "wasm" / "regard.wasm"
    request = json.dumps({"lines": [*texts], "options": {}})
    answer = json.loads(run("node", program, wasm, runtime, given=request))
    return [Output(row["text"], row["broken"]) for row in answer["answers"]]


SENTENCES = """all => all.map(paragraph => [...paragraph.querySelectorAll(".line-of-text")]
  .map(sentence => sentence.textContent).filter(text => text !== "–").join(" "))"""


def by_page(texts: Sequence[str], page_file: Path) -> Outputs:
    """Translate by the page, in Chromium, text by text."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    outputs = Outputs()
    with sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_context(offline=True).new_page()
        page.goto(page_file.as_uri())
        page.wait_for_selector("#input:not([disabled])", timeout=60_000)
        for text in texts:
            page.fill("#input", text)
            page.wait_for_selector("#translation[aria-busy=false]", timeout=60_000)
            shown = page.locator("#translation p").evaluate_all(SENTENCES)
            outputs.append(Output("\n".join(shown)))
        browser.close()
    return outputs


class Form(NamedTuple):
    """A format of a request: name, and the text before and after an escaped string."""

    name: str
    before: str = ""
    after: str = ""

    def write(self, text: str) -> str:
        """Return a string as it stands in the format."""
        if self.name == "text":
            return text
        return f"{self.before}{html.escape(text, quote=False)}{self.after}"

    def read(self, text: str) -> str:
        """Return the string of a translated text, by a parser of its format."""
        if self.name == "xml":
            return "".join(ElementTree.fromstring(text).itertext())
        if self.name == "html":
            return html.unescape(re.sub(r"</?(?:p|em)>", "", text))
        return text


FORMS = {
    "text": Form("text"),
    "HTML": Form("html", "<p>", "</p>"),
    "HTML, a tag around": Form("html", "<p><em>", "</em></p>"),
    "XML": Form("xml", "<p>", "</p>"),
    "XML, a tag around": Form("xml", "<p><em>", "</em></p>"),
}


@contextmanager
def served(model: Path) -> Iterator[httpx.Client]:
    """Serve a model by `regard serve` while the context is open."""
    command = [*COMMAND, "serve", str(model), "--port=0", "--threads=2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        lines = iter(process.stderr.readline, "")
        matches = (re.search(r"listening at (\S+)", line) for line in lines)
        address = next(filter(None, matches))[1]
        try:
            with httpx.Client(base_url=address, timeout=600) as client:
                yield client
        finally:
            process.terminate()


def ask(client: httpx.Client, path: str, body: dict[str, Any]) -> Any:
    """Return the answer to a request."""
    answer = client.post(path, json=body)
    if answer.is_error:
        raise SystemExit(f"{path}: {answer.text[:2000]}")
    return answer.json()


def by_server(
    texts: Sequence[str], client: httpx.Client, path: str, form: Form
) -> Outputs:
    """Translate by one of the server's interfaces."""
    source, target = languages(client)
    outputs = Outputs()
    for start in range(0, len(texts), AT_ONCE):
        batch = [form.write(text) for text in texts[start : start + AT_ONCE]]
        if path == "/v1/translate":
            body = {"text": batch, "source": source, "target": target}
            rows = ask(client, path, body | {"format": form.name})["translations"]
            outputs += [Output(row["text"], row.get("broken", False)) for row in rows]
        elif path == "/translate":
            body = {"q": batch, "source": source, "target": target}
            answer = ask(client, path, body | {"format": form.name})
            outputs += map(Output, answer["translatedText"])
        else:
            body = {"text": batch, "source_lang": source, "target_lang": target}
            body |= {} if form.name == "text" else {"tag_handling": form.name}
            rows = ask(client, path, body)["translations"]
            outputs += [Output(row["text"]) for row in rows]
    return [Output(form.read(text), marked) for text, marked in outputs]


def languages(client: httpx.Client) -> tuple[str, str]:
    """Return the codes of the languages of a served model."""
    rows = client.get("/languages").json()
    pairs = ((row["code"], target) for row in rows for target in row["targets"])
    return next(pair for pair in pairs if pair[0] != pair[1])


def icu_names(texts: Sequence[str]) -> list[str | None]:
    """Return the arguments of messages by formatjs; None for those that it cannot read."""
    variables = {**os.environ, "NODE_PATH": str(NODE_MODULES)}
    given = json.dumps([*texts])
    names: list[str | None] = json.loads(
        run("node", "-e", ICU_READER, given=given, env=variables)
    )
    return names


def is_c_format(text: str, translation: str) -> bool:
    """Return whether msgfmt accepts a translation of a C format."""
    quoted = [json.dumps(part, ensure_ascii=False) for part in (text, translation)]
    header = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    entry = f"{header}#, c-format\nmsgid {quoted[0]}\nmsgstr {quoted[1]}\n"
    command = ["msgfmt", "--check-format", "-o", os.devnull, "-"]
    done = subprocess.run(
        command, input=entry.encode(), capture_output=True, check=False
    )
    return done.returncode == 0


def parser_faults(lines: Sequence[dict[str, Any]], outputs: Outputs) -> list[str]:
    """Return for each string the parser of its platform that refuses its translation, or ''."""
    problems = [""] * len(lines)
    icu = [i for i, line in enumerate(lines) if line["dialect"] == "icu"]
    if (NODE_MODULES / "@formatjs").is_dir():
        wanted = icu_names([lines[i]["text"] for i in icu])
        given = icu_names([outputs[i].text for i in icu])
        for i, one, other in zip(icu, wanted, given, strict=True):
            if one is not None and one != other:
                problems[i] = "formatjs"
    for i, line in enumerate(lines):
        text = line["text"]
        is_c = line["dialect"] == "c" and shutil.which("msgfmt")
        is_format = is_c and is_c_format(text, text)
        if is_format and not is_c_format(text, outputs[i].text):
            problems[i] = "msgfmt"
    return problems


def report(
    name: str,
    lines: Sequence[dict[str, Any]],
    outputs: Outputs,
    reference: Outputs,
    show: int,
) -> None:
    """Print a row of the table, and some of the strings that break in silence."""
    silent, marked, different = list[str](), 0, list[str]()
    problems = parser_faults(lines, outputs)
    for line, output, other, problem in zip(
        lines, outputs, reference, problems, strict=True
    ):
        broken = [*faults(line, output.text), *filter(None, [problem])]
        if output.is_marked or (broken and output.text.strip() == line["text"].strip()):
            marked += 1
        elif broken:
            silent.append(f"{broken}: {line['text']} → {output.text}")
        if output.text.strip() != other.text.strip():
            different.append(f"{line['text']} → {output.text} / {other.text}")
    share = f"{marked} ({marked / len(lines):.1%})"
    print(f"| {name} | {len(lines)} | {len(silent)} | {share} | {len(different)} |")
    for text in [*silent[:show], *(f"differs: {text}" for text in different[:show])]:
        print(f"  {text}", file=sys.stderr)
    sys.stdout.flush()


def read_lines(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the strings, each with its dialect, for the parsers of platforms."""
    lines = make(options.drawn, options.seed) if options.drawn else []
    for file in options.strings:
        lines += map(json.loads, file.read_text(encoding="utf-8").splitlines())
    for line in lines:
        kind = line.get("kind", "")
        line["dialect"] = line.get("dialect") or DIALECTS.get(kind, kind)
    return lines


def main() -> None:
    """Print a row for each interface."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--strings", type=Path, nargs="*", default=[])
    parser.add_argument("--drawn", type=int, default=0)
    parser.add_argument("--seed", type=int, default=9)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--show", type=int, default=5)
    parser.add_argument(
        "--only", default="", help="pattern of the rows that are wanted"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = read_lines(options)
    texts = [line["text"] for line in lines]
    print("| interface | strings | broken and silent | marked | other texts |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runtime, page = folder / "model.regard", folder / "page.html"
        run(
            *COMMAND,
            "export",
            options.model,
            "--to=runtime",
            runtime,
            "--precision=float32",
        )
        reference = by_python(texts, runtime)

        def row(name: str, translate: Callable[..., Outputs], *rest: Any) -> None:
            if re.search(options.only, name):
                outputs = translate(texts, *rest)
                report(name, lines, outputs, reference, options.show)

        row("Python, runtime file", lambda _: reference)
        row("Python, run folder", by_python, options.model)
        row("lines", by_lines, runtime)
        row("JSON lines", by_json_lines, runtime)
        row("table", by_table, runtime, folder)
        row("node", by_node, runtime)
        with served(runtime) as client:
            for path in ("/v1/translate", "/translate", "/v2/translate"):
                for form_name, form in FORMS.items():
                    if path == "/translate" and form.name == "xml":
                        continue  # LibreTranslate has no XML
                    row(f"{path}, {form_name}", by_server, client, path, form)
        if options.page:
            run(*COMMAND, "export", options.model, "--to=page", page)
            row("page", by_page, page)


if __name__ == "__main__":
    main()
