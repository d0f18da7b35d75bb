"""Specifications of containers: their mounts, devices, names and working directories."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from dray.driverkit import cdi
from dray.driverkit.cdi import CdiError, DeviceNode, Edits, Hook, Mount
from dray.node.devices.drivers import DriverDevice
from dray.node.devices.preparation import ClaimRecord
from dray.node.pods import container_specs
from dray.node.pods.context import PodState
from dray.node.runtimes.interface import Bind, ContainerConfigError, ContainerSpec
from dray.node.specs.image_stand_ins import NO_IMAGES, ImageStandIns, StandIn
from dray.node.specs.volumes import PreparedVolume
from tests.unit.node import fakes
from tests.unit.node.fakes import FakeNode, FakeRuntime


class NoImages(FakeRuntime):
    has_images = has_own_etc = False
    mounts_files = True


class OwnEtc(NoImages):
    has_own_etc = True


def built(
    folder: Path,
    edits: Edits | None = None,
    *,
    spec: Any = None,
    runtime: FakeRuntime | None = None,
    images: ImageStandIns = NO_IMAGES,
    **container: Any,
) -> ContainerSpec:
    async def build() -> ContainerSpec:
        node = FakeNode(folder / "pods")
        node.folder.mkdir()
        node.runtime = runtime or NoImages()
        cdi.write(folder / "cdi", "d.json", "d/claim", {"0": edits or Edits()})
        config = dataclasses.replace(node.context.runtime_config, images=images)
        context = dataclasses.replace(
            node.context, cdi_directories=(folder / "cdi",), runtime_config=config
        )
        claims: Any = {"resources": {"claims": [{"name": "mine"}]}}
        state = PodState(fakes.pod(fakes.container(**claims, **container), **(spec or {})))
        devices = (DriverDevice("d", ("gpu",), "n1", "gpu-0", ("d/claim=0",)),)
        state.prepared_claims = {"mine": ClaimRecord("ns", "c", "u", ("d",), ("u",), devices, True)}
        (folder / "v").mkdir()
        state.volumes = {"v": PreparedVolume(folder / "v")}
        return await container_specs.build(context, state, state.pod.spec.containers[0])

    return asyncio.run(build())


def test_a_stand_in_gives_its_command_and_files(tmp_path: Path) -> None:
    pause = StandIn("example.com/pause", ("sleep", "9"), {"/tool": "/usr/bin/env"})
    images = ImageStandIns({pause.name: pause})
    made = built(tmp_path, images=images, image="example.com/pause:3", command=[], args=["x"])
    assert (made.command, made.args) == (("sleep", "9"), ("x",))
    assert made.binds[0] == Bind("/usr/bin/env", "/tool")


def test_a_command_takes_the_place_of_that_of_a_stand_in(tmp_path: Path) -> None:
    images = ImageStandIns({"example.com/a": StandIn(command=("sleep", "9"))})
    assert built(tmp_path, images=images, image="example.com/a", command=["b"]).command == ("b",)


def test_without_a_command_and_an_image_there_is_nothing_to_run(tmp_path: Path) -> None:
    with pytest.raises(ContainerConfigError, match="--images"):
        built(tmp_path, command=[])


def test_home_follows_the_variables_of_devices(tmp_path: Path) -> None:
    made = built(tmp_path, Edits(env={"GPU": "1"}), env=[{"name": "HOME", "value": "/h"}])
    assert [*made.env][-2:] == ["GPU", "HOME"]


@pytest.mark.parametrize("name", ["hostIP", "hostIPs", "podIP", "podIPs"])
def test_addresses_are_known_before_the_status_is_written(tmp_path: Path, name: str) -> None:
    variable = {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": f"status.{name}"}}}
    assert built(tmp_path, env=[variable]).env["A"] == "10.0.0.1"


def test_paths_of_devices_are_made_absolute(tmp_path: Path) -> None:
    edits = Edits(
        device_nodes=(DeviceNode("/dev//gpu0"), DeviceNode("dev/b", "/dev/c")),
        mounts=(Mount("/host", "/opt/./lib/"),),
    )
    made = built(tmp_path, edits)
    assert [(node.path, node.host_path) for node in made.device_nodes] == [
        ("/dev/gpu0", "/dev//gpu0"),
        ("/dev/b", "/dev/c"),
    ]
    assert made.binds[-1].target == "/opt/lib"
    assert made.binds[-1].read_only


def test_hooks_of_devices_are_named_because_they_are_not_run(tmp_path: Path) -> None:
    hooks = (Hook("createContainer", "/usr/bin/a"), Hook("startContainer", "/usr/bin/a"))
    assert built(tmp_path, Edits(hooks=hooks)).unrun_hooks == ("/usr/bin/a",)


@pytest.mark.parametrize(
    "edits",
    [
        Edits(device_nodes=(DeviceNode("/dev/../x"),)),
        Edits(mounts=(Mount("/host", "/a/../../b"),)),
        Edits(mounts=(Mount("/host", "/a\0"),)),
    ],
)
def test_paths_of_devices_that_no_container_has(tmp_path: Path, edits: Edits) -> None:
    with pytest.raises(CdiError, match="a path that no container can have"):
        built(tmp_path, edits)


@pytest.mark.parametrize("path", ["/etc", "/etc/hosts"])
def test_a_volume_in_etc_takes_the_place_of_a_file(tmp_path: Path, path: str) -> None:
    made = built(tmp_path, volumeMounts=[{"name": "v", "mountPath": path}])
    assert [bind.source for bind in made.binds if bind.target == path] == [str(tmp_path / "v")]
    assert "/etc/hosts" not in made.files
    assert ("/etc/passwd" in made.files) == (path == "/etc/hosts")


ALIAS = {"ip": "10.0.0.9", "hostnames": ["db", "db.local"]}
HOSTS = {"127.0.0.1\tlocalhost", "10.0.0.1\th", "10.0.0.9\tdb\tdb.local"}


def test_the_names_of_a_container(tmp_path: Path) -> None:
    made = built(tmp_path, spec={"hostname": "h", "hostAliases": [ALIAS]})
    assert {*made.files["/etc/hosts"].splitlines()} > HOSTS
    assert made.files["/etc/hostname"] == "h\n"
    assert not (tmp_path / "pods" / "u").exists()


def test_the_names_of_a_container_with_an_etc_of_its_own(tmp_path: Path) -> None:
    made = built(tmp_path, runtime=OwnEtc(), spec={"hostname": "h", "hostAliases": [ALIAS]})
    etc = tmp_path / "pods" / "u" / "etc"
    assert not made.files
    assert [bind.target for bind in made.binds] == ["/etc/hosts", "/etc/resolv.conf"]
    assert {*(etc / "hosts").read_text("utf-8").splitlines()} > HOSTS
    assert (etc / "hosts").stat().st_mode & 0o777 == 0o644
    assert etc.parent.stat().st_mode & 0o777 == 0o700


def test_working_directories(tmp_path: Path) -> None:
    assert built(tmp_path, workingDir="a//b/").working_directory == "/a/b"


@pytest.mark.parametrize("path", ["/a/../b", "/a\0"])
def test_working_directories_that_are_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(ContainerConfigError, match="container main: workingDir"):
        built(tmp_path, workingDir=path)


def test_the_network_of_the_host_needs_access_to_it(tmp_path: Path) -> None:
    with pytest.raises(ContainerConfigError, match=r"spec\.hostNetwork: needs --allow-host"):
        built(tmp_path, spec={"hostNetwork": True})
