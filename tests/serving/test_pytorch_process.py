"""The process of PyTorch: calls, their errors and streams, calls that are given up, and its end."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from helpers.small_models import SENTENCES, folder
from helpers.time_limits import wait_until

from regard.common.errors import ModelFolderError, UsageError
from regard.common.processes import module_command
from regard.common.stopping import Stopped, stopped_by
from regard.pipeline import load_translator
from regard.serving import pytorch_models
from regard.serving.pytorch_process import (
    Folder,
    ProcessAway,
    ProcessDied,
    PyTorchProcess,
    RemoteModel,
    _OpenFolders,
)
from regard.serving.service import DocumentFile, SearchRequest, ServedText, TextRequest

pytestmark = pytest.mark.system


@pytest.fixture
def process(tmp_path: Path) -> Iterator[PyTorchProcess]:
    """Return a process that is started when it is needed, and again if it has ended.

    The first does not wait for its calls when it is to end.
    """
    address = str(tmp_path / "pytorch")
    key = "0123"
    running = list[subprocess.Popen[str]]()

    def start() -> None:
        if running and running[-1].poll() is None:
            return
        command = module_command("regard.serving.pytorch_process")
        started = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)

        assert started.stdin is not None

        configuration = {
            "pytorch": {"address": address, "authkey": key},
            "end_seconds": 60 if running else 0,
        }
        started.stdin.write(json.dumps(configuration) + "\n")
        started.stdin.flush()
        running.append(started)

    one = PyTorchProcess(address, key, start)
    one.running = running  # type: ignore[attr-defined]
    yield one
    for started in running:
        assert started.stdin is not None
        started.stdin.close()  # which ends it
        started.wait(60)


def test_a_model_of_another_process_is_the_model(
    tmp_path: Path, process: PyTorchProcess
) -> None:
    run = folder(tmp_path / "run", end=0.5)
    given = Folder(run, "float32", 1, 10**7, ())
    model = process.open(given)
    request = TextRequest(SearchRequest(beam=2, attention="all"))
    texts = model.translate(SENTENCES, request, 60.0)

    assert texts[0].lines[0].hypotheses[0].attention

    expected = load_translator(run).translate(SENTENCES, beam=2)
    assert [text.text for text in texts] == [one.text for one in expected]

    *parts, whole = model.stream(SENTENCES[0], TextRequest())
    assert isinstance(whole, ServedText)
    assert "".join(words for _, words in parts) == whole.text
    with pytest.raises(UsageError, match="beam"):
        model.translate(SENTENCES, TextRequest(SearchRequest(beam=1000)), 60.0)
    with pytest.raises(ModelFolderError):
        process.open(given._replace(path=tmp_path / "missing"))

    page = DocumentFile(f"<p>{SENTENCES[0]}</p>".encode(), "a.html")
    document = model.translate_document(page, TextRequest())
    assert (
        document.data
        == f"<p>{model.translate(SENTENCES[:1], TextRequest(), 60.0)[0].text}</p>".encode()
    )

    stop = threading.Event()
    stop.set()
    with stopped_by(stop), pytest.raises(Stopped):
        model.translate(SENTENCES * 5000, TextRequest(), 60.0)
    assert isinstance(end_during_a_call(process, model), ProcessDied)
    with pytest.raises(ProcessAway):
        model.translate(SENTENCES, TextRequest(), 60.0)

    again = process.open(given)
    assert again.translate(SENTENCES, request, 60.0)
    assert isinstance(end_during_a_call(process, again), ServedText)


def test_calls_go_on_while_another_version_of_their_folder_is_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = list[str]()
    released = threading.Event()

    def open_folder(*_: Any) -> str:
        opened.append(f"version {len(opened)}")
        assert len(opened) == 1 or released.wait(60)
        return opened[-1]

    monkeypatch.setattr(pytorch_models, "open_folder", open_folder)
    folders = _OpenFolders()
    old = Folder(Path("run"), "float32", 1, 10**7, (), version=1)

    assert folders.get(old) == "version 0"

    with ThreadPoolExecutor(8) as threads:
        later = [threads.submit(folders.get, old._replace(version=2)) for _ in range(4)]
        wait_until(lambda: len(opened) == 2, "it is being opened")
        during = threads.submit(folders.get, old)
        wait_until(during.done, "the call has its model")

        assert during.result() == "version 0"

        released.set()
        assert {call.result() for call in later} == {"version 1"}

    assert folders.get(old) == "version 1"


def end_during_a_call(process: Any, model: RemoteModel) -> ServedText | ProcessDied:
    """Let the process end in the middle of a call. Returns the last result of that, or its
    error.
    """
    (*_, running) = process.running
    parts = model.stream("\n".join(SENTENCES * 100), TextRequest())
    next(parts)
    running.stdin.close()
    try:
        *_, last = parts
    except ProcessDied as problem:
        return problem
    finally:
        running.wait(60)
    return last
