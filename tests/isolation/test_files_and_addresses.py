"""Every command, watched: no network, nothing unpickled, no file but those given, the installation
and own folders.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import torch
from helpers.cached_folders import FolderCache
from helpers.system_marks import linux, posix
from helpers.text_table import items, rows
from safetensors.torch import load_file
from training.runs import arguments, corpus, torchrun

pytest.importorskip(
    "resource", reason="commands run in forked processes, as on Linux and macOS"
)
from fuzz import fuzzer, material
from isolation.watching import TESTS, environment, events, strange

from regard.cli.app import app
from regard.cli.interchange import Toolkit, import_
from regard.cli.run_views import RUN_VIEWS
from regard.common.settings import read_toml
from regard.runtime import native

pytestmark = [pytest.mark.system, posix]
TRAIN = "--source=data/train.ko --target=data/train.en"
PAIRS = f"{TRAIN} --valid-source=data/valid.ko --valid-target=data/valid.en"
CAPTIONS = "--images=images/images --captions=images/captions.tsv"
IMAGES = f"{CAPTIONS} --valid-captions=images/valid.tsv"
TEST = "--source=data/test.ko --target=data/test.en"
SETTINGS = [*material.SETTINGS, *material.TRAINING]
SETTINGS += ["training.updates=2", "training.validate_every=1"]
SETTINGS_OF_ALL = " ".join(material.sets(*SETTINGS, *material.TRANSFORMER))
OF_IMAGES = [*SETTINGS, *material.IMAGES, *material.CAPTIONER, "training.updates=1"]
CAPTIONER_SETTINGS = " ".join(material.sets(*OF_IMAGES))
SENT_TO_PYTORCH = items("""
    pathlib.PosixPath regard.serving.pytorch_process.Folder
    regard.serving.service.SearchRequest regard.serving.service.ServedHypothesis
""")
LINE = "나는 집에 간다"
LINES = "나는 빵을 먹고 있었다\n그는 학교에 간다\n"
TO_TRAIN = f"{PAIRS} {SETTINGS_OF_ALL}"
COMMANDS = f"""
    train                  | train {TO_TRAIN} --set=data.shards=true --set=training.tensorboard=true --out=trained
    train by a recipe      | train recipe.toml --pairs=pairs.tsv {SETTINGS_OF_ALL} --out=by-recipe
    train with alignments  | train {TO_TRAIN} --alignments=data/train.align --out=guided
    train from             | train --from=translator {TRAIN} --set=training.updates=1 --out=tuned
    train dry              | train {TO_TRAIN} --out=dry --dry-run
    train resumed          | train --out=resumed --resume --set=training.updates=102
    train on images        | train {IMAGES} {CAPTIONER_SETTINGS} --set=model.encoder.weights=backbone.pth --out=on-images
    translate              | translate translator --format=jsonl --nbest=2 --alignments
    translate a file       | translate recurrent data/test.ko --output=out.txt
    translate resumed      | translate translator data/test.ko --output=marked.txt --chunk=2
    translate with         | translate translator --with=resumed --stream
    export to runtime      | export translator translator.regard --to=runtime
    export to page         | export translator page.html --to=page
    check                  | check data/test.ko data/test.en --suspects=suspects.tsv
    publish                | publish translator published
    publish a captioner    | publish captioner captioner-published
    translate a runtime file | translate translator.regard data/test.ko
    translate an import    | translate imported --precision=int8 --term=I
    caption                | caption captioner images/images --format=jsonl
    evaluate               | evaluate translator --source=data/test.ko --reference=data/test.en --by-length --figure=lengths.svg
    evaluate captions      | evaluate captioner --images=images/images --captions=images/valid.tsv --against=other
    compare                | compare translator recurrent --test-source=data/test.ko --test-target=data/test.en --test-alignments=data/test.align --hypotheses=reference=data/test.en --out=compared
    compare by training    | compare {TO_TRAIN} --presets=transformer-tiny --updates=2 --seeds=2 --no-speed --out=trained-and-compared
    compare captioners     | compare captioner --images=images/images --test-captions=images/valid.tsv --out=captions-compared
    sample                 | sample sample
    align                  | align chosen {TEST} --gold=data/test.align --choose
    align both ways        | align translator {TEST} --reverse=recurrent --output=links
    show a page            | show translator '{LINE}' --out=page.html
    show a PNG             | show translator '{LINE}' --out=heat.png --faithfulness
    show the player        | show translator '{LINE}' --out=player.gif
    show an image          | show captioner images/images/00.png --out=image.html
    export to ctranslate2  | export translator ct2 --to=ctranslate2
    export to ctranslate2 beside | export chosen --to=ctranslate2
    export to huggingface  | export imported hf --to=huggingface
    import from huggingface | import huggingface marian imported-again
    import of weights      | import huggingface marian-bin imported
    doctor                 | doctor
    doctor of a run        | doctor translator
    doctor that seals      | doctor sealed --seal
    lab                    | lab costs --out=costs
    walkthrough            | walkthrough '{LINE}' 'I go home' --out=block.html
    walkthrough of a model | walkthrough '{LINE}' --model=translator --out=layer.html
