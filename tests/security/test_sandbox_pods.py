"""Namespaces, users, mounts and the end of pods in sandboxes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.node.containers import pod_sandboxes
from dray.node.containers.container_attempts import ContainerAttempt, Starter
from dray.node.runtimes import host_users, sandbox
from dray.node.runtimes.interface import (
    Bind,
    ContainerConfigError,
    ContainerSpec,
    SecurityProfile,
)
from dray.node.runtimes.sandbox import Sandbox
from tests.security import ordinary_user
from tests.security.containers import (
    ENV,
    FOREVER,
    PodFolder,
    executed,
    output,
    shell,
    with_pod,
)
from tests.waiting import until

pytestmark = pytest.mark.skipif(not sandbox.is_usable(), reason="containers cannot be run here")

NAMESPACES = "readlink /proc/self/ns/user /proc/self/ns/net /proc/self/ns/ipc /proc/self/ns/uts"
PYTHON = "/usr/bin/python3"


def first_process(attempt: ContainerAttempt) -> int:
    """Return the child of the shim that has the id 1 in a pid namespace."""
    children = Path(f"/proc/{attempt.pid}/task/{attempt.pid}/children").read_text("ascii").split()
    for child in children:
        lines = Path(f"/proc/{child}/status").read_text("utf-8").splitlines()
        (numbers,) = (line.split()[1:] for line in lines if line.startswith("NSpid:"))
        if len(numbers) > 1 and numbers[-1] == "1":
            return int(child)
    raise AssertionError(f"no first process under shim {attempt.pid}")


def in_namespace(link: str) -> list[int]:
    """Return the processes in a pid namespace."""
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and os.readlink(f"/proc/{name}/ns/pid") == link:
                found.append(int(name))
    return found


def test_containers_of_a_pod_share_its_namespaces_and_no_others(tmp_path: Path) -> None:
    async def story(pod: PodFolder) -> None:
        attempts = [await pod.start(name, shell(NAMESPACES)) for name in ("a", "b")]
        for attempt in attempts:
            await attempt.wait()
        first, second = (output(attempt).splitlines() for attempt in attempts)
        assert first == second
        own = [os.readlink(f"/proc/self/ns/{name}") for name in ("user", "net", "ipc", "uts")]
        assert not {*first} & {*own}
        another = PodFolder(tmp_path / "pods" / "another", pod.starter)
        another.path.mkdir()
        _, other = await another.ran("c", shell(NAMESPACES))
        pod_sandboxes.end(str(another.path))
        assert not {*other.splitlines()} & {*first}

    with_pod(tmp_path, story)


def test_containers_of_a_pod_meet_on_its_loopback_and_the_agent_can_join(tmp_path: Path) -> None:
    serve = (
        "import socket; s = socket.create_server(('127.0.0.1', 8080)); print('up', flush=True)\n"
        "while True: s.accept()[0].sendall(b'hello')"
    )
    ask = "import socket; print(socket.create_connection(('127.0.0.1', 8080)).recv(9).decode())"

    async def story(pod: PodFolder) -> None:
        server = await pod.start("a", ContainerSpec((PYTHON, "-c", serve), env=ENV))
        await until(lambda: "up" in server.log.read_text("utf-8"), "the server")
        assert await pod.ran("b", ContainerSpec((PYTHON, "-c", ask), env=ENV)) == (0, "hello")
        with await pod.starter.socket_of_pod(pod.path) as made:
            loop = asyncio.get_running_loop()
            await loop.sock_connect(made, ("127.0.0.1", 8080))
            assert await loop.sock_recv(made, 9) == b"hello"
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", 8080)

    with_pod(tmp_path, story)


def test_the_only_way_out_leads_to_the_api_server(tmp_path: Path) -> None:
    ask = (
        "import socket; s = socket.create_connection(('127.0.0.1', 6443)); s.sendall(b'ping');"
        "s.shutdown(socket.SHUT_WR); print(s.makefile().read())"
    )

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"pong to " + await reader.read())
        writer.close()

    async def story(pod: PodFolder) -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            address = server.sockets[0].getsockname()
            spec = ContainerSpec((PYTHON, "-c", ask), env=ENV, api_server=address)
            assert await pod.ran("c", spec) == (0, "pong to ping")
            assert await pod.ran("d", spec) == (0, "pong to ping")

    with_pod(tmp_path, story)


def test_a_pod_without_a_sandbox_has_no_socket(tmp_path: Path) -> None:
    async def story(pod: PodFolder) -> None:
        with pytest.raises(ConnectionError):
            await pod.starter.socket_of_pod(tmp_path / "other")

    with_pod(tmp_path, story)


def test_another_agent_finds_the_sandbox_again(tmp_path: Path) -> None:
    async def story(pod: PodFolder) -> None:
        attempt = await pod.start("a", shell(f"{NAMESPACES}; exec sleep 1000"))
        before = pod_sandboxes.find(str(pod.path))
        async with Starter() as other:
            again = PodFolder(pod.path, other)
            _, text = await again.ran("b", shell(NAMESPACES))
        after = pod_sandboxes.find(str(pod.path))
        assert before is not None
        assert after is not None
        assert before.pid == after.pid
        await until(lambda: output(attempt) == text, "the same namespaces")
        attempt.kill()
        await attempt.wait()
        assert pod_sandboxes.find(str(pod.path)) is not None
        pod_sandboxes.end(str(pod.path))
        await until(lambda: pod_sandboxes.find(str(pod.path)) is None, "its end")

    with_pod(tmp_path, story)


def test_a_process_with_a_reused_id_is_not_taken_for_the_sandbox(tmp_path: Path) -> None:
    (tmp_path / pod_sandboxes.FILE).write_text(f'{{"pid": {os.getpid()}, "born": 1}}', "utf-8")
    assert pod_sandboxes.find(str(tmp_path)) is None
    pod_sandboxes.end(str(tmp_path))


def test_a_kill_ends_every_process_also_those_that_hide(tmp_path: Path) -> None:
    hide = (
        "import os, signal, time\n"
        "for number in range(1, 32):\n"
        "    if number not in (9, 19): signal.signal(number, signal.SIG_IGN)\n"
        "for _ in range(20):\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        "        if os.fork() == 0: time.sleep(1000)\n"
        "        os._exit(0)\n"
        "print('up', flush=True)\n"
        "time.sleep(1000)\n"
    )

    async def story(pod: PodFolder) -> None:
        attempt = await pod.start("c", ContainerSpec((PYTHON, "-c", hide), env=ENV))
        await until(lambda: "up" in attempt.log.read_text("utf-8"), "its children")
        code, link = await executed(attempt, "/usr/bin/readlink", "/proc/self/ns/pid")
        assert code == 0
        attempt.terminate()
        attempt.kill()
        assert (await attempt.wait()).code == 137
        await until(lambda: in_namespace(link) == [], "the end of all")

    with_pod(tmp_path, story)


def test_a_container_does_not_outlive_its_shim(tmp_path: Path) -> None:
    async def story(pod: PodFolder) -> None:
        attempt = await pod.start("c", FOREVER)
        first = first_process(attempt)
        os.kill(attempt.pid, signal.SIGKILL)
        await until(lambda: pod_sandboxes.born(first) < 0, "the end of the container")

    with_pod(tmp_path, story)


def test_no_process_of_a_container_is_root_on_the_host(tmp_path: Path) -> None:
    async def story(pod: PodFolder) -> None:
        attempt = await pod.start("c", FOREVER)
        holder = pod_sandboxes.find(str(pod.path))
        assert holder is not None
        first = first_process(attempt)
        children = Path(f"/proc/{first}/task/{first}/children").read_text("ascii").split()
        for process in (holder.pid, first, *children):
            lines = Path(f"/proc/{process}/status").read_text("utf-8").splitlines()
            fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
            allowed = os.geteuid() or host_users.mapping().host_owner[0]
            assert {*fields["Uid"].split()} == {str(allowed)}
            assert allowed >= host_users.MIN_HOST_ID
            assert int(fields["CapPrm"], 16) == 0

    with_pod(tmp_path, story)


def test_a_user_that_is_not_mapped_is_refused_with_the_way_out() -> None:
    spec = ContainerSpec(("/bin/true",), security=SecurityProfile(uid=70_000))
    with pytest.raises(ContainerConfigError, match="/etc/subuid"):
        Sandbox().command(spec, "")


def test_a_capability_that_does_not_exist_is_refused() -> None:
    spec = ContainerSpec(("/bin/true",), security=SecurityProfile(capabilities=("FLY",)))
    with pytest.raises(ContainerConfigError, match="FLY"):
        Sandbox().command(spec, "")


def test_capabilities_are_those_of_the_profile(tmp_path: Path) -> None:
    async def story(pod: PodFolder) -> None:
        security = SecurityProfile(capabilities=("CHOWN", "KILL"))
        spec = shell("grep Cap /proc/self/status", security=security)
        _, text = await pod.ran("c", spec)
        mask = f"{1 << 0 | 1 << 5:016x}"
        assert dict(line.split(":\t") for line in text.splitlines()) == {
            **{"CapInh": f"{0:016x}", "CapAmb": f"{0:016x}"},
            **dict.fromkeys(("CapPrm", "CapEff", "CapBnd"), mask),
        }

    with_pod(tmp_path, story)


def test_a_read_only_root_leaves_volumes_and_shared_memory_writable(tmp_path: Path) -> None:
    volume = tmp_path / "v"
    volume.mkdir()
    volume.chmod(0o777)
    places = "/ /tmp /root /etc /var/tmp /v /dev/shm"
    script = f"for d in {places}; do touch $d/f 2>/dev/null && echo $d; done"

    async def story(pod: PodFolder) -> None:
        spec = shell(
            script,
            binds=(Bind(str(volume), "/v", read_only=False),),
            security=SecurityProfile(has_read_only_root=True),
        )
        _, text = await pod.ran("c", spec)
        assert text.split() == ["/v", "/dev/shm"]

    with_pod(tmp_path, story)


@contextlib.contextmanager
def swapped(folder: Path, outside: Path) -> Iterator[None]:
    """Replace `folder/x` by a link to the outside and back, as fast as possible."""
    ended = threading.Event()
    (folder / "x").mkdir()
    (folder / "x" / "f").write_text("mine", "utf-8")
    (folder / "link").symlink_to(outside)

    def swap() -> None:
        while not ended.is_set():
            os.rename(folder / "x", folder / "y")
            os.rename(folder / "link", folder / "x")
            os.rename(folder / "x", folder / "link")
            os.rename(folder / "y", folder / "x")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_a_sub_path_that_becomes_a_link_meanwhile_never_shows_the_host(tmp_path: Path) -> None:
    outside, volume = tmp_path / "outside", tmp_path / "volume"
    outside.mkdir()
    (outside / "f").write_text("the host's", "utf-8")
    volume.mkdir()

    async def story(pod: PodFolder) -> None:
        bind = Bind(str(volume), "/v", read_only=False, beneath="x")
        spec = shell("cat /v/f", binds=(bind,))
        with swapped(volume, outside):
            ran = [await pod.ran(f"c{number}", spec) for number in range(20)]
        assert not [text for _, text in ran if "host" in text]

    with_pod(tmp_path, story)


@pytest.mark.parametrize("beneath", ["link", "link/f", "dir/link", "dir/../link", "../outside"])
def test_a_link_in_a_sub_path_is_not_followed(tmp_path: Path, beneath: str) -> None:
    outside, volume = tmp_path / "outside", tmp_path / "volume"
    (volume / "dir").mkdir(parents=True)
    outside.mkdir()
    (outside / "f").write_text("the host's", "utf-8")
    (volume / "link").symlink_to(outside)
    (volume / "dir" / "link").symlink_to("../../outside")

    async def story(pod: PodFolder) -> None:
        bind = Bind(str(volume), "/v", beneath=beneath)
        code, text = await pod.ran("c", shell("cat /v /v/f", binds=(bind,)))
        assert code == 128
        assert "the host's" not in text

    with_pod(tmp_path, story)


def test_a_mount_on_a_planted_link_stays_in_the_container(tmp_path: Path) -> None:
    """The target is resolved in the container's root, not in the host's."""
    outside, volume = tmp_path / "outside", tmp_path / "volume"
    outside.mkdir()
    volume.mkdir()
    (volume / "link").symlink_to(outside)
    (volume / "up").symlink_to("../../../../../../../../tmp")

    async def story(pod: PodFolder) -> None:
        for name in ("link", "up"):
            (tmp_path / name).mkdir()
            binds = (
                Bind(str(volume), "/v", read_only=False),
                Bind(str(tmp_path / name), f"/v/{name}/made-by-{name}"),
            )
            await pod.ran(name, shell("true", binds=binds))

    with_pod(tmp_path, story)
    assert [*outside.iterdir()] == []
    assert not Path("/tmp/made-by-up").exists()


@pytest.mark.parametrize("target", ["/proc", "/proc/sys", "/proc/../proc/1", "/", "/dev", "//proc"])
def test_nothing_is_mounted_on_what_the_sandbox_makes(target: str, tmp_path: Path) -> None:
    spec = ContainerSpec(("/bin/true",), binds=(Bind(str(tmp_path), target),))
    with pytest.raises(ContainerConfigError, match="nothing can be mounted"):
        Sandbox().command(spec, "")


def test_the_same_as_an_ordinary_user() -> None:
    ordinary_user.run_again(__file__)
