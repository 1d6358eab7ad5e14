"""Documents by the server: the endpoints of LibreTranslate and DeepL, their limits and owners."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
import urllib.request
import uuid
import zipfile
from pathlib import Path
from typing import Any

import deepl
import httpx
import pytest
from fake import FakeService
from helpers.office_files import docx
from helpers.time_limits import wait_until
from running_server import serving

from regard.documents import FORMATS, DocumentTranslation
from regard.requests.server_settings import ServerSettings
from regard.serving.application import create_app
from regard.serving.crash_table import CallTable
from regard.serving.documents import Documents, KeptDocument, Work
from regard.serving.http_errors import HttpError
from regard.serving.keys import add_key
from regard.serving.service import DeadlineExceeded, Overloaded

PAGE = "<!DOCTYPE html>\n<p>A <b>red</b> bike &amp; a dog.</p>\r\n<!-- kept -->\n"
TRANSLATED = "<!DOCTYPE html>\n<p>A <b>RED</b> BIKE &amp; A DOG.</p>\r\n<!-- kept -->\n"
SLOW = "<p>slow</p>"


def upload(address: str, text: str = PAGE, **form: str) -> httpx.Response:
    """Send a page to DeepL's endpoint."""
    file = {"file": ("a.html", text.encode())}
    form = {"target_lang": "KO", "source_lang": "EN", **form}
    return httpx.post(f"{address}/v2/document", data=form, files=file, timeout=60)


def of_document(
    address: str, handle: dict[str, str], path: str = "", **headers: str
) -> httpx.Response:
    """Ask for the status of a document, or for its result."""
    url = f"{address}/v2/document/{handle['document_id']}{path}"
    key = {"document_key": handle["document_key"]}
    return httpx.post(url, json=key, headers=headers, timeout=60)


def status(address: str, handle: dict[str, str]) -> Any:
    return of_document(address, handle).json()


def ended(address: str, handle: dict[str, str]) -> Any:
    """Ask for the status of a document until that is its last."""
    while (answer := status(address, handle))["status"] in ("queued", "translating"):
        pass
    return answer


def translate_file(address: str, text: str = PAGE, **form: str) -> httpx.Response:
    """Send a page to LibreTranslate's endpoint."""
    file = {"file": ("a.html", text.encode())}
    form = {"source": "en", "target": "ko", **form}
    return httpx.post(f"{address}/translate_file", data=form, files=file, timeout=60)


def test_deepl_translates_a_file(address: str, tmp_path: Path) -> None:
    client = deepl.DeepLClient("any", server_url=address)
    source = tmp_path / "a.html"
    output = tmp_path / "b.html"
    source.write_bytes(PAGE.encode())
    done = client.translate_document_from_filepath(
        source, output, source_lang="EN", target_lang="KO"
    )
    assert output.read_bytes() == TRANSLATED.encode()
    assert (done.done, done.billed_characters) == (True, len("A red bike & a dog."))
    assert client.get_usage().character.count == done.billed_characters

    client.translate_document_from_filepath(source, output, target_lang="EN-US")
    assert output.read_bytes() == PAGE.encode()  # it is English


def test_deepl_says_why_a_file_is_not_translated(address: str, tmp_path: Path) -> None:
    client = deepl.DeepLClient("any", server_url=address)
    for name, content, reason in (
        (
            "a.pdf",
            b"%PDF-1.7\n",
            "a PDF, which is not translated as it is; open it with Word",
        ),
        ("a.html", b"\xff\xfe\x00", "is not UTF-16"),
        ("a.html", b"<p>bug</p>", "the server, which its log describes"),
        ("a.html", b"<p>usage</p>", "this model cannot"),
    ):
        (tmp_path / name).write_bytes(content)
        output = tmp_path / f"out-{name}"
        with pytest.raises(deepl.DeepLException, match=reason):
            client.translate_document_from_filepath(
                tmp_path / name, output, source_lang="EN", target_lang="KO"
            )
        assert not output.exists()


def test_a_result_is_sent_once(address: str) -> None:
    handle = upload(address).json()
    assert ended(address, handle) == {
        "document_id": handle["document_id"],
        "status": "done",
        "billed_characters": 19,
    }
    for wrong in ({"document_key": "x"}, {"document_id": "x"}):
        assert of_document(address, {**handle, **wrong}).status_code == 404
    result = of_document(address, handle, "/result")
    assert result.content == TRANSLATED.encode()
    assert result.headers["content-type"] == "text/html"
    assert result.headers["content-disposition"] == (
        "attachment; filename*=UTF-8''a.ko.html"
    )
    assert "default-src 'none'" in result.headers["content-security-policy"]
    again = of_document(address, handle, "/result")
    assert again.status_code == 404
    assert "was fetched" in again.json()["message"]


