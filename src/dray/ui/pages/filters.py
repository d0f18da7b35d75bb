"""The devices that a CEL selector matches: the language of claims, with its errors."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from dray.allocator import device_states
from dray.allocator.inventory.selectors import CachedSelector
from dray.allocator.model.candidates import Candidate
from dray.api import kinds
from dray.api.features import Features
from dray.api.ids import DeviceId, PoolId
from dray.api.semantics import pools
from dray.api.types.dra import Device, ResourceSlice
from dray.cel import device as cel
from dray.explain.selectors import selector_report
from dray.ui.pages.page_errors import PageError
from dray.ui.pages.viewer import Viewer

LONGEST: Final = 10 * 1024
"""The longest selector that Kubernetes accepts."""
SECONDS: Final = 2.0
SAMPLE: Final = 300
"""On how many devices corrections are tried."""
CORRECTED: Final = 500
"""The longest expression that is corrected: the time for that grows with the cube of its length."""
FILTERS_AT_ONCE: Final = 2
_PLACE: Final = re.compile(r"ERROR: <input>:(-?\d+):(\d+): (.*)")
# Threads of their own: one goes on after a request that was given up, and others need theirs.
_threads: Final = ThreadPoolExecutor(FILTERS_AT_ONCE, thread_name_prefix="dray-filter")


class Matches(msgspec.Struct, frozen=True):
    """The keys of the devices that match, or have a partition that does, and of partitions.

    Of partitions there are only those that claims hold: the others are not drawn.
    """

    cells: Sequence[str]
    parts: Sequence[str]
    failing: int = 0
    """On how many devices the expression cannot be evaluated."""
    message: str = ""
    """What is wrong on one of them."""


async def matches(viewer: Viewer, expression: str) -> Matches:
    """Return what an expression matches. Raises PageError for one that is not valid."""
    slices = list(viewer.model.objects(kinds.RESOURCE_SLICE))
    found = await asyncio.get_running_loop().run_in_executor(
        _threads, _matches, expression, slices, viewer.model.features
    )
    cells = viewer.model.fleet.cells
    held = {part.k for cell in cells.values() for part in cell.p}
    return msgspec.structs.replace(
        found,
        cells=[key for key in found.cells if key in cells],
        parts=[key for key in found.parts if key in held],
    )


def _matches(expression: str, slices: Sequence[ResourceSlice], features: Features) -> Matches:
    compiled = cel.compile_selector(
        expression,
        stored=False,
        consumable_capacity=features.consumable_capacity,
        list_type_attributes=features.list_type_attributes,
    )
    if compiled.error is not None:
        raise _invalid(expression, compiled.error.detail, slices, features)
    return _evaluated(CachedSelector(compiled), slices)


def _evaluated(selector: CachedSelector, slices: Sequence[ResourceSlice]) -> Matches:
    """Return the matching devices by their roots. Raises PageError if that takes too long."""
    ends = time.monotonic() + SECONDS
    cells: dict[str, None] = {}
    parts: list[str] = []
    failing, message = 0, ""
    for pool_id, devices in pools.group_by_pool(pools.current_slices_of_pools(slices)).items():
        published = [device for item in devices for device in item.spec.devices]
        parent_of = device_states.parents(published)
        for candidate in _candidates(devices):
            result = selector.result(candidate)
            if result is True:
                name = candidate.device.name
                cells[str(DeviceId(*pool_id, parent_of.get(name, name)))] = None
                if name in parent_of:
                    parts.append(str(candidate.id))
            elif result is not False:
                failing, message = failing + 1, message or str(result)
            if time.monotonic() > ends:
                raise PageError(
                    400,
                    f"the expression takes more than {SECONDS:.0f} seconds on these devices",
                    "Compare attributes instead of searching in them.",
                )
    return Matches(list(cells), parts, failing, message)


def _candidates(slices: Sequence[ResourceSlice]) -> Iterator[Candidate]:
    for resource_slice in slices:
        for number, device in enumerate(resource_slice.spec.devices):
            driver = resource_slice.spec.driver
            yield Candidate(number, 1 << number, 0, driver, resource_slice, device)


def _invalid(
    expression: str, detail: str, slices: Sequence[ResourceSlice], features: Features
) -> PageError:
    """Return the error with its place, and a correction if one is known."""
    place = _PLACE.search(detail)
    line, column = (max(int(place[1]), 1), int(place[2])) if place else (1, 1)
    suggestion = _correction(expression, slices, features)
    more = {"suggestion": suggestion} if suggestion else {}
    message = place[3] if place else detail
    return PageError(400, message, "", line=line, column=column, detail=detail, **more)


def _correction(expression: str, slices: Sequence[ResourceSlice], features: Features) -> str:
    """Return a correction of an expression; "" if none is known."""
    if len(expression) > CORRECTED:
        return ""
    return next(iter(selector_report.make(expression, features, _sample(slices)).rewrites), "")


def _sample(slices: Sequence[ResourceSlice]) -> list[tuple[PoolId, Device]]:
    """Return some devices, of every n-th slice: neighbours are often the same hardware."""
    step = -(-len(slices) // SAMPLE) or 1
    return [(item.pool_id, device) for item in slices[::step] for device in item.spec.devices[:4]]
