"""Stories whose pods run in real containers: a node agent, a driver on its sockets, sandboxes."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc.aio
import msgspec
import pytest

from dray import cluster
from dray.api.exchange import User
from dray.client.verbs import Client
from dray.cluster import ADMIN, Plan
from dray.driverkit.plugin import Directories, Plugin
from dray.drivers.simulated import fleet as fleets
from dray.drivers.simulated.plugin import SimulatedPlugin
from dray.node import containers
from dray.node.agent import Agent, Folders
from dray.node.registration import Registration
from dray.node.runtimes import sandbox
from dray.protocol import services
from dray.protocol.services import Caller
from dray.store import memory
from tests.cluster.world import CLAIM, CLASS, DEVICE_CLASS, EVENT, POD, SLICE, Object, World

pytestmark = pytest.mark.skipif(not sandbox.is_usable(), reason="bubblewrap does not work here")

NODE = "node-0"
FORTY = f'device.capacity["{CLASS}"].memory.compareTo(quantity("40Gi")) >= 0'
GROUPS = frozenset({"system:nodes", "system:authenticated"})


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@dataclass
class Site:
    """One real node in a whole cluster."""

    world: World
    folder: Path
    client: Client
    driver: SimulatedPlugin
    agent: Agent
    agent_task: asyncio.Task[None]
    group: asyncio.TaskGroup

    async def log(self, pod: str, container: str = "main") -> str:
        path = self.agent.log_of("default", pod, container, False)
        assert path is not None
        return "".join(
            line.split(" ", 3)[3] for line in path.read_text("utf-8").splitlines(keepends=True)
        )

    async def output(self, pod: str, container: str = "main", *, lines: int = 1) -> str:
        """What a container has written, once that is so many lines."""

        async def written() -> str:
            path = self.agent.log_of("default", pod, container, False)
            text = await self.log(pod, container) if path and path.exists() else ""
            return text if text.count("\n") >= lines else ""

        return str(await self.world.until(written, f"output of {pod}/{container}"))

    async def uuid(self, claim: str) -> str:
        """The unique id of the one device of a claim."""
        status = (await self.world.get(CLAIM, claim))["status"]
        (result,) = status["allocation"]["devices"]["results"]
        for each in await self.world.all(SLICE):
            for device in each["spec"].get("devices", ()):
                if device["name"] == result["device"]:
                    return str(device["attributes"]["uuid"]["string"])
        raise AssertionError(result)

    async def gone(self, pod: str) -> None:
        async def is_gone() -> bool:
            return pod not in {each["metadata"]["name"] for each in await self.world.all(POD)}

        await self.world.until(is_gone, f"{pod} being gone")

    async def restart_agent(self) -> None:
        self.agent_task.cancel()
        await asyncio.wait({self.agent_task})
        self.agent = make_agent(self.client, self.folder)
        self.agent_task = self.group.create_task(self.agent.run())


def make_agent(client: Client, folder: Path) -> Agent:
    folders = Folders(folder / "state", folder / "registry", folder / "cdi")
    return Agent(client, NODE, "10.0.0.1", folders, now=now)


def places_in(folder: Path) -> Directories:
    return Directories(folder / "registry", folder / "plugins", folder / "cdi")


@contextlib.asynccontextmanager
async def site(folder: Path, fleet: str = "h100") -> AsyncIterator[Site]:
    loaded = fleets.load(fleet, nodes=1)
    (found, *_) = loaded.machines.values()
    machine = dataclasses.replace(found, name=NODE)
    async with memory.open() as store, cluster.running(store, folder, Plan()) as running:
        world = World(running, running.client())
        for device_class in loaded.classes():
            body = msgspec.to_builtins(device_class)
            identity = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass"}
            await world.client.create(DEVICE_CLASS, {**identity, **body})
        node_client = running.client(User(f"system:node:{NODE}", GROUPS))
        registration = Registration(
            running.client(ADMIN), [machine.node()], lease=NODE, runtime="sandbox", now=now
        )
        driver = SimulatedPlugin(machine, CLASS, folder / "cards")
        plugin = Plugin(driver, node_client, NODE, directories=places_in(folder))
        agent = make_agent(node_client, folder)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each.run()) for each in (registration, plugin)]
            agent_task = group.create_task(agent.run())
            here = Site(world, folder, node_client, driver, agent, agent_task, group)
            await world.until(lambda: world.all(SLICE), "the devices being published")
            await world.until(lambda: has_driver(agent), "the driver being registered")
            try:
                yield here
            finally:
                for task in (*tasks, here.agent_task):
                    task.cancel()


def with_node(test: Callable[[Site], Awaitable[None]], fleet: str = "h100") -> None:
    async def run(folder: Path) -> AssertionError | None:
        async with site(folder, fleet) as here:
            try:
                await test(here)
                await _nothing_left(here)
            except AssertionError as failure:
                # Raised outside, where no task group wraps it.
                return failure
        return None

    # Paths of sockets must be short, which pytest's own folders are not.
    folder = Path(tempfile.mkdtemp(prefix="dray-"))
    try:
        failure = asyncio.run(run(folder))
    finally:
        shutil.rmtree(folder)
    if failure is not None:
        raise failure


async def _nothing_left(here: Site) -> None:
    """When every pod is deleted, nothing of them is left on the node."""
    for pod in await here.world.all(POD):
        options = {"gracePeriodSeconds": 1}
        await here.world.client.delete(POD, pod["metadata"]["name"], "default", options)
    for pod in await here.world.all(POD):
        await here.gone(pod["metadata"]["name"])

    async def nothing() -> bool:
        folders = [here.folder / "state" / "pods", here.folder / "cdi"]
        left = [each for folder in folders if folder.exists() for each in folder.iterdir()]
        return not left and not list((here.folder / "cards").glob("*.card"))

    await here.world.until(nothing, "the node being empty")


def pod(name: str, *containers: Object, claims: Any = (), **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": list(containers), "resourceClaims": list(claims), **spec},
    }


def container(script: str, name: str = "main", claims: Any = (), **fields: Any) -> Object:
    resources = {"claims": [{"name": each} for each in claims]}
    command = ["/bin/sh", "-c", script]
    return {
        "name": name,
        "image": "host",
        "command": command,
        "resources": resources,
        **fields,
    }


def template(name: str, *requests: Object) -> Object:
    forty = {"deviceClassName": CLASS, "selectors": [{"cel": {"expression": FORTY}}]}
    chosen = requests or ({"name": "gpu", "exactly": forty},)
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": {"devices": {"requests": list(chosen)}}},
    }


def from_template(name: str) -> Object:
    return {"name": name, "resourceClaimTemplateName": "t"}


LIST = "nvidia-smi -L"


def test_story_1_nvidia_smi_lists_exactly_the_claimed_gpu() -> None:
    async def story(here: Site) -> None:
        await here.world.create(template("t"))
        script = f"{LIST}; exec sleep 100"
        main = container(script, claims=["gpu"])
        await here.world.create(pod("p", main, claims=[from_template("gpu")]))
        await here.world.pod_phase("p", "Running")
        uuid = await here.uuid(await here.world.claim_of("p"))
        assert await here.output("p") == f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: {uuid})\n"

    with_node(story)


def test_story_3_two_containers_share_a_claim_or_have_their_own() -> None:
    async def story(here: Site) -> None:
        await here.world.create(template("t"))
        one = [container(LIST, name, claims=["a"]) for name in ("first", "second")]
        await here.world.create(
            pod("shared", *one, claims=[from_template("a")], restartPolicy="Never")
        )
        two = [container(LIST, name, claims=[name]) for name in ("a", "b")]
        claims = [from_template("a"), from_template("b")]
        await here.world.create(pod("apart", *two, claims=claims, restartPolicy="Never"))
        for name in ("shared", "apart"):
            await here.world.pod_phase(name, "Succeeded")
        assert await here.log("shared", "first") == await here.log("shared", "second")
        assert await here.log("apart", "a") != await here.log("apart", "b")
        assert len((await here.log("apart", "a")).splitlines()) == 1

    with_node(story)


def test_a_container_without_a_claim_sees_no_device() -> None:
    async def story(here: Site) -> None:
        await here.world.create(template("t"))
        script = "nvidia-smi -L; ls /run/dray; env | grep -c DEVICE"
        with_claim = container(script, "with", claims=["gpu"])
        without = container(script, "without")
        claims = [from_template("gpu")]
        await here.world.create(pod("p", with_claim, without, claims=claims, restartPolicy="Never"))
        await here.world.pod_phase("p", "Failed")
        assert "UUID" in await here.log("p", "with")
        assert "UUID" not in await here.log("p", "without")
        assert "nvidia-smi: not found" in await here.log("p", "without")

    with_node(story)


def test_story_6_all_devices_of_the_node() -> None:
    async def story(here: Site) -> None:
        every = {"deviceClassName": CLASS, "allocationMode": "All"}
        await here.world.create(template("t", {"name": "gpu", "exactly": every}))
        main = container(f"{LIST}; exec sleep 100", claims=["gpu"])
        await here.world.create(pod("p", main, claims=[from_template("gpu")]))
        await here.world.pod_phase("p", "Running")
        lines = (await here.output("p", lines=8)).splitlines()
        assert len(lines) == len(set(lines)) == 8

    with_node(story)


def partition(name: str, profile: str) -> Object:
    expression = f'device.attributes["{CLASS}"].profile == "{profile}"'
    selectors = [{"cel": {"expression": expression}}]
    return {"name": name, "deviceClassName": "mig.nvidia.com", "selectors": selectors}


def test_stories_8_and_9_partitions_that_do_not_overlap() -> None:
    async def story(here: Site) -> None:
        alternatives = [partition("small", "9g.90gb"), partition("large", "3g.40gb")]
        await here.world.create(template("t", {"name": "gpu", "firstAvailable": alternatives}))
        main = container(f"{LIST}; exec sleep 100", claims=["gpu"])
        for name in ("p", "q"):
            await here.world.create(pod(name, main, claims=[from_template("gpu")]))
            await here.world.pod_phase(name, "Running")
        first = (await here.output("p", lines=2)).splitlines()
        second = (await here.output("q", lines=2)).splitlines()
        assert first[0] == second[0]
        assert first[0].startswith("GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-")
        assert first[1].startswith("  MIG 3g.40gb         Device  0: (UUID: MIG-")
        assert first[1] != second[1]
        claim = await here.world.get(CLAIM, await here.world.claim_of("p"))
        (result,) = claim["status"]["allocation"]["devices"]["results"]
        assert result["request"] == "gpu/large"

    with_node(story, "a100-mig")


def test_story_11_four_pods_share_a_gpu_and_a_fifth_waits() -> None:
    async def story(here: Site) -> None:
        ten = {"deviceClassName": CLASS, "capacity": {"requests": {"memory": "10Gi"}}}
        await here.world.create(template("t", {"name": "gpu", "exactly": ten}))
        main = container(f"{LIST}; exec sleep 100", claims=["gpu"])
        for number in range(5):
            await here.world.create(pod(f"p{number}", main, claims=[from_template("gpu")]))
        running: set[str] = set()

        async def four() -> bool:
            phases = {
                each["metadata"]["name"]: each["status"] for each in await here.world.all(POD)
            }
            running.update(name for name, each in phases.items() if each.get("phase") == "Running")
            return len(running) == 4

        await here.world.until(four, "four pods running")
        (waiting,) = {f"p{number}" for number in range(5)} - running
        await here.world.unschedulable(waiting)
        assert len({await here.output(name) for name in running}) == 1
        await here.world.client.delete(POD, running.pop(), "default", {"gracePeriodSeconds": 1})
        await here.world.pod_phase(waiting, "Running")

    with_node(story, "shared")


def test_story_14_an_extended_resource_is_served_by_devices() -> None:
    async def story(here: Site) -> None:
        main = container(f"{LIST}; exec sleep 100")
        main["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
        other = container("nvidia-smi -L; exec sleep 100", "other")
        await here.world.create(pod("p", main, other))
        await here.world.pod_phase("p", "Running")
        assert (await here.output("p")).count("UUID: GPU-") == 1
        assert "not found" in await here.output("p", "other")

    with_node(story)


def test_story_15_device_metadata_is_where_kubernetes_puts_it() -> None:
    async def story(here: Site) -> None:
        await here.world.create(template("t"))
        path = (
            "/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/mine/gpu/"
            f"{CLASS}-metadata.json"
        )
        main = container(f"cat {path}; echo; exec sleep 100", claims=["mine"])
        claims = [from_template("mine")]
        await here.world.create(pod("p", main, claims=claims))
        text = await here.output("p", lines=100)
        assert await here.uuid(await here.world.claim_of("p", "mine")) in text
        assert '"podClaimName": "mine"' in text

    with_node(story)


def test_story_16_health_is_in_the_status_and_a_failed_gpu_loses_its_pod() -> None:
    async def story(here: Site) -> None:
        await here.world.create(template("t"))
        main = container("exec sleep 100", claims=["gpu"])
        await here.world.create(pod("p", main, claims=[from_template("gpu")]))
        await here.world.pod_phase("p", "Running")
        (device,) = await here.world.devices_of(await here.world.claim_of("p"))

        async def health() -> Object | None:
            found = (await here.world.get(POD, "p"))["status"]["containerStatuses"][0]
            told = found.get("allocatedResourcesStatus", [])
            is_known = told and told[0]["resources"][0]["health"] != "Unknown"
            return told[0] if is_known else None

        healthy = await here.world.until(health, "health being told")
        assert healthy["name"] == "claim:gpu"
        assert healthy["resources"][0]["health"] == "Healthy"
        here.driver.fail(device.partition("/")[2], "fell off the bus")
        await here.gone("p")
        await here.world.create(pod("q", main, claims=[from_template("gpu")]))
        await here.world.pod_phase("q", "Running")
        assert await here.world.devices_of(await here.world.claim_of("q")) != [device]

    with_node(story)


def test_exporters_learn_which_pod_has_which_device() -> None:
    async def story(here: Site) -> None:
        await here.world.create(template("t"))
        main = container("exec sleep 100", claims=["gpu"])
        await here.world.create(pod("p", main, claims=[from_template("gpu")]))
        await here.world.pod_phase("p", "Running")
        (device,) = await here.world.devices_of(await here.world.claim_of("p"))
        socket = services.address(here.folder / "state" / "pod-resources" / "kubelet.sock")
        async with grpc.aio.insecure_channel(socket) as channel:
            caller = Caller(channel, services.POD_RESOURCES)
            listed = await caller.call("List", caller.messages.ListPodResourcesRequest())
            asked = caller.messages.GetPodResourcesRequest(pod_name="p", pod_namespace="default")
            got = (await caller.call("Get", asked)).pod_resources
        assert list(listed.pod_resources) == [got]
        (dynamic,) = got.containers[0].dynamic_resources
        (found,) = dynamic.claim_resources
        assert f"{found.pool_name}/{found.device_name}" == device
        assert found.driver_name == CLASS

    with_node(story)


def test_a_pod_cannot_read_what_is_not_its_own() -> None:
    async def story(here: Site) -> None:
        secret = here.folder / "state" / "key"
        secret.write_text("TOP SECRET", "utf-8")
        files = [secret, *here.folder.glob("*.key"), Path.home() / ".bashrc", Path("/etc/shadow")]
        script = " ; ".join(f"cat {path} && echo READ" for path in files)
        script += f" ; ls {here.folder} && echo READ; true"
        await here.world.create(pod("p", container(script), restartPolicy="Never"))
        await here.world.pod_phase("p", "Succeeded")
        assert "READ" not in await here.log("p")
        assert "TOP SECRET" not in await here.log("p")

    with_node(story)


def test_a_program_can_be_run_in_a_running_container() -> None:
    async def story(here: Site) -> None:
        script = "echo inside > /tmp/f; echo up; exec sleep 100"
        env = [{"name": "WHO", "value": "me"}]
        await here.world.create(pod("p", container(script, env=env)))
        await here.output("p")
        worker = here.agent.worker("default", "p")
        assert worker is not None
        asked = ("/bin/sh", "-c", "cat /tmp/f; echo $WHO; touch /usr/x || echo refused; exit 4")
        argv, env_of_container = worker.exec_command("main", asked)
        process = await asyncio.create_subprocess_exec(
            *argv, env=env_of_container, stdout=asyncio.subprocess.PIPE
        )
        text, _ = await process.communicate()
        assert (process.returncode, text.decode().split()) == (4, ["inside", "me", "refused"])

    with_node(story)


def test_a_failing_container_ends_its_pod_with_its_code() -> None:
    async def story(here: Site) -> None:
        await here.world.create(pod("p", container("exit 3"), restartPolicy="Never"))
        found = await here.world.pod_phase("p", "Failed")
        state = found["status"]["containerStatuses"][0]["state"]
        assert (state["terminated"]["exitCode"], state["terminated"]["reason"]) == (3, "Error")

    with_node(story)


def test_environment_volumes_and_init_containers() -> None:
    async def story(here: Site) -> None:
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
        await here.world.create({**config, "data": {"greeting": "hello", "NAME": "x"}})
        mounts = [
            {"name": "scratch", "mountPath": "/scratch"},
            {"name": "config", "mountPath": "/config", "readOnly": True},
        ]
        volumes = [
            {"name": "scratch", "emptyDir": {}},
            {"name": "config", "configMap": {"name": "c"}},
        ]
        env = [
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "WHO", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "NAME"}}},
            {"name": "BOTH", "value": "$(POD)-$(WHO)"},
        ]
        first = container("echo from-init > /scratch/f", "first", volumeMounts=mounts)
        script = "cat /scratch/f; cat /config/greeting; echo; echo $BOTH; pwd; hostname"
        main = container(script, volumeMounts=mounts, env=env, workingDir="/scratch")
        body = pod("p", main, initContainers=[first], volumes=volumes, restartPolicy="Never")
        await here.world.create(body)
        await here.world.pod_phase("p", "Succeeded")
        assert (await here.log("p")).split() == ["from-init", "hello", "p-x", "/scratch", "p"]

    with_node(story)


def ready(document: Object) -> str:
    conditions = document["status"].get("conditions", ())
    return "".join(each["status"] for each in conditions if each["type"] == "Ready")


def test_a_readiness_probe_decides_when_a_pod_is_ready() -> None:
    async def story(here: Site) -> None:
        probe = {"exec": {"command": ["test", "-e", "/tmp/ready"]}, "periodSeconds": 1}
        script = "echo up; sleep 0.5; touch /tmp/ready; exec sleep 100"
        await here.world.create(pod("p", container(script, readinessProbe=probe)))
        assert ready(await here.world.pod_phase("p", "Running")) == "False"

        async def is_ready() -> bool:
            return ready(await here.world.get(POD, "p")) == "True"

        await here.world.until(is_ready, "the pod being ready")

    with_node(story)


def test_a_liveness_probe_restarts_a_container_that_hangs() -> None:
    async def story(here: Site) -> None:
        action = {"exec": {"command": ["test", "!", "-e", "/tmp/hung"]}}
        probe = {**action, "periodSeconds": 1, "failureThreshold": 1}
        main = container("touch /tmp/hung; exec sleep 100", livenessProbe=probe)
        await here.world.create(pod("p", main))

        async def restarted() -> bool:
            found = (await here.world.get(POD, "p"))["status"].get("containerStatuses", [{}])[0]
            return bool(found.get("restartCount"))

        await here.world.until(restarted, "the container being restarted")
        notes = [str(each["message"]) for each in await here.world.all(EVENT)]
        assert any(note.startswith("Liveness probe failed") for note in notes)

    with_node(story)


def test_hooks_run_after_the_start_and_before_the_end() -> None:
    async def story(here: Site) -> None:
        mounts = [{"name": "data", "mountPath": "/data"}]
        say = ["/bin/sh", "-c", "echo $0 >> /data/said"]
        hooks = {
            "postStart": {"exec": {"command": [*say, "hello"]}},
            "preStop": {"exec": {"command": [*say, "goodbye"]}},
        }
        script = "trap 'cat /data/said; exit 0' TERM; echo up; while :; do sleep 0.05; done"
        main = container(script, volumeMounts=mounts, lifecycle=hooks)
        held = {"finalizers": ["example.com/held"]}
        body = pod("p", main, volumes=[{"name": "data", "emptyDir": {}}])
        body["metadata"] |= held
        await here.world.create(body)

        async def is_ready() -> bool:
            return ready(await here.world.get(POD, "p")) == "True"

        await here.world.until(is_ready, "the pod being ready")
        uid = (await here.world.get(POD, "p"))["metadata"]["uid"]
        said = here.folder / "state" / "pods" / uid / "volumes" / "data" / "said"
        assert said.read_text("utf-8") == "hello\n"
        await here.world.client.delete(POD, "p", "default", {"gracePeriodSeconds": 10})
        await here.world.until(lambda: contains(said, "goodbye"), "the hook before the end")
        await here.world.client.patch(POD, "p", {"metadata": {"finalizers": None}}, "default")

    with_node(story)


async def contains(path: Path, text: str) -> bool:
    return text in path.read_text("utf-8")


def test_a_container_without_a_command_is_never_running() -> None:
    async def story(here: Site) -> None:
        await here.world.create(pod("p", {"name": "main", "image": "nginx"}))

        async def told() -> str:
            status = (await here.world.get(POD, "p"))["status"]
            states = [each["state"] for each in status.get("containerStatuses", ())]
            waiting = states[0].get("waiting", {}) if states else {}
            is_told = waiting.get("reason") == "CreateContainerConfigError"
            return str(waiting["message"]) if is_told else ""

        assert "--runtime podman" in await here.world.until(told, "the reason being told")

    with_node(story)


def test_deletion_is_graceful_and_waits_for_the_container() -> None:
    async def story(here: Site) -> None:
        script = "trap 'echo bye > /data/bye; exit 0' TERM; echo up; while :; do sleep 0.05; done"
        await here.world.create(pod("p", container(script)))
        await here.output("p")
        await here.world.client.delete(POD, "p", "default", {"gracePeriodSeconds": 20})
        await here.gone("p")

    with_node(story)


def test_a_restarted_agent_finds_what_ended_meanwhile() -> None:
    async def story(here: Site) -> None:
        await here.world.create(template("t"))
        script = f"{LIST}; while [ ! -e /go/on ]; do sleep 0.05; done; echo last words; exit 3"
        mounts = [{"name": "go", "mountPath": "/go"}]
        body = pod(
            "p",
            container(script, claims=["gpu"], volumeMounts=mounts),
            claims=[from_template("gpu")],
            volumes=[{"name": "go", "emptyDir": {}}],
            restartPolicy="Never",
        )
        await here.world.create(body)
        found = await here.world.pod_phase("p", "Running")
        await here.output("p")
        here.agent_task.cancel()
        await asyncio.wait({here.agent_task})
        uid = found["metadata"]["uid"]
        (here.folder / "state" / "pods" / uid / "volumes" / "go" / "on").touch()
        attempt = here.folder / "state" / "pods" / uid / "containers" / "main" / "0"
        await here.world.until(lambda: exists(attempt / "exit.json"), "the container ending")
        await here.restart_agent()
        found = await here.world.pod_phase("p", "Failed")
        state = found["status"]["containerStatuses"][0]["state"]["terminated"]
        assert state["exitCode"] == 3
        assert (await here.log("p")).endswith("last words\n")

    with_node(story)


def test_what_a_pod_left_that_vanished_meanwhile_is_cleaned_up() -> None:
    async def story(here: Site) -> None:
        await here.world.create(template("t"))
        main = container("echo up; exec sleep 100", claims=["gpu"])
        await here.world.create(pod("p", main, claims=[from_template("gpu")]))
        found = await here.world.pod_phase("p", "Running")
        await here.output("p")
        folder = here.folder / "state" / "pods" / found["metadata"]["uid"]
        attempt = containers.last_attempt(folder / "containers" / "main")
        assert attempt is not None
        process = attempt.first_process()
        here.agent_task.cancel()
        await asyncio.wait({here.agent_task})
        await here.world.client.delete(POD, "p", "default", {"gracePeriodSeconds": 0})
        await here.gone("p")
        assert os.path.exists(f"/proc/{process}")
        await here.restart_agent()
        await _nothing_left(here)
        assert not os.path.exists(f"/proc/{process}")

    with_node(story)


def test_many_pods_at_once_all_run_and_all_go() -> None:
    async def story(here: Site) -> None:
        names = [f"p{number}" for number in range(40)]
        for name in names:
            await here.world.create(pod(name, container("echo up; exec sleep 100")))
        for name in names:
            await here.world.pod_phase(name, "Running")
        await _nothing_left(here)

    with_node(story)


async def exists(path: Path) -> bool:
    return os.path.exists(path)


def test_a_missing_driver_is_named_in_an_event() -> None:
    async def story(here: Site) -> None:
        async def no_driver() -> bool:
            return not await has_driver(here.agent)

        await here.world.create(template("t"))
        (here.folder / "registry" / f"{CLASS}-reg.sock").unlink()
        await here.world.until(no_driver, "the driver being forgotten")
        main = container(LIST, claims=["gpu"])
        claims = [from_template("gpu")]
        await here.world.create(pod("p", main, claims=claims, restartPolicy="Never"))

        async def told() -> str:
            notes = [str(each["message"]) for each in await here.world.all(EVENT)]
            return next((note for note in notes if "is not registered" in note), "")

        note = await here.world.until(told, "the event")
        assert note.startswith(f"driver {CLASS} is not registered on this node; next try in")
        later = Plugin(here.driver, here.client, NODE, directories=places_in(here.folder))
        task = here.group.create_task(later.run())
        await here.world.pod_phase("p", "Succeeded")
        await _nothing_left(here)
        task.cancel()

    with_node(story)


async def has_driver(agent: Agent) -> bool:
    return agent.drivers.names != []
