"""The health of a cluster: its parts, what `dray doctor` finds, and versions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

import dray
from dray.api import errors, kinds
from dray.api.http_messages import Request
from dray.api.ids import PoolId
from dray.api.semantics import pools
from dray.api.semantics.conditions import is_condition_true
from dray.api.types.core import CoreEvent
from dray.api.types.dra import Device, ResourceSlice
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.client import discovery
from dray.client.api_client import Client, ObjectSelection
from dray.health import health_checks, problems
from dray.health.problems import ClusterProblem
from dray.ui.model.followed_cluster import TYPES, FollowedCluster
from dray.ui.pages.viewer import Viewer

WARNINGS: Final = ObjectSelection(field_selector="type=Warning,involvedObject.kind=Pod")
ENDED: Final = ("Succeeded", "Failed")
SETTLE_SECONDS: Final = 0.5
"""What is being changed right now may look wrong for a moment."""
FINDINGS_SHOWN: Final = 200
_HINTS: Final = frozenset({"device-tainted", "gate-off", "orphaned-reservation"})
"""What may be intended, or mends itself."""
_PARTS: Final = {
    "scheduler-not-running": "Scheduler",
    "controllers-not-running": "Controllers",
}
T = TypeVar("T")


class Component(msgspec.Struct, frozen=True):
    name: str
    ok: bool
    text: str


class HealthFinding(msgspec.Struct, frozen=True, omit_defaults=True):
    """A problem, and what to do about it."""

    severity: str
    text: str
    fix: str = msgspec.field(name="fix")
    command: str = ""


class HealthPage(msgspec.Struct, frozen=True):
    """The health of a cluster as it is on the wire."""

    components: Sequence[Component]
    findings: Sequence[HealthFinding]
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Examined:
    """The objects that checks examine."""

    objects: Mapping[type[Any], Sequence[Any]]
    unread: Mapping[str, str]
    partly_read: Mapping[str, str]

    def of(self, type_: type[T]) -> Sequence[T]:
        return self.objects.get(type_, ())

    def devices(self) -> Iterator[tuple[PoolId, Device]]:
        for resource_slice in pools.current_slices_of_pools(list(self.of(ResourceSlice))):
            for device in resource_slice.spec.devices:
                yield resource_slice.pool_id, device


async def of(viewer: Viewer) -> HealthPage:
    """Return the health of a cluster, as far as the person may know it."""
    client, model = viewer.person.client, viewer.model
    examined = await _examined(client, model)
    found = await asyncio.to_thread(_problems, examined)
    if found:
        before = {(problem.about, problem.message) for problem in found}
        await asyncio.sleep(SETTLE_SECONDS)
        again = await asyncio.to_thread(_problems, await _examined(client, model))
        found = [item for item in again if (item.about, item.message) in before]
    idle = {problem.fault: problem for problem in found}
    return HealthPage(
        [await _api_server(client), *_idle_parts(idle), *_followed(model)],
        [_finding(problem) for problem in found[:FINDINGS_SHOWN]],
        await _versions(client),
    )


def _problems(examined: _Examined) -> list[ClusterProblem]:
    checks = {**problems.CHECKS, **health_checks.CHECKS, **health_checks.LIVE_CHECKS}
    return problems.find(examined, checks)


async def _examined(client: Client, model: FollowedCluster) -> _Examined:
    objects: dict[type[Any], Sequence[Any]] = {}
    for kind, _ in model.rights.namespaces:
        if kind.kind in TYPES:
            objects[TYPES[kind.kind]] = list(model.objects(kind))
    # Pods that have ended are not followed; checks look for pods that are gone.
    for namespace in model.rights.of(kinds.POD):
        for phase in ENDED:
            selection = ObjectSelection(namespace, field_selector=f"status.phase={phase}")
            found = await _listed(client, Pod, selection)
            objects[Pod] = [*objects.get(Pod, ()), *found]
    events = []
    for namespace in model.rights.of(kinds.EVENT):
        selection = ObjectSelection(namespace, field_selector=WARNINGS.field_selector)
        events += await _listed(client, CoreEvent, selection)
    objects[CoreEvent] = events
    return _Examined(objects, model.rights.unread, model.rights.partly_read)


async def _listed(client: Client, type_: type[T], selection: ObjectSelection) -> list[T]:
    kind = kinds.POD if type_ is Pod else kinds.EVENT
    page = await client.list(kind, selection)
    return [msgspec.json.decode(item, type=type_) for item in page.items]


async def _api_server(client: Client) -> Component:
    try:
        response = await client.raw(Request("GET", "/readyz"))
    except errors.StatusError as error:
        return Component("API server", False, str(error))
    if response.status in (401, 403):
        return Component("API server", True, "answers; its checks may not be read")
    failed = [line[3:] for line in _lines(response.body) if line.startswith("[-]")]
    is_ready = response.status == 200
    return Component(
        "API server", is_ready, "ready" if is_ready else "; ".join(failed) or "not ready"
    )


def _lines(body: bytes) -> list[str]:
    return body[: 2**16].decode("utf-8", "replace").splitlines()


def _idle_parts(found: Mapping[str, ClusterProblem]) -> Iterator[Component]:
    for fault, name in _PARTS.items():
        problem = found.get(fault)
        text = f"{problem.about} {problem.message}" if problem else "nothing waits for it"
        yield Component(name, problem is None, text)


def _followed(model: FollowedCluster) -> Iterator[Component]:
    nodes: list[Node] = list(model.objects(kinds.NODE))
    if nodes:
        ready = sum(is_condition_true(node.status.conditions, "Ready") for node in nodes)
        yield Component("Nodes", ready == len(nodes), f"{ready} of {len(nodes)} ready")
    slices: list[ResourceSlice] = list(model.objects(kinds.RESOURCE_SLICE))
    by_driver: dict[str, dict[PoolId, list[ResourceSlice]]] = {}
    for pool_id, own in pools.group_by_pool(slices).items():
        by_driver.setdefault(pool_id.driver, {})[pool_id] = own
    for driver, of_pools in sorted(by_driver.items()):
        complete = sum(map(_is_complete, of_pools.values()))
        text = f"{complete} of {len(of_pools)} pools complete"
        yield Component(f"Driver {driver}", complete == len(of_pools), text)
    missing = sorted({**model.rights.unread, **model.rights.partly_read})
    if missing:
        yield Component("Rights", False, f"not everything may be read: {', '.join(missing)}")


def _is_complete(slices: Sequence[ResourceSlice]) -> bool:
    current = pools.current_slices(list(slices))
    return bool(current) and len(current) == current[0].spec.pool.resource_slice_count


def _finding(problem: ClusterProblem) -> HealthFinding:
    severity = "warning" if problem.fault in _HINTS else "error"
    command = problem.repairs[0].command if problem.repairs else ""
    return HealthFinding(severity, f"{problem.about} {problem.message}", problem.advice, command)


async def _versions(client: Client) -> dict[str, str]:
    try:
        version = await discovery.version_of(client)
    except errors.StatusError:
        return {"dray": dray.__version__}
    return {
        "dray": dray.__version__,
        "server": str(version.document.get("gitVersion", "")),
        "Kubernetes": version.minor,
    }
