"""The figures of a cluster, kept up to date with every change of its objects."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import msgspec

from dray.api.features import Features
from dray.api.ids import ClaimKey, PoolId
from dray.api.types.core import Namespace
from dray.api.types.dra import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.api.types.workloads import PodGroup
from dray.client.cache import ObjectChange
from dray.exporter.claim_figures import ClaimFigures
from dray.exporter.device_figures import DeviceFigures
from dray.exporter.fit_figures import FitFigures
from dray.exporter.gone_pools import GonePools
from dray.exporter.work_budget import WorkBudget
from dray.scheduling.nodes import node_fit
from dray.scheduling.state import SchedulingState

ANY_SCHEDULER = ""


class ClusterFigures:
    """Takes over changes at once; `update` computes what follows from them."""

    def __init__(
        self,
        features: Features,
        now: Callable[[], datetime.datetime],
        observe_latency: Callable[[float], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        # Which pods would be evicted is no part of the figures, and takes long to find.
        features = msgspec.structs.replace(features, preemption=False)
        self._state = SchedulingState(features, ANY_SCHEDULER)
        self.devices = DeviceFigures(self._state)
        self.fits = FitFigures(self._state, WorkBudget(clock))
        self.claims = ClaimFigures(self._state, WorkBudget(clock), now, observe_latency)
        self.now = now
        self.gone = GonePools(self._state.inventory)
        self.is_live = False
        """Whether changes are seen when they are made; set when the first ones are read."""

    @property
    def is_current(self) -> bool:
        return self.devices.is_current and self.fits.is_current and self.claims.is_current

    def classes(self) -> Collection[str]:
        """Return the names of the classes."""
        return self._state.inventory.classes

    def update(self) -> Iterator[None]:
        """Compute the figures; yields now and then, so that others can run."""
        yield from self.devices.update()
        yield from self.fits.update()
        yield from self.claims.update()

    def slice_changed(self, change: ObjectChange[ResourceSlice]) -> None:
        old, new = change.old, change.new
        if old is not None and new is not None and old.spec == new.spec:
            return
        # Before and after: the nodes of a pool are those that its slices name.
        for version in (old, new):
            if version is not None:
                self._pool_changed(version.pool_id)
        if new is None:
            self._state.inventory.drop_slice(change.key.name)
        else:
            self._state.put_slice(new)
        for version in (old, new):
            if version is not None:
                self._pool_changed(version.pool_id)
                self.gone.pool_changed(version.pool_id)

    def claim_changed(self, change: ObjectChange[ResourceClaim]) -> None:
        old, new = change.old, change.new
        self.claims.claim_changed(old, new, self.is_live)
        self.fits.claim_changed(old, new)
        if new is None:
            self._state.claims.drop(ClaimKey(*change.key))
        else:
            self._state.claims.put(new)
        before, after = _pools_of(old), _pools_of(new)
        if old is None or new is None or _differ(old, new):
            for pool_id in before | after:
                self._pool_changed(pool_id)
                self.gone.pool_changed(pool_id)
            self.claims.something_changed()

    def pod_changed(self, change: ObjectChange[Pod]) -> None:
        old, new = change.old, change.new
        self.claims.pod_changed(old, new)
        changes = self._state.nodes.changes
        before = changes.end()
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._state.drop_pod(change.key)
        if new is not None:
            self._state.put_pod(new)
        if changes.end() != before:
            for pod in (old, new):
                if pod is not None and pod.spec.node_name:
                    self._node_changed(pod.spec.node_name)
        if changes.end() != before or _is_waiting(old) or _is_waiting(new):
            self.claims.something_changed()

    def node_changed(self, change: ObjectChange[Node]) -> None:
        old, new = change.old, change.new
        name = change.key.name
        if new is None:
            self._state.drop_node(name)
            self.gone.node_removed(name)
        elif old is None or node_fit.may_fit_more(old, new):
            self._state.put_node(new)
        else:
            return
        inventory = self._state.inventory
        entry = inventory.nodes.get(name)
        for found in entry.slices.values() if entry is not None else ():
            self.devices.pool_changed(found.pool_id)
        for found in inventory.slices_of_several_nodes():
            self.devices.pool_changed(found.pool_id)
        self._node_changed(name)
        self.claims.something_changed()

    def class_changed(self, change: ObjectChange[DeviceClass]) -> None:
        self._concerns_all(change, self._state.drop_class)

    def rule_changed(self, change: ObjectChange[DeviceTaintRule]) -> None:
        self._concerns_all(change, self._state.inventory.drop_taint_rule)

    def group_changed(self, change: ObjectChange[PodGroup]) -> None:
        if change.new is None:
            self._state.groups.pop(change.key, None)
        else:
            self._state.put(change.new)
        self.claims.something_changed()

    def namespace_changed(self, change: ObjectChange[Namespace]) -> None:
        if change.new is None:
            self._state.drop_namespace(change.key.name)
        else:
            self._state.put_namespace(change.new)

    def _concerns_all(self, change: ObjectChange[Any], drop: Callable[[str], None]) -> None:
        if change.new is None:
            drop(change.key.name)
        elif change.old is None or change.old.spec != change.new.spec:
            self._state.put(change.new)
        else:
            return
        self.devices.everything_changed()
        self.fits.everything_changed()
        self.claims.something_changed()

    def _pool_changed(self, pool_id: PoolId) -> None:
        self.devices.pool_changed(pool_id)
        self.claims.something_changed()
        entry = self._state.inventory.pools().get(pool_id)
        names = {found.spec.node_name for found in entry.slices.values()} if entry else set()
        for name in filter(None, names):
            self.fits.node_changed(name)
        if not all(names):
            self.fits.shared_devices_changed()

    def _node_changed(self, name: str) -> None:
        self.devices.node_changed(name)
        self.fits.node_changed(name)


def _pools_of(claim: ResourceClaim | None) -> set[PoolId]:
    allocation = claim.status.allocation if claim is not None else None
    results: Iterable[Any] = allocation.devices.results if allocation is not None else ()
    return {result.pool_id for result in results}


def _differ(old: ResourceClaim, new: ResourceClaim) -> bool:
    """Return whether a claim has other devices, or was replaced by one of the same name."""
    return old.status.allocation != new.status.allocation or old.spec != new.spec


def _is_waiting(pod: Pod | None) -> bool:
    return pod is not None and not pod.spec.node_name and bool(pod.spec.resource_claims)
