"""Requests that are made from the OpenAPI document, valid and not: answers are of a documented
status, kind and form.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import schemathesis
from fake import FakeService
from hypothesis import HealthCheck, Phase, seed, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from regard.cli.request_options import described_fields
from regard.requests.caption_request import CaptionCommand
from regard.requests.server_settings import ServerSettings
from regard.requests.translate_request import TranslateCommand
from regard.search import SearchSettings
from regard.serving.application import create_app

pytestmark = pytest.mark.system
APP = create_app(FakeService(), ServerSettings(hosts=("*",), deadline=2.0))
DOCUMENT = APP.openapi()
SCHEMA = schemathesis.openapi.from_asgi("/spec", APP)
# Of the statuses from 500 on, 503 and 504 are described, no other one is.
CHECKS = [
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]

BODIES = {
    "/translate": "alternatives api_key format q source target",
    "/translate_file": "api_key column file source target",
    "/detect": "api_key q",
    "/v2/translate": """
        context custom_instructions formality glossary_id glossary_ids ignore_tags model_type
        non_splitting_tags outline_detection preserve_formatting show_billed_characters
        source_lang split_sentences splitting_tags style_id tag_handling target_lang text
        translation_memory_id
    """,
    "/v2/document": """
        column custom_instructions file filename formality glossary_id glossary_ids output_format
        source_lang style_id target_lang translation_memory_id
    """,
    "/v2/document/{id}": "document_key",
    "/v2/document/{id}/result": "document_key",
    "/v1/translate": """
        alignments attention beam deadline_ms format length_penalty log_probs max_length model
        nbest no_repeat_ngram particles scores source split stream target text
    """,
    "/v1/caption": "attention beam deadline_ms image model nbest",
    "/v1/explain": "deadline_ms model nbest packed prefix source target text trace",
    "/v1/continuations": "count deadline_ms model prefix source target text",
    "/v1/explain_image": "deadline_ms image model",
}
"""The fields of the body of each endpoint."""
OF_HTTP_ALONE = {
    "column": "of a table that is sent",
    "file": "is sent",
    "format": "of the text that is sent, not of the output",
    "prefix": "may be token ids",
    "split": "true or false, and LibreTranslate's and DeepL's is another",
    "stream": "by events",
}
"""Fields that have the names of options and are something else."""


@SCHEMA.parametrize()
@seed(26)
@settings(
    max_examples=15,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_answers_are_as_described(case: Any) -> None:
    case.call_and_validate(checks=CHECKS)


def test_the_document_is_complete() -> None:
    """Every operation describes itself; every one that takes a body describes it, and its
    errors.
    """
    names = {
        f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]
    }
    assert {*re.findall(r'"\$ref": "(.*?)"', json.dumps(DOCUMENT))} == names

    answer = DOCUMENT["paths"]["/v1/translate"]["post"]["responses"]["200"]
    assert {*answer["content"]} == {"application/json", "text/event-stream"}

    operations = [item for path in DOCUMENT["paths"].values() for item in path.values()]
    assert len({item["operationId"] for item in operations}) == len(operations)

    for item in operations:
        assert item.get("description"), item
        assert not {"422", "500", "502"} & item["responses"].keys(), item
        if "requestBody" in item:
            assert {"400", "413", "429", "503"} <= item["responses"].keys(), item
            for content in item["requestBody"]["content"].values():
                assert content["schema"]["properties"], item


def test_bodies_have_these_fields_alone() -> None:
    """No path, address or name of a plug-in can be set from outside: whoever adds a field adds it
    here.
    """
    bodies = {}
    for path, operations in DOCUMENT["paths"].items():
        for operation in operations.values():
            content = operation.get("requestBody", {}).get("content", {})
            names = set[str]()
            for kind in content.values():
                names |= _properties(kind["schema"])
            if names:
                bodies[path] = names

    assert bodies == {path: {*names.split()} for path, names in BODIES.items()}


def test_options_in_bodies_are_described_once() -> None:
    """They have the words and the bounds of the option; n-best lists may be shorter."""
    described = (SearchSettings, CaptionCommand, TranslateCommand)
    options = {
        field.name: field.option
        for kind in described
        for field in described_fields(kind)
    }
    compared = set()
    for path in BODIES:
        content = DOCUMENT["paths"][path]["post"]["requestBody"]["content"]
        (first, *_) = content.values()
        for name, schema in first["schema"]["properties"].items():
            if name not in options or name in OF_HTTP_ALONE:
                continue
            option = options[name]
            parts = [schema, *schema.get("anyOf", ())]
            words = {part.get("description", "")[1:] for part in parts}
            bounds = {key: part[key] for part in parts for key in part}
            most = 100 if name == "nbest" else option.most

            assert option.help[1:].rstrip(".") in words, (path, name)
            assert bounds.get("minimum") == option.least, (path, name)
            assert bounds.get("maximum") == most, (path, name)
            compared.add(name)

    shared = "alignments beam length_penalty max_length nbest no_repeat_ngram particles"
    assert compared == {*shared.split()}


def _properties(schema: Any) -> set[str]:
    """Return the names of the fields of a schema, and of those that it refers to."""
    if "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].split("/")[-1]]
    names = {*schema.get("properties", {})}
    for key in ("anyOf", "allOf", "oneOf"):
        for part in schema.get(key, []):
            names |= _properties(part)
    return names
