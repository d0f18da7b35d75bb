"""Environments and arguments of containers reach their programs alone, and those exactly."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.node.containers.container_attempts import ContainerAttempt
from dray.node.runtimes import sandbox
from dray.node.runtimes.interface import Bind, ContainerSpec
from tests.security import ordinary_user
from tests.security.containers import ENV, FOREVER, PodFolder, executed, shell, with_pod
from tests.waiting import until

pytestmark = pytest.mark.skipif(not sandbox.is_usable(), reason="containers cannot be run here")

MARK = "chosen-by-the-container"
NAMES = (
    *("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "LD_DEBUG", "LD_DEBUG_OUTPUT", "LD_PROFILE"),
    *("LD_PROFILE_OUTPUT", "LD_ORIGIN_PATH", "LD_USE_LOAD_BIAS", "GLIBC_TUNABLES", "GCONV_PATH"),
    *(
        "GETCONF_DIR",
        "HOSTALIASES",
        "LOCALDOMAIN",
        "LOCPATH",
        "MALLOC_TRACE",
        "NIS_PATH",
        "NLSPATH",
    ),
    *(
        "RESOLV_HOST_CONF",
        "RES_OPTIONS",
        "TMPDIR",
        "TZDIR",
        "PYTHONPATH",
        "PYTHONHOME",
        "PYTHONINSPECT",
    ),
    *("PYTHONSTARTUP", "BASH_ENV", "ENV", "IFS", "OPENSSL_CONF", "SSLKEYLOGFILE", "PATH", "HOME"),
)
VALUES = (
    "",
    "a=b",
    "two\nlines",
    "ü",
    "$(PATH)",
    "`id`",
    "'\"",
    "--bind / /",
    "\x01\x7f",
    "x" * 70_000,
)
ARGUMENTS = (
    *(
        "",
        "-",
        "--",
        "--bind",
        "/",
        "-h",
        "--help",
        "--args=3",
        "--seccomp",
        "a b",
        "a\nb",
        "*",
        "~",
    ),
    *("$HOME", "`id`", "$(id)", "'", '"', "\\", ";", "|", "&", "#", "ü", "\x01", "=", "A=B", "@x"),
    *("~", "--userns", "--privileged", "x" * 70_000),
)
DUMP = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))"
RIGHTS = (
    "grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp:)' /proc/self/status; "
    "readlink /proc/self/ns/*"
)


def processes_outside() -> Iterator[tuple[int, bytes]]:
    """Yield the environment and command line of each process in this pid namespace alone."""
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            status = Path(f"/proc/{name}/status").read_text("utf-8", "replace")
            nested = next(line for line in status.splitlines() if line.startswith("NSpid"))
            if len(nested.split()) > 2:
                continue
            texts = [Path(f"/proc/{name}/{file}").read_bytes() for file in ("environ", "cmdline")]
        except (OSError, StopIteration):
            continue
        yield int(name), b"".join(texts)


def with_mark() -> list[int]:
    return [number for number, text in processes_outside() if MARK.encode() in text]


@pytest.mark.parametrize("tty", [False, True])
def test_no_process_outside_has_anything_of_the_environment(tmp_path: Path, tty: bool) -> None:
    env = {"A": MARK, "PATH": f"/{MARK}:/usr/bin:/bin", "LD_LIBRARY_PATH": MARK}

    async def story(pod: PodFolder) -> None:
        attempt = await pod.start("c", shell("echo up; exec sleep 1000", env=env, tty=tty))
        await until(lambda: "up" in attempt.log.read_text("utf-8"), "its first word")
        assert with_mark() == []
        code, text = await executed(attempt, "sh", "-c", "echo $A; grep -c . /proc/1/environ")
        assert text.splitlines()[0] == MARK
        assert code != 0, "the first process shows its environment"
        assert with_mark() == []
        for path in (pod.path, attempt.folder):
            for file in path.iterdir():
                assert (
                    not file.lstat().st_mode & 0o077
                    or file.is_dir()
                    or MARK.encode() not in (file.read_bytes())
                )

    with_pod(tmp_path, story)


def test_a_library_to_preload_acts_in_the_container_alone(tmp_path: Path) -> None:
    """The loader complains of one that is no library, wherever it acts."""
    (tmp_path / "evil.so").write_text("no library", "utf-8")
    env = {**ENV, "LD_PRELOAD": "/v/evil.so"}
    bind = Bind(str(tmp_path / "evil.so"), "/v/evil.so")

    async def story(pod: PodFolder) -> None:
        spec = ContainerSpec(("/bin/true",), env=env, binds=(bind,))
        code, text = await pod.ran("once", spec)
        assert (code, text.count("cannot be preloaded")) == (0, 1), text
        attempt = await pod.start("long", shell("exec sleep 1000", env=env, binds=(bind,)))
        code, text = await executed(attempt, "/bin/true")
        assert (code, text.count("cannot be preloaded")) == (0, 1), text

    with_pod(tmp_path, story)


ANNOUNCED = ("LD_PRELOAD", "LD_AUDIT", "LD_DEBUG", "GLIBC_TUNABLES")
"""Variables about which the dynamic linker of the program itself prints something."""


@pytest.mark.parametrize("name", NAMES)
def test_a_variable_that_other_programs_obey_is_only_delivered(tmp_path: Path, name: str) -> None:
    async def story(pod: PodFolder) -> None:
        env = {"A": "1", name: "/v/evil"}
        attempt = await pod.start("c", ContainerSpec(("/bin/sleep", "1000"), env=env))
        assert attempt.exit() is None
        code, text = await executed(attempt, "/bin/cat", "/proc/self/environ")
        assert code == 0, text
        assert {f"{key}={value}" for key, value in env.items()} == {*text.split("\0")[:-1]} or (
            name in ANNOUNCED and f"{name}=/v/evil" in text
        )

    with_pod(tmp_path, story)


def test_values_and_arguments_arrive_as_they_are(tmp_path: Path) -> None:
    env = {**ENV, **{f"V{number}": value for number, value in enumerate(VALUES)}}
    dumped = ("/usr/bin/python3", "-I", "-c", DUMP, *ARGUMENTS)

    async def story(pod: PodFolder) -> None:
        code, text = await pod.ran("once", ContainerSpec(dumped, env=env))
        assert code == 0, text
        parts = "".join(text.split("\n"))
        arguments, seen = json.loads(parts)
        assert tuple(arguments) == ARGUMENTS
        assert {name: seen.get(name) for name in env} == env
        attempt = await pod.start("long", shell("exec sleep 1000", env=env))
        code, text = await executed(attempt, *dumped)
        arguments, seen = json.loads(text)
        assert (code, tuple(arguments)) == (0, ARGUMENTS)
        assert {name: seen.get(name) for name in env} == env

    with_pod(tmp_path, story)


def test_programs_of_the_pod_are_found_inside_alone(tmp_path: Path) -> None:
    """A PATH of the container must not make a helper of the agent run the pod's program."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("nsenter", "setpriv", "setsid", "bwrap", "python3", "sh"):
        (tools / name).write_text("#!/bin/sh\n/usr/bin/readlink /proc/self/ns/pid\n", "utf-8")
        (tools / name).chmod(0o755)
    env = {"PATH": "/v"}

    async def story(pod: PodFolder) -> None:
        bind = Bind(str(tools), "/v")
        spec = ContainerSpec(("/bin/sleep", "1000"), env=env, binds=(bind,))
        attempt = await pod.start("c", spec)
        for name in ("nsenter", "setpriv", "setsid", "bwrap", "python3", "sh"):
            code, text = await executed(attempt, name)
            assert (code, text.count("pid:")) == (0, 1), text
            assert text != os.readlink("/proc/self/ns/pid")

    with_pod(tmp_path, story)


