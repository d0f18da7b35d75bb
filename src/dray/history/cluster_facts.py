"""The facts that follow from the objects of a cluster.

It is told of changed objects and answers with the facts of one *source*: a claim, a pod, a pool or
the totals. Pure: no clock, no I/O.
"""

from __future__ import annotations

import datetime
import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Final, Literal, NamedTuple

import msgspec

from dray.allocator import device_states
from dray.allocator.checks import taints
from dray.allocator.inventory.selectors import CachedSelector, Selectors
from dray.allocator.model.candidates import Candidate
from dray.api import well_known
from dray.api.features import Features
from dray.api.ids import ClaimKey, DeviceId, PoolId
from dray.api.semantics.pod_resources import DEVICE_CLASS_PREFIX
from dray.api.types.dra import Device, DeviceClass, DeviceTaint, DeviceTaintRule, ResourceSlice
from dray.history.facts import (
    Fact,
    FactDetails,
    HeldFact,
    MarkedFact,
    ObjectRef,
    TotalFact,
    UsedFact,
    WaitingFact,
    milliseconds,
)
from dray.history.objects import ClaimUpdate, Metadata, RecordedClaim, RecordedPod

__all__ = [
    "ClusterFacts",
    "FactSource",
    "Facts",
    "source_of",
    "time_of",
]

USER_ANNOTATION: Final = "dray.dev/user"
EQUAL_CLAIMS: Final = 10_000
"""Different claims that are kept in mind to be shared."""
USER_CHARACTERS: Final = 100
REASON_CHARACTERS: Final = 300
CONTROLLERS: Final = frozenset(
    (
        "dray-controller-manager",
        "dray-scheduler",
        "kube-controller-manager",
        "kube-scheduler",
    )
)
"""Field managers that make objects on behalf of others."""

Facts = Mapping[Fact, FactDetails]
"""The facts of one source."""
NOTHING: Final[Facts] = {}


class FactSource(NamedTuple):
    """An object, or several, whose facts are replaced together."""

    kind: Literal["claim", "pod", "pool", "total"]
    id: str


TOTALS: Final = FactSource("total", "")


class _Device(msgspec.Struct, frozen=True, gc=False):
    """A published device, as far as facts depend on it."""

    name: str
    node: str
    taints: tuple[DeviceTaint, ...]
    classes: tuple[str, ...]


class _Slice(msgspec.Struct, frozen=True):
    pool: PoolId
    generation: int
    devices: tuple[_Device, ...]
    partitionable: tuple[Device, ...]
    """The devices that consume counters: they may be parts of others."""


class _Pool(NamedTuple):
    """A pool by its newest generation."""

    devices: Mapping[str, _Device]
    roots: Mapping[str, str]
    """Of each partition, the device that it is a part of."""
    totals: Counter[str]


class _Claim(NamedTuple):
    """The parts of a claim that do not change."""

    classes: Mapping[str, str]
    """The class of each request."""
    user: str


_UNKNOWN: Final = _Claim({}, "")
_NO_POOL: Final = _Pool({}, {}, Counter())


