"""Load a server, and compare it with offline translation and with one request after another.

`python benchmarks/serve_load.py MODEL.regard --source FILE [--minutes 10]` starts `regard serve` on the loopback
address, and lets clients (64) send requests of ten sentences, each as soon as the last was answered, greedily. Every
answer is compared with offline output; lines of several sentences, which a server divides, are left out.
Printed: sentences per second and per second of processor time of the server's processes, offline and with CTranslate2
one request after another, as LibreTranslate does it (`--ctranslate2 FOLDER --vocabulary FILE`); times of the requests;
refused requests; memory at the end of each minute; processor time of the clients. The log of the server is kept in
.work/. A model that is hardly trained has to be given targets of a natural length by the search settings in its file
(and by `--steps`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.data.sentences import split_text

WORK = Path(__file__).resolve().parent / ".work"
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
OVERLOADED = (429, 503)


@dataclass
class Outcome:
    """What clients saw."""

    seconds: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    refused_without_retry_after: int = 0
    wrong: int = 0
    lost: int = 0
    sentences: int = 0


def main() -> None:
    """Measure, print a table, and end with one line of JSON."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the server is to end, too
    lines = [line for line in options.source.read_text("utf-8").split("\n") if len(split_text(line).lines) == 1]
    lines = lines[: options.lines]
    expected, offline = _offline(options.model, lines, options.offline_seconds)
    print(f"offline: {_speed(offline)}", flush=True)
    served, outcome, memory, clients = asyncio.run(_load(options, lines, expected))
    print(f"server:  {_speed(served)}; clients used {clients:.0f} s of processor time", flush=True)
    ordered = sorted(outcome.seconds)
    p50, p99 = (ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.99))
    print(f"requests: {dict(outcome.statuses)}, p50 {p50:.2f} s, p99 {p99:.2f} s, slowest {ordered[-1]:.2f} s")
    print(f"answers unlike offline output: {outcome.wrong} of {outcome.sentences}")
    print(f"memory in MB by minute: {' '.join(f'{value / 1e6:.1f}' for value in memory)}")
    values = {
        "throughput_at_equal_processor_time": served["per_processor_second"] / offline["per_processor_second"],
        "p99": p99,
        "wrong": outcome.wrong,
        "lost": outcome.lost,
        "refused_without_retry_after": outcome.refused_without_retry_after,
        "memory": memory[-1] / memory[0],
    }
    if options.ctranslate2:
        single = _one_after_another(options, lines)
        print(f"CTranslate2, one request after another: {_speed(single)}")
        values["times_one_after_another"] = served["per_second"] / single["per_second"]
    print(json.dumps({name: round(value, 3) for name, value in values.items()}))


