"""Writes an assignment: claims, the pod's status, binding conditions, the node.

The order is kube-scheduler's: for each claim finalizer, allocation and reservation; then the pod.
If a later step fails, what was written is reverted.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from dray.api import errors, kinds, well_known
from dray.api.features import Features
from dray.api.ids import ClaimKey
from dray.api.types.dra import ResourceClaim
from dray.api.types.pods import NodeAllocatableResourceClaimStatus, Pod
from dray.client import events, object_writes
from dray.client.api_client import Client
from dray.client.events import Recorder
from dray.scheduler.claims import claim_writes
from dray.scheduler.claims.claim_writes import ClaimWrites, WriteRejected
from dray.scheduler.cluster_state import SchedulerState
from dray.scheduling.claims import binding_conditions
from dray.scheduling.claims.assignments import ClaimAssignment, NodeAssignment, NodeFit

log = logging.getLogger(__name__)

BINDING_ACTION, SCHEDULING_ACTION = "Binding", "Scheduling"


class BindFailure(NamedTuple):
    """The pod was not bound; everything written for it is reverted."""

    message: str
    is_gone: bool = False
    """The pod is deleted or has another node, so it is not tried again."""


class Binder:
    """Writes assignments to the API. `keep` is told which ones are about to be reverted."""

    def __init__(
        self,
        client: Client,
        state: SchedulerState,
        writes: ClaimWrites,
        recorder: Recorder,
        features: Features,
        now: Callable[[], datetime.datetime],
        keep: Callable[[NodeAssignment], None],
    ) -> None:
        self._client, self._state, self._writes, self._keep = client, state, writes, keep
        self._recorder, self._now = recorder, now
        self._awaits_conditions = (
            features.device_binding_conditions and features.resource_claim_device_status
        )

    async def bind(self, assignment: NodeAssignment) -> BindFailure | None:
        """Write a reserved assignment. Returns None when the pod is bound."""
        written: list[ResourceClaim] = []
        try:
            await self._write(assignment, written)
        except WriteRejected as rejected:
            # Before anything of it is free.
            self._state.apply(functools.partial(self._keep, assignment))
            await self._revert(assignment, written)
            return BindFailure(str(rejected))
        except _Gone as gone:
            await self._revert(assignment, written)
            return BindFailure(str(gone), is_gone=True)
        self._report_success(assignment)
        return None

    async def _write(self, assignment: NodeAssignment, written: list[ResourceClaim]) -> None:
        extended = assignment.fit.extended
        created: ResourceClaim | None = None
        for assigned in assignment.fit.claims:
            if extended is not None and assigned.claim is extended.claim:
                created = await self._create(assignment, assigned)
                written.append(created)
                assigned = assigned._replace(claim=created)
            claim = await self._writes.assign(assigned)
            if claim.metadata.uid not in {other.metadata.uid for other in written}:
                written.append(claim)
        await self._write_status(assignment, created)
        if self._awaits_conditions and any(map(binding_conditions.has_conditions, written)):
            await self._await_conditions(assignment, written)
        await self._bind_pod(assignment)

    async def _create(self, assignment: NodeAssignment, assigned: ClaimAssignment) -> ResourceClaim:
        """Create the claim, and move the reservation from the placeholder to it."""
        created = await self._writes.create(assigned.claim)
        uid, allocation = assignment.pod.metadata.uid, assigned.allocation
        assert allocation is not None
        claims = self._state.scheduling.claims

        def move() -> None:
            claims.reserve(created.key, allocation, uid)
            claims.release(assigned.claim.key, uid)

        self._state.apply(move)
        return created

    async def _write_status(
        self, assignment: NodeAssignment, created: ResourceClaim | None
    ) -> None:
        status: dict[str, Any] = {}
        if created is not None and assignment.fit.extended is not None:
            status["extendedResourceClaimStatus"] = {
                "requestMappings": assignment.fit.extended.mappings,
                "resourceClaimName": created.metadata.name,
            }
        if assignment.fit.node_resources:
            node_resources = _with_claim_name(assignment.fit, created)
            status["nodeAllocatableResourceClaimStatuses"] = node_resources
        if status:
            await self._patch_status(assignment.pod, status)

    async def _patch_status(self, pod: Pod, status: dict[str, Any]) -> None:
        try:
            await claim_writes.retry_until_answered(
                lambda: object_writes.patch_status(self._client, kinds.POD, pod.metadata, status)
            )
        except errors.NotFound as error:
            raise _Gone(str(error)) from error
        except errors.ClientError as error:
            raise WriteRejected(f"update pod {pod.metadata.key}: {error}") from error

    async def _await_conditions(
        self, assignment: NodeAssignment, claims: Sequence[ResourceClaim]
    ) -> None:
        """Wait until the binding conditions are true. Raises WriteRejected if they fail."""
        note = f"waiting for binding conditions for device on node {assignment.node}"
        about = events.reference(kinds.POD, assignment.pod.metadata)
        self._recorder.record(
            about, events.NORMAL, "BindingConditionsPending", note, action=SCHEDULING_ACTION
        )
        await self._patch_status(assignment.pod, {"nominatedNodeName": assignment.node})
        keys = [claim.key for claim in claims]
        with self._watched(keys) as changed:
            while True:
                changed.clear()
                seconds = self._seconds_to_wait(assignment, keys)
                if seconds is None:
                    return
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await changed.wait()

    def _seconds_to_wait(
        self, assignment: NodeAssignment, keys: Sequence[ClaimKey]
    ) -> float | None:
        """Return how long to wait at most; None when everything is ready. Raises if that fails."""
        wait: float | None = None
        now = self._now()
        for key in keys:
            claim = self._state.claim(key)
            if claim is None or claim.status.allocation is None:
                raise WriteRejected(f"claim {key} got deallocated elsewhere in the meantime")
            readiness = binding_conditions.state_of(claim, now)
            if isinstance(readiness, binding_conditions.Failed):
                raise WriteRejected(
                    f'running PreBind plugin "DynamicResources": {readiness.message}'
                )
            if not readiness:
                left = binding_conditions.seconds_left(claim, now)
                wait = left if wait is None else min(wait, left)
        if wait is not None and self._is_gone(assignment.pod):
            raise _Gone("the pod is gone")
        return wait

    def _is_gone(self, pod: Pod) -> bool:
        current = self._state.pod(pod.metadata.key)
        return current is None or current.metadata.uid != pod.metadata.uid

    @contextlib.contextmanager
    def _watched(self, keys: Sequence[ClaimKey]) -> Iterator[asyncio.Event]:
        """Return an event that is set whenever one of the claims changes."""
        changed, watchers = asyncio.Event(), self._state.claim_watchers
        for key in keys:
            watchers.setdefault(key, set()).add(changed)
        try:
            yield changed
        finally:
            for key in keys:
                watchers[key].discard(changed)
                if not watchers[key]:
                    del watchers[key]

    async def _bind_pod(self, assignment: NodeAssignment) -> None:
        metadata = assignment.pod.metadata
        name, namespace = metadata.name, metadata.namespace
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": metadata.uid},
            "target": {"kind": kinds.NODE.kind, "name": assignment.node},
        }
        try:
            await claim_writes.retry_until_answered(
                lambda: self._client.create_subresource(kinds.POD, name, "binding", body, namespace)
            )
        except errors.NotFound as error:
            raise _Gone(str(error)) from error
        except errors.Conflict as conflict:
            # An earlier request without an answer may have bound the pod.
            await self._check_bound(assignment, conflict)
        except errors.ClientError as error:
            raise WriteRejected(f"bind pod to node {assignment.node}: {error}") from error

    async def _check_bound(self, assignment: NodeAssignment, conflict: errors.Conflict) -> None:
        metadata = assignment.pod.metadata
        try:
            current = await claim_writes.retry_until_answered(
                lambda: self._client.get(kinds.POD, metadata.name, metadata.namespace)
            )
        except errors.NotFound as error:
            raise _Gone(str(error)) from error
        is_replaced = current["metadata"].get("uid") != metadata.uid
        node = current.get("spec", {}).get("nodeName", "")
        is_elsewhere = node not in ("", assignment.node)
        if is_replaced or is_elsewhere or current["metadata"].get("deletionTimestamp"):
            raise _Gone(str(conflict)) from conflict
        if not node:
            raise WriteRejected(str(conflict)) from conflict

    async def _revert(self, assignment: NodeAssignment, written: Sequence[ResourceClaim]) -> None:
        """Revert what was written for an assignment, and end its reservations."""
        extended, uid = assignment.fit.extended, assignment.pod.metadata.uid
        allocated = {
            assigned.claim.key for assigned in assignment.fit.claims if assigned.allocation
        }
        scheduling = self._state.scheduling
        for claim in written:
            key, annotations = claim.key, claim.metadata.annotations
            if extended and well_known.EXTENDED_RESOURCE_CLAIM_ANNOTATION in annotations:
                await self._writes.delete(claim)
                self._state.apply(functools.partial(scheduling.claims.release, key, uid))
            else:
                deallocate = key in allocated or binding_conditions.has_conditions(claim)
                await self._writes.withdraw(key, uid, deallocate=deallocate)
        self._state.apply(functools.partial(scheduling.release, assignment))

    def _report_success(self, assignment: NodeAssignment) -> None:
        metadata = assignment.pod.metadata
        self._recorder.record(
            events.reference(kinds.POD, metadata),
            events.NORMAL,
            "Scheduled",
            f"Successfully assigned {metadata.namespace}/{metadata.name} to {assignment.node}",
            action=BINDING_ACTION,
        )


class _Gone(Exception):
    """The pod is deleted or has another node."""


def _with_claim_name(
    fit: NodeFit, created: ResourceClaim | None
) -> list[NodeAllocatableResourceClaimStatus]:
    """Return the node resources with the name that the created claim got from the server."""
    if fit.extended is None or created is None:
        return list(fit.node_resources)
    placeholder, name = fit.extended.claim.metadata.name, created.metadata.name
    return [
        msgspec.structs.replace(status, resource_claim_name=name)
        if status.resource_claim_name == placeholder
        else status
        for status in fit.node_resources
    ]
