"""The images: each is built on the machine's own Python, and works as the charts run it."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import dray
from dray.api.types.meta import JsonObject
from dray.node.runtimes import podman_arguments
from tests import waiting
from tests.cluster import test_podman
from tests.cluster.world import claim, claim_spec, pod, request
from tests.deploy import base_image, helm
from tests.etcd import free_port
from tests.pages import ROOT
from tests.unit.cli.conftest import Cluster, as_list, fleet_documents, start, stop

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("podman")]

TARGETS = ("tools", "exporter", "scheduler", "driver-nvidia")
PREFIX = "localhost/dray-"
BASE, PATH = f"{PREFIX}base", "/usr/local/bin:/usr/bin:/bin"
ALONE = ("--network=none",)
STOP_SECONDS = 20


class Podman:
    """podman with a storage of its own, which is removed as a whole."""

    def __init__(self, folder: Path) -> None:
        self._storage = folder / "storage"
        self._options = ("--root", str(self._storage), "--runroot", str(folder / "run"))

    def __call__(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            ["podman", *self._options, *arguments], capture_output=True, text=True, check=False
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def build(self, target: str) -> None:
        """Build a target without any network: all that it needs is in the base."""
        self(
            *("build", "--network", "none", "--build-arg", f"BASE={BASE}"),
            *("-f", str(ROOT / "deploy" / "Containerfile"), "--target", target),
            *("-t", f"{PREFIX}{target}", str(ROOT)),
        )

    def output(self, target: str, *arguments: str, options: tuple[str, ...] = ALONE) -> str:
        limits = podman_arguments.ulimits()
        done = self("run", "--rm", *limits, *options, f"{PREFIX}{target}", *arguments, check=False)
        return f"{done.stdout}{done.stderr}"

    def remove(self) -> None:
        for mounted in (self._storage / "overlay",):
            subprocess.run(["umount", str(mounted)], check=False, capture_output=True)
        shutil.rmtree(self._storage.parent)


@pytest.fixture(scope="module")
def podman() -> Iterator[Podman]:
    if reason := test_podman.why_not():
        pytest.skip(f"podman cannot be tried: {reason}")
    # Paths of sockets must be short, which pytest's own folders are not.
    folder = Path(tempfile.mkdtemp(prefix="dray-images-"))
    here = Podman(folder)
    archive = folder / "base.tar"
    try:
        archive.write_bytes(base_image.archive())
        here("import", "--change", f"ENV PATH={PATH}", str(archive), BASE)
        for target in TARGETS:
            here.build(target)
        yield here
    finally:
        here.remove()


def as_in(chart: str) -> tuple[str, ...]:
    """The restrictions that the pods of a chart have, as options of podman."""
    objects = helm.documents(chart)
    (pod,) = (each for each in objects if each["kind"] == "Deployment")
    user = pod["spec"]["template"]["spec"]["securityContext"]
    context = helm.container(objects)["securityContext"]
    assert context["readOnlyRootFilesystem"]
    assert not context["allowPrivilegeEscalation"]
    dropped = (f"--cap-drop={each}" for each in context["capabilities"]["drop"])
    return (
        *("--read-only", "--security-opt=no-new-privileges", *dropped),
        f"--user={user['runAsUser']}:{user['runAsGroup']}",
    )


@pytest.mark.parametrize("target", TARGETS)
def test_each_image_has_this_dray_and_the_least_user(podman: Podman, target: str) -> None:
    (image,) = json.loads(podman("image", "inspect", f"{PREFIX}{target}").stdout)
    is_driver = target == "driver-nvidia"
    assert image["Config"].get("User", "") == ("" if is_driver else "65532:65532")
    shown = podman.output(target, "--version", options=(*ALONE, "--entrypoint=dray"))
    assert shown == f"dray, version {dray.__version__}\n"
    user = podman.output(target, "-u", options=(*ALONE, "--entrypoint=id"))
    assert user == ("0\n" if is_driver else "65532\n")


def test_the_driver_finds_no_gpu_but_all_that_it_needs(podman: Podman) -> None:
    assert "no NVIDIA GPU was found" in podman.output("driver-nvidia")
    shell = (*ALONE, "--entrypoint=sh")
    assert "nsenter" in podman.output("driver-nvidia", "-c", "command -v nsenter", options=shell)
    imported = (*ALONE, "--entrypoint=python")
    assert podman.output("driver-nvidia", "-c", "import pynvml", options=imported) == ""


def reading(cluster: Cluster) -> tuple[str, ...]:
    """Options with which a container reads the kubeconfig of a cluster on this machine."""
    # Whoever runs the container may not be its owner; a pod has a token instead.
    Path(cluster.kubeconfig).chmod(0o644)
    return "--network=host", f"--volume={cluster.kubeconfig}:/home/dray/.kube/config:ro"


@contextlib.contextmanager
def component(podman: Podman, target: str, cluster: Cluster, port: int) -> Iterator[None]:
    """A container with the chart's arguments and restrictions; it ends well when it is stopped."""
    chart = f"dray-{target}"
    arguments = helm.container(helm.documents(chart, {"metrics": {"port": port}}))["args"]
    podman(
        *("run", "--detach", "--name", target, *podman_arguments.ulimits()),
        *(*reading(cluster), *as_in(chart), f"{PREFIX}{target}"),
        *(each.replace("$(POD_IP)", "127.0.0.1") for each in arguments),
    )
    try:
        yield
        podman("stop", "--time", str(STOP_SECONDS), target)
        (state,) = json.loads(podman("container", "inspect", target).stdout)
        assert state["State"]["ExitCode"] == 0
    except AssertionError as error:
        raise AssertionError(f"{error}\n{podman('logs', target, check=False)}") from error
    finally:
        podman("rm", "--force", target, check=False)