"""
"""Every way in which a command reads a folder or a file. It may read its arguments, and nothing
beside them.
"""
JOBS = {
    name: [*shlex.split(command), "--threads=1"] for name, command in rows(COMMANDS)
}
JOBS["sample"].pop()
for view in RUN_VIEWS:
    JOBS[f"show the {view}"] = [
        "show",
        "translator",
        f"--view={view}",
        f"--out={view}.svg",
    ]
ELSEWHERE = {"calibrate", "demo", "reproduce", "serve"}
"""Commands that run for minutes, doing what others do, or have a test of their own."""
FEW = ["train", "translate", "caption", "export to runtime", "import of weights"]
"""The jobs of the default run: those that read what others may have written, and that write a
model.
"""


@pytest.fixture(
    scope="module", params=["few", pytest.param("all", marks=pytest.mark.slow)]
)
def watched(
    request: pytest.FixtureRequest,
    cached: FolderCache,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """Run few or all commands in one process that is watched; return its folder."""
    folder = tmp_path_factory.mktemp("watched")
    source = cached.in_process("fuzz", fuzzer.material)
    work = folder / "work"
    for name in ("translator", "recurrent", "captioner", "marian", "data", "images"):
        shutil.copytree(source / "material" / name, work / name)

    for name in ("resumed", "chosen", "sealed"):
        shutil.copytree(work / "translator", work / name)

    shutil.copytree(work / "captioner", work / "other")
    _write_more(work)
    names = _possible(request.param)
    order = sorted(names, key=lambda name: not name.startswith("import"))
    jobs = [{"name": name, "arguments": JOBS[name], "stdin": LINES} for name in order]
    (folder / "jobs.json").write_text(json.dumps(jobs), encoding="utf-8")
    shutil.copytree(source / "cache", folder / "cache")
    process = [sys.executable, str(TESTS / "isolation" / "serve.py"), str(folder)]
    env = environment(folder, folder / "cache")
    done = subprocess.run(process, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    return folder


def _possible(which: str) -> list[str]:
    """Return the jobs that can be done, few or all: for a page, the library for browsers has to be
    built.
    """
    names = [*(FEW if which == "few" else JOBS)]
    try:
        native.wasm_file()
    except RuntimeError:
        names = [name for name in names if name not in ("export to page", "publish")]
    return names


def _write_more(work: Path) -> None:
    """Write a recipe, pairs in one file, a backbone and a Marian model in PyTorch's own format."""
    recipe = 'preset = "transformer-tiny"\n[batching]\ntokens = 500\n'
    (work / "recipe.toml").write_text(recipe, encoding="utf-8")
    sources = (work / "data/train.ko").read_text(encoding="utf-8").splitlines()
    targets = (work / "data/train.en").read_text(encoding="utf-8").splitlines()
    pairs = zip(sources, targets, strict=True)
    text = "".join(f"{source}\t{target}\n" for source, target in pairs)
    (work / "pairs.tsv").write_text(text, encoding="utf-8")

    prefix = "encoder.backbone."
    weights = load_file(work / "captioner" / "model.safetensors")
    named = [name for name in weights if name.startswith(prefix)]
    backbone = {name.removeprefix(prefix): weights[name] for name in named}
    torch.save(backbone, work / "backbone.pth")
    shutil.copytree(work / "marian", work / "marian-bin")
    marian = work / "marian-bin" / "model.safetensors"
    torch.save(load_file(marian), marian.with_name("pytorch_model.bin"))
    marian.unlink()


