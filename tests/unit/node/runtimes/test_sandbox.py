"""Real containers in sandboxes, each under its shim."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from dray.driverkit.cdi import DeviceNode
from dray.node.containers import container_attempts, shim, system_calls
from dray.node.containers.container_attempts import ContainerAttempt, Exit, Starter
from dray.node.runtimes import sandbox
from dray.node.runtimes.interface import Bind, ContainerSpec, SecurityProfile
from dray.node.runtimes.sandbox import Sandbox
from tests.waiting import until

pytestmark = pytest.mark.skipif(not sandbox.is_usable(), reason="containers cannot be run here")

SHELL_ENV = {"PATH": sandbox.PATH}


def shell(script: str, **fields: object) -> ContainerSpec:
    command = ("/bin/sh", "-c", script)
    return ContainerSpec(command, env=SHELL_ENV, **fields)  # type: ignore[arg-type]


def patient(folder: Path) -> ContainerSpec:
    """A container that ends when there is a file `on` in a folder."""
    script = "while [ ! -e /go/on ]; do sleep 0.05; done; echo done; exit 3"
    return shell(script, binds=(Bind(str(folder), "/go"),))


async def start(folder: Path, spec: ContainerSpec, number: int = 0) -> ContainerAttempt:
    async with Starter() as starter:
        return await starter.start(folder, number, Sandbox().command(spec, ""))


def ran(folder: Path, spec: ContainerSpec) -> tuple[int, str]:
    """The exit code and the output of a container."""

    async def run() -> Exit:
        return await (await start(folder, spec)).wait()

    code = asyncio.run(run()).code
    return code, output(folder)


def output(folder: Path) -> str:
    lines = (folder / "0" / "output.log").read_text("utf-8").splitlines()
    return "\n".join(line.split(" ", 3)[3] for line in lines)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def inside() -> None:
        async with asyncio.timeout(20):
            await test()

    asyncio.run(inside())


def test_output_and_exit_code_are_kept(tmp_path: Path) -> None:
    assert ran(tmp_path, shell("echo out; echo err >&2; exit 3")) == (3, "out\nerr")
    first, second = (tmp_path / "0" / "output.log").read_text("utf-8").splitlines()
    assert (first.split(" ")[1:3], second.split(" ")[1:3]) == (["stdout", "F"], ["stderr", "F"])


def test_a_container_sees_the_system_and_no_more(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the admin's key", "utf-8")
    home = Path.home()
    script = f"cat {secret}; ls -A /root /home /run {home}"
    _, text = ran(tmp_path / "c", shell(script))
    assert "the admin's key" not in text
    assert f"cat: {secret}: No such file or directory" in text
    listed = [line for line in text.splitlines() if line and not line.endswith(("directory", ":"))]
    assert listed == []


def test_a_container_sees_no_process_of_the_host(tmp_path: Path) -> None:
    _, text = ran(tmp_path, shell("ls -d /proc/[0-9]* | wc -l"))
    assert int(text) < 10


def test_a_container_cannot_write_to_the_system(tmp_path: Path) -> None:
    code, text = ran(tmp_path, shell("touch /usr/bin/evil"))
    assert code != 0
    assert "Read-only file system" in text


def test_only_claimed_device_nodes_are_there(tmp_path: Path) -> None:
    _, without = ran(tmp_path / "a", shell("ls /dev"))
    assert "full" in without
    assert "gpu0" not in without
    node = DeviceNode("/dev/gpu0", host_path="/dev/zero")
    _, text = ran(tmp_path / "b", shell("head -c 3 /dev/gpu0 | od -An -tx1", device_nodes=(node,)))
    assert text.split() == ["00", "00", "00"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give the rights of root")
def test_a_privileged_container_is_root_of_the_host(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    binds = (Bind(str(tmp_path / "data"), "/data", read_only=False),)
    script = "echo x > /data/file; grep CapEff /proc/self/status; ls /dev"
    _, ordinary = ran(tmp_path / "a", shell(script, binds=binds))
    assert "cannot create /data/file: Permission denied" in ordinary
    rights = SecurityProfile(is_privileged=True, is_confined=False)
    privileged = shell(script, binds=binds, security=rights, has_host_users=True)
    code, text = ran(tmp_path / "b", privileged)
    assert code == 0
    assert (tmp_path / "data" / "file").stat().st_uid == 0
    capabilities, *devices = text.splitlines()
    assert int(capabilities.split()[1], 16) == (1 << len(system_calls.CAPABILITIES)) - 1
    assert {"null", "tty0", "console"} & {*os.listdir("/dev")} <= {*devices}


def test_a_container_can_listen_on_low_ports(tmp_path: Path) -> None:
    program = "import socket; socket.create_server(('127.0.0.1', 80))"
    assert ran(tmp_path, shell(f'python3 -c "{program}"')) == (0, "")


def test_binds_are_read_only_unless_said_otherwise(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data").chmod(0o777)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "key").write_text("value", "utf-8")
    binds = (
        Bind(str(tmp_path / "data"), "/data", read_only=False),
        Bind(str(tmp_path / "config"), "/data/config"),
    )
    (tmp_path / "data" / "config").mkdir()
    script = "cat /data/config/key; echo x > /data/new; echo y > /data/config/key"
    code, text = ran(tmp_path / "c", shell(script, binds=binds))
    assert text.splitlines()[-1] == "value"
    assert "cannot create /data/config/key: Read-only file system" in text
    assert code != 0
    assert (tmp_path / "data" / "new").read_text("utf-8") == "x\n"


def test_termination_reaches_the_containers_own_processes(tmp_path: Path) -> None:
    async def test() -> None:
        script = "trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.05; done"
        attempt = await start(tmp_path, shell(script))
        await until(lambda: "ready" in attempt.log.read_text("utf-8"), "its first word")
        attempt.terminate()
        assert (await attempt.wait()).code == 7
        assert output(tmp_path) == "ready\nbye"

    run(test)


def test_termination_at_once_reaches_a_container_that_is_only_starting(tmp_path: Path) -> None:
    async def test() -> None:
        attempts = [await start(tmp_path, shell("exec sleep 60"), number) for number in range(5)]
        for attempt in attempts:
            attempt.terminate()
        assert [(await attempt.wait()).code for attempt in attempts] == [143] * 5

    run(test)


def test_a_container_that_ignores_termination_can_be_killed(tmp_path: Path) -> None:
    async def test() -> None:
        script = "trap 'echo not yet' TERM; echo ready; while :; do sleep 0.05; done"
        attempt = await start(tmp_path, shell(script))
        await until(lambda: "ready" in attempt.log.read_text("utf-8"), "its first word")
        attempt.terminate()
        await until(lambda: "not yet" in attempt.log.read_text("utf-8"), "its answer")
        assert attempt.exit() is None
        attempt.kill()
        assert (await attempt.wait()).code == 137

    run(test)


def test_a_container_outlives_who_started_it_and_its_end_is_found(tmp_path: Path) -> None:
    """An agent that is killed leaves its containers running; the next one finds how they ended."""
    code = (
        "import asyncio, os, sys\n"
        "from pathlib import Path\n"
        "from tests.unit.node.runtimes.test_sandbox import patient, start\n"
        "folder = Path(sys.argv[1])\n"
        "asyncio.run(start(folder / 'container', patient(folder / 'go')))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    (tmp_path / "go").mkdir()
    agent = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert agent.returncode == -signal.SIGKILL

    async def test() -> None:
        found = container_attempts.last_attempt(tmp_path / "container")
        assert found is not None
        assert found.exit() is None
        (tmp_path / "go" / "on").touch()
        assert (await found.wait()).code == 3
        assert output(tmp_path / "container") == "done"

    run(test)


def test_a_container_whose_shim_was_killed_is_lost_and_gone(tmp_path: Path) -> None:
    async def test() -> None:
        attempt = await start(tmp_path, shell("sleep 60"))
        process = json.loads((attempt.folder / shim.PROCESS).read_bytes())["pid"]
        os.kill(process, signal.SIGKILL)
        ended = await attempt.wait()
        assert (ended.code, ended.reason) == (137, "ContainerStatusUnknown")

    run(test)


def test_a_program_that_is_not_there_fails_with_a_message(tmp_path: Path) -> None:
    code, text = ran(tmp_path, ContainerSpec(("/no/such/program",), env=SHELL_ENV))
    assert code != 0
    assert "No such file or directory" in text


def test_the_latest_attempt_is_found(tmp_path: Path) -> None:
    async def test() -> None:
        for number in range(3):
            await (await start(tmp_path, shell(f"exit {number}"), number)).wait()
        found = container_attempts.last_attempt(tmp_path)
        assert found is not None
        assert found.number == 2
        assert found.exit() == (await found.wait())

    run(test)


def test_a_file_of_the_host_may_be_mounted_where_the_host_has_a_link_to_it(tmp_path: Path) -> None:
    """As CDI specs do with the libraries of a driver."""
    links = (each for each in Path("/usr/bin").iterdir() if each.is_symlink())
    link = next(each for each in links if os.readlink(each).startswith("/") and each.exists())
    bind = Bind(os.path.realpath(link), str(link))
    assert ran(tmp_path, shell("echo fine", binds=(bind,))) == (0, "fine")
