"""The five clients, as they are published, against the server: two for LibreTranslate in Python,
one in node, DeepL's.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deepl
import pytest
from deep_translator import LibreTranslator
from deep_translator.exceptions import AuthorizationException, ServerException
from fake import FakeService
from libretranslatepy import LibreTranslateAPI

from regard.serving.keys import add_key

pytestmark = pytest.mark.system
TEXT = "Hello there. How are you?\n\n  안녕 & <b>x</b> +%"
TRANSLATED = "HELLO THERE. HOW ARE YOU?\n\n  안녕 & <b>X</b> +%"


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deepl.http_client, "max_network_retries", 0)


def run_node(script: str, modules: Path, *arguments: str) -> Any:
    """Run a script as CommonJS with these packages; it prints one line of JSON."""
    done = subprocess.run(
        ["node", "-e", script, *arguments],
        env={**os.environ, "NODE_PATH": str(modules)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


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


def test_npm_libretranslate(
    address: str, node_modules: Path, service: FakeService
) -> None:
    script = """
        const {translate} = require("libretranslate"), [apiurl, query] = process.argv.slice(1);
        (async () => {
          const texts = [];
          for (const format of ["text", "html"])
            texts.push(await translate({query, source: "en", target: "ko", format, apiurl, apiKey: "any"}));
          texts.push(await translate({query: "안녕", target: "en", apiurl}));
          let refused = "";
          try { await translate({query, target: "xx", apiurl}) } catch (error) { refused = error.message }
          console.log(JSON.stringify([...texts, refused]));
        })();"""
    text, html, detected, refused = run_node(
        script, node_modules, address, "hello <b>there</b>"
    )
    assert text == "HELLO <b>THERE</b>"
    assert html == "HELLO <b>THERE</b>"
    assert detected == "안녕"
    assert "not found" in refused
    assert service.calls[-1][0] == "ko-en"


def test_deepl_python(address: str) -> None:
    client = deepl.Translator("any", server_url=address)
    one = client.translate_text(TEXT, target_lang="KO", source_lang="EN")
    assert (one.text, one.detected_source_lang) == (TRANSLATED, "EN")
    assert one.billed_characters == len(TEXT)
    many = client.translate_text(["hi", "안녕", ""], target_lang="EN-US")
    assert [item.text for item in many] == ["hi", "안녕", ""]
    assert [item.detected_source_lang for item in many] == ["EN", "KO", "KO"]
    page = "<p>hello <x>a</x></p>"
    options = {
        "tag_handling": "html",
        "ignore_tags": ["y", "z"],
        "formality": "prefer_more",
    }
    assert (
        client.translate_text(page, target_lang="KO", **options).text
        == "<p>HELLO <x>A</x></p>"
    )
    assert "KO" in {str(language) for language in client.get_source_languages()}
    assert {"EN-US", "EN-GB", "FR"} <= {
        str(language) for language in client.get_target_languages()
    }
    usage = client.get_usage()
    assert usage.character.count == len(TEXT) + 4 + len(page)
    assert not usage.any_limit_reached
    assert client.list_glossaries() == []
    assert client.get_glossary_languages() == []


def test_errors_of_deepl_python(address: str) -> None:
    client = deepl.Translator("any", server_url=address)
    with pytest.raises(deepl.exceptions.TooManyRequestsException, match="more to do"):
        client.translate_text("overload", target_lang="KO", source_lang="EN")
    with pytest.raises(
        deepl.DeepLException, match="Service unavailable, message: not done within"
    ):
        client.translate_text("deadline", target_lang="KO", source_lang="EN")
    with pytest.raises(
        deepl.DeepLException, match='Bad request, message: the source language "XX"'
    ):
        client.translate_text("hi", target_lang="KO", source_lang="XX")
    with pytest.raises(deepl.DeepLException, match=r"Not found.*glossary"):
        client.translate_text("hi", target_lang="KO", source_lang="EN", glossary="12")


def test_keys_and_quotas(serve: Callable[..., str], tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    key = add_key(file, "one")
    address = serve(key_file=str(file), require_key=True, character_quota=10)
    assert (
        LibreTranslator("en", "ko", key, custom_url=f"{address}/").translate("hello")
        == "HELLO"
    )
    with pytest.raises(AuthorizationException):
        LibreTranslator("en", "ko", "any", custom_url=f"{address}/").translate("hello")
    client = deepl.Translator(key, server_url=address)
    assert client.translate_text("hello", target_lang="KO").text == "HELLO"
    assert client.get_usage().any_limit_reached
    with pytest.raises(deepl.QuotaExceededException, match="0 are left"):
        client.translate_text("hello", target_lang="KO")
    with pytest.raises(deepl.AuthorizationException, match="not known"):
        deepl.Translator("other", server_url=address).translate_text(
            "hello", target_lang="KO"
        )


def test_npm_deepl(address: str, node_modules: Path) -> None:
    script = """
        const deepl = require("deepl-node"), [serverUrl, text] = process.argv.slice(1);
        (async () => {
          const client = new deepl.Translator("any", {serverUrl, maxRetries: 0});
          const one = await client.translateText(text, "en", "ko");
          const many = await client.translateText(["hi", "안녕"], null, "en-US");
          const marked = await client.translateText("<p>hello</p>", "en", "ko",
            {tagHandling: "xml", ignoreTags: ["a", "b"], outlineDetection: false, splitSentences: "nonewlines"});
          const sources = (await client.getSourceLanguages()).map((language) => language.code);
          const targets = (await client.getTargetLanguages()).map((language) => language.code);
          const usage = await client.getUsage();
          let refused = "", crowded = "";
          try { await client.translateText("x", "xx", "ko") } catch (error) { refused = error.message }
          try { await client.translateText("overload", "en", "ko") } catch (error) { crowded = error.constructor.name }
          console.log(JSON.stringify({one, many, marked, sources, targets, count: usage.character.count,
                                      refused, crowded}));
        })();"""
    result = run_node(script, node_modules, address, TEXT)
    one = {
        "text": TRANSLATED,
        "detectedSourceLang": "en",
        "billedCharacters": len(TEXT),
    }
    assert result["one"] == one
    assert [item["text"] for item in result["many"]] == ["hi", "안녕"]
    assert result["marked"]["text"] == "<p>HELLO</p>"
    assert {"ko", "en"} <= set(result["sources"])
    assert {"en-US", "pt-BR"} <= set(result["targets"])
    assert result["count"] == len(TEXT) + 4 + 12
    assert "Bad request" in result["refused"]
    assert result["crowded"] == "TooManyRequestsError"
