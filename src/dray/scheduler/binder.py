"""Writes a decision: claims, what the pod's status notes, binding conditions, the node.

Upstream's order: for each claim finalizer, allocation and reservation; then the pod. What was
written is taken back when a later step is refused.
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
from dray.api.semantics import pod_claims
from dray.api.types.dra import ResourceClaim
from dray.api.types.meta import JsonObject
from dray.api.types.pods import NodeAllocatableResourceClaimStatus, Pod
from dray.client import events
from dray.client.api_client import Client
from dray.client.events import Recorder
from dray.scheduler.claims import claim_writes
from dray.scheduler.claims.claim_writes import ClaimWrites, WriteRejected
from dray.scheduler.claims.device_fit import ClaimAssignment, NodeFit
from dray.scheduler.cluster_state import SchedulerState
from dray.scheduling import binding_conditions

log = logging.getLogger(__name__)

BINDING_ACTION, SCHEDULING_ACTION = "Binding", "Scheduling"


class NodeAssignment(NamedTuple):
    """Where a pod goes and what it gets there."""

    pod: Pod
    node: str
    fitting: NodeFit


class BindFailure(NamedTuple):
    """The pod has no node; what it had is given back."""

    message: str
    is_gone: bool = False
    """The pod itself is gone or has another node, so there is nothing to try again."""


class Binder:
    def __init__(
        self,
        client: Client,
        state: SchedulerState,
        writes: ClaimWrites,
        recorder: Recorder,
        features: Features,
        now: Callable[[], datetime.datetime],
    ) -> None:
        self._client, self._state, self._writes = client, state, writes
        self._recorder, self._now = recorder, now
        self._awaits_conditions = (
            features.device_binding_conditions and features.resource_claim_device_status
        )

    def reserve(self, choice: NodeAssignment) -> None:
        """Count with the decision from now on; nothing is written yet."""
        uid = choice.pod.metadata.uid
        for grant in choice.fitting.grants:
            if grant.allocation is not None:
                self._state.inflight.reserve(pod_claims.key_of(grant.claim), grant.allocation, uid)
        self._state.nodes.charge(uid, choice.node, choice.fitting.charge)

    def release(self, choice: NodeAssignment) -> None:
        """Undo `reserve`."""
        uid = choice.pod.metadata.uid
        for grant in choice.fitting.grants:
            if grant.allocation is not None:
                self._state.inflight.release(pod_claims.key_of(grant.claim), uid)
        current = self._state.pods.get(choice.pod.metadata.name, choice.pod.metadata.namespace)
        if current is None or current.metadata.uid != uid or not current.spec.node_name:
            self._state.nodes.discharge(uid)

    async def bind(self, choice: NodeAssignment) -> BindFailure | None:
        """Write a decision that was reserved; None when the pod is bound."""
        written: list[ResourceClaim] = []
        try:
            await self._write(choice, written)
        except WriteRejected as refused:
            await self._take_back(choice, written)
            return BindFailure(str(refused))
        except _Gone as gone:
            await self._take_back(choice, written)
            return BindFailure(str(gone), is_gone=True)
        self._report_success(choice)
        return None

    async def _write(self, choice: NodeAssignment, written: list[ResourceClaim]) -> None:
        special = choice.fitting.extended
        created: ResourceClaim | None = None
        for grant in choice.fitting.grants:
            if special is not None and grant.claim is special.claim:
                created = await self._create(choice, grant)
                written.append(created)
                grant = grant._replace(claim=created)
            claim = await self._writes.grant(grant)
            if claim.metadata.uid not in {each.metadata.uid for each in written}:
                written.append(claim)
        await self._note_in_status(choice, created)
        if self._awaits_conditions and any(map(binding_conditions.has_conditions, written)):
            await self._await_conditions(choice, written)
        await self._bind_pod(choice)

    async def _create(self, choice: NodeAssignment, grant: ClaimAssignment) -> ResourceClaim:
        """Make the claim and move the reservation from the placeholder to it."""
        created = await self._writes.create(grant.claim)
        uid, allocation = choice.pod.metadata.uid, grant.allocation
        assert allocation is not None
        inflight = self._state.inflight

        def move() -> None:
            inflight.reserve(pod_claims.key_of(created), allocation, uid)
            inflight.release(pod_claims.key_of(grant.claim), uid)

        self._state.apply(move)
        return created

    async def _note_in_status(self, choice: NodeAssignment, created: ResourceClaim | None) -> None:
        status: dict[str, Any] = {}
        if created is not None and choice.fitting.extended is not None:
            status["extendedResourceClaimStatus"] = {
                "requestMappings": choice.fitting.extended.mappings,
                "resourceClaimName": created.metadata.name,
            }
        if choice.fitting.noted:
            noted = _renamed(choice.fitting, created)
            status["nodeAllocatableResourceClaimStatuses"] = noted
        if status:
            await self._patch_status(choice.pod, status)

    async def _patch_status(self, pod: Pod, status: dict[str, Any]) -> None:
        metadata = pod.metadata
        patch = {"metadata": {"uid": metadata.uid}, "status": status}

        async def write() -> JsonObject:
            return await self._client.patch(
                kinds.POD, metadata.name, patch, metadata.namespace, subresource="status"
            )

        try:
            await claim_writes.retry_until_answered(write)
        except errors.NotFound as error:
            raise _Gone(str(error)) from error
        except errors.ClientError as error:
            raise WriteRejected(
                f"update pod {metadata.namespace}/{metadata.name}: {error}"
            ) from error

    async def _await_conditions(
        self, choice: NodeAssignment, claims: Sequence[ResourceClaim]
    ) -> None:
        """Wait until the drivers have attached what they must, or say that they cannot."""
        note = f"waiting for binding conditions for device on node {choice.node}"
        about = events.reference(kinds.POD, choice.pod.metadata)
        self._recorder.record(
            about, events.NORMAL, "BindingConditionsPending", note, action=SCHEDULING_ACTION
        )
        await self._patch_status(choice.pod, {"nominatedNodeName": choice.node})
        keys = [pod_claims.key_of(claim) for claim in claims]
        with self._watched(keys) as changed:
            while True:
                changed.clear()
                seconds = self._seconds_to_wait(choice, keys)
                if seconds is None:
                    return
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await changed.wait()

    def _seconds_to_wait(self, choice: NodeAssignment, keys: Sequence[ClaimKey]) -> float | None:
        """None when everything is ready; raises when it never will be."""
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
        if wait is not None and self._is_gone(choice.pod):
            raise _Gone("the pod is gone")
        return wait

    def _is_gone(self, pod: Pod) -> bool:
        metadata = pod.metadata
        current = self._state.pods.get(metadata.name, metadata.namespace)
        return current is None or current.metadata.uid != metadata.uid

    @contextlib.contextmanager
    def _watched(self, keys: Sequence[ClaimKey]) -> Iterator[asyncio.Event]:
        """An event that is set whenever one of the claims changes."""
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

    async def _bind_pod(self, choice: NodeAssignment) -> None:
        metadata = choice.pod.metadata
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": metadata.name,
                "namespace": metadata.namespace,
                "uid": metadata.uid,
            },
            "target": {"kind": kinds.NODE.kind, "name": choice.node},
        }

        async def bind() -> JsonObject:
            return await self._client.create_subresource(
                kinds.POD, metadata.name, "binding", body, metadata.namespace
            )

        try:
            await claim_writes.retry_until_answered(bind)
        except errors.NotFound as error:
            raise _Gone(str(error)) from error
        except errors.Conflict as conflict:
            # An earlier attempt without an answer may have done it.
            await self._check_bound(choice, conflict)
        except errors.ClientError as refusal:
            raise WriteRejected(f"bind pod to node {choice.node}: {refusal}") from refusal

    async def _check_bound(self, choice: NodeAssignment, conflict: errors.Conflict) -> None:
        metadata = choice.pod.metadata

        async def read() -> JsonObject:
            return await self._client.get(kinds.POD, metadata.name, metadata.namespace)

        try:
            current = await claim_writes.retry_until_answered(read)
        except errors.NotFound as error:
            raise _Gone(str(error)) from error
        is_same = current["metadata"].get("uid") == metadata.uid
        node = current.get("spec", {}).get("nodeName", "")
        if not is_same or (node and node != choice.node):
            raise _Gone(str(conflict)) from conflict
        if current["metadata"].get("deletionTimestamp"):
            raise _Gone(str(conflict)) from conflict
        if not node:
            raise WriteRejected(str(conflict)) from conflict

    async def _take_back(self, choice: NodeAssignment, written: Sequence[ResourceClaim]) -> None:
        """Give everything back that this decision took."""
        special, uid = choice.fitting.extended, choice.pod.metadata.uid
        allocated = {
            pod_claims.key_of(grant.claim)
            for grant in choice.fitting.grants
            if grant.allocation is not None
        }
        inflight = self._state.inflight
        for claim in written:
            key = pod_claims.key_of(claim)
            if (
                special is not None
                and well_known.EXTENDED_RESOURCE_CLAIM_ANNOTATION in claim.metadata.annotations
            ):
                await self._writes.delete(claim)
                self._state.apply(functools.partial(inflight.release, key, uid))
            else:
                deallocate = key in allocated or binding_conditions.has_conditions(claim)
                await self._writes.withdraw(key, uid, deallocate=deallocate)
        self._state.apply(functools.partial(self.release, choice))

    def _report_success(self, choice: NodeAssignment) -> None:
        metadata = choice.pod.metadata
        self._recorder.record(
            events.reference(kinds.POD, metadata),
            events.NORMAL,
            "Scheduled",
            f"Successfully assigned {metadata.namespace}/{metadata.name} to {choice.node}",
            action=BINDING_ACTION,
        )


class _Gone(Exception):
    """The pod does not want a node any more."""


def _renamed(
    fitting: NodeFit, created: ResourceClaim | None
) -> list[NodeAllocatableResourceClaimStatus]:
    """What devices use of the node, by the names that claims have by now."""
    if fitting.extended is None or created is None:
        return list(fitting.noted)
    placeholder, name = fitting.extended.claim.metadata.name, created.metadata.name
    return [
        msgspec.structs.replace(each, resource_claim_name=name)
        if each.resource_claim_name == placeholder
        else each
        for each in fitting.noted
    ]
