"""Stories of pods on a network, told by a process whose network the story has made itself.

The process is the "host": it has the addresses 192.0.2.1 and 198.51.100.1, and a neighbour in
another network namespace, 192.0.2.2, which is also its gateway. Nothing here reaches the network of
the machine. Prints JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from dray.apiserver.access.certificates import Authority
from dray.apiserver.access.renewal import RenewedPair
from dray.node.containers import pod_sandboxes
from dray.node.containers import system_calls as calls
from dray.node.containers.container_attempts import NetworkHelper, Starter
from dray.node.runtimes.interface import ContainerSpec
from tests.cluster.site import Site, container, pod, with_node
from tests.security.containers import ENV, FOREVER, PodFolder, with_pod
from tests.waiting import until

PYTHON: Final = "/usr/bin/python3"
TCP, UDP = 7001, 7002
ABSTRACT: Final = "\0dray-pod-network"
GATEWAY: Final = "192.0.2.2"
HOST: Final = ("192.0.2.1", "198.51.100.1")
ADDRESSES: Final = (
    *("127.0.0.1", "127.1.2.3", "localhost", "0.0.0.0", "::", "::1", "::ffff:127.0.0.1"),
    # Where the programs have the host by default, and what stands for everybody.
    *("10.0.2.2", "10.0.2.3", "10.0.2.255", "169.254.1.1", "169.254.2.2", "255.255.255.255"),
    *("224.0.0.1", "ff02::1", "fd00::2", "fd00::3", "2001:db8::1", "2001:db8::2"),
    *(GATEWAY, *HOST),
)
PROBE: Final = f"""
import json, socket, threading
found = {{}}
def ask(*request):
    threads.append(threading.Thread(target=answer, args=request))
    threads[-1].start()
threads = []
def answer(name, family, kind, address):
    try:
        with socket.socket(family, kind) as s:
            s.settimeout(3)
            if kind == socket.SOCK_DGRAM:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
                s.sendto(b"?", address)
            else:
                s.connect(address)
            found[name] = s.recv(99).decode()
    except OSError as error:
        found[name] = ""
for host in {ADDRESSES!r}:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    ask("tcp " + host, family, socket.SOCK_STREAM, (host, {TCP}))
    ask("udp " + host, family, socket.SOCK_DGRAM, (host, {UDP}))
ask("abstract", socket.AF_UNIX, socket.SOCK_STREAM, {ABSTRACT!r})
for thread in threads:
    thread.join()
print(json.dumps(found))
"""


def serve(family: int, kind: int, address: Any, name: str) -> None:
    """Answer everybody with a name, in a thread of its own."""
    made = socket.socket(family, kind)
    if family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(address)
    if kind == socket.SOCK_STREAM:
        made.listen()

    def answer() -> None:
        while True:
            with contextlib.suppress(OSError):
                if kind == socket.SOCK_STREAM:
                    peer, _ = made.accept()
                    with peer:
                        peer.sendall(name.encode())
                else:
                    _, sender = made.recvfrom(99)
                    made.sendto(name.encode(), sender)

    threading.Thread(target=answer, daemon=True).start()


def serve_both(name: str, *hosts: str) -> None:
    for host in hosts:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        serve(family, socket.SOCK_STREAM, (host, TCP), name)
        serve(family, socket.SOCK_DGRAM, (host, UDP), name)


def neighbour() -> None:
    """Be the other machine, until the standard input ends."""
    calls.unshare(calls.CLONE_NEWNET)
    print("made", flush=True)
    sys.stdin.readline()
    serve_both("outside", "0.0.0.0", "::")
    print("serves", flush=True)
    sys.stdin.read()


@contextlib.contextmanager
def made_network() -> Iterator[None]:
    """Move this process into a network with one neighbour."""
    calls.unshare(calls.CLONE_NEWNET)
    argv = [sys.executable, "-m", __spec__.name if __spec__ else "", "neighbour", ""]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "made\n"
        ip("link set lo up")
        ip(f"link add here type veth peer name there netns {other.pid}")
        for address in ("192.0.2.1/24", "198.51.100.1/32", "2001:db8::1/64"):
            ip(f"addr add {address} dev here {'nodad' if ':' in address else ''}")
        ip("link set here up")
        for command in (
            *("link set lo up", "addr add 192.0.2.2/24 dev there", "link set there up"),
            *("addr add 2001:db8::2/64 dev there nodad",),
        ):
            ip(command, "nsenter", "-t", str(other.pid), "-n")
        ip("route add default via 192.0.2.2")
        ip("-6 route add default via 2001:db8::2")
        other.stdin.write("go\n")
        other.stdin.flush()
        assert other.stdout.readline() == "serves\n"
        yield
        other.stdin.close()


def ip(command: str, *before: str) -> None:
    subprocess.run([*before, "ip", *command.split()], check=True)


def helper(kind: str) -> NetworkHelper:
    return NetworkHelper(kind, f"/usr/bin/{kind}")


def reach(kind: str) -> object:
    """Return what a pod gets from every address: the name of who answers."""
    serve_both("loopback", "127.0.0.1", "::1")
    serve_both("host", *HOST)
    serve(socket.AF_UNIX, socket.SOCK_STREAM, ABSTRACT, "abstract")
    found: dict[str, str] = {}

    async def story(made: PodFolder) -> None:
        spec = ContainerSpec((PYTHON, "-c", PROBE), env=ENV, network_helper=helper(kind))
        code, text = await made.ran("c", spec)
        assert code == 0, text
        found.update(json.loads(text))

    _with_folder(lambda folder: with_pod(folder, story))
    return found


def helpers_of(folder: Path, kind: str) -> list[int]:
    """Return the processes of a program that are attached to the pod in this folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            mine = os.readlink(entry / "ns/net") == os.readlink("/proc/self/ns/net")
            if mine and words[0].decode().endswith(f"/{kind}"):
                found.append(int(entry.name))
    return found


