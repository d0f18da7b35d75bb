"""Logs, exec and attach through the API server, and who is kept out."""

from __future__ import annotations

import asyncio
import datetime
import ssl
import tempfile
from pathlib import Path

import aiohttp
import pytest

from dray.api import errors, kinds, remote_command
from dray.apiserver.access.certificates import Authority
from dray.cluster.assembly import ClusterPlan
from dray.drivers.simulated import fleet as fleets
from tests.cluster import world
from tests.cluster.site import Seat, Site, container, needs_sandbox, pod, with_node
from tests.cluster.world import World

pytestmark = needs_sandbox

THREE_LINES = "echo one; echo two; echo three; exec sleep 100"


def test_logs_are_shown_as_they_are_asked_for() -> None:
    async def story(here: Site) -> None:
        await here.world.create(pod("p", container(THREE_LINES)))
        assert (await here.output("p", lines=3)).split() == ["one", "two", "three"]
        assert await here.log("p", tailLines="1") == "three\n"
        assert await here.log("p", limitBytes="5") == "one\nt"
        assert (await here.log("p", sinceSeconds="3600")).startswith("one")
        later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
        assert await here.log("p", sinceTime=later.strftime("%Y-%m-%dT%H:%M:%SZ")) == ""
        stamp, _, text = (await here.log("p", timestamps="true", tailLines="1")).partition(" ")
        assert (text, stamp[-1], len(stamp)) == ("three\n", "Z", 30)

    with_node(story)


def test_a_followed_log_ends_with_its_container() -> None:
    async def story(here: Site) -> None:
        script = "echo one; while [ ! -e /go/on ]; do sleep 0.05; done; echo two"
        mounts = [{"name": "go", "mountPath": "/go"}]
        body = pod("p", container(script, volumeMounts=mounts), restartPolicy="Never")
        body["spec"]["volumes"] = [{"name": "go", "emptyDir": {}}]
        made = await here.world.create(body)
        await here.output("p")
        response = await here.ask("p", "log", ("follow", "true"))
        assert response.stream is not None
        seen = await anext(response.stream)
        volume = here.node_folder / "pods" / made["metadata"]["uid"] / "volumes" / "go"
        (volume / "on").touch()
        async for chunk in response.stream:
            seen += chunk
        assert seen == b"one\ntwo\n"

    with_node(story)


def test_the_log_before_a_restart_is_kept() -> None:
    async def story(here: Site) -> None:
        await here.world.create(pod("p", container("echo $RANDOM $$; exit 1")))

        async def previous() -> str:
            response = await here.ask("p", "log", ("previous", "true"))
            return response.body.decode() if response.status == 200 else ""

        before = await here.world.until(previous, "the log before the restart")
        assert before.count("\n") == 1

    with_node(story)


def test_a_container_that_never_ran_has_no_log_and_says_why() -> None:
    async def story(here: Site) -> None:
        await here.world.create(pod("p", {"name": "main", "image": "nginx"}))
        message = await here.waiting("p", "CreateContainerConfigError")
        assert "--runtime podman" in message
        with pytest.raises(errors.BadRequest, match="is waiting to start: CreateContainerConfig"):
            await here.log("p")
        with pytest.raises(errors.BadRequest, match="does not run"):
            await here.execute("p", "true")

    with_node(story)


def test_a_program_can_be_run_in_a_running_container() -> None:
    async def story(here: Site) -> None:
        env = [{"name": "WHO", "value": "me"}]
        script = "echo inside > /tmp/f; echo up; exec sleep 100"
        await here.world.create(pod("p", container(script, env=env)))
        await here.output("p")
        asked = "cat /tmp/f; echo $WHO; touch /usr/x || echo refused >&2; exit 4"
        outcome, printed, complained = await here.execute("p", "/bin/sh", "-c", asked)
        assert outcome.code == 4
        assert printed.split() == [b"inside", b"me"]
        assert complained.split()[-1] == b"refused"
        outcome, _, complained = await here.execute("p", "no-such-program")
        assert outcome.code == 127
        assert b"No such file" in complained

    with_node(story)


def test_what_is_piped_in_arrives_byte_for_byte() -> None:
    async def story(here: Site) -> None:
        await here.world.create(pod("p", container("echo up; exec sleep 100")))
        await here.output("p")
        data = bytes(range(256)) * 8192
        outcome, printed, _ = await here.execute("p", "cat", typed=data)
        assert outcome.code == 0
        assert printed == data

    with_node(story)