def test_every_command_is_watched() -> None:
    names = {
        command.name or command.callback.__name__
        for command in app.registered_commands
        if command.callback
    }
    assert {arguments[0] for arguments in JOBS.values()} | ELSEWHERE == names
    assert {f"export to {toolkit}" for toolkit in get_args(Toolkit)} <= JOBS.keys()

    kinds = get_args(get_args(get_type_hints(import_, include_extras=True)["kind"])[0])
    assert {f"import from {kind}" for kind in kinds} <= JOBS.keys()
    assert set(FEW) <= JOBS.keys()


STARTS = dict.fromkeys(("compare", "compare captioners"), f"start {sys.executable}")
"""The process in which the speed of a run is measured."""


def test_no_command_leaves_what_it_was_given(watched: Path) -> None:
    results: dict[str, dict[str, Any]] = json.loads(
        (watched / "results.json").read_bytes()
    )
    failed = [result["err"] for result in results.values() if result["status"]]
    assert failed == []

    work = watched / "work"
    own = [watched / "tmp", watched / "cache"]
    problems = {}
    for name in results:
        command = JOBS[name]
        given = [work / argument.rpartition("=")[2] for argument in command[1:]]
        given += [work / stream for stream in ("stdin", "stdout", "stderr")]
        if "--resume" in command:
            # The user's own run: its recipe names the data that it goes on with.
            recipe = read_toml(work / "resumed" / "train.toml")
            data = recipe["data"].values()
            given += [Path(path) for path in data if isinstance(path, str)]
        strangers = strange(watched / "watched" / name, given, own, work)
        if seen := [event for event in strangers if event != STARTS.get(name)]:
            problems[name] = seen
    assert problems == {}
    assert list((watched / "home").iterdir()) == []

    if (watched / "interposer.so").exists():
        # Tensors are read by Rust, exports by C++: these are seen too.
        noted = events(watched / "watched" / "translate")
        paths = [path for event, path in noted if event == "read"]
        assert any(path.endswith(".safetensors") for path in paths)


def test_a_server_opens_its_models_and_listens(watched: Path, tmp_path: Path) -> None:
    """It binds the loopback address, starts its own processes, and opens nothing but its models.

    Its process and that of PyTorch send each other calls and results, pickled, over a socket in
    their own folder.
    """
    pytest.importorskip("uvicorn", reason="needs the extra serve")
    names = ("translator", "captioner")
    texts = [LINE, "<b>나는</b> 집에 간다", "../../etc/passwd", "file:///etc/passwd"]
    for name in names:
        shutil.copytree(watched / "work" / name, tmp_path / name)

    environ = {**environment(tmp_path, watched / "cache"), "REGARD_EXPORTS": "on"}
    # The entry point, without this folder.
    code = "import sys; sys.path.remove(''); from regard.translate_stdin import main; main()"
    options = ["--languages=ko,en", "--port=0", "--threads=1"]
    command = [sys.executable, "-c", code, "serve", *names, *options]
    server = subprocess.Popen(
        command, cwd=tmp_path, env=environ, stderr=subprocess.PIPE, text=True
    )
    assert server.stderr is not None

    address = next(
        match[1]
        for line in server.stderr
        if (match := re.search(r"listening at http://([\d.:]+)", line))
    )
    content = (watched / "work/images/images/00.png").read_bytes()
    pair = {"source": "ko", "target": "en"}
    requests: dict[str, dict[str, object]] = {
        "/translate": {**pair, "q": texts, "format": "html"},
        "/detect": {"q": LINE},
        "/v1/explain": {**pair, "text": LINE},
        "/v1/caption": {"image": base64.b64encode(content).decode()},
    }
    for path, values in requests.items():
        body = json.dumps(values).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://{address}{path}", body, headers)
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 200

    server.terminate()
    server.communicate()
    given = [tmp_path / name for name in names]
    own = [tmp_path / "tmp", watched / "cache"]
    seen = strange(tmp_path / "watched" / "start", given, own, tmp_path)
    socket = re.escape(str(tmp_path / "tmp"))
    between = re.compile(rf"(bind|connect) unix:'?{socket}/regard-\w+/pytorch'?")
    strangers = {event for event in seen if not between.fullmatch(event)}
    strangers -= {f"unpickle {name}" for name in SENT_TO_PYTORCH}
    assert strangers == {
        f"start {sys.executable}",
        "bind 127.0.0.1",
        "lookup 127.0.0.1",
    }