class ClusterFacts:
    """The objects as far as facts depend on them."""

    def __init__(self, features: Features) -> None:
        self._selectors = Selectors(features)
        self._classes: dict[str, DeviceClass] = {}
        self._rules: dict[str, DeviceTaintRule] = {}
        self._slices: dict[str, _Slice] = {}
        self._slices_of: dict[PoolId, dict[str, _Slice]] = {}
        self._pools: dict[PoolId, _Pool] = {}
        self._totals: Counter[str] = Counter()
        self._claims: dict[str, _Claim] = {}
        """By UID."""
        self._owners: dict[str, str] = {}
        """The pods for which claims were made, by UIDs."""
        self._claim_uids: dict[ClaimKey, str] = {}
        self._equal_claims: dict[Hashable, _Claim] = {}
        self._users: dict[str, str] = {}
        """Who created the pods for which claims are made, by UID."""

    def class_changed(self, name: str, new: DeviceClass | None) -> bool:
        """Return whether the slices have to be seen again: other devices may be selected."""
        old = self._classes.pop(name, None)
        if new is not None:
            self._classes[name] = new
        return (old.spec.selectors if old else None) != (new.spec.selectors if new else None)

    def rule_changed(self, name: str, new: DeviceTaintRule | None) -> list[PoolId]:
        """Return the pools whose facts may have changed."""
        old = self._rules.pop(name, None)
        if new is not None:
            self._rules[name] = new
        if old is not None and new is not None and old.spec == new.spec:
            return []
        rules = [rule for rule in (old, new) if rule is not None]
        return [pool for pool in self._pools if taints.rules_for_pool(*pool, rules)]

    def slice_changed(self, name: str, new: ResourceSlice | None) -> list[PoolId]:
        """Return the pools whose facts may have changed."""
        old = self._slices.pop(name, None)
        found = self._summary(new) if new is not None else None
        if found is not None:
            self._slices[name] = found
        if old == found:
            return []
        pools = dict.fromkeys(item.pool for item in (old, found) if item is not None)
        for pool in pools:
            members = self._slices_of.setdefault(pool, {})
            members.pop(name, None)
            if found is not None and found.pool == pool:
                members[name] = found
            self._totals.subtract(self._pools.get(pool, _NO_POOL).totals)
            if members:
                self._pools[pool] = _pool(members.values())
                self._totals.update(self._pools[pool].totals)
            else:
                del self._slices_of[pool]
                self._pools.pop(pool, None)
        return list(pools)

    def pools(self) -> Iterable[PoolId]:
        return self._pools

    def pool(self, pool: PoolId) -> Facts:
        """Return how the devices of a pool are marked."""
        found = self._pools.get(pool, _NO_POOL)
        rules = taints.rules_for_pool(*pool, self._rules.values()) if self._rules else []
        marks: dict[Fact, FactDetails] = {}
        for name, device in found.devices.items():
            if device.taints or rules:
                root = found.roots.get(name, "")
                for taint in taints.with_rules(device.taints, name, rules):
                    details = FactDetails(time_of(taint.time_added), root=root)
                    device_id = DeviceId(*pool, name)
                    if taints.prevents_allocation(taint):
                        marks.setdefault(MarkedFact(device_id, "tainted", taint.key), details)
                    if taint.key.rpartition("/")[2] == well_known.UNHEALTHY_TAINT:
                        marks.setdefault(MarkedFact(device_id, "unhealthy", taint.key), details)
        return marks

    def totals(self) -> Facts:
        counts = {name: count for name, count in self._totals.items() if count}
        return {TotalFact(name, count): FactDetails() for name, count in counts.items()}

    def claim(self, claim: RecordedClaim | ClaimUpdate) -> Facts:
        """Return who holds what by a claim that exists. At first the whole claim is needed."""
        metadata, status = claim.metadata, claim.status
        if isinstance(claim, RecordedClaim):
            self._claims[metadata.uid] = self._essentials(claim)
            key = ClaimKey(metadata.namespace, metadata.name)
            self._claim_uids[key] = metadata.uid
        if status.allocation is None and not status.reserved_for:
            return NOTHING
        known = self._known(metadata.uid)
        reference = ObjectRef(metadata.namespace, metadata.name, metadata.uid)
        found: dict[Fact, FactDetails] = {}
        if status.allocation is not None:
            since = time_of(status.allocation.allocation_timestamp)
            for result in status.allocation.devices.results:
                if not result.admin_access:
                    pool = self._pools.get(PoolId(result.driver, result.pool), _NO_POOL)
                    published = pool.devices.get(result.device)
                    details = FactDetails(
                        since=since,
                        node=(published.node if published else "") or status.allocation.node(),
                        device_class=known.classes.get(result.request, ""),
                        root=pool.roots.get(result.device, ""),
                        user=known.user,
                    )
                    found.setdefault(HeldFact(result.device_id, reference), details)
        for consumer in status.reserved_for:
            name = consumer.name
            if consumer.resource != "pods":
                name = f"{consumer.resource}/{name}"
            pod = ObjectRef(metadata.namespace, name, consumer.uid)
            found[UsedFact(reference, pod)] = FactDetails(user=known.user)
        return found

    def claim_removed(self, key: ClaimKey, uid: str) -> None:
        self._claims.pop(uid, None)
        self._owners.pop(uid, None)
        if self._claim_uids.get(key) == uid:
            del self._claim_uids[key]

    def pod(self, pod: RecordedPod) -> Facts:
        """Return for which classes a pod waits."""
        metadata = pod.metadata
        if pod.spec.resource_claims and metadata.uid not in self._users:
            self._users[metadata.uid] = _user(metadata)
        reason = pod.waiting_reason()
        if reason is None:
            return NOTHING
        reference = ObjectRef(metadata.namespace, metadata.name, metadata.uid)
        since = time_of(metadata.creation_timestamp)
        details = FactDetails(since=since, reason=reason[:REASON_CHARACTERS])
        return {WaitingFact(reference, name): details for name in self._classes_of(pod)}

    def pod_removed(self, uid: str) -> None:
        self._users.pop(uid, None)

    def _known(self, uid: str) -> _Claim:
        """Return what does not change of a claim, and perhaps the user of its pod."""
        known = self._claims.get(uid, _UNKNOWN)
        owner = self._owners.get(uid)
        return known._replace(user=self._users.get(owner, "")) if owner else known

    def _essentials(self, claim: RecordedClaim) -> _Claim:
        """Return what of a claim is kept: equal ones once, as those of one template are."""
        metadata = claim.metadata
        owners = [owner.uid for owner in metadata.owner_references if owner.kind == "Pod"]
        if owners and USER_ANNOTATION not in metadata.annotations:
            # Made by a controller for the pod, which may be seen later than the claim.
            self._owners[metadata.uid] = owners[0]
        found = _Claim(claim.classes(), _user(metadata))
        if len(self._equal_claims) >= EQUAL_CLAIMS:
            self._equal_claims.clear()
        return self._equal_claims.setdefault((*found.classes.items(), found.user), found)

    def _classes_of(self, pod: RecordedPod) -> Iterable[str]:
        """Return the classes of the devices that a pod needs, "" for one that is not known."""
        found: dict[str, None] = {}
        for key in pod.claims():
            claim = self._claims.get(self._claim_uids.get(key, ""))
            found |= dict.fromkeys(claim.classes.values() if claim else ("",))
        resources = self._classes_by_resource()
        for name in pod.requested_resources():
            if name.startswith(DEVICE_CLASS_PREFIX):
                found[name.removeprefix(DEVICE_CLASS_PREFIX)] = None
            elif name in resources:
                found[resources[name]] = None
        if not found and pod.spec.resource_claims:
            found[""] = None
        return found

    def _classes_by_resource(self) -> dict[str, str]:
        return {
            found.spec.extended_resource_name: name
            for name, found in self._classes.items()
            if found.spec.extended_resource_name
        }

    def _summary(self, published: ResourceSlice) -> _Slice:
        spec = published.spec
        classes = self._classes_of_devices(published)
        return _Slice(
            published.pool_id,
            spec.pool.generation,
            tuple(
                _Device(
                    device.name,
                    device.node_name or spec.node_name or "",
                    device.taints,
                    selected,
                )
                for device, selected in zip(spec.devices, classes, strict=True)
            ),
            tuple(device for device in spec.devices if device.consumes_counters),
        )

    def _classes_of_devices(self, published: ResourceSlice) -> list[tuple[str, ...]]:
        driver = published.spec.driver
        candidates = [
            Candidate(number, 1 << number, 0, driver, published, device)
            for number, device in enumerate(published.spec.devices)
        ]
        found: list[list[str]] = [[] for _ in candidates]
        for name, selectors in self._selecting():
            accepted = [True] * len(candidates)
            for selector in selectors:
                accepted = [
                    a and b for a, b in zip(accepted, selector.accepts(candidates), strict=True)
                ]
            for number, is_accepted in enumerate(accepted):
                if is_accepted:
                    found[number].append(name)
        return [tuple(names) for names in found]

    def _selecting(self) -> Iterator[tuple[str, list[CachedSelector]]]:
        for name, found in sorted(self._classes.items()):
            expressions = [item.cel.expression for item in found.spec.selectors if item.cel]
            yield name, [self._selectors.selector(item) for item in expressions]