def test_libretranslate_translates_a_file(address: str) -> None:
    """As its clients do: a form by hand, an address in the answer, and the file there."""
    boundary = uuid.UUID(int=5).hex
    fields = {"source": "auto", "target": "ko", "api_key": "any"}
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    ]
    parts.append(
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="dog.html"'
        f"\r\nContent-Type: text/html\r\n\r\n{PAGE}\r\n--{boundary}--\r\n"
    )
    request = urllib.request.Request(
        f"{address}/translate_file",
        "".join(parts).encode(),
        {"Content-Type": f"multipart/form-data; boundary={boundary}"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        url = json.load(answer)["translatedFileUrl"]
    assert url.startswith(f"{address}/download_file/")
    for _ in range(2):
        with urllib.request.urlopen(url, timeout=60) as answer:
            assert answer.read() == TRANSLATED.encode()
            assert "dog.ko.html" in answer.headers["content-disposition"]


def test_the_server_says_which_files_it_takes() -> None:
    with serving(FakeService()) as address:
        says = httpx.get(f"{address}/frontend/settings").json()
        formats = says.pop("supportedFilesFormat")
        assert {".html", ".docx", ".srt", ".po", ".txt"} <= {*formats}
        assert len({*formats}) == len(formats) > len(FORMATS)
        assert says == {
            "charLimit": 100_000,
            "frontendTimeout": 500,
            "apiKeys": False,
            "keyRequired": False,
            "suggestions": False,
            "filesTranslation": True,
            "language": {
                "source": {"code": "auto", "name": "Detect language"},
                "target": {"code": "en", "name": "English"},
            },
        }
    with serving(FakeService(), document_limit=0) as address:
        says = httpx.get(f"{address}/frontend/settings").json()
        assert not says["filesTranslation"]
        assert says["supportedFilesFormat"] == []
        assert translate_file(address).status_code == 403
        assert upload(address).status_code == 403


@pytest.mark.parametrize(
    ("name", "data", "written", "media_type"),
    [
        (
            "strings.xml",
            b'<resources><string name="a">A dog</string></resources>',
            "strings.xml",
            "application/xml",
        ),
        (
            "a.docx",
            docx("<w:p><w:r><w:t>A dog plays.</w:t></w:r></w:p>"),
            "a.ko.docx",
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        ),
        ("a.md", b"A dog!", "a.ko.md", "text/markdown"),
    ],
)
def test_a_file_has_its_name_and_type(
    address: str, name: str, data: bytes, written: str, media_type: str
) -> None:
    form = {"source": "en", "target": "ko"}
    url = f"{address}/translate_file"
    answer = httpx.post(url, data=form, files={"file": (name, data)}, timeout=60)
    done = httpx.get(answer.json()["translatedFileUrl"])
    assert done.headers["content-type"] == media_type
    assert done.headers["content-disposition"].endswith(f"''{written}")


def test_a_table_needs_a_column(address: str) -> None:
    form = {"source": "en", "target": "ko", "column": "text"}
    file = {"file": ("a.csv", b"id,text\n1,a dog\n")}
    url = f"{address}/translate_file"
    answer = httpx.post(url, data=form, files=file, timeout=60)
    done = httpx.get(answer.json()["translatedFileUrl"])
    assert done.content == b"id,text\n1,A DOG\n"
    form["column"] = ""
    answer = httpx.post(url, data=form, files=file, timeout=60)
    assert (answer.status_code, "`column=1`" in answer.json()["error"]) == (400, True)


def test_a_word_document_is_translated(address: str, tmp_path: Path) -> None:
    client = deepl.DeepLClient("any", server_url=address)
    source = tmp_path / "a.docx"
    source.write_bytes(docx("<w:p><w:r><w:t>A dog plays.</w:t></w:r></w:p>"))
    output = tmp_path / "b.docx"
    client.translate_document_from_filepath(
        source, output, source_lang="EN", target_lang="KO"
    )
    with zipfile.ZipFile(source) as before, zipfile.ZipFile(output) as after:
        assert after.namelist() == before.namelist()
        assert b">A DOG PLAYS.</w:t>" in after.read("word/document.xml")


def test_a_model_of_many_languages_gets_its_code(address: str) -> None:
    handle = upload(address, target_lang="FR").json()
    assert ended(address, handle)["status"] == "done"
    assert of_document(address, handle, "/result").content == TRANSLATED.encode()


def test_one_document_of_a_client_at_a_time_and_no_request_waits() -> None:
    service = FakeService()
    with serving(service, document_count=2) as address:
        slow = upload(address, SLOW).json()
        wait_until(
            lambda: status(address, slow)["status"] == "translating", "it begins"
        )
        assert of_document(address, slow, "/result").status_code == 503
        queued = upload(address).json()
        assert status(address, queued)["status"] == "queued"
        full = upload(address)
        assert (full.status_code, full.headers["retry-after"]) == (429, "60")
        assert "this client has 2 documents waiting" in full.json()["message"]

        body = {"q": "hello", "source": "en", "target": "ko"}
        answer = httpx.post(f"{address}/translate", json=body)
        assert answer.json()["translatedText"] == "HELLO"

        service.released.set()
        assert ended(address, queued)["status"] == "done"
        assert of_document(address, slow, "/result").status_code == 200
        assert upload(address).status_code == 200


def test_all_documents_together_have_a_limit() -> None:
    big = f"<p>{'a dog. ' * 1_000}</p>"
    with serving(FakeService(), document_space=15_000) as address:
        assert translate_file(address, big).status_code == 200
        answer = translate_file(address, big)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "60")
    with serving(FakeService(), document_limit=1_000) as address:
        assert translate_file(address, big).status_code == 413


def test_characters_of_documents_are_charged() -> None:
    with serving(FakeService(), character_quota=30) as address:
        assert translate_file(address).status_code == 200
        refused = upload(address)
        assert refused.status_code == 456
        assert "11 are left" in refused.json()["message"]


def test_a_document_belongs_to_its_key(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    owner, other = (add_key(path, name) for name in "ab")
    with serving(FakeService(), key_file=path, require_key=True) as address:
        assert upload(address).status_code == 403
        handle = upload(address, api_key=owner).json()
        for key, expected in ((other, 404), ("none", 403), (owner, 200)):
            headers = {"Authorization": f"DeepL-Auth-Key {key}"}
            answer = of_document(address, handle, **headers)
            assert answer.status_code == expected
        url = translate_file(address, api_key=owner).json()["translatedFileUrl"]
        assert httpx.get(url).content == TRANSLATED.encode()  # the address is secret


def test_translations_are_kept_for_a_while() -> None:
    documents = Documents(ServerSettings(document_seconds=0.01))
    result = DocumentTranslation(b"", "text/html", 0, 0, (), (), (), None)

    async def finish() -> DocumentTranslation:
        return result

    async def never() -> DocumentTranslation:
        await asyncio.Event().wait()
        return result

    async def use(work: Work) -> KeptDocument:
        document = KeptDocument("a", "a.html", 1, 1)
        documents.add(document)
        with contextlib.suppress(DeadlineExceeded):
            await documents.translate(document, work)
        assert documents.get(document.id) is document
        while True:
            await asyncio.sleep(0)
            try:
                documents.get(document.id)
            except HttpError:
                return document

    assert asyncio.run(use(finish)).status == "done"
    assert asyncio.run(use(never)).result is None


def test_work_that_has_no_room_is_tried_again() -> None:
    """The model has more to do than it can finish; the document waits."""
    documents = Documents(ServerSettings())
    result = DocumentTranslation(b"x", "text/html", 0, 0, (), (), (), None)
    tries = iter([Overloaded(0), Overloaded(0), None])

    async def work() -> DocumentTranslation:
        if problem := next(tries):
            raise problem
        return result

    async def use() -> KeptDocument:
        document = KeptDocument("a", "a.html", 9, 1)
        await documents.translate(document, work)
        return document

    document = asyncio.run(use())
    assert (document.result, document.size, document.status) == (result, 1, "done")


def test_work_of_a_client_that_has_gone_is_given_up() -> None:
    service = FakeService()
    with serving(service) as address:
        file = {"file": ("a.html", SLOW.encode())}
        form = {"source": "en", "target": "ko"}
        url = f"{address}/translate_file"
        request = httpx.Request("POST", url, data=form, files=file)
        head = "".join(
            f"{name}: {value}\r\n" for name, value in request.headers.items()
        )
        with socket.create_connection((request.url.host, request.url.port)) as client:
            client.sendall(
                f"POST /translate_file HTTP/1.1\r\n{head}\r\n".encode() + request.read()
            )
            wait_until(lambda: service.calls, "the work begins")
        wait_until(lambda: service.cancelled == ["slow"], "the work is cancelled")


def test_a_document_that_ends_the_process_of_its_model_is_refused(
    tmp_path: Path,
) -> None:
    """After three deaths, though each upload is answered, and each form has another boundary."""
    ticks = itertools.count(0.0, 10.0)
    calls = CallTable(tmp_path / "calls", lambda: next(ticks))

    async def reasons() -> list[str]:
        app = create_app(FakeService(), ServerSettings(), calls=calls)
        transport = httpx.ASGITransport(app)
        base = "http://localhost"
        async with httpx.AsyncClient(transport=transport, base_url=base) as client:
            results = []
            for _ in range(4):
                file = {"file": ("a.html", b"<p>died</p>")}
                form = {"target_lang": "KO", "source_lang": "EN"}
                answer = await client.post("/v2/document", data=form, files=file)
                handle = answer.json()
                path = f"/v2/document/{handle['document_id']}"
                answer = await client.post(path, json=handle)
                while "error_message" not in answer.json():
                    answer = await client.post(path, json=handle)
                results.append(answer.json()["error_message"])
            return results

    *first, last = asyncio.run(reasons())
    assert all("has ended and is started again" in reason for reason in first)
    assert "the server ended 3 times" in last


def test_documents_are_read_one_at_a_time() -> None:
    documents = Documents(ServerSettings())
    reading = list[int]()
    most = list[int]()

    def read() -> None:
        reading.append(1)
        most.append(len(reading))
        reading.pop()

    async def use() -> None:
        await asyncio.gather(*(documents.read(read) for _ in range(50)))

    asyncio.run(use())
    assert most == [1] * 50
