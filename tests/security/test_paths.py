"""Paths that a pod chooses or a container plants: nothing outside its volumes is touched."""

from __future__ import annotations

import asyncio
import base64
import ctypes
import os
import stat
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dray.api.types.containers import Container, VolumeMount
from dray.api.types.pods import Pod
from dray.node import host_paths
from dray.node.host_paths import SafeFolder, UnsafePath
from dray.node.runtimes.interface import ContainerConfigError, HostIds
from dray.node.specs import volumes
from dray.node.specs.volumes import PreparedVolume, Volumes
from tests.cluster.site import Site, container, needs_sandbox, pod, with_node
from tests.security import ordinary_user

SECRET = b"the key of the cluster"


class Documents:
    """An API with one ConfigMap and one Secret."""

    def __init__(self, data: dict[str, str]) -> None:
        self._data = data

    async def get(self, kind: Any, _name: str, _namespace: str) -> Any:
        if kind.singular == "secret":
            return {"data": {k: base64.b64encode(v.encode()) for k, v in self._data.items()}}
        return {"data": self._data}


class Node:
    """The folder of an agent, beside a file of the host that nobody may touch."""

    def __init__(self, folder: Path) -> None:
        self.outside = folder / "outside"
        self.outside.mkdir()
        (self.outside / "key").write_bytes(SECRET)
        self.pods = folder / "agent" / "pods"
        self.pods.mkdir(parents=True)
        self.before = self.seen()

    def seen(self) -> list[tuple[str, bytes, int]]:
        """What is outside the agent's folder, with the modes."""
        paths = sorted(self.outside.rglob("*"))
        return [
            (path.name, path.read_bytes() if path.is_file() else b"", path.lstat().st_mode)
            for path in (self.outside, *paths)
        ]

    @property
    def volume(self) -> Path:
        return self.pods / "u" / "volumes" / "v"

    def prepare(self, source: Any, *, data: dict[str, str] | None = None, **options: Any) -> Any:
        document = {
            "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"a": "b"}},
            "spec": {"volumes": [{"name": "v", **source}], **options.pop("spec", {})},
        }
        client: Any = Documents(data or {})
        made = Volumes(client, self.pods, **options)
        return asyncio.run(made.prepare(msgspec.convert(document, Pod)))["v"]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    assert made.seen() == made.before


def mounted(volume: PreparedVolume, **mount: Any) -> list[Any]:
    listed = (VolumeMount(name="v", **{"mount_path": "/v", **mount}),)
    return volumes.binds(Container(name="c", volume_mounts=listed), {"v": volume}, {"E": "../x"})


LEAVING = {
    "parent": "..",
    "sibling": "../other",
    "up-and-down": "a/../../b",
    "up-at-the-end": "a/..",
    "absolute": "/etc",
    "absolute-twice": "//etc",
    "dot-and-parent": "./..",
    "parent-with-slashes": "..//",
    "hidden-parent": "a/./../..",
    "nul": "a\0b",
    "nul-before-parent": "\0/..",
    "long-name": "x" * 256,
    "long-path": "/".join(["x" * 200] * 25),
    "long-in-bytes": "ü" * 128,
    "not-unicode": "a\ud800b",
}
STAYING = {
    "dots-in-name": "..a",
    "three-dots": "...",
    "newline": "a\nb",
    "space": " ",
    "dash": "-rf",
    "double-slash": "a//b",
    "dot": "./a/.",
    "colon": "a:b:ro",
    "comma": "a,b",
    "percent": "%2e%2e",
    "backslash": "..\\..\\x",
    "glob": "*",
    "full-width-dots": "．．/x",
}


@pytest.mark.parametrize("path", LEAVING.values(), ids=LEAVING)
def test_a_path_that_leaves_the_volume(node: Node, path: str) -> None:
    empty = node.prepare({"emptyDir": {}})
    with pytest.raises(ContainerConfigError, match=r"container c: volumeMounts\[0\]"):
        mounted(empty, sub_path=path)
    item = {"name": "m", "items": [{"key": "k", "path": path}]}
    with pytest.raises(ContainerConfigError, match=r"spec.volumes\[0\] \(v\)"):
        node.prepare({"configMap": item}, data={"k": "x"})
    field = {"fieldPath": "metadata.name"}
    with pytest.raises(ContainerConfigError, match=r"spec.volumes\[0\] \(v\)"):
        node.prepare({"downwardAPI": {"items": [{"path": path, "fieldRef": field}]}})
    assert list(node.volume.iterdir()) == []


def test_an_expression_that_leaves_the_volume(node: Node) -> None:
    empty = node.prepare({"emptyDir": {}})
    with pytest.raises(ContainerConfigError, match=r"must not contain '..'"):
        mounted(empty, sub_path_expr="$(E)")


