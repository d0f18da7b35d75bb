"""What a program in a container can touch is what a checked-in list says, and nothing else."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dray.driverkit.cdi import DeviceNode
from dray.node.runtimes import sandbox
from dray.node.runtimes.interface import Bind, ContainerSpec
from tests.security import ordinary_user
from tests.security.containers import ENV, PodFolder, with_pod

pytestmark = pytest.mark.skipif(not sandbox.is_usable(), reason="containers cannot be run here")

HERE = Path(__file__).parent
ALLOWED = json.loads((HERE / "allowed.json").read_text("utf-8"))
PYTHON = "/usr/bin/python3"
NODE = "/dev/zero"


@contextmanager
def listeners() -> Iterator[dict[str, Any]]:
    """Listen as a service of the host does, on its loopback and on an abstract socket."""
    name = f"dray-probe-{os.getpid()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        abstract.bind("\0" + name)
        abstract.listen()
        yield {"port": tcp.getsockname()[1], "abstract": name, "process": os.getpid()}


def touched(folder: Path, **fields: Any) -> dict[str, Any]:
    """Return what the probe says in a container with these fields."""
    found: dict[str, Any] = {}
    binds = (Bind(str(HERE / "probe.py"), "/probe.py"), *fields.pop("binds", ()))

    async def story(pod: PodFolder) -> None:
        with listeners() as known:
            command = (PYTHON, "/probe.py", json.dumps(known))
            code, text = await pod.ran("c", ContainerSpec(command, env=ENV, binds=binds, **fields))
        assert code == 0, text
        found.update(json.loads(text))

    with_pod(folder, story)
    return found


def unexpected(found: dict[str, Any], allowed: dict[str, Any]) -> dict[str, Any]:
    """Return what was touched and is not allowed, by the names of the probe."""
    wrong: dict[str, Any] = {}
    for name, value in found.items():
        expected = allowed[name]
        if name in ("devices", "writable", "interfaces", "sockets"):
            left = sorted({*value} - {*expected})
        elif name == "mounts":
            left = sorted(f"{path}: {how}" for path, how in value.items() if how not in expected)
        else:
            left = [] if value in expected else value
        if left:
            wrong[name] = left
    return wrong


def test_a_container_touches_what_is_allowed(tmp_path: Path) -> None:
    assert unexpected(touched(tmp_path), ALLOWED) == {}


def test_a_container_with_a_claim_touches_its_device_and_volume_too(tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.write_text("of the driver", "utf-8")
    volume = tmp_path / "volume"
    volume.mkdir()
    volume.chmod(0o777)
    found = touched(
        tmp_path,
        device_nodes=(DeviceNode("/dev/gpu0", host_path=NODE),),
        binds=(Bind(str(library), "/opt/driver"), Bind(str(volume), "/v", read_only=False)),
    )
    more = {
        "devices": ["/dev/gpu0"],
        "mounts": ["devtmpfs rw,nosuid", "disk rw,nosuid,nodev"],
        "writable": ["/dev/gpu0", "/v"],
    }
    allowed = {name: [*value, *more.get(name, ())] for name, value in ALLOWED.items()}
    assert unexpected(found, allowed) == {}
    assert {*more["devices"]} <= {*found["devices"]}
    assert {*more["writable"]} <= {*found["writable"]}
    assert stat.S_ISCHR(os.stat(NODE).st_mode)


def test_outside_a_container_the_probe_finds_more(tmp_path: Path) -> None:
    """A probe that sees nothing would find nothing wrong."""
    with listeners() as known:
        argv = [sys.executable, str(HERE / "probe.py"), json.dumps(known)]
        ran = subprocess.run([*argv, "--connect"], capture_output=True, check=True, cwd=tmp_path)
    assert json.loads(ran.stdout) == {
        "abstract": "allowed",
        "loopback": "allowed",
        "outside": "allowed",
    }


def test_the_same_as_an_ordinary_user() -> None:
    ordinary_user.run_again(__file__)