def _pool(slices: Iterable[_Slice]) -> _Pool:
    members = list(slices)
    newest = max(item.generation for item in members)
    current = [item for item in members if item.generation == newest]
    devices = {device.name: device for item in current for device in item.devices}
    roots = device_states.parents([device for item in current for device in item.partitionable])
    counted: set[tuple[str, str]] = set()
    for name, device in devices.items():
        counted.update((selected, roots.get(name, name)) for selected in device.classes)
    return _Pool(devices, roots, Counter(name for name, _ in counted))


def source_of(fact: Fact) -> FactSource:
    """Return from what a fact follows."""
    match fact:
        case HeldFact() | UsedFact():
            return FactSource("claim", fact.claim.uid)
        case WaitingFact():
            return FactSource("pod", fact.pod.uid)
        case MarkedFact():
            return FactSource("pool", str(fact.device.pool_id))
        case TotalFact():
            return TOTALS


def time_of(text: str | None) -> int:
    """Return a time of an object, or 0 if it has none that can be read."""
    if not text:
        return 0
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        return 0
    return milliseconds(found) if found.tzinfo else 0


def _user(metadata: Metadata) -> str:
    """Return who created an object, as far as it says so.

    Kubernetes does not record the user. An annotation may; else it is the program that wrote the
    object first, unless that is a controller.
    """
    annotated = metadata.annotations.get(USER_ANNOTATION, "")
    if annotated:
        # Anybody may write it: it is kept short, and cannot change what a terminal shows.
        printable = (letter if letter.isprintable() else "?" for letter in annotated)
        return "".join(itertools.islice(printable, USER_CHARACTERS))
    first = min(metadata.managed_fields, key=lambda fields: fields.time, default=None)
    return first.manager if first and first.manager not in CONTROLLERS else ""
