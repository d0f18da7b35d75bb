"""Termination messages of containers: read by the agent without trusting the container."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any

import pytest

from dray.api import kinds
from dray.api.types.meta import JsonObject
from dray.node.containers import processes
from dray.node.specs import termination_messages
from tests.cluster.site import Site, container, needs_sandbox, pod, with_node
from tests.security import ordinary_user

LOG = "/dev/termination-log"


def tricks(tmp_path: Path) -> dict[str, Any]:
    secret = tmp_path / "secret"
    secret.write_text("the host's", "utf-8")
    return {
        "symbolic link": lambda path: path.symlink_to(secret),
        "pipe": os.mkfifo,
        "folder": Path.mkdir,
        "missing": lambda path: None,
    }


@pytest.mark.parametrize("name", ["symbolic link", "pipe", "folder", "missing"])
def test_only_a_regular_file_is_read(name: str, tmp_path: Path) -> None:
    start = tmp_path / "0"
    start.mkdir()
    tricks(tmp_path)[name](start / termination_messages.FILE)
    assert termination_messages.read(start, "File", 1) == ""


def test_the_end_of_a_huge_file_is_read_and_no_more(tmp_path: Path) -> None:
    with (tmp_path / termination_messages.FILE).open("wb") as file:
        file.truncate(2**40)
        file.seek(0, os.SEEK_END)
        file.write(b"x" * 5000 + b"\xff end")
    found = termination_messages.read(tmp_path, "File", 1)
    assert found.endswith("x\ufffd end")
    assert len(found) == termination_messages.MAX_BYTES


async def ended(here: Site, name: str) -> JsonObject:
    async def state() -> JsonObject:
        status = (await here.world.get(kinds.POD, name))["status"]
        found = [each["state"] for each in status.get("containerStatuses", ())]
        return dict(found[0].get("terminated", {})) if found else {}

    return dict(await here.world.until(state, f"the end of {name}"))


@needs_sandbox
def test_messages_are_in_the_status() -> None:
    attack = f"rm -f {LOG}; ln -sf /etc/passwd {LOG}; mv /etc/hostname {LOG}; echo kept > {LOG}"
    cases: dict[str, tuple[JsonObject, str]] = {
        "default": (container(f"printf done > {LOG}"), "done"),
        "elsewhere": (
            container("printf there > /tmp/m/log", terminationMessagePath="/tmp/m/log"),
            "there",
        ),
        "attack": (container(attack), "kept\n"),
        "silent": (container("echo said; exit 3"), ""),
        "fallback": (
            container("echo said; exit 3", terminationMessagePolicy="FallbackToLogsOnError"),
            "said\n",
        ),
        "fine": (
            container("echo said", terminationMessagePolicy="FallbackToLogsOnError"),
            "",
        ),
        "other-user": (container(f"printf mine > {LOG}"), "mine"),
    }

    async def story(here: Site) -> None:
        for name, (made, _) in cases.items():
            await here.world.create(pod(name, made, restartPolicy="Never"))
        for name, (_, message) in cases.items():
            assert (await ended(here, name)).get("message", "") == message, name

    with_node(story)


@needs_sandbox
def test_containers_have_the_limit_of_open_files_that_the_agent_had_before() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def story(here: Site) -> None:
        await here.world.create(pod("p", container("ulimit -Sn; exec sleep 100")))
        assert (await here.output("p")).strip() == str(processes.OPEN_FILES)
        _, said, _ = await here.execute("p", "sh", "-c", "ulimit -Sn")
        assert said.decode().strip() == str(processes.OPEN_FILES)

    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        with_node(story)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_same_as_an_ordinary_user() -> None:
    ordinary_user.run_again(__file__)
