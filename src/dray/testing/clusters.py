"""A whole cluster in a thread of the test's process, so that any client can talk to it.

Its objects can be reached in three ways: by the short synchronous methods here, by dray's own async
client from any event loop (`client`), and over HTTPS by whatever reads a kubeconfig (`kubeconfig`).
Keys and certificates are made once per process, because they take longest.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import shutil
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import uvloop
import yaml

from dray.api import features, http_messages, kinds
from dray.api.http_messages import Request, Response, User
from dray.api.kinds import Kind
from dray.api.types.meta import JsonObject
from dray.apiserver.server import Settings
from dray.apiserver.serving.limits import ServerLimits
from dray.client import kubeconfig
from dray.client.api_client import Client, InProcessTransport, ObjectSelection
from dray.cluster import assembly
from dray.cluster.assembly import ADMIN, ClusterPlan
from dray.driverkit.driver import Driver
from dray.drivers.simulated import fleet as fleets
from dray.drivers.simulated.faults import FAILED_ANNOTATION
from dray.store import memory
from dray.testing import explanations, invariants, keys
from dray.testing.drivers import DriverUnderTest
from dray.testing.explanations import ExplainedPod
from dray.testing.revisions import RevisionWatch

Objects = list[JsonObject]
Texts = list[str]
Manifests = str | Path | Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""YAML text, a file, an object, or several objects."""
T = TypeVar("T")

DEFAULT_FLEET: Final = "quickstart"
START_SECONDS: Final = 60.0
WAIT_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 0.002
CHECK_SECONDS: Final = 10.0
POD_SCHEDULED: Final = "PodScheduled"


