"""The Helm chart of the NVIDIA driver: what it makes is valid, and all that the driver needs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from dray.api import errors, kinds
from dray.api.http_messages import Request
from dray.api.types.meta import JsonObject
from dray.apiserver.server import Settings as ServerSettings
from dray.cli.components import driver as command
from dray.client import events
from dray.cluster import assembly
from dray.cluster.assembly import ClusterPlan, RunningCluster
from dray.drivers.nvidia import device_classes
from dray.drivers.nvidia.driver import Options
from dray.drivers.nvidia.hardware import GpuFault
from dray.drivers.nvidia.inventory import Settings
from dray.node.runtimes import sandbox
from dray.store import memory
from tests import audit
from tests.audit import Right
from tests.cluster.test_nvidia import STAY, running
from tests.cluster.world import World, claim
from tests.deploy import helm, installing
from tests.nvidia import fake, site
from tests.nvidia.fake import FakeHardware
from tests.nvidia.machine_driver import FakeMachineDriver
from tests.nvidia.site import NODE, Site, claim_template, shell

CHART = "dray-nvidia"
ACCOUNT = installing.account(CHART, NODE)
INSIDE: set[Right] = {("associated-node:patch", "resource.k8s.io", "resourceclaims/driver")}
"""What the server asks for inside of a request, so that the audit log does not have it."""


def driver_container(**values: Any) -> JsonObject:
    found: JsonObject = helm.container(helm.documents(CHART, values))
    return found


def test_the_classes_are_those_of_the_driver() -> None:
    rendered = helm.of_kind(helm.documents(CHART), "DeviceClass")
    assert [each["metadata"]["name"] for each in rendered] == ["gpu.nvidia.com", "mig.nvidia.com"]
    for document, expected in zip(rendered, device_classes.device_classes(), strict=True):
        assert document["spec"] == msgspec.json.decode(msgspec.json.encode(expected.spec))
        assert expected.metadata.labels.items() <= document["metadata"]["labels"].items()


def test_the_extended_resource_can_be_left_out() -> None:
    objects = helm.documents(CHART, {"deviceClasses": {"extendedResource": False}})
    rendered = helm.of_kind(objects, "DeviceClass")
    assert not any("extendedResourceName" in each["spec"] for each in rendered)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"driver": {"dynamicMig": False, "skipXids": "74,119", "shareMemory": True}},
    ],
)
def test_the_command_takes_the_arguments_of_the_container(
    monkeypatch: pytest.MonkeyPatch, values: dict[str, Any]
) -> None:
    called: list[Options] = []

    def find(_folder: Path, options: Options, root: Path) -> None:
        called.append(options)
        raise SystemExit(str(root))

    monkeypatch.setattr(command, "_find", find)
    arguments = driver_container(**values)["args"]
    ended = CliRunner().invoke(command.driver, ["nvidia", *arguments], env={"NODE_NAME": "n1"})
    assert str(ended.exception) == "/host", ended.output
    (options,) = called
    assert options.settings.node == "n1"
    assert options.settings.makes_partitions == (not values)
    assert options.skipped_xids == ({74, 119} if values else frozenset())


def test_the_image_has_the_charts_version_unless_told_otherwise() -> None:
    assert driver_container()["image"] == "dray-nvidia:0.1.0"
    assert driver_container(image={"tag": "2"})["image"] == "dray-nvidia:2"


async def share_a_gpu(here: Site, uuid: str) -> None:
    """One claim after the other is told that nothing limits it; so is one claim twice."""
    request = claim_template("t")["spec"]["spec"]["devices"]["requests"][0]
    request["exactly"]["capacity"] = {"requests": {"memory": "60Gi"}}
    await here.world.create(claim("shared", {"devices": {"requests": [request]}}))
    for name in ("first", "second"):
        use = {"name": "gpu", "resourceClaimName": "shared"}
        body = shell(name, STAY, "t")
        body["spec"]["resourceClaims"] = [use]
        await here.world.create(body)
        await running(here, name, "1", f"GPU {uuid}")
        await here.remove(name)


async def break_a_gpu(here: Site, hardware: FakeHardware) -> None:
    hardware.faults.append(GpuFault(hardware.known[0].uuid, 79))
    here.driver.changed()

    async def is_tainted() -> bool:
        (published,) = await here.world.all(kinds.RESOURCE_SLICE)
        return any(device.get("taints") for device in published["spec"]["devices"])

    await here.world.until(is_tainted, "the GPU being tainted")


async def publish_for_it(here: Site) -> None:
    """Somebody else's slice of the driver's pool, which it removes."""
    (published,) = await here.world.all(kinds.RESOURCE_SLICE)
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}
    await here.world.create({**body, "metadata": {"name": "wrong"}, "spec": published["spec"]})

    async def is_gone() -> bool:
        return len(await here.world.all(kinds.RESOURCE_SLICE)) == 1

    await here.world.until(is_gone, "the slice being removed")


async def install(made: RunningCluster, objects: list[JsonObject]) -> None:
    await installing.make_namespace(made.client())
    await installing.install(made.client(), objects)


@pytest.mark.skipif(not sandbox.is_usable(), reason="containers cannot be run here")
def test_a_working_day_uses_every_right_and_is_refused_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Publish, prepare, tell the UUID, warn: all in the name of the chart's service account."""
    monkeypatch.setattr(events, "FIRST_UPDATE_SECONDS", 0.0)
    hardware = fake.hardware(tmp_path / "machine")
    log = tmp_path / "audit"
    objects = helm.documents(CHART, {"deviceClasses": {"create": False}})

    async def story(here: Site) -> None:
        await share_a_gpu(here, hardware.known[0].uuid)
        await break_a_gpu(here, hardware)
        await publish_for_it(here)

    options = Options(Settings(NODE, shares_memory=True))
    site.with_site(
        story,
        lambda folder: FakeMachineDriver(hardware, folder, options),
        account=ACCOUNT,
        prepare=lambda made: install(made, objects),
        settings=ServerSettings(audit_log=log),
    )
    asked = [each for each in audit.read(log) if each.user == ACCOUNT.name]
    assert audit.refused(asked) == set()
    assert installing.rights(objects) - {each.right for each in asked} == INSIDE