def test_an_executed_program_has_the_rights_of_the_container(tmp_path: Path) -> None:
    async def story(pod: PodFolder) -> None:
        attempt = await pod.start("c", shell(f"{RIGHTS}; echo done; exec sleep 1000"))
        await until(lambda: "done" in attempt.log.read_text("utf-8"), "its rights")
        code, text = await executed(attempt, "/bin/sh", "-c", RIGHTS)
        assert code == 0
        assert [*text.splitlines(), "done"] == own_output(attempt)
        assert "NoNewPrivs:\t1" in text
        assert "CapEff:\t0000000000000000" in text

    with_pod(tmp_path, story)


def own_output(attempt: ContainerAttempt) -> list[str]:
    lines = attempt.log.read_text("utf-8").splitlines()
    return [line.split(" ", 3)[3] for line in lines]


def test_a_container_cannot_look_into_what_enters_it(tmp_path: Path) -> None:
    """While a program is being started inside, nothing of its former rights can be had."""
    watch = (
        "import os, sys\n"
        "print('up', flush=True)\n"
        "own = os.getpid()\n"
        "while not os.path.exists('/tmp/stop'):\n"
        "    for name in os.listdir('/proc'):\n"
        "        if not name.isdigit() or int(name) == own: continue\n"
        "        for file in ('environ', 'maps', 'root/etc/shadow', 'fd/0'):\n"
        "            try:\n"
        "                text = open(f'/proc/{name}/{file}', 'rb').read(65536)\n"
        "            except OSError: continue\n"
        "            if b'site-packages' in text or b'dray' in text or b'root:' in text:\n"
        "                print('leaked', name, file, text[:200], flush=True)\n"
        "print('done')\n"
    )

    async def story(pod: PodFolder) -> None:
        spec = ContainerSpec(("/usr/bin/python3", "-c", watch), env=ENV)
        attempt = await pod.start("c", spec)
        await until(lambda: "up" in attempt.log.read_text("utf-8"), "its first word")
        for _ in range(5):
            assert (await executed(attempt, "/bin/true"))[0] == 0
        await executed(attempt, "/usr/bin/touch", "/tmp/stop")
        await attempt.wait()
        assert own_output(attempt) == ["up", "done"]

    with_pod(tmp_path, story)


def test_a_container_of_an_earlier_version_cannot_be_entered_and_says_so(tmp_path: Path) -> None:
    async def story(pod: PodFolder) -> None:
        attempt = await pod.start("c", FOREVER)
        file = attempt.folder / "command.json"
        file.write_text(json.dumps({**json.loads(file.read_bytes()), "sandbox": None}), "utf-8")
        with pytest.raises(LookupError, match="restart the pod"):
            await executed(attempt, "/bin/true")

    with_pod(tmp_path, story)


def test_the_same_as_an_ordinary_user() -> None:
    ordinary_user.run_again(__file__)