def test_what_is_forbidden_is_seen(tmp_path: Path) -> None:
    """A process that does all of it: otherwise the tests above would prove nothing."""
    (tmp_path / "secret").mkdir()
    code = f"""if True:
        import ctypes, io, marshal, os, pickle, socket, subprocess
        from collections import OrderedDict
        from pathlib import Path
        open("secret/a", "w").close()
        Path("secret/b").write_bytes(pickle.dumps(OrderedDict()))
        pickle.load(open("secret/b", "rb"))
        os.listdir("secret")
        marshal.loads(marshal.dumps(compile("1", "secret/c", "exec")))
        exec(compile("1", "secret/d", "exec"))
        subprocess.run([{sys.executable!r}, "-c", "open('secret/e', 'w')"])
        for call in (
            lambda: ctypes.CDLL("./secret/f.so"), lambda: socket.getaddrinfo("localhost", 80),
            lambda: socket.create_connection(("127.0.0.1", 9)), lambda: socket.socket().bind(("127.0.0.1", 0)),
        ):
            try: call()
            except OSError: pass
    """
    env = environment(tmp_path, tmp_path / "cache")
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, check=True)
    log = tmp_path / "watched" / "start"
    seen = strange(log, [tmp_path / "given"], [tmp_path / "tmp"], tmp_path)
    expected = f"""
    write {tmp_path}/secret/a
    read {tmp_path}/secret/b
    list {tmp_path}/secret
    execute {tmp_path}/secret/d
    write {tmp_path}/secret/e
    start {sys.executable}
    unpickle collections.OrderedDict
    unmarshal <string>
    library ./secret/f.so
    lookup localhost
    connect 127.0.0.1
    bind 127.0.0.1
    """
    assert {line.strip() for line in expected.strip().split("\n")} <= set(seen)


@linux
@pytest.mark.slow
def test_processes_of_torchrun_speak_over_the_loopback_interface_only(
    tmp_path: Path,
) -> None:
    """torchrun's own process is not ours: its store listens on every interface, and unpickles its
    own messages.
    """
    data = corpus(tmp_path / "data")
    kinds = ("transformer", "transformer")
    short = {"updates": 2, "validate_every": 2, "sharded": "true"}
    options = arguments(data, tmp_path / "run", *kinds, **short)
    env = environment(tmp_path, tmp_path / "cache")
    command = torchrun(2, *options)
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    seen: dict[str, set[str]] = {}
    for event, what in events(tmp_path / "watched" / "start-worker"):
        seen.setdefault(event, set()).add(what.removeprefix("::ffff:"))

    addresses = seen["connect"] | seen["bind"] | seen.get("send", set())
    assert "127.0.0.1" in addresses
    assert all(address.startswith(("127.", "unix:", "::1")) for address in addresses)
    assert seen.get("lookup", set()) <= {"localhost", "127.0.0.1"}
    assert not {"unpickle", "unmarshal"} & seen.keys()