@pytest.mark.parametrize("path", STAYING.values(), ids=STAYING)
def test_a_strange_path_that_stays_in_the_volume(node: Node, path: str) -> None:
    (bind,) = mounted(node.prepare({"emptyDir": {}}), sub_path=path)
    assert (node.volume / bind.beneath).is_dir()
    assert node.volume in (node.volume / bind.beneath).resolve().parents
    item = {"name": "m", "items": [{"key": "k", "path": f"file/{path}"}]}
    node.prepare({"configMap": item}, data={"k": "x"})
    assert (node.volume / "file" / os.path.normpath(path)).read_bytes() == b"x"


def link(target: str) -> Callable[[Node, Path], None]:
    return lambda node, path: path.symlink_to(target.format(outside=node.outside))


def self_loop(_node: Node, path: Path) -> None:
    path.symlink_to(path.name)


def link_to_link(node: Node, path: Path) -> None:
    path.with_name("other").symlink_to(node.outside)
    path.symlink_to("other")


def pipe(_node: Node, path: Path) -> None:
    os.mkfifo(path)


def file(_node: Node, path: Path) -> None:
    path.write_bytes(b"")


LINKS = {
    "absolute": link("{outside}"),
    "relative": link("../../../../../outside"),
    "proc-root": link("/proc/self/root{outside}"),
    "magic": link("/proc/self/cwd"),
    "dangling": link("{outside}/missing"),
    "loop": self_loop,
    "link-to-link": link_to_link,
    "to-itself-by-dots": link("../v"),
}
OTHERS = {"pipe": pipe, "file": file}


@pytest.mark.parametrize("plant", LINKS.values(), ids=LINKS)
def test_a_planted_link_at_the_end_of_a_sub_path(
    node: Node, plant: Callable[[Node, Path], None]
) -> None:
    empty = node.prepare({"emptyDir": {}})
    plant(node, node.volume / "evil")
    with pytest.raises(ContainerConfigError, match="link"):
        mounted(empty, sub_path="evil")


@pytest.mark.parametrize("plant", [*LINKS.values(), *OTHERS.values()], ids=[*LINKS, *OTHERS])
@pytest.mark.parametrize("beyond", ["key", "made", "made/deeper"])
def test_a_planted_link_on_the_way(
    node: Node, plant: Callable[[Node, Path], None], beyond: str
) -> None:
    empty = node.prepare({"emptyDir": {}})
    plant(node, node.volume / "evil")
    with pytest.raises(ContainerConfigError, match="links are not followed"):
        mounted(empty, sub_path=f"evil/{beyond}")
    config = {"configMap": {"name": "m", "items": [{"key": "k", "path": f"evil/{beyond}"}]}}
    with pytest.raises(ContainerConfigError, match="links are not followed"):
        node.prepare(config, data={"k": "x"})


@pytest.mark.parametrize("plant", [*LINKS.values(), *OTHERS.values()], ids=[*LINKS, *OTHERS])
@pytest.mark.parametrize("name", ["key", "..new"])
def test_a_file_is_replaced_and_not_written_through(
    node: Node, plant: Callable[[Node, Path], None], name: str
) -> None:
    """A container of an earlier version could write its ConfigMap volume."""
    node.prepare({"configMap": {"name": "m"}}, data={})
    plant(node, node.volume / name)
    made = node.prepare({"configMap": {"name": "m"}}, data={"key": "new"})
    assert (node.volume / "key").read_bytes() == b"new"
    assert stat.S_ISREG((node.volume / "key").lstat().st_mode)
    assert made.is_read_only


def test_a_hard_link_is_replaced_and_not_written_through(node: Node) -> None:
    node.prepare({"configMap": {"name": "m"}}, data={})
    other = node.volume / "other"
    other.write_bytes(b"mine")
    os.link(other, node.volume / "key")
    node.prepare({"configMap": {"name": "m"}}, data={"key": "new"})
    assert other.read_bytes() == b"mine"


@pytest.mark.parametrize("plant", [*LINKS.values(), pipe], ids=[*LINKS, "pipe"])
def test_what_a_container_left_is_not_read(node: Node, plant: Callable[[Node, Path], None]) -> None:
    node.prepare({"emptyDir": {}})
    plant(node, node.volume / "message")
    with SafeFolder.open(node.volume) as folder, pytest.raises(UnsafePath):
        folder.read("message", 100)


def test_only_the_beginning_of_a_file_is_read(node: Node) -> None:
    node.prepare({"emptyDir": {}})
    with (node.volume / "message").open("wb") as file:
        file.truncate(1 << 40)
    with SafeFolder.open(node.volume) as folder:
        assert folder.read("message", 100) == b"\0" * 100