def _options() -> Any:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--sentences", type=int, default=10, help="of a request")
    parser.add_argument("--deadline", type=float, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--queue", type=int, default=4096)
    parser.add_argument("--offline-seconds", type=float, default=20)
    parser.add_argument("--steps", type=int, help="tokens of every target, as the model file has it, for CTranslate2")
    parser.add_argument("--ctranslate2", type=Path, help="folder of the same model")
    parser.add_argument("--vocabulary", type=Path, help="its SentencePiece model")
    return parser.parse_args()


def _speed(run: dict[str, float]) -> str:
    return f"{run['per_second']:.1f} sentences a second, {run['per_processor_second']:.1f} a second of processor time"


def _offline(model: Path, lines: list[str], seconds: float) -> tuple[dict[str, str], dict[str, float]]:
    """Translate all lines again and again, in this process."""
    import regard

    translator = regard.load(model)
    expected = dict(zip(lines, (t.text for t in translator.translate(lines, beam=1)), strict=True))
    done, started, used = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - started < seconds:
        translator.translate(lines, beam=1)
        done += len(lines)
    wall, processor = time.perf_counter() - started, time.process_time() - used
    return expected, {"per_second": done / wall, "per_processor_second": done / processor}


async def _load(options: Any, lines: list[str], expected: dict[str, str]) -> Any:
    command = [
        sys.executable,
        "-m",
        "regard",
        "serve",
        str(options.model),
        "--port",
        "0",
        "--threads",
        str(options.threads),
    ]
    command += ["--deadline", str(options.deadline), "--queue", str(options.queue), "--char-limit", "0"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        port = next(
            int(m[1]) for line in server.stderr if (m := re.search(r"listening at http://127.0.0.1:(\d+)", line))
        )
        drain = asyncio.get_running_loop().run_in_executor(None, _keep_log, server.stderr)
        model = options.model.stem
        outcome, stop = Outcome(), asyncio.Event()
        clients = [
            asyncio.create_task(_client(port, model, lines, expected, options, outcome, stop, i))
            for i in range(options.clients)
        ]
        await asyncio.sleep(5)  # buffers have their size, the speed is known
        before, own, sentences, started = _processor(server.pid), _own(), outcome.sentences, time.perf_counter()
        outcome.seconds.clear()
        memory = []
        ends = started + 60 * options.minutes
        while time.perf_counter() < ends:
            await asyncio.sleep(min(60, max(0.1, ends - time.perf_counter())))
            memory.append(_memory(server.pid))
        wall, used, done = time.perf_counter() - started, _processor(server.pid) - before, outcome.sentences - sentences
        own = _own() - own
        stop.set()
        await asyncio.gather(*clients)
        server.terminate()
        await drain
        return {"per_second": done / wall, "per_processor_second": done / used}, outcome, memory, own
    finally:
        server.kill()
        server.wait()


def _keep_log(log: Any) -> None:
    WORK.mkdir(exist_ok=True)
    with (WORK / "serve_load.log").open("w", encoding="utf-8") as kept:
        kept.writelines(line for line in log if " 200 " not in line)


async def _client(
    port: int,
    model: str,
    lines: list[str],
    expected: dict[str, str],
    options: Any,
    outcome: Outcome,
    stop: asyncio.Event,
    seed: int,
) -> None:
    generator = random.Random(seed)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while not stop.is_set():
        chosen = generator.sample(lines, options.sentences)
        body = json.dumps({"model": model, "text": chosen, "beam": 1}).encode()
        head = f"POST /v1/translate HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        head += f"Content-Length: {len(body)}\r\n\r\n"
        started = time.perf_counter()
        writer.write(head.encode() + body)
        try:
            status, headers, answer = await _answer(reader)
        except (asyncio.IncompleteReadError, ConnectionError) as problem:
            outcome.lost += 1
            print(f"connection lost after {time.perf_counter() - started:.3f} s: {problem!r}", flush=True)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            continue
        outcome.seconds.append(time.perf_counter() - started)
        outcome.statuses[status] += 1
        if status == 200:
            texts = [item["text"] for item in json.loads(answer)["translations"]]
            outcome.wrong += sum(text != expected[line] for line, text in zip(chosen, texts, strict=True))
            outcome.sentences += len(texts)
        elif status in OVERLOADED:
            outcome.refused_without_retry_after += "retry-after" not in headers
            await asyncio.sleep(float(headers.get("retry-after", 1)))
        if headers.get("connection") == "close":
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.close()


async def _answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    return int(head[0].split()[1]), headers, await reader.readexactly(int(headers["content-length"]))


def _processes(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(process for child in children for process in _processes(int(child)))]


def _processor(pid: int) -> float:
    """Return the seconds of processor time of a process and its children."""
    fields = [Path(f"/proc/{process}/stat").read_text().rsplit(") ", 1)[1].split() for process in _processes(pid)]
    return sum(int(values[11]) + int(values[12]) for values in fields) / TICKS


def _memory(pid: int) -> int:
    """Return the resident memory of a process and its children, in bytes; shared pages count once for each."""
    pages = [int(Path(f"/proc/{process}/statm").read_text().split()[1]) for process in _processes(pid)]
    return sum(pages) * resource.getpagesize()


def _own() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _one_after_another(options: Any, lines: list[str]) -> dict[str, float]:
    """Translate requests one after the other with CTranslate2, each as a batch, as a server with a lock does."""
    import ctranslate2
    import sentencepiece

    translator = ctranslate2.Translator(str(options.ctranslate2), compute_type="int8", intra_threads=options.threads)
    processor = sentencepiece.SentencePieceProcessor(str(options.vocabulary))
    lengths = {"min_decoding_length": options.steps, "max_decoding_length": options.steps} if options.steps else {}
    generator, done, speeds = random.Random(0), 0, []
    for _ in range(3):
        done, started, used = 0, time.perf_counter(), time.process_time()
        while time.perf_counter() - started < options.offline_seconds / 2:
            batch = [
                [*processor.encode(line, out_type=str), "</s>"] for line in generator.sample(lines, options.sentences)
            ]
            results = translator.translate_batch(batch, beam_size=1, **lengths)
            done += len([processor.decode(result.hypotheses[0]) for result in results])
        wall, processor_time = time.perf_counter() - started, time.process_time() - used
        speeds.append((done / wall, done / processor_time))
    per_second, per_processor_second = sorted(speeds)[1]
    return {"per_second": per_second, "per_processor_second": per_processor_second}


if __name__ == "__main__":
    main()
