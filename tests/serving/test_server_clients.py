"""The five clients, as they are published, against the server: two for LibreTranslate in Python,
one in node, DeepL's.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import deepl
import pytest
from deep_translator import LibreTranslator
from deep_translator.exceptions import AuthorizationException, ServerException
from libretranslatepy import LibreTranslateAPI

from regard.serving.keys import add_key

pytestmark = pytest.mark.system
TEXT = "Hello there. How are you?\n\n  안녕 & <b>x</b> +%"
TRANSLATED = "HELLO THERE. HOW ARE YOU?\n\n  안녕 & <b>X</b> +%"


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deepl.http_client, "max_network_retries", 0)


def test_libretranslatepy(address: str) -> None:
    client = LibreTranslateAPI(address, "any")
    assert client.translate(TEXT, "en", "ko") == TRANSLATED
    assert client.translate("안녕 hi", "auto", "en") == "안녕 HI"
    assert client.detect("안녕")[0] == {"confidence": 98.0, "language": "ko"}
    assert {
        "code": "ko",
        "name": "Korean",
        "targets": ["en", "ko"],
    } in client.languages()


def test_deep_translator(address: str) -> None:
    client = LibreTranslator("en", "ko", "any", custom_url=f"{address}/")
    assert client.translate(TEXT) == TRANSLATED.strip()
    assert client.translate_batch(["one", "two"]) == ["ONE", "TWO"]
    with pytest.raises(ServerException, match="ERR_SERVICE_NOT_AVAIBLE"):
        client.translate("overload")


def test_deepl_python(address: str) -> None:
    client = deepl.Translator("any", server_url=address)
    one = client.translate_text(TEXT, target_lang="KO", source_lang="EN")
    assert (one.text, one.detected_source_lang) == (TRANSLATED, "EN")
    assert one.billed_characters == len(TEXT)

    many = client.translate_text(["hi", "안녕", ""], target_lang="EN-US")
    assert [item.text for item in many] == ["hi", "안녕", ""]
    assert [item.detected_source_lang for item in many] == ["EN", "KO", "KO"]

    page = "<p>hello <x>a</x></p>"
    options = {"ignore_tags": ["y", "z"], "formality": "prefer_more"}
    marked = client.translate_text(
        page, target_lang="KO", tag_handling="html", **options
    )

    assert marked.text == "<p>HELLO <x>A</x></p>"

    german = client.get_source_languages()[0]
    assert (german.code, german.name) == ("DE", "German")

    targets = {language.code: language for language in client.get_target_languages()}
    assert targets.keys() >= {"EN-GB", "FR"}
    assert targets["EN-US"].name == "English (American)"
    assert targets["EN-US"].supports_formality is False

    usage = client.get_usage()
    assert usage.character.count == len(TEXT) + 4 + len(page)
    assert not usage.any_limit_reached
    assert client.list_glossaries() == []
    assert client.get_glossary_languages() == []


def test_errors_of_deepl_python(address: str) -> None:
    client = deepl.Translator("any", server_url=address)
    for text, options, sentence in (
        ("overload", {}, "Too many requests.*more to do"),
        ("deadline", {}, "Service unavailable, message: not done within"),
        ("hi", {"source_lang": "XX"}, 'Bad request, message: the source language "XX"'),
        ("hi", {"source_lang": "EN", "glossary": "12"}, "Not found.*glossary"),
    ):
        with pytest.raises(deepl.DeepLException, match=sentence):
            client.translate_text(text, target_lang="KO", **options)


def test_keys_and_quotas(serve: Callable[..., str], tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    key = add_key(file, "one")
    address = serve(key_file=str(file), require_key=True, character_quota=10)
    known = LibreTranslator("en", "ko", key, custom_url=f"{address}/")

    assert known.translate("hello") == "HELLO"

    unknown = LibreTranslator("en", "ko", "any", custom_url=f"{address}/")
    with pytest.raises(AuthorizationException):
        unknown.translate("hello")

    client = deepl.Translator(key, server_url=address)
    assert client.translate_text("hello", target_lang="KO").text == "HELLO"
    assert client.get_usage().any_limit_reached
    with pytest.raises(deepl.QuotaExceededException, match="0 are left"):
        client.translate_text("hello", target_lang="KO")

    stranger = deepl.Translator("other", server_url=address)
    with pytest.raises(deepl.AuthorizationException, match="not known"):
        stranger.translate_text("hello", target_lang="KO")


CLIENTS_OF_NODE = """
  const { translate } = require("libretranslate"), deepl = require("deepl-node");
  const [apiurl, query, page, output] = process.argv.slice(1), result = {};
  const note = async (name, work) => {
    try { result[name] = await work } catch (error) { result[name] = error.message }
  };
  (async () => {
    const hello = { query, target: "ko", apiurl, apiKey: "any" };
    await note("text", translate({ ...hello, source: "en" }));
    await note("html", translate({ ...hello, source: "en", format: "html" }));
    await note("detected", translate({ ...hello, query: "안녕", target: "en" }));
    await note("refused", translate({ ...hello, target: "xx" }));
    const client = new deepl.Translator("any", { serverUrl: apiurl, maxRetries: 0 });
    const options = { tagHandling: "xml", ignoreTags: ["a"], splitSentences: "nonewlines" };
    await note("one", client.translateText(query, "en", "ko"));
    await note("many", client.translateText(["hi", "안녕"], null, "en-US"));
    await note("marked", client.translateText(query, "en", "ko", options));
    await note("sources", client.getSourceLanguages());
    await note("targets", client.getTargetLanguages());
    await note("usage", client.getUsage());
    await note("document", client.translateDocument(page, output, "en", "ko"));
    await note("unknown", client.translateText("x", "xx", "ko"));
    await note("crowded", client.translateText("overload", "en", "ko"));
    console.log(JSON.stringify(result));
  })();
"""


def test_clients_of_node(
    address: str, node: str, node_modules: Path, tmp_path: Path
) -> None:
    """Both, in one script of CommonJS."""
    page, output = tmp_path / "a.html", tmp_path / "b.html"
    page.write_text("<p>a <b>dog</b></p>")
    done = subprocess.run(
        [node, "-e", CLIENTS_OF_NODE, address, "hello <b>there</b>", page, output],
        env={**os.environ, "NODE_PATH": str(node_modules)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr

    result = json.loads(done.stdout)
    assert result["text"] == result["html"] == "HELLO <b>THERE</b>"
    assert result["detected"] == "안녕"
    assert "not found" in result["refused"]
    assert result["one"]["text"] == result["marked"]["text"] == "HELLO <b>THERE</b>"
    assert result["one"]["detectedSourceLang"] == "en"
    assert [item["text"] for item in result["many"]] == ["hi", "안녕"]
    assert {"ko", "en"} <= {language["code"] for language in result["sources"]}
    assert {"en-US", "pt-BR"} <= {language["code"] for language in result["targets"]}
    assert result["usage"]["character"]["count"] == 78
    assert result["document"] == {"status": "done", "billedCharacters": 5}
    assert output.read_text() == "<p>A <b>DOG</b></p>"
    assert "Bad request" in result["unknown"]
    assert "Too many requests" in result["crowded"]
