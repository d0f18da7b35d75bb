"""The capacity of each class: what is held and free, what is stranded, and how many pods fit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import msgspec

from dray.allocator.device_states import DeviceState
from dray.api import kinds
from dray.api.features import Features
from dray.api.kinds import Kind
from dray.planner.capacity import cards, limits_text, pod_capacity, shapes, stranded
from dray.planner.capacity.cards import Card
from dray.planner.capacity.pod_capacity import PodCapacity
from dray.planner.cluster_model import ClusterModel as PlannedCluster
from dray.scheduling import pod_copies
from dray.ui.model.followed_cluster import TYPES, FollowedCluster
from dray.ui.pages.page_errors import PageError
from dray.ui.pages.viewer import Viewer

KEPT_SECONDS: Final = 15.0
"""How long an answer is given again: it takes long to count on a large fleet."""
CLASS_SECONDS: Final = 2.0
"""The time for counting the pods of one class; then it says how many fit at least."""
WAIT_SECONDS: Final = 20.0
NEEDED: Final = (kinds.NODE, kinds.POD, kinds.RESOURCE_CLAIM, kinds.RESOURCE_SLICE)
_HELD: Final = (str(DeviceState.IN_USE), str(DeviceState.SHARED))


class ClassCapacity(msgspec.Struct, frozen=True):
    """One class, as it is on the wire. `fits` is null where too little may be read to say it."""

    name: str = msgspec.field(name="class")
    total: int = msgspec.field(name="total")
    held: int = msgspec.field(name="held")
    free: int = msgspec.field(name="free")
    stranded: int = msgspec.field(name="stranded")
    largest: str = msgspec.field(name="largest")
    fits: int | None = msgspec.field(name="fits")
    limit: str = msgspec.field(name="limit")


class CapacityPage(msgspec.Struct, frozen=True):
    classes: Sequence[ClassCapacity]


class CapacityCounter:
    """Counts for the models of a dashboard, one at a time, in a thread."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="dray-capacity")
        self._counted: dict[str, tuple[float, asyncio.Future[CapacityPage]]] = {}

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def of(self, viewer: Viewer) -> CapacityPage:
        """Return the capacity of a person's cluster. Raises PageError if that takes too long."""
        model, now = viewer.model, asyncio.get_running_loop().time()
        self._forget(now)
        if model.log.name not in self._counted:
            answer = asyncio.get_running_loop().run_in_executor(
                self._thread, _counted, *_copied(model)
            )
            self._counted[model.log.name] = now, answer
        _, counting = self._counted[model.log.name]
        done, _ = await asyncio.wait([counting], timeout=WAIT_SECONDS)
        if not done:
            raise PageError(503, "the capacity is still being counted", "Ask again in a while.")
        return counting.result()

    def _forget(self, now: float) -> None:
        for name, (began, answer) in list(self._counted.items()):
            if answer.done() and now - began > KEPT_SECONDS:
                del self._counted[name]


class _Seen(msgspec.Struct, frozen=True):
    """The devices of a class, as the map shows them, and their keys."""

    states: dict[str, int]
    keys: frozenset[str]


def _copied(model: FollowedCluster) -> tuple[PlannedCluster | None, dict[str, _Seen]]:
    """Return the objects as they are now, if they can be counted, and the devices by class."""
    rights = model.rights
    seen = {
        item.metadata.name: _seen(model, item.metadata.name)
        for item in model.objects(kinds.DEVICE_CLASS)
    }
    if any(kind.kind in {**rights.unread, **rights.partly_read} for kind in NEEDED):
        return None, seen
    return _planned(model, model.features), seen


def _planned(model: FollowedCluster, features: Features) -> PlannedCluster:
    followed: dict[str, Kind] = {kind.kind: kind for kind, _ in model.rights.namespaces}
    objects: dict[type[Any], Sequence[Any]] = {
        type_: list(model.objects(followed[name]))
        for name, type_ in TYPES.items()
        if name in followed
    }
    return PlannedCluster(objects, features)


def _seen(model: FollowedCluster, name: str) -> _Seen:
    table = model.fleet.table.shapes
    shapes_of_class = {key for key, shape in table.items() if name in shape.classes}
    states: dict[str, int] = {}
    keys = []
    for key, cell in model.fleet.cells.items():
        if cell.s in shapes_of_class:
            states[cell.st] = states.get(cell.st, 0) + 1
            keys.append(key)
    return _Seen(states, frozenset(keys))


def _counted(cluster: PlannedCluster | None, seen: dict[str, _Seen]) -> CapacityPage:
    if cluster is None:
        return CapacityPage(
            [_line(name, found, None, 0, "") for name, found in sorted(seen.items())]
        )
    state = cluster.state()
    unusable: dict[str, int] = {}
    for item in stranded.find(state, shapes.in_use(cluster)):
        number = unusable.get(item.device_class, 0)
        unusable[item.device_class] = number + len(item.devices)
    found_cards = {str(card.device): card for card in cards.cards_of(state.inventory)}
    lines = []
    for name, found in sorted(seen.items()):
        ends = time.monotonic() + CLASS_SECONDS
        fits = pod_capacity.capacity_of(
            name,
            pod_copies.of_class(name),
            cluster,
            state,
            should_stop=lambda ends=ends: time.monotonic() > ends,  # type: ignore[misc]
        )
        own = [card for key, card in found_cards.items() if key in found.keys]
        lines.append(_line(name, found, fits, unusable.get(name, 0), _largest(own)))
    return CapacityPage(lines)


def _line(
    name: str, found: _Seen, fits: PodCapacity | None, unusable: int, largest: str
) -> ClassCapacity:
    return ClassCapacity(
        name,
        sum(found.states.values()),
        sum(found.states.get(state, 0) for state in _HELD),
        found.states.get(str(DeviceState.FREE), 0),
        unusable,
        largest,
        fits.pods if fits is not None else None,
        limits_text.of(fits) if fits is not None else "not everything may be read",
    )


def _largest(found: Sequence[Card]) -> str:
    """Return the largest partition that a claim can get now; "" without such devices."""
    best = max(found, key=lambda card: card.share, default=None)
    return best.largest or "none" if best is not None else ""