def read(url: str) -> str:
    """What a URL answers, as soon as it does so without an error."""

    def look() -> str:
        with contextlib.suppress(OSError), urllib.request.urlopen(url) as answer:
            return str(answer.read().decode())
        return ""

    return waiting.block_until(look, url)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """An API server with nodes and devices, and nothing else."""
    process = start(tmp_path, "--store", "memory")
    here = Cluster(tmp_path / "kubeconfig")
    try:
        documents: list[JsonObject] = [*fleet_documents("quickstart")]
        for each in documents:
            if each["kind"] == "Node":
                each["metadata"].setdefault("labels", {})["scheduler"] = "dray"
        created = here.dray("create", "-f", "-", input=as_list(documents))
        assert created.exit_code == 0, created.output
        yield here
    finally:
        assert stop(process) == 0


def test_the_tools_read_a_cluster(podman: Podman, cluster: Cluster) -> None:
    options = (*reading(cluster), "--read-only")
    assert "gpu-0/gpu-0" in podman.output("tools", "get", "devices", options=options)


def test_the_scheduler_gives_a_pod_its_device(podman: Podman, cluster: Cluster) -> None:
    port = free_port()
    body = pod("user", claim="one")
    body["spec"] |= {"schedulerName": "dray", "tolerations": [{"operator": "Exists"}]}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": helm.NAMESPACE}}
    for_lease = as_list([namespace])
    documents = as_list([claim("one", claim_spec(request())), body])
    assert cluster.dray("create", "-f", "-", input=for_lease).exit_code == 0
    with component(podman, "scheduler", cluster, port):
        read(f"http://127.0.0.1:{port}/readyz")
        assert cluster.dray("create", "-f", "-", input=documents).exit_code == 0
        waited = cluster.dray(
            *("wait", "pod/user", "--for=condition=PodScheduled", "--timeout=60s")
        )
        assert waited.exit_code == 0, waited.output


def test_the_exporter_shows_the_devices(podman: Podman, cluster: Cluster) -> None:
    port = free_port()
    with component(podman, "exporter", cluster, port):
        read(f"http://127.0.0.1:{port}/readyz")
        shown = read(f"http://127.0.0.1:{port}/metrics")
        assert 'dray_device_class_devices{device_class="gpu.nvidia.com",state="free"}' in shown
