"""The Helm chart of the NVIDIA driver: what it makes is valid, and all that the driver needs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from dray.api import http_messages, kinds
from dray.api.http_messages import Request, User
from dray.api.types.meta import JsonObject
from dray.cli.components import driver as command
from dray.client.api_client import collection_path
from dray.cluster import assembly
from dray.cluster.assembly import ClusterPlan, RunningCluster
from dray.drivers.nvidia import device_classes
from dray.drivers.nvidia.driver import Options
from dray.drivers.nvidia.inventory import Settings
from dray.node.runtimes import sandbox
from dray.store import memory
from tests.cluster.test_nvidia import STAY, running
from tests.nvidia import fake, helm, site
from tests.nvidia.helm import NAMESPACE, RELEASE
from tests.nvidia.machine_driver import FakeMachineDriver
from tests.nvidia.site import NODE, Site, claim_template, shell

ACCOUNT = User(
    f"system:serviceaccount:{NAMESPACE}:{RELEASE}",
    frozenset({"system:serviceaccounts", "system:authenticated"}),
    extra=(("authentication.kubernetes.io/node-name", (NODE,)),),
)
NAMESPACE_BODY = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}


def of_kind(documents: list[JsonObject], kind: str) -> list[JsonObject]:
    return [document for document in documents if document["kind"] == kind]


def driver_container(**values: Any) -> JsonObject:
    (daemon_set,) = of_kind(helm.documents(**values), "DaemonSet")
    (container,) = daemon_set["spec"]["template"]["spec"]["containers"]
    found: JsonObject = container
    return found


async def install(made: RunningCluster, documents: list[JsonObject]) -> None:
    """As `helm install` does: with no field that the server does not know."""
    client = made.client()
    for body in (NAMESPACE_BODY, *documents):
        group, _ = kinds.parse_api_version(body["apiVersion"])
        kind = kinds.served(group, body["kind"])
        path = collection_path(kind, body["metadata"].get("namespace", ""))
        request = Request(
            "POST",
            path,
            (("fieldValidation", "Strict"),),
            {"content-type": http_messages.JSON, "accept": http_messages.JSON},
            msgspec.json.encode(body),
        )
        answer = await client.raw(request)
        assert answer.status == 201, (kind.kind, answer.body)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({}, id="as-it-is"),
        pytest.param(
            {
                "image__tag": "1.2.3",
                "imagePullSecrets": [{"name": "secret"}],
                "driver__dynamicMig": False,
                "driver__shareMemory": True,
                "driver__skipXids": "74,119",
                "deviceClasses__extendedResource": False,
                "nodeSelector": {"gpu": "yes"},
                "affinity": {},
                "resources": {"limits": {"memory": "512Mi"}},
            },
            id="all-changed",
        ),
        pytest.param({"deviceClasses__create": False}, id="without-classes"),
    ],
)
def test_the_api_server_takes_everything_the_chart_makes(
    tmp_path: Path, values: dict[str, Any]
) -> None:
    async def run() -> None:
        async with memory.open() as store, assembly.running(store, tmp_path, ClusterPlan()) as made:
            await install(made, helm.documents(**values))

    asyncio.run(run())


def test_the_classes_are_those_of_the_driver() -> None:
    rendered = of_kind(helm.documents(), "DeviceClass")
    assert [each["metadata"]["name"] for each in rendered] == ["gpu.nvidia.com", "mig.nvidia.com"]
    for document, expected in zip(rendered, device_classes.device_classes(), strict=True):
        assert document["spec"] == msgspec.json.decode(msgspec.json.encode(expected.spec))
        assert expected.metadata.labels.items() <= document["metadata"]["labels"].items()


def test_the_extended_resource_can_be_left_out() -> None:
    rendered = of_kind(helm.documents(deviceClasses__extendedResource=False), "DeviceClass")
    assert not any("extendedResourceName" in each["spec"] for each in rendered)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"driver__dynamicMig": False, "driver__skipXids": "74,119", "driver__shareMemory": True},
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
    assert options.settings.makes_partitions == values.get("driver__dynamicMig", True)
    assert options.skipped_xids == ({74, 119} if values else frozenset())


def test_the_image_has_the_charts_version_unless_told_otherwise() -> None:
    assert driver_container()["image"] == "dray-nvidia:0.1.0"
    assert driver_container(image__tag="2")["image"] == "dray-nvidia:2"


@pytest.mark.skipif(not sandbox.is_usable(), reason="containers cannot be run here")
def test_with_the_charts_permissions_the_driver_can_do_its_work(tmp_path: Path) -> None:
    """Publish, prepare, tell the UUID: all in the name of the chart's service account."""
    hardware = fake.hardware(tmp_path / "machine")

    async def story(here: Site) -> None:
        await here.world.create(claim_template("t"))
        await here.world.create(shell("p", STAY, "t"))
        assert await here.told("p") == hardware.known[0].uuid
        await running(here, "p", "1", "GPU")

    options = Options(Settings(NODE))
    site.with_site(
        story,
        lambda folder: FakeMachineDriver(hardware, folder, options),
        account=ACCOUNT,
        prepare=lambda made: install(made, helm.documents(deviceClasses__create=False)),
    )
