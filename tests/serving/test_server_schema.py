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

from regard.serving.application import create_app
from regard.serving.server_settings import ServerSettings

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