class Cluster:
    """API server, scheduler, controllers and the simulated nodes of a fleet.

    `fleet` is one of those that come with dray, or a file; `nodes` is the number of nodes in every
    group of it. Its pods are simulated. Every method may be called from any thread.
    """

    def __init__(
        self,
        fleet: str | Path = DEFAULT_FLEET,
        *,
        nodes: int | None = None,
        feature_gates: str = "",
    ) -> None:
        self.fleet = fleets.load(fleet, nodes=nodes)
        # Nobody waits for answers when a test is over.
        limits = ServerLimits(shutdown_seconds=0.1)
        settings = Settings(features=features.parse(feature_gates), limits=limits)
        self._plan = ClusterPlan(settings=settings, fleet=self.fleet)
        self._thread = threading.Thread(target=self._main, name="dray-cluster", daemon=True)
        self._started: Future[_Live] = Future()
        self._directory: Path | None = None
        self._kubeconfig: Path | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Cluster:
        self._thread.start()
        try:
            self._started.result(START_SECONDS)
        except BaseException:
            self._thread.join(START_SECONDS)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        live = self._live
        # A loop that is closed belongs to a cluster that died; its thread has said why.
        with contextlib.suppress(RuntimeError):
            live.loop.call_soon_threadsafe(live.told_to_end.set)
        self._thread.join()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig of its administrator. The first use opens a port on this machine."""
        with self._lock:
            if self._kubeconfig is None:
                url = self.run(self._listen())
                self._kubeconfig = self.directory / "kubeconfig"
                kubeconfig.write(self._kubeconfig, keys.connection(url))
            return self._kubeconfig

    @property
    def url(self) -> str:
        """The URL of the API server. Like `kubeconfig`, opens a port when first used."""
        return kubeconfig.load(self.kubeconfig).server

    @property
    def directory(self) -> Path:
        """A folder that is removed with the cluster. Its path is short enough for sockets."""
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="dray-"))
        return self._directory

    def client(self, user: str = ADMIN.name, groups: Sequence[str] = tuple(ADMIN.groups)) -> Client:
        """Return dray's own async client with any identity, for any event loop of this process."""
        live = self._live
        inside = InProcessTransport(live.cluster.opened.app.handle, User(user, frozenset(groups)))
        return Client(_FromAnyLoop(inside, live.loop))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the cluster's event loop and wait for what it returns."""
        return asyncio.run_coroutine_threadsafe(work, self._live.loop).result()

    def apply(self, manifests: Manifests, namespace: str = "default") -> Objects:
        """Apply objects (server-side apply), and return them as stored."""
        return [self.run(self._apply(document, namespace)) for document in _documents(manifests)]

    def get(self, kind: str, name: str, namespace: str = "default") -> JsonObject:
        found = _kind(kind)
        return self.run(self._live.client.get(found, name, _namespace(found, namespace)))

    def list(self, kind: str, namespace: str = "", *, labels: str = "") -> Objects:
        """Return the objects of one kind, of all namespaces unless one is named."""
        selection = ObjectSelection(namespace, label_selector=labels)
        page = self.run(self._live.client.list(_kind(kind), selection))
        return [msgspec.json.decode(raw) for raw in page.items]

    def patch(
        self, kind: str, name: str, patch: JsonObject, namespace: str = "default"
    ) -> JsonObject:
        """Change some fields (a JSON merge patch)."""
        found = _kind(kind)
        return self.run(self._live.client.patch(found, name, patch, _namespace(found, namespace)))

    def delete(self, kind: str, name: str, namespace: str = "default") -> None:
        found = _kind(kind)
        self.run(self._live.client.delete(found, name, _namespace(found, namespace)))

    def wait_for(
        self, condition: Callable[[], T], what: str = "", timeout_seconds: float = WAIT_SECONDS
    ) -> T:
        """Call `condition` until it returns something true; AssertionError if it never does."""
        deadline = time.monotonic() + timeout_seconds
        while not (found := condition()):
            if time.monotonic() > deadline:
                waited = f"timed out after {timeout_seconds:g} s"
                raise AssertionError(f"{waited}, waiting for {what or 'the condition'}")
            time.sleep(LOOK_SECONDS)
        return found

    def wait_for_pod(
        self,
        name: str,
        phase: str = "Running",
        namespace: str = "default",
        timeout_seconds: float = WAIT_SECONDS,
    ) -> JsonObject:
        """Wait until a pod is in a phase; AssertionError says why it is not."""

        def reached() -> JsonObject | None:
            pod = self.get("pods", name, namespace)
            return pod if pod.get("status", {}).get("phase") == phase else None

        try:
            return self.wait_for(reached, timeout_seconds=timeout_seconds) or {}
        except AssertionError:
            found = self.get("pods", name, namespace)
            raise AssertionError(f"pod {name} is not {phase}: {_state(found)}") from None

    def wait_until_unschedulable(
        self, name: str, namespace: str = "default", timeout_seconds: float = WAIT_SECONDS
    ) -> JsonObject:
        """Wait until the scheduler finds no place for a pod, and return the pod.

        Raises AssertionError at once if it is scheduled.
        """

        def refused() -> JsonObject | None:
            pod = self.get("pods", name, namespace)
            if node := pod["spec"].get("nodeName"):
                raise AssertionError(f"pod {name} was expected to wait; it is on node {node}")
            conditions = pod.get("status", {}).get("conditions", ())
            reasons = [item.get("reason") for item in conditions if item["type"] == POD_SCHEDULED]
            return pod if reasons == ["Unschedulable"] else None

        what = f"the scheduler to find no place for pod {name}"
        return self.wait_for(refused, what, timeout_seconds) or {}

    def explain(self, name: str, namespace: str = "default") -> ExplainedPod:
        """Return why a pod waits and what would help, as `dray explain` says it."""
        live, gates = self._live, self._plan.settings.features
        return self.run(explanations.explain(live.client, gates, name, namespace))

    def devices_of(self, claim: str, namespace: str = "default") -> Texts:
        """Return the devices that are allocated to a claim, as `pool/device`."""
        status = self.get("resourceclaims", claim, namespace).get("status", {})
        results = status.get("allocation", {}).get("devices", {}).get("results", [])
        return [f"{result['pool']}/{result['device']}" for result in results]

    def fail(self, node: str, *devices: str) -> None:
        """Break exactly these devices of a simulated node; without devices, repair all."""
        annotations = {FAILED_ANNOTATION: ",".join(devices) or None}
        self.patch("nodes", node, {"metadata": {"annotations": annotations}})

    def driver(
        self, driver: Driver, node: str | None = None
    ) -> contextlib.AbstractContextManager[DriverUnderTest]:
        """Run a driver on one of the nodes, with a DeviceClass of its name."""
        where = node or next(iter(self.fleet.machines))
        client = self._live.client
        return DriverUnderTest.running(driver, where, self.directory, client=client, run=self.run)

    def violations(self) -> Texts:
        """Return what breaks an invariant: a device held twice, a reservation for nobody, …"""
        live, gates = self._live, self._plan.settings.features
        broken = self.run(invariants.violations(live.client, gates, live.cluster.prepared_claims()))
        return [*broken, *live.revisions.violations]

    def check(self) -> None:
        """Wait until every invariant holds. Raises AssertionError with the violations."""
        try:
            self.wait_for(lambda: not self.violations(), timeout_seconds=CHECK_SECONDS)
        except AssertionError:
            raise AssertionError("\n".join(self.violations())) from None

    @property
    def _live(self) -> _Live:
        if not self._started.done():
            raise RuntimeError("the cluster is not running: use it in a with statement")
        return self._started.result()

    def _main(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            try:
                runner.run(self._live_on())
            except BaseException as error:
                if self._started.done():
                    raise
                self._started.set_exception(error)

    async def _live_on(self) -> None:
        async with (
            memory.open() as store,
            assembly.running(store, keys.directory(), self._plan) as running,
            contextlib.AsyncExitStack() as stack,
        ):
            client = running.client()
            revisions = await stack.enter_async_context(RevisionWatch(client).running())
            live = _Live(asyncio.get_running_loop(), running, client, revisions, stack)
            await self._until_published(live.client)
            self._started.set_result(live)
            await live.told_to_end.wait()

    async def _until_published(self, client: Client) -> None:
        """Wait until every node is registered and all of their devices are published."""
        slices = sum(1 for _ in self.fleet.slices())
        for kind, count in ((kinds.NODE, len(self.fleet.machines)), (kinds.RESOURCE_SLICE, slices)):
            while len((await client.list(kind)).items) < count:
                await asyncio.sleep(LOOK_SECONDS)

    async def _listen(self) -> str:
        live = self._live
        pair, authority = keys.server_pair(), keys.authority().certificate
        listening = live.cluster.opened.server.listening(keys.LOOPBACK, 0, pair, authority)
        return await live.stack.enter_async_context(listening)

    async def _apply(self, document: Mapping[str, Any], namespace: str) -> JsonObject:
        group, version = kinds.parse_api_version(document["apiVersion"])
        kind = dataclasses.replace(kinds.served(group, document["kind"]), versions=(version,))
        metadata, client = document["metadata"], self._live.client
        where = _namespace(kind, metadata.get("namespace", namespace))
        if "name" not in metadata:
            return await client.create(kind, dict(document), where)
        name, apply = metadata["name"], http_messages.APPLY_PATCH
        return await client.patch(kind, name, document, where, patch_type=apply, force=True)


@dataclasses.dataclass(frozen=True)
class _Live:
    """The parts of a running cluster; they belong to its event loop."""

    loop: asyncio.AbstractEventLoop
    cluster: assembly.RunningCluster
    client: Client
    revisions: RevisionWatch
    stack: contextlib.AsyncExitStack
    told_to_end: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)


