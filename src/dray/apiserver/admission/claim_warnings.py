"""Warnings about claims that are valid and probably a mistake.

Warnings must cost next to nothing. An expression is evaluated once per change of the slices, up to
the first device it matches, and not at all if there are too many devices.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterator

from dray.api.features import Features
from dray.api.types.dra import ResourceSlice
from dray.api.types.meta import JsonObject
from dray.apiserver.admission import admission_chain
from dray.apiserver.admission.admission_chain import AdmissionRequest, AdmissionRule
from dray.apiserver.storage.lookup import Reader
from dray.apiserver.storage.slice_cache import PublishedSlices
from dray.cel import device as cel
from dray.partitions import expansion

GROUP = "resource.k8s.io"
MAX_DEVICES = 10_000
MAX_SHAPES = 512
MAX_CACHED = 4096
DEVICES_AT_ONCE = 256
_KINDS = ("ResourceClaim", "ResourceClaimTemplate")


def zero_counts(document: JsonObject) -> list[str]:
    """Return warnings about counts of zero in an object as it was sent: defaulting makes them 1."""
    if document.get("kind") not in _KINDS:
        return []
    return [
        f'request "{name}": count 0 was read as 1'
        for name, request in _named_requests(expansion.claim_spec(document))
        if request.get("count") == 0 and request.get("allocationMode", "ExactCount") == "ExactCount"
    ]


def _named_requests(spec: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """Yield every request and subrequest, in any version, with its name in results."""
    for request in expansion.device_requests(spec):
        name, exactly = request.get("name", ""), request.get("exactly")
        yield name, exactly if isinstance(exactly, dict) else request
        for subrequest in request.get("firstAvailable") or ():
            if isinstance(subrequest, dict):
                yield f"{name}/{subrequest.get('name', '')}", subrequest


class ClaimWarnings(AdmissionRule):
    about = frozenset(_KINDS)
    operations = frozenset({admission_chain.CREATE})

    def __init__(self, published: PublishedSlices, features: Features) -> None:
        self._published = published
        self._features = features
        self._reader = Reader(ResourceSlice)
        self._matches_nothing: dict[str, bool] = {}
        self._generation = -1

    async def validate(self, admission: AdmissionRequest) -> None:
        if admission.kind.group == GROUP and admission.new is not None:
            for name, request in _named_requests(expansion.claim_spec(admission.new)):
                await self._warn(admission, name, request)

    async def _warn(self, admission: AdmissionRequest, name: str, request: JsonObject) -> None:
        for index, selector in enumerate(request.get("selectors") or ()):
            expression = (selector.get("cel") or {}).get("expression", "")
            if await self._selects_nothing(expression):
                admission.warnings.append(
                    f'request "{name}": selector {index} matches 0 of '
                    f"{self._published.device_count:,} devices today"
                )

    async def _selects_nothing(self, expression: str) -> bool:
        published = self._published
        if not 0 < published.device_count <= MAX_DEVICES:
            return False
        if published.generation != self._generation or (len(self._matches_nothing) >= MAX_CACHED):
            self._matches_nothing.clear()
            self._generation = published.generation
        is_unmatched = self._matches_nothing.get(expression)
        if is_unmatched is None:
            is_unmatched = await self._search(expression)
            if published.generation == self._generation:
                self._matches_nothing[expression] = is_unmatched
        return is_unmatched

    async def _search(self, expression: str) -> bool:
        """Return whether no device matches; False also if the search would take too long."""
        selector = cel.compile_selector(
            expression,
            stored=False,
            consumable_capacity=self._features.consumable_capacity,
            list_type_attributes=self._features.list_type_attributes,
        )
        if selector.error is not None:
            return False
        unmatched: set[Hashable] = set()
        for number, view in enumerate(self._views(), start=1):
            if number % DEVICES_AT_ONCE == 0:
                await asyncio.sleep(0)
            shape = selector.shape(view)
            if shape in unmatched:
                continue
            if len(unmatched) >= MAX_SHAPES or selector.matches_or_false(view):
                return False
            unmatched.add(shape)
        return True

    def _views(self) -> Iterator[cel.DeviceView]:
        for entry in self._published.entries:
            spec = self._reader.read(entry).spec
            for device in spec.devices:
                yield cel.view(spec.driver, device)
