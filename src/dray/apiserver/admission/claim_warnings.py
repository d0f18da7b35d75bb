"""What a claim's author may not have meant: told in warnings, never refused.

Warnings must cost next to nothing. An expression is looked at once per change of the slices, up to
the first device it matches, and not at all where there are too many devices.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterator

from dray.api.features import Features
from dray.api.types.dra import ResourceSlice
from dray.api.types.meta import JsonObject
from dray.apiserver.admission import admission_chain
from dray.apiserver.admission.admission_chain import (
    NO_REQUIREMENTS,
    AdmissionRequest,
    AdmissionRule,
    CommitRequirements,
)
from dray.apiserver.storage.lookup import Reader
from dray.apiserver.storage.slice_cache import PublishedSlices
from dray.cel import device as cel
from dray.partitions import expansion

GROUP = "resource.k8s.io"
MAX_DEVICES = 10_000
MAX_SHAPES = 512
MAX_REMEMBERED = 4096
DEVICES_AT_ONCE = 256
_KINDS = ("ResourceClaim", "ResourceClaimTemplate")


def zero_counts(document: JsonObject) -> list[str]:
    """For an object as it was sent: a count of zero is the same as none, and none means one."""
    if document.get("kind") not in _KINDS:
        return []
    return [
        f'request "{name}": count 0 was read as 1'
        for name, each in _named_requests(expansion.claim_spec(document))
        if each.get("count") == 0 and each.get("allocationMode", "ExactCount") == "ExactCount"
    ]


def _named_requests(spec: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """Every request that asks for devices, in any version, under the name results give it."""
    devices = spec.get("devices")
    requests = devices.get("requests") if isinstance(devices, dict) else None
    for request in requests if isinstance(requests, list) else ():
        if not isinstance(request, dict):
            continue
        name, exactly = request.get("name", ""), request.get("exactly")
        yield name, exactly if isinstance(exactly, dict) else request
        for each in request.get("firstAvailable") or ():
            if isinstance(each, dict):
                yield f"{name}/{each.get('name', '')}", each


class ClaimWarnings(AdmissionRule):
    about = frozenset(_KINDS)

    def __init__(self, published: PublishedSlices, features: Features) -> None:
        self._published = published
        self._features = features
        self._reader = Reader(ResourceSlice)
        self._matches_nothing: dict[str, bool] = {}
        self._generation = -1

    async def validate(self, action: AdmissionRequest) -> CommitRequirements:
        is_claim = action.kind.group == GROUP and action.kind.kind in _KINDS
        if is_claim and action.operation == admission_chain.CREATE and action.new is not None:
            spec = expansion.claim_spec(action.new)
            for name, request in _named_requests(spec):
                await self._warn(action, name, request)
        return NO_REQUIREMENTS

    async def _warn(self, action: AdmissionRequest, name: str, request: JsonObject) -> None:
        for index, selector in enumerate(request.get("selectors") or ()):
            expression = (selector.get("cel") or {}).get("expression", "")
            if await self._selects_nothing(expression):
                action.warnings.append(
                    f'request "{name}": selector {index} matches 0 of '
                    f"{self._published.device_count:,} devices today"
                )

    async def _selects_nothing(self, expression: str) -> bool:
        published = self._published
        if not 0 < published.device_count <= MAX_DEVICES:
            return False
        if published.generation != self._generation or (
            len(self._matches_nothing) >= MAX_REMEMBERED
        ):
            self._matches_nothing.clear()
            self._generation = published.generation
        known = self._matches_nothing.get(expression)
        if known is None:
            known = await self._search(expression)
            if published.generation == self._generation:
                self._matches_nothing[expression] = known
        return known

    async def _search(self, expression: str) -> bool:
        """Whether no device matches; False also where finding out would take too long."""
        selector = cel.compile_selector(
            expression,
            stored=False,
            consumable_capacity=self._features.consumable_capacity,
            list_type_attributes=self._features.list_type_attributes,
        )
        if selector.error is not None:
            return False
        refused: set[Hashable] = set()
        for number, view in enumerate(self._views(), start=1):
            if number % DEVICES_AT_ONCE == 0:
                await asyncio.sleep(0)
            shape = selector.shape(view)
            if shape in refused:
                continue
            if len(refused) >= MAX_SHAPES or selector.matches_or_false(view):
                return False
            refused.add(shape)
        return True

    def _views(self) -> Iterator[cel.DeviceView]:
        for entry in self._published.entries:
            spec = self._reader.read(entry).spec
            for device in spec.devices:
                yield cel.view(spec.driver, device)
