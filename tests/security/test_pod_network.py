"""What a pod reaches through pasta and slirp4netns: its neighbours, never the node's loopback."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from dray.node.containers import network_helpers, pod_sandboxes
from dray.node.containers.container_attempts import NetworkHelper
from dray.node.runtimes import host_users, pod_networks, sandbox
from dray.node.runtimes.interface import ContainerSpec
from dray.node.runtimes.pod_networks import NetworkUnusable, PodNetwork
from dray.node.runtimes.process import PlainProcess
from dray.node.runtimes.sandbox import Sandbox
from tests.security.containers import ENV, PodFolder, with_pod

ROOT: Final = Path(__file__).parents[2]
SECONDS: Final = 120
TOOLS: Final = (*network_helpers.NAMES, "ip", "nsenter")
PATH: Final = "/usr/sbin:/usr/bin:/sbin:/bin"

needs_helpers = [
    pytest.mark.skipif(not sandbox.is_usable(), reason="containers cannot be run here"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make a network"),
    pytest.mark.skipif(
        not all(shutil.which(tool, path=PATH) for tool in TOOLS),
        reason="no programs for the network of pods",
    ),
    pytest.mark.skipif(not Path("/dev/net/tun").exists(), reason="no /dev/net/tun for pods"),
]
kinds = pytest.mark.parametrize("kind", network_helpers.NAMES)
MULTICAST: Final = {"224.0.0.1", "ff02::1"}
UNREACHABLE: Final = ("loopback", "abstract")


def tell(story: str, kind: str) -> Any:
    """Run a story in a network that it makes; what it found."""
    argv = [sys.executable, "-m", "tests.security.network_stories", story, kind]
    env = {"PATH": PATH, "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(
        argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


class TestInAMadeNetwork:
    pytestmark = needs_helpers

    @kinds
    def test_a_pod_reaches_its_neighbours_and_never_the_loopback_of_the_node(
        self, kind: str
    ) -> None:
        found = tell("reach", kind)
        assert {name for name, who in found.items() if who in UNREACHABLE} == set()
        assert found["tcp 192.0.2.2"] == found["udp 192.0.2.2"] == "outside"
        # As any machine near the node could.
        assert found["tcp 198.51.100.1"] == found["udp 198.51.100.1"] == "host"
        # pasta gives the pod the first address of the node: there the pod meets itself.
        own = "" if kind == network_helpers.PASTA else "host"
        assert found["tcp 192.0.2.1"] == own
        answered = {name.split()[1] for name, who in found.items() if who}
        both = {"192.0.2.2", "198.51.100.1"}
        more = {"2001:db8::2"} if kind == network_helpers.PASTA else {"192.0.2.1"}
        assert answered - MULTICAST == both | more
        assert {found[f"udp {name}"] for name in MULTICAST} <= {"", "outside"}

    @kinds
    def test_the_program_has_few_rights_and_ends_with_the_pod(self, kind: str) -> None:
        found = tell("rights", kind)
        user = str(host_users.mapping().host_owner[0])
        assert int(user) >= host_users.MIN_HOST_ID
        assert {*found["Uid"], *found["Gid"]} == {user}
        assert found["Groups"] == []
        assert (found["NoNewPrivs"], found["Seccomp"]) == (["1"], ["2"])
        assert found["environment"] == ""
        assert not found["sees the pod"]
        assert not found["sees homes"]
        assert found["count"] == found["after the container"] > 0

    @pytest.mark.parametrize("kind", [pod_networks.AUTO, *network_helpers.NAMES])
    def test_pods_of_an_agent_have_the_network_that_was_chosen(self, kind: str) -> None:
        assert tell("agent", kind) == ["outside"]

    @pytest.mark.parametrize("kind", [pod_networks.NONE, network_helpers.PASTA])
    def test_a_client_in_a_pod_reaches_the_api_server_of_the_cluster(self, kind: str) -> None:
        (answer,) = tell("api_server", kind)
        assert "gitVersion" in answer


@pytest.mark.skipif(not sandbox.is_usable(), reason="containers cannot be run here")
def test_a_program_that_fails_leaves_a_clear_error_and_no_sandbox(tmp_path: Path) -> None:
    async def story(pod: PodFolder) -> None:
        helper = NetworkHelper(network_helpers.PASTA, "/bin/false")
        spec = ContainerSpec(("/bin/true",), env=ENV, network_helper=helper)
        code, text = await pod.ran("c", spec)
        assert code == 128
        assert "network of the pod: pasta" in text
        assert pod_sandboxes.find(str(pod.path)) is None

    with_pod(tmp_path, story)


def test_every_default_that_opens_the_node_or_the_pod_is_switched_off() -> None:
    pasta = network_helpers.arguments(network_helpers.PASTA, "/usr/bin/pasta", 9)
    assert "--no-map-gw" in pasta
    for option in ("-t", "-u", "-T", "-U", "--dns"):
        assert pasta[pasta.index(option) + 1] == "none"
    slirp = network_helpers.arguments(network_helpers.SLIRP4NETNS, "/usr/bin/slirp4netns", 9)
    assert {"--disable-host-loopback", "--disable-dns", "--enable-seccomp"} <= {*slirp}
    assert not [part for part in slirp if "api-socket" in part]


@pytest.mark.parametrize("kind", network_helpers.NAMES)
def test_a_program_that_was_asked_for_and_cannot_be_used_is_refused(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(NetworkUnusable, match="only --runtime sandbox"):
        pod_networks.check(kind, PlainProcess())
    monkeypatch.setattr(pod_networks, "FOLDERS", (str(tmp_path),))
    with pytest.raises(NetworkUnusable, match="install it"):
        pod_networks.check(kind, Sandbox())
    pod_networks.check(pod_networks.AUTO, Sandbox())


def test_without_a_program_pods_have_a_loopback_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def helper(wanted: str) -> NetworkHelper | None:
        return await PodNetwork(wanted).helper()

    monkeypatch.setattr(pod_networks, "FOLDERS", (str(tmp_path),))
    assert asyncio.run(helper(pod_networks.AUTO)) is None
    assert asyncio.run(helper(pod_networks.NONE)) is None
