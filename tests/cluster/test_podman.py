"""The core stories with podman, in an image that the test makes from a static busybox."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.api.types.meta import JsonObject
from dray.node.runtimes import podman
from dray.node.runtimes.interface import RuntimeUnusable
from tests.cluster.site import LIST, Site, container, from_template, pod, template, with_node

pytestmark = pytest.mark.xdist_group("podman")

IMAGE = f"localhost/dray-test-busybox-{os.getpid()}:latest"
"""Of this process: others make and remove their own meanwhile."""
COMMANDS = (
    *("sh", "sed", "cat", "echo", "sleep", "ls", "grep", "env", "true", "awk", "id", "nc"),
    "stat",
)
BUSYBOX = (Path("/usr/bin/busybox"), Path("/bin/busybox"))


def why_not() -> str:
    """Why podman cannot be tried here; empty if it can."""
    if not any(path.exists() for path in BUSYBOX):
        return "busybox-static is not installed"
    try:
        podman.Podman().try_out()
    except RuntimeUnusable as error:
        return str(error)
    return ""


def made_image() -> Iterator[None]:
    if reason := why_not():
        pytest.skip(f"podman cannot be tried: {reason}")
    subprocess.run(["podman", "import", "-", IMAGE], input=layer(), check=True, capture_output=True)
    yield
    subprocess.run(["podman", "rmi", "--force", IMAGE], check=False, capture_output=True)


image = pytest.fixture(scope="module", autouse=True)(made_image)


def layer() -> bytes:
    """A file system with nothing but busybox under its many names."""
    made = io.BytesIO()
    busybox = next(path for path in BUSYBOX if path.exists())
    with tarfile.open(fileobj=made, mode="w") as archive:
        archive.add(busybox.resolve(), "bin/busybox")
        for name in COMMANDS:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(link)
    return made.getvalue()


def in_image(script: str, name: str = "main", claims: tuple[str, ...] = ()) -> JsonObject:
    made = container(script, name, claims=claims)
    return {**made, "image": IMAGE, "imagePullPolicy": "Never"}


def test_a_pod_sees_its_image_and_its_device_and_nothing_else() -> None:
    async def story(here: Site) -> None:
        await here.world.create(template("t"))
        with_claim = in_image(f"/opt/bin/{LIST}; ls /; exec sleep 1000", "with", ("gpu",))
        without = in_image("ls /opt /run/dray; env | grep -c _DEVICE_; exec sleep 1000", "without")
        await here.world.create(pod("p", with_claim, without, claims=[from_template("gpu")]))
        await here.world.pod_phase("p", "Running")
        first, *listed = (await here.output("p", "with", lines=3)).splitlines()
        uuid = await here.uuid(await here.world.claim_of("p"))
        assert first == f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: {uuid})"
        assert "bin" in listed
        assert "root" not in listed
        assert "UUID" not in await here.output("p", "without")
        outcome, printed, _ = await here.execute("p", "cat", typed=b"hello", container="with")
        assert (outcome.code, printed) == (0, b"hello")
        outcome, _, _ = await here.execute("p", "sh", "-c", "exit 4", container="without")
        assert outcome.code == 4

    with_node(story, runtime=podman.NAME)


def test_exit_codes_are_told_and_missing_images_named() -> None:
    async def story(here: Site) -> None:
        ending = in_image("echo last words; exit 3")
        await here.world.create(pod("p", ending, restartPolicy="Never"))
        found = await here.world.pod_phase("p", "Failed")
        (status,) = found["status"]["containerStatuses"]
        assert status["state"]["terminated"]["exitCode"] == 3
        assert status["imageID"] == f"podman://{IMAGE}"
        assert await here.log("p") == "last words\n"
        missing = {**in_image("true"), "image": "localhost/no-such-image:latest"}
        await here.world.create(pod("q", missing))
        message = await here.waiting("q", "ErrImageNeverPull")
        assert "localhost/no-such-image:latest" in message

    with_node(story, runtime=podman.NAME)


def test_arguments_alone_are_left_to_the_image() -> None:
    async def story(here: Site) -> None:
        main = {"name": "main", "image": IMAGE, "imagePullPolicy": "Never", "args": ["id"]}
        await here.world.create(pod("p", main, restartPolicy="Never"))
        await here.world.pod_phase("p", "Succeeded")
        assert (await here.log("p")).startswith("uid=0")

    with_node(story, runtime=podman.NAME)