@pytest.mark.skipif(not sandbox.is_usable(), reason="containers cannot be run here")
def test_the_right_to_the_status_of_its_devices_is_needed(tmp_path: Path) -> None:
    """The one that no audit log shows: without it the server refuses what tells the UUID."""
    log = tmp_path / "audit"
    objects = helm.documents(CHART, {"deviceClasses": {"create": False}})
    for body in helm.of_kind(objects, "ClusterRole"):
        body["rules"] = [
            rule for rule in body["rules"] if rule["resources"] != ["resourceclaims/driver"]
        ]

    async def story(here: Site) -> None:
        await here.world.create(claim_template("t"))
        await here.world.create(shell("p", STAY, "t"))

        async def is_refused() -> bool:
            return any(
                each.resource == "resourceclaims/status" and each.code >= 400
                for each in audit.read(log)
                if each.user == ACCOUNT.name
            )

        await here.world.until(is_refused, "a refusal")

    hardware = fake.hardware(tmp_path / "machine")
    site.with_site(
        story,
        lambda folder: FakeMachineDriver(hardware, folder, Options(Settings(NODE))),
        account=ACCOUNT,
        prepare=lambda made: install(made, objects),
        settings=ServerSettings(audit_log=log),
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"nodeName": "another"}, "the node on which it runs"),
        ({"nodeName": None, "allNodes": True}, "the node on which it runs"),
        ({"driver": "gpu.example.com"}, "of the driver gpu.nvidia.com"),
    ],
)
def test_the_driver_may_only_publish_for_its_own_node(
    tmp_path: Path, changes: JsonObject, words: str
) -> None:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.nvidia.com", "nodeName": NODE, "pool": pool, **changes}
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "spec": spec}
    body["metadata"] = {"name": "s"}

    async def run() -> None:
        plan = ClusterPlan(schedules=False, controls=False)
        async with memory.open() as store, assembly.running(store, tmp_path, plan) as made:
            await install(made, helm.documents(CHART))
            world, driver = World(made, made.client()), made.client(ACCOUNT)

            async def is_known() -> bool:
                """Whether the server has noticed the role and the policy."""
                answer = await driver.raw(dry_run(body))
                return answer.status == 201 if not words else words in str(answer.body)

            await world.until(is_known, words or "the slice being allowed")
            await world.create(body)
            if words:
                with pytest.raises(errors.StatusError, match=words):
                    await driver.delete(kinds.RESOURCE_SLICE, "s")
            else:
                await driver.delete(kinds.RESOURCE_SLICE, "s")

    asyncio.run(run())


def dry_run(body: JsonObject) -> Request:
    path = "/apis/resource.k8s.io/v1/resourceslices"
    content = msgspec.json.encode(body)
    return Request("POST", path, (("dryRun", "All"),), installing.JSON, content)