@pytest.mark.parametrize("plant", [*LINKS.values(), *OTHERS.values()], ids=[*LINKS, *OTHERS])
def test_the_folder_of_a_pod_is_removed_without_following(
    node: Node, plant: Callable[[Node, Path], None]
) -> None:
    node.prepare({"emptyDir": {}})
    plant(node, node.volume / "evil")
    (node.volume / "a\nb").mkdir()
    plant(node, node.volume / "a\nb" / "-rf")
    (node.volume / "a\nb").chmod(0)
    host_paths.remove_tree(node.pods / "u")
    assert not (node.pods / "u").exists()


def test_a_link_in_place_of_the_folder_of_a_pod(node: Node) -> None:
    (node.pods / "u").symlink_to(node.outside)
    with pytest.raises(OSError, match="Not a directory"):
        host_paths.remove_tree(node.pods / "u")


def test_a_deep_tree_is_removed(node: Node) -> None:
    """Deeper than the stack of the agent, its descriptors and the longest path."""
    node.prepare({"emptyDir": {}})
    descriptor = os.open(node.volume, os.O_RDONLY)
    for _ in range(5000):
        os.mkdir("a-folder", dir_fd=descriptor)
        below = os.open("a-folder", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.mkdir("beside", 0o000, dir_fd=descriptor)
    os.close(descriptor)
    host_paths.remove_tree(node.pods / "u")
    assert not (node.pods / "u").exists()


def test_a_tree_that_takes_every_right_away_is_removed(node: Node) -> None:
    node.prepare({"emptyDir": {}})
    folders = [node.volume / "/".join(["d"] * depth) for depth in range(1, 20)]
    for folder in folders:
        folder.mkdir()
        (folder / "f").touch(mode=0)
    for folder in reversed([node.volume, *folders]):
        folder.chmod(0)
    host_paths.remove_tree(node.pods / "u")
    assert not (node.pods / "u").exists()


class Swapping:
    """Exchanges a folder and a link to the outside under one name, as fast as it can."""

    def __init__(self, node: Node) -> None:
        self._link, self._name = node.volume / "link", node.volume / "name"
        self._link.symlink_to(node.outside)
        self._name.mkdir()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._swap)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _swap(self) -> None:
        exchange, here = 2, -100
        libc = ctypes.CDLL(None)
        names = os.fsencode(self._link), os.fsencode(self._name)
        while not self._ends.is_set():
            assert libc.renameat2(here, names[0], here, names[1], exchange) == 0


def test_a_folder_that_is_swapped_for_a_link_meanwhile(node: Node) -> None:
    empty = node.prepare({"emptyDir": {}})
    outcomes: Counter[str] = Counter()
    with Swapping(node), SafeFolder.open(node.volume) as folder:
        while outcomes.total() < 3000 or len(outcomes) < 2:
            number = outcomes.total() % 7
            try:
                folder.write(f"name/file{number}", b"x", mode=0o644)
                mounted(empty, sub_path=f"name/sub{number}")
                with pytest.raises(FileNotFoundError):
                    folder.read("name/key", 10)
                outcomes["used"] += 1
            except (UnsafePath, ContainerConfigError):
                outcomes["refused"] += 1


TARGETS = [
    "/",
    "//",
    "/.",
    "/proc",
    "/proc/",
    "/proc/sys",
    "/./proc/1",
    "/sys",
    "/dev",
    "/a/../..",
    "a\0",
]


@pytest.mark.parametrize("path", TARGETS, ids=repr)
def test_a_mount_path_that_is_the_system_s(node: Node, path: str) -> None:
    with pytest.raises(ContainerConfigError, match=r"volumeMounts\[0\]"):
        mounted(node.prepare({"emptyDir": {}}), mount_path=path)


@pytest.mark.parametrize("path", ["v", "/v/", "//v", "/./v"])
def test_mount_paths_are_made_absolute(node: Node, path: str) -> None:
    (bind,) = mounted(node.prepare({"emptyDir": {}}), mount_path=path)
    assert bind.target == "/v"


