"""Which facts follow from the objects of a cluster.

It is told of changed objects and answers with the facts of one *source*: a claim, a pod, a pool or
the totals. Pure: no clock, no I/O.
"""

from __future__ import annotations

import datetime
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping
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
    Details,
    Fact,
    Held,
    Marked,
    ObjectRef,
    Total,
    Used,
    Waiting,
    milliseconds,
)
from dray.history.objects import Metadata, RecordedClaim, RecordedPod

__all__ = [
    "NOTHING",
    "TOTALS",
    "USER_ANNOTATION",
    "ClusterFacts",
    "Facts",
    "Source",
    "source_of",
    "time_of",
]

USER_ANNOTATION: Final = "dray.dev/user"
REMEMBERED_PODS: Final = 10_000
"""Pods whose user is kept in mind until their claims are made."""
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

Facts = Mapping[Fact, Details]
"""The facts of one source."""
NOTHING: Final[Facts] = {}


class Source(NamedTuple):
    """What facts follow from; together they are replaced by new ones."""

    kind: Literal["claim", "pod", "pool", "total"]
    id: str


TOTALS: Final = Source("total", "")


class _Device(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a published device."""

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
        self._claim_classes: dict[ClaimKey, tuple[str, ...]] = {}
        self._users: OrderedDict[str, str] = OrderedDict()

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
        pools = dict.fromkeys(each.pool for each in (old, found) if each is not None)
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
        marks: dict[Fact, Details] = {}
        for name, device in found.devices.items():
            if device.taints or rules:
                root = found.roots.get(name, "")
                for taint in taints.with_rules(device.taints, name, rules):
                    details = Details(time_of(taint.time_added), root=root)
                    device_id = DeviceId(*pool, name)
                    if taints.prevents_allocation(taint):
                        marks.setdefault(Marked(device_id, "tainted", taint.key), details)
                    if taint.key.rpartition("/")[2] == well_known.UNHEALTHY_TAINT:
                        marks.setdefault(Marked(device_id, "unhealthy", taint.key), details)
        return marks

    def totals(self) -> Facts:
        counts = {name: count for name, count in self._totals.items() if count}
        return {Total(name, count): Details() for name, count in counts.items()}

    def claim(self, claim: RecordedClaim) -> Facts:
        """Return who holds what by a claim that exists."""
        classes = claim.classes()
        self._claim_classes[claim.key] = tuple(dict.fromkeys(classes.values()))
        metadata, status = claim.metadata, claim.status
        reference = ObjectRef(*claim.key, metadata.uid)
        user = self._user_of_claim(metadata)
        found: dict[Fact, Details] = {}
        if status.allocation is not None:
            since = time_of(status.allocation.allocation_timestamp)
            for result in status.allocation.devices.results:
                if not result.admin_access:
                    pool = self._pools.get(PoolId(result.driver, result.pool), _NO_POOL)
                    published = pool.devices.get(result.device)
                    details = Details(
                        since=since,
                        node=(published.node if published else "") or status.allocation.node(),
                        device_class=classes.get(result.request, ""),
                        root=pool.roots.get(result.device, ""),
                        user=user,
                    )
                    found.setdefault(Held(result.device_id, reference), details)
        for consumer in status.reserved_for:
            name = consumer.name
            if consumer.resource != "pods":
                name = f"{consumer.resource}/{name}"
            pod = ObjectRef(metadata.namespace, name, consumer.uid)
            found[Used(reference, pod)] = Details(user=user)
        return found

    def claim_removed(self, key: ClaimKey) -> None:
        self._claim_classes.pop(key, None)

    def pod(self, pod: RecordedPod) -> Facts:
        """Return for which classes a pod waits that is not scheduled."""
        metadata = pod.metadata
        user = self.remember_user(metadata)
        reason = pod.unscheduled_reason()
        if reason is None:
            return NOTHING
        reference = ObjectRef(metadata.namespace, metadata.name, metadata.uid)
        since = time_of(metadata.creation_timestamp)
        details = Details(since=since, user=user, reason=reason[:REASON_CHARACTERS])
        return {Waiting(reference, name): details for name in self._classes_of(pod)}

    def remember_user(self, metadata: Metadata) -> str:
        """Keep in mind who created a pod, for the claims that are made for it."""
        user = _user(metadata)
        self._users[metadata.uid] = user
        self._users.move_to_end(metadata.uid)
        if len(self._users) > REMEMBERED_PODS:
            self._users.popitem(last=False)
        return user

    def lacks_user(self, metadata: Metadata) -> bool:
        """Return whether a claim was made for a pod that was not seen."""
        return not _user(metadata) and any(
            owner.kind == "Pod" and owner.uid not in self._users
            for owner in metadata.owner_references
        )

    def _user_of_claim(self, metadata: Metadata) -> str:
        own = _user(metadata)
        if own:
            return own
        users = (self._users.get(owner.uid, "") for owner in metadata.owner_references)
        return next(filter(None, users), "")

    def _classes_of(self, pod: RecordedPod) -> Iterable[str]:
        """Return the classes of the devices that a pod needs, "" for one that is not known."""
        found: dict[str, None] = {}
        for key in pod.claims():
            found |= dict.fromkeys(self._claim_classes.get(key, ("",)))
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
            yield name, [self._selectors.selector(each) for each in expressions]


def _pool(slices: Iterable[_Slice]) -> _Pool:
    members = list(slices)
    newest = max(each.generation for each in members)
    current = [each for each in members if each.generation == newest]
    devices = {device.name: device for each in current for device in each.devices}
    roots = device_states.parents([device for each in current for device in each.partitionable])
    counted: set[tuple[str, str]] = set()
    for name, device in devices.items():
        counted.update((selected, roots.get(name, name)) for selected in device.classes)
    return _Pool(devices, roots, Counter(name for name, _ in counted))


def source_of(fact: Fact) -> Source:
    """Return from what a fact follows."""
    match fact:
        case Held() | Used():
            return Source("claim", fact.claim.uid)
        case Waiting():
            return Source("pod", fact.pod.uid)
        case Marked():
            return Source("pool", str(fact.device.pool_id))
        case Total():
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
        return annotated
    first = min(metadata.managed_fields, key=lambda fields: fields.time, default=None)
    return first.manager if first and first.manager not in CONTROLLERS else ""