def test_a_terminal_has_a_size_and_its_own_session() -> None:
    async def story(here: Site) -> None:
        await here.world.create(pod("p", container("echo up; exec sleep 100")))
        await here.output("p")
        query = [("command", each) for each in ("/bin/sh", "-c", "read x; stty size; ps -o sid=")]
        query += [("stdin", "true"), ("stdout", "true"), ("tty", "true")]
        seat = Seat([b"\n"])
        seat.messages.insert(0, remote_command.resizing(remote_command.TerminalSize(33, 77)))
        await here.converse("p", "exec", query, seat)
        assert seat.outcome.code == 0
        assert b"33 77" in seat.printed[remote_command.STDOUT]
        assert b"0" not in seat.printed[remote_command.STDOUT].split()

    with_node(story)


def test_attached_to_a_container_one_sees_and_types() -> None:
    async def story(here: Site) -> None:
        script = "while read line; do echo got $line; done; echo end"
        main = container(script, stdin=True, stdinOnce=True)
        await here.world.create(pod("p", main, restartPolicy="Never"))
        await here.world.pod_phase("p", "Running")
        query = [("stdin", "true"), ("stdout", "true"), ("stderr", "true")]
        seat = await here.converse("p", "attach", query, Seat([b"a\n", b"b\n"]))
        assert seat.printed[remote_command.STDOUT].split(b"\n") == [b"got a", b"got b", b"end", b""]
        assert seat.outcome.code == 0
        await here.world.pod_phase("p", "Succeeded")

    with_node(story)


def test_pods_in_name_only_have_no_log_and_one_sentence_says_so(tmp_path: Path) -> None:
    async def story(here: World) -> None:
        await here.create(pod("p", container("sleep 1")))
        await here.bound("p")
        site = Site(here, tmp_path, "")
        with pytest.raises(errors.BadRequest, match="are simulated, so its containers have no"):
            await site.log("p")
        with pytest.raises(errors.BadRequest, match="--runtime sandbox"):
            await site.execute("p", "true")

    world.with_plan(story, tmp_path, ClusterPlan(fleet=fleets.load("h100", nodes=1)))


def test_only_the_api_server_may_ask_a_node() -> None:
    async def story(here: Site) -> None:
        await here.world.create(pod("p", container(THREE_LINES)))
        await here.output("p", lines=3)
        node = await here.world.get(kinds.NODE, here.node)
        port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
        url = f"https://127.0.0.1:{port}/containerLogs/default/p/main"
        ours = Authority.load_or_create(here.folder)
        theirs = Authority.load_or_create(here.folder / "other")
        known = node["metadata"]["annotations"][remote_command.CERTIFICATE_ANNOTATION]
        assert await asked(url, known, ours, remote_command.API_SERVER_NAME) == 200
        assert await asked(url, known, ours, "kubernetes-admin") == 403
        for nobody in (None, theirs):
            with pytest.raises((aiohttp.ClientError, ConnectionError)):
                await asked(url, known, nobody, remote_command.API_SERVER_NAME)

    with_node(story)


async def asked(url: str, known: str, authority: Authority | None, name: str) -> int:
    context = ssl.create_default_context(cadata=known)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if authority is not None:
        await asyncio.to_thread(show_certificate, context, authority, name)
    async with aiohttp.ClientSession() as session, session.get(url, ssl=context) as answer:
        return answer.status


def show_certificate(context: ssl.SSLContext, authority: Authority, name: str) -> None:
    pair = authority.client_pair(name)
    with tempfile.NamedTemporaryFile() as file:
        file.write(pair.certificate + pair.key)
        file.flush()
        context.load_cert_chain(file.name)


def test_a_pod_cannot_read_what_is_not_its_own() -> None:
    async def story(here: Site) -> None:
        other = pod("other", container("echo TOP SECRET > /data/f; echo up; exec sleep 100"))
        other["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
        other["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}]
        made = await here.world.create(other)
        await here.output("other")
        volume = here.node_folder / "pods" / made["metadata"]["uid"] / "volumes" / "data" / "f"
        assert volume.read_text("utf-8") == "TOP SECRET\n"
        (here.folder / "kubeconfig").write_text("TOP SECRET", "utf-8")
        home = Path.home() / ".dray-test-secret"
        home.write_text("TOP SECRET", "utf-8")
        keys = list(here.folder.glob("*.key"))
        assert {key.name for key in keys} >= {"ca.key", "service-accounts.key"}
        files = [volume, here.folder / "kubeconfig", home, *keys, Path("/etc/shadow")]
        script = " ; ".join(f"cat {path} && echo READ" for path in files)
        script += (
            f" ; ls {here.folder} && echo READ; ls -A {Path.home()} | grep . && echo READ; true"
        )
        try:
            await here.world.create(pod("p", container(script), restartPolicy="Never"))
            await here.world.pod_phase("p", "Succeeded")
        finally:
            home.unlink()
        log = await here.log("p")
        assert "READ" not in log
        assert "SECRET" not in log
        assert log.count("No such file or directory") + log.count("Permission denied") >= len(files)

    with_node(story)
