"""podman: what a pod chooses stays a value, and containers have no rights on the host."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import stat
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from dray.api import kinds
from dray.api.types.meta import JsonObject
from dray.driverkit.cdi import DeviceNode
from dray.node.limits.groups import ContainerLimits
from dray.node.runtimes import podman, podman_arguments
from dray.node.runtimes.interface import (
    Bind,
    ContainerConfigError,
    ContainerSpec,
    ImageError,
    ResourceLimits,
    SecurityProfile,
)
from dray.node.runtimes.podman import Podman
from tests.cluster import test_podman
from tests.cluster.site import Site, pod, with_node
from tests.cluster.test_podman import IMAGE, in_image, why_not
from tests.waiting import block_until

pytestmark = pytest.mark.xdist_group("podman")

MI: Final = 2**20
WITH_VALUE: Final = {
    *("--log-driver", "--network", "--cgroupns", "--hostname", "--systemd", "--sdnotify"),
    *("--ulimit", "--uidmap", "--gidmap", "--cap-drop", "--cap-add", "--security-opt", "--user"),
    *("--group-add", "--cpus", "--cpu-shares", "--memory", "--memory-swap", "--pids-limit"),
    *("--env-file", "--volume", "--device", "--workdir", "--entrypoint"),
}
ALONE: Final = {
    *("--no-hosts", "--http-proxy=false", "--interactive", "--tty"),
    *("--read-only", "--read-only-tmpfs=false"),
}
needs_podman = pytest.mark.skipif(bool(why_not()), reason=f"podman cannot be tried: {why_not()}")
image = pytest.fixture(scope="module")(test_podman.made_image)


def values(arguments: list[str], option: str) -> list[str]:
    return [value for name, value in options(arguments) if name == option]


def options(arguments: list[str]) -> Iterator[tuple[str, str]]:
    """The options as podman reads them, each of which must be one that dray gives."""
    parts = iter(arguments)
    for part in parts:
        if part == "--":
            return
        if part in WITH_VALUE:
            yield part, next(parts)
        else:
            assert part in ALONE, f"{part} became an option"
            yield part, ""


HOSTILE: Final = (
    *(
        "--privileged",
        "-v=/:/host",
        "--volume=/:/host",
        "-h",
        "--",
        "-",
        "--env-host",
        "--pid=host",
    ),
    *(
        "--net=host",
        "--security-opt=seccomp=unconfined",
        "--cap-add=all",
        "--rootfs",
        "--userns=host",
    ),
)


def test_privileged_containers_are_podmans(tmp_path: Path) -> None:
    rights = SecurityProfile(is_privileged=True, is_confined=False)
    spec = ContainerSpec(("true",), image="busybox", security=rights, has_host_users=True)
    arguments = podman_arguments.of(spec, str(tmp_path))
    assert "--privileged" in arguments[: arguments.index("--")]
    assert not {"--uidmap", "--cap-drop"} & {*arguments}


@pytest.mark.parametrize("text", HOSTILE)
def test_values_of_a_pod_are_never_options(tmp_path: Path, text: str) -> None:
    spec = ContainerSpec(
        (text, text),
        (text, "--privileged"),
        {"NAME": text, "OTHER": f"x {text}"},
        text,
        text,
        image="busybox",
    )
    arguments = podman_arguments.of(spec, str(tmp_path))
    assert not {"--privileged", "--env"} & {name for name, _ in options(arguments)}
    after = arguments[arguments.index("busybox") - 1 :]
    assert after == ["--", "busybox", text, "--privileged"]
    assert values(arguments, "--workdir") == [text]


@pytest.mark.parametrize(
    "name",
    [
        *HOSTILE,
        *("", " ", "a b", "a\nb", "../x", "/etc", "a:b:c", "x;reboot", "$(id)", "a@b", "A"),
        *("dir:/root", "dir:x", "oci:/x", "oci:latest", "oci:80/x", "docker-archive:/x.tar"),
        *("docker-daemon:x:y", "containers-storage:x", "docker://busybox", "sif:x", "tarball:x"),
        *("oci-archive:x", "ostree:x@/y", "atomic:x", "a" * 64),
    ],
)
def test_images_are_names_of_images(tmp_path: Path, name: str) -> None:
    with pytest.raises(ImageError) as refused:
        podman_arguments.of(ContainerSpec(("x",), image=name), str(tmp_path))
    assert refused.value.reason == "InvalidImageName"


@pytest.mark.parametrize(
    "name", ["busybox", "localhost/a:1", "r.example.com:5000/a/b:c", f"a@sha256:{'0' * 64}", "oci"]
)
def test_names_of_images_are_taken(tmp_path: Path, name: str) -> None:
    assert podman_arguments.of(ContainerSpec(("x",), image=name), str(tmp_path))[-1] == name


@pytest.mark.parametrize(
    "fields",
    [
        {"binds": (Bind("/a", "/b:rw,suid"),)},
        {"binds": (Bind("/a:/etc", "/b"),)},
        {"binds": (Bind("named-volume", "/b"),)},
        {"binds": (Bind("/a", "b"),)},
        {"binds": (Bind("/a", "/b\n/c"),)},
        {"binds": (Bind("/a", "/b", beneath="sub"),)},
        {"device_nodes": (DeviceNode("/dev/x", permissions="rwm:z"),)},
        {"device_nodes": (DeviceNode("/dev/x:/dev/y", permissions="rw"),)},
        {"env": {"A*": "x"}},
        {"env": {"#A": "x"}},
        {"env": {" A": "x"}},
        {"env": {"A=B": "x"}},
        {"env": {"": "x"}},
        {"env": {"A\nB": "x"}},
        {"env": {"A": "x\nLD_PRELOAD=/x"}},
        {"env": {"A": "x\r"}},
        {"env": {"A": "x\0"}},
        {"env": {"A": "x" * 70_000}},
        {"hostname": "a\n127.0.0.1 evil"},
        {"security": SecurityProfile(uid=65_536)},
        {"security": SecurityProfile(gid=2**31)},
        {"security": SecurityProfile(groups=(70_000,))},
        {"security": SecurityProfile(uid=-1)},
        {"security": SecurityProfile(capabilities=("all --privileged",))},
    ],
    ids=str,
)
def test_what_podman_would_read_otherwise_is_refused(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    with pytest.raises(ContainerConfigError):
        podman_arguments.of(ContainerSpec(("x",), image="busybox", **fields), str(tmp_path))


def test_the_environment_is_in_no_argument_and_no_file_of_others(tmp_path: Path) -> None:
    spec = ContainerSpec(("x",), image="busybox", env={"TOKEN": "s3cret"})
    arguments = podman_arguments.of(spec, str(tmp_path))
    assert "s3cret" not in " ".join(arguments)
    (file,) = values(arguments, "--env-file")
    assert stat.S_IMODE(Path(file).stat().st_mode) == 0o600
    assert Path(file).read_text("utf-8") == "TOKEN=s3cret\n"


def test_a_planted_link_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("unharmed")
    for name in (podman_arguments.ENVIRONMENT_FILE, podman_arguments.HOSTS_FILE):
        (tmp_path / name).symlink_to(victim)
    podman_arguments.of(ContainerSpec(("x",), image="busybox", env={"A": "b"}), str(tmp_path))
    assert victim.read_text() == "unharmed"


@needs_podman
def test_podman_has_an_environment_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LD_PRELOAD", "CONTAINER_HOST", "GODEBUG", "SECRET_OF_THE_AGENT"):
        monkeypatch.setenv(name, "/nowhere")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    fake = tmp_path / "podman"
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    spec = ContainerSpec(("x",), image=IMAGE, env={"LD_PRELOAD": "/x", "PATH": "/evil"})
    command = Podman().command(spec, str(tmp_path))
    assert command.argv[0].startswith("/usr/")
    assert set(command.env) <= {"PATH", *podman.PASSED_ON}
    assert command.env["PATH"] == podman.PATH


Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, image: None) -> Run:
    """Run a script in a container as the shim would, and return its exit code and output."""

    def ran(*script: str, **fields: Any) -> tuple[int, str]:
        argv = ("sh", "-c", *script) if len(script) == 1 else script
        spec = ContainerSpec(argv, image=IMAGE, **fields)
        # A name of its own: podman may still be removing the container before.
        folder = tmp_path / "pods" / uuid.uuid4().hex / "containers" / "c" / "0"
        command = Podman().command(spec, str(folder))
        # podman's monitor leaves a file in its folder when the memory does not suffice.
        done = subprocess.run(
            command.argv, env=command.env, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    return ran


@needs_podman
def test_a_container_has_no_rights(run: Run) -> None:
    code, said = run("cat /proc/self/status /proc/self/uid_map; ls /sys/class/net; cat /etc/hosts")
    assert code == 0
    words = said.split()
    for field, expected in {
        "CapEff:": "0" * 16,
        "CapBnd:": "0" * 16,
        "NoNewPrivs:": "1",
        "Seccomp:": "2",
    }.items():
        assert words[words.index(field) + 1] == expected
    assert "\nlo\n127.0.0.1 localhost localhost\n" in said
    assert "eth" not in said
    if os.getuid() == 0:
        assert f"{podman_arguments.FIRST_HOST_ID} " in said


@needs_podman
def test_root_in_a_container_is_nobody_on_the_host(tmp_path: Path, image: None) -> None:
    folder = tmp_path / "pods" / "uid" / "containers" / "sleeper" / "0"
    command = Podman().command(ContainerSpec(("sleep", "1000"), image=IMAGE), str(folder))
    with subprocess.Popen(command.argv, env=command.env) as process:
        try:
            written = block_until(
                lambda: started(Path(command.started_file)), "podman writing the process id"
            )
            status = Path(f"/proc/{written}/status").read_text("ascii").split()
            assert int(status[status.index("Uid:") + 1]) not in (0, os.getuid())
        finally:
            subprocess.run(command.kill, env=command.env, check=False, capture_output=True)
            process.wait(60)


def started(file: Path) -> str:
    with contextlib.suppress(FileNotFoundError):
        return file.read_text("ascii").strip()
    return ""


@needs_podman
def test_the_security_context_is_honoured(run: Run, tmp_path: Path) -> None:
    asked = SecurityProfile(uid=1234, gid=2345, groups=(3456,), has_read_only_root=True)
    code, said = run("id; touch /new /tmp/new", security=asked)
    assert code != 0
    assert re.match(r"uid=1234\S* gid=2345\S* groups=2345\S*,3456\n", said)
    assert "Read-only" in said
    bind = SecurityProfile(capabilities=("NET_BIND_SERVICE",))
    assert "CapEff:\t0000000000000400" in run("cat /proc/self/status", security=bind)[1]


@needs_podman
def test_values_arrive_as_they_are(run: Run) -> None:
    odd = {
        "SPACES": "  a  b  ",
        "QUOTES": "\"'`",
        "EQUALS": "=x=y=",
        "DOLLAR": "$HOME ${PATH} $(id)",
        "STAR": "*",
        "HASH": "# no comment",
        "UNICODE": "größe ☃",
        "EMPTY": "",
        "a.b-c": "relaxed name",
    }
    # Not in a shell, which drops variables with other names than its own.
    _, said = run("env", "--", env=odd)
    assert {f"{name}={value}" for name, value in odd.items()} <= set(said.splitlines())


@needs_podman
@pytest.mark.skipif(os.getuid() != 0, reason="needs root: control groups of version 1")
def test_limits_hold(run: Run) -> None:
    code, _ = run("x=a; while :; do x=$x$x; done", limits=ResourceLimits(memory_bytes=64 * MI))
    assert code == 137
    forks = "i=0; while [ $i -lt 200 ]; do sleep 100 & i=$((i+1)); done; echo all"
    code, said = run(forks, limits=ResourceLimits(pids=50))
    assert code != 0
    assert "fork" in said
    assert "all" not in said


def test_a_container_has_no_more_than_its_pod(tmp_path: Path) -> None:
    from tests.security.test_limits import pod as pod_of

    whole = pod_of(resources={"limits": {"cpu": "1", "memory": "10Mi"}})
    limits = ContainerLimits(tmp_path, None, pod_max_pids=9)
    found = limits.within_pod(whole, ResourceLimits(cpus=2.0, memory_bytes=MI))
    spec = ContainerSpec(("x",), image="busybox", limits=found)
    arguments = podman_arguments.of(spec, str(tmp_path))
    assert values(arguments, "--cpus") == ["1.000"]
    assert values(arguments, "--memory") == values(arguments, "--memory-swap") == [f"{MI}b"]
    assert values(arguments, "--pids-limit") == ["9"]


@needs_podman
def test_an_option_as_an_image_is_refused_in_a_cluster(image: None) -> None:
    async def story(here: Site) -> None:
        evil = {
            "name": "main",
            "image": "-h",
            "imagePullPolicy": "IfNotPresent",
            "args": ["--volume=/:/host", "--privileged", IMAGE],
        }
        await here.world.create(pod("p", evil))
        assert "is not the name of an image" in await here.waiting("p", "InvalidImageName")

    with_node(story, runtime=podman.NAME)


@needs_podman
def test_probes_reach_the_container_and_not_the_node(image: None) -> None:
    async def story(here: Site) -> None:
        with socket.create_server(("127.0.0.1", 0)) as on_node:
            port = on_node.getsockname()[1]

            def probed(script: str) -> JsonObject:
                ready = {"tcpSocket": {"port": port}, "periodSeconds": 1}
                return {**in_image(script), "readinessProbe": ready}

            await here.world.create(pod("listens", probed(f"exec nc -ll -p {port} -e cat")))
            await here.world.create(pod("deaf", probed("exec sleep 1000")))
            await here.world.until(lambda: is_ready(here, "listens"), "the container being ready")
            assert not await is_ready(here, "deaf")
            on_node.setblocking(False)
            with pytest.raises(BlockingIOError):
                on_node.accept()

    with_node(story, runtime=podman.NAME)


async def is_ready(here: Site, name: str) -> bool:
    status = (await here.world.get(kinds.POD, name))["status"]
    return any(found["ready"] for found in status.get("containerStatuses", ()))