class _FromAnyLoop:
    """A transport that sends requests on the cluster's event loop, from any other."""

    def __init__(self, inside: InProcessTransport, loop: asyncio.AbstractEventLoop) -> None:
        self._inside = inside
        self._loop = loop

    async def send(self, request: Request) -> Response:
        response = await self._there(self._inside.send(request))
        if response.stream is None:
            return response
        return msgspec.structs.replace(response, stream=self._stream(response.stream))

    async def _stream(self, inside: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        try:
            while (chunk := await self._there(_next(inside))) is not None:
                yield chunk
        finally:
            if hasattr(inside, "aclose"):
                await self._there(inside.aclose())

    async def _there(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))


async def _next(stream: AsyncIterator[bytes]) -> bytes | None:
    return await anext(stream, None)


def _documents(manifests: Manifests) -> Iterator[Mapping[str, Any]]:
    if isinstance(manifests, Path):
        manifests = manifests.read_text("utf-8")
    if isinstance(manifests, str):
        yield from (document for document in yaml.safe_load_all(manifests) if document)
    elif isinstance(manifests, Mapping):
        yield manifests
    else:
        yield from manifests


def _kind(name: str) -> Kind:
    found = kinds.by_name(name)
    if found is None:
        raise LookupError(f"there is no kind {name!r}; write it as in `kubectl get {name}`")
    return found


def _namespace(kind: Kind, namespace: str) -> str:
    return namespace if kind.namespaced else ""


def _state(pod: JsonObject) -> str:
    status = pod.get("status", {})
    notes = (condition.get("message") for condition in status.get("conditions", ()))
    return "; ".join([str(status.get("phase")), *filter(None, notes)])