def rights(kind: str) -> object:
    """Return the rights of the program, and whether it outlives the agent but not the pod."""
    found: dict[str, Any] = {}

    async def story(made: PodFolder) -> None:
        async with Starter() as starter:
            folder = PodFolder(made.path, starter)
            spec = ContainerSpec(FOREVER.command, env=ENV, network_helper=helper(kind))
            attempt = await folder.start("c", spec)
        processes = helpers_of(made.path, kind)
        found["count"] = len(processes)
        lines = Path(f"/proc/{processes[0]}/status").read_text("utf-8").splitlines()
        status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        for name in ("Uid", "Gid", "Groups", "NoNewPrivs", "Seccomp"):
            found[name] = status[name].split()
        found["environment"] = Path(f"/proc/{processes[0]}/environ").read_text("utf-8")
        root = Path(f"/proc/{processes[0]}/root")
        found["sees the pod"] = (root / str(made.path).lstrip("/")).exists()
        found["sees homes"] = any((root / name).exists() for name in ("root", "home", "var"))
        attempt.kill()
        await attempt.wait()
        found["after the container"] = len(helpers_of(made.path, kind))
        pod_sandboxes.end(str(made.path))
        await until(lambda: not helpers_of(made.path, kind), "its end")

    _with_folder(lambda folder: with_pod(folder, story))
    return found


def agent(kind: str) -> object:
    """Return what a pod of a whole cluster says that has to reach the neighbour."""
    ask = f"import socket; print(socket.create_connection(('{GATEWAY}', {TCP})).recv(9).decode())"
    found: list[str] = []

    async def story(here: Site) -> None:
        await here.world.create(pod("p", container(f'python3 -c "{ask}"', name="main")))
        found.append((await here.output("p")).strip())

    with_node(story, pod_network=kind)
    return found


def api_server(kind: str) -> object:
    """Return the answers that a client in a pod of `dray up` gets from the API server."""
    found: list[str] = []
    with tempfile.TemporaryDirectory(prefix="dray-") as folder:
        authority = Authority.load_or_create(Path(folder))
        pair = RenewedPair(lambda: authority.server_pair(("127.0.0.1",)))
        # The container gets it as a variable: it has no file of the host.
        text = authority.certificate.decode()
        client = (
            "import os, ssl, urllib.request as u; c = ssl.create_default_context(cadata=os.environ"
            "['CA']); print(u.urlopen('https://127.0.0.1:6443/version', context=c).read())"
        )
        fields: Any = {"env": [{"name": "CA", "value": text}]}

        async def story(here: Site) -> None:
            cluster = here.world.cluster
            server = cluster.opened.server
            async with server.listening("127.0.0.1", 0, pair, authority.certificate) as url:
                cluster.network.api_server = ("127.0.0.1", int(url.rpartition(":")[2]))
                script = f'exec python3 -c "{client}"'
                await here.world.create(pod("p", container(script, **fields)))
                found.append(await here.output("p"))

        with_node(story, pod_network=kind)
    return found


def _with_folder(story: Callable[[Path], None]) -> None:
    with tempfile.TemporaryDirectory(prefix="dray-") as folder:
        story(Path(folder))


STORIES: Final = {"reach": reach, "rights": rights, "agent": agent, "api_server": api_server}


def main() -> None:
    name, kind = sys.argv[1:]
    if name == "neighbour":
        neighbour()
        return
    with made_network():
        print(json.dumps(STORIES[name](kind)), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