@pytest.mark.parametrize(
    "source",
    [
        {"configMap": {"name": "m"}},
        {"secret": {"secretName": "s"}},
        {"downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"projected": {"sources": [{"configMap": {"name": "m"}}]}},
    ],
    ids=lambda source: next(iter(source)),
)
def test_files_of_the_api_are_read_only(node: Node, source: Any) -> None:
    (bind,) = mounted(node.prepare(source, data={"k": "x"}), read_only=False)
    assert bind.read_only


def test_the_modes_of_files(node: Node) -> None:
    items = [{"key": "a", "path": "a", "mode": 0o600}, {"key": "b", "path": "b"}]
    source = {"secret": {"secretName": "s", "defaultMode": 0o400, "items": items}}
    node.prepare(source, data={"a": "1", "b": "2"})
    modes = [stat.S_IMODE((node.volume / name).stat().st_mode) for name in ("a", "b")]
    assert modes == [0o600, 0o400]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_files_belong_to_the_pod(node: Node) -> None:
    spec = {"securityContext": {"fsGroup": 2000}}
    ids = HostIds(100000, 200000, 65536)
    source = {"secret": {"secretName": "s", "defaultMode": 0o400}}
    node.prepare(source, data={"a/b": "1"}, ids=ids, spec=spec)
    found = (node.volume / "a" / "b").stat()
    assert (found.st_uid, found.st_gid) == (100000, 202000)
    assert stat.S_IMODE(found.st_mode) == 0o440
    node.prepare({"emptyDir": {}}, ids=ids, spec=spec)
    found = node.volume.stat()
    assert (found.st_uid, found.st_gid) == (100000, 202000)
    assert stat.S_IMODE(found.st_mode) == 0o2777


@pytest.mark.parametrize("ids", [None, HostIds(1000, 1000)])
def test_a_group_that_the_pod_does_not_have_is_refused(node: Node, ids: HostIds | None) -> None:
    spec = {"securityContext": {"fsGroup": 2000}}
    with pytest.raises(ContainerConfigError, match=r"spec.securityContext.fsGroup: 2000"):
        node.prepare({"emptyDir": {}}, ids=ids, spec=spec)


@pytest.mark.parametrize(
    ("kind", "made"),
    [
        ("", "file"),
        ("Directory", "folder"),
        ("File", "file"),
        ("DirectoryOrCreate", ""),
        ("FileOrCreate", ""),
        ("CharDevice", "/dev/null"),
    ],
)
def test_the_types_of_host_paths(node: Node, tmp_path: Path, kind: str, made: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    path = tmp_path / (made or "made")
    source = {"hostPath": {"path": str(path), "type": kind}}
    assert node.prepare(source, allows_host=True).path == path
    for other in {"Directory", "File", "Socket", "BlockDevice"} - {kind.removesuffix("OrCreate")}:
        if made != "folder" and other == "File" and kind == "":
            continue
        with pytest.raises(ContainerConfigError, match=f"is not a {other}"):
            node.prepare({"hostPath": {"path": str(path), "type": other}}, allows_host=True)
    with pytest.raises(ContainerConfigError, match="needs --allow-host-access"):
        node.prepare(source)


@needs_sandbox
def test_a_container_does_not_reach_the_host_through_its_volume() -> None:
    async def story(here: Site) -> None:
        (here.folder / "key").write_bytes(SECRET)
        mounts = [{"name": "v", "mountPath": "/v"}]
        first = container(f"ln -s {here.folder} /v/evil", name="first", volumeMounts=mounts)
        below = [{"name": "v", "mountPath": "/v", "subPath": "evil"}]
        main = container("cat /v/key; exec sleep 100", volumeMounts=below)
        volume = {"name": "v", "emptyDir": {}}
        await here.world.create(pod("p", main, initContainers=[first], volumes=[volume]))
        told = await here.waiting("p", "CreateContainerConfigError")
        assert "sub path evil is a link" in told

    with_node(story)


@needs_sandbox
def test_a_container_cannot_write_what_the_agent_writes() -> None:
    async def story(here: Site) -> None:
        data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}
        await here.world.create({**data, "data": {"k": "value"}})
        mounts = [{"name": "v", "mountPath": "/v", "readOnly": False}]
        tries = ["/v/k", "/v/new"]
        script = "; ".join(f"echo x 2>&- >> {path} && echo wrote {path}" for path in tries)
        main = container(f"{script}; cat /v/k; echo; exec sleep 100", volumeMounts=mounts)
        await here.world.create(pod("p", main, volumes=[{"name": "v", "configMap": {"name": "m"}}]))
        assert (await here.output("p")).split() == ["value"]

    with_node(story)


@needs_sandbox
def test_a_container_reads_its_own_secret() -> None:
    """Also where nobody else may, and the agent is another user than the container."""

    async def story(here: Site) -> None:
        document = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
        data = {"k": base64.b64encode(b"value").decode()}
        await here.world.create({**document, "data": data})
        mounts = [{"name": "v", "mountPath": "/v"}, {"name": "e", "mountPath": "/v/nested/e"}]
        script = "cat /v/k; echo; stat -c '%a %u' /v/k; touch /v/nested/e/f && echo written"
        main = container(f"{script}; exec sleep 100", volumeMounts=mounts)
        secret = {"name": "v", "secret": {"secretName": "s", "defaultMode": 0o400}}
        empty = {"name": "e", "emptyDir": {}}
        await here.world.create(pod("p", main, volumes=[secret, empty]))
        assert (await here.output("p", lines=3)).splitlines() == ["value", "400 0", "written"]

    with_node(story)


def test_all_of_this_as_an_ordinary_user() -> None:
    ordinary_user.run_again(__file__)
