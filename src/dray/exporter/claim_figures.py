"""Figures about claims: how many are allocated, and what the others wait for since when.

The cause is found by the scheduling decision, made for each waiting pod as if it were the next;
nothing is reserved by it. As that costs time for each pod, it is made as seldom as its time allows.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dray.api.formats import gotime
from dray.api.ids import ClaimKey, ObjectKey
from dray.api.semantics import pod_claims, pod_status
from dray.api.types.dra import ResourceClaim
from dray.api.types.meta import ObjectMeta
from dray.api.types.pods import Pod
from dray.exporter import node_series
from dray.exporter.work_budget import WorkBudget
from dray.scheduling import steps
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.decision import Decider
from dray.scheduling.state import SchedulingState

DECISION_SECONDS = 5.0
"""The time that one decision may take."""
FITS, NO_POD, BOUND = "scheduler", "no_pod", "claim"
"""The causes that no decision gives; `BOUND` is that of a pod that has a node without devices."""


WaitingKey = ClaimKey | tuple[str, str]
"""Claims that are not created yet are known by the uid of their pod and their name in it."""


class Waiting(NamedTuple):
    """The claims that wait for the same: their number, and since when the oldest does."""

    claims: int = 0
    since: datetime.datetime | None = None

    def with_claim(self, since: datetime.datetime | None) -> Waiting:
        known = [time for time in (self.since, since) if time is not None]
        return Waiting(self.claims + 1, min(known, default=None))


class ClaimFigures:
    """Keeps the figures of a state. Callers pass on every change of claims and pods."""

    def __init__(
        self,
        state: SchedulingState,
        budget: WorkBudget,
        now: Callable[[], datetime.datetime],
        observe_latency: Callable[[float], None],
    ) -> None:
        self._state, self._budget, self._now = state, budget, now
        self._observe_latency = observe_latency
        self._stop_at = 0.0
        self._decider = Decider(state, should_stop=self._should_stop)
        self._pending: dict[ClaimKey, datetime.datetime | None] = {}
        """The claims without devices, and when they were created."""
        self._waiting_pods: dict[ObjectKey, None] = {}
        self._users: Counter[ClaimKey] = Counter()
        """The number of pods that use each claim."""
        self._is_current = True
        self.allocated = 0
        self.by_cause: dict[str, Waiting] = {}

    @property
    def pending(self) -> int:
        return len(self._pending)

    @property
    def is_current(self) -> bool:
        return self._is_current

    def something_changed(self) -> None:
        """Note a change that a cause may depend on."""
        self._is_current = False

    def claim_changed(
        self, old: ResourceClaim | None, new: ResourceClaim | None, is_live: bool
    ) -> None:
        """Take over a claim. `is_live` says that the change was seen when it was made."""
        was = old is not None and old.status.allocation is not None
        if old is not None:
            self._pending.pop(old.key, None)
            self.allocated -= was
        if new is None:
            return
        if new.status.allocation is None:
            self._pending[new.key] = created(new.metadata)
            return
        self.allocated += 1
        since = created(new.metadata)
        if is_live and not was and since is not None:
            self._observe_latency(max((self._now() - since).total_seconds(), 0.0))

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for pod, sign in ((old, -1), (new, 1)):
            if pod is None or pod_status.has_ended(pod):
                continue
            for key in pod_claims.used_claims(pod):
                if key in self._pending:
                    self._is_current = False
                self._users[key] += sign
                if not self._users[key]:
                    del self._users[key]
        if old is not None:
            self._waiting_pods.pop(old.metadata.key, None)
        if (
            new is not None
            and self._state.is_pending(new)
            and not pod_status.has_ended(new)
            and any(pod_claims.claims_of_pod(new))
        ):
            self._waiting_pods[new.metadata.key] = None

    def update(self) -> Iterator[None]:
        """Find the causes if they may have changed; yields after each pod, so others can run."""
        if self._is_current or not self._budget.is_open:
            return
        self._is_current = True
        found: dict[WaitingKey, tuple[str, datetime.datetime | None]] = {}
        causes = _Causes(self._state, self._decided)
        for key in list(self._waiting_pods):
            pod = self._state.pods.get(key)
            for claim, since in self._claims_of(pod) if pod is not None else ():
                if pod is None or claim in found:
                    continue
                with self._budget.spending():
                    found[claim] = causes.of(pod), since
            yield
        for claim, since in self._pending.items():
            found.setdefault(claim, (BOUND if self._users[claim] else NO_POD, since))
        self.by_cause = {}
        for cause, since in found.values():
            self.by_cause[cause] = self.by_cause.get(cause, Waiting()).with_claim(since)

    def _claims_of(self, pod: Pod) -> Iterator[tuple[WaitingKey, datetime.datetime | None]]:
        """Yield the claims of a pod without devices, also those not created yet."""
        for used in pod_claims.claims_of_pod(pod):
            if not used.name:
                yield (pod.metadata.uid, used.pod_claim), created(pod.metadata)
                continue
            key = ClaimKey(pod.metadata.namespace, used.name)
            claim = self._state.claims.get(key)
            if claim is None or claim.status.allocation is None:
                yield key, created((claim or pod).metadata)

    def _decided(self, pod: Pod) -> dict[ObjectKey, str]:
        """Return what a pod waits for, as a label; the same for all pods of its gang."""
        self._stop_at = self._budget.time() + DECISION_SECONDS
        try:
            decided = steps.run(self._decider.steps_for(pod, self._now()), self._should_stop)
        except steps.Stopped:
            return {pod.metadata.key: "error"}
        causes = {}
        for key, decision in decided.items():
            if isinstance(decision, NodeAssignment):
                self._state.release(decision)
                causes[key] = FITS
            else:
                causes[key] = node_series.label(decision.category)
        return causes

    def _should_stop(self) -> bool:
        return self._budget.time() > self._stop_at


class _Causes:
    """The causes found so far; pods that differ only in their names have the same.

    Trimmed objects share equal specs, so these are compared by identity.
    """

    def __init__(
        self, state: SchedulingState, decide: Callable[[Pod], Mapping[ObjectKey, str]]
    ) -> None:
        self._state, self._decide = state, decide
        self._of_pod: dict[ObjectKey, str] = {}
        self._of_equal: dict[Hashable, tuple[Sequence[object], str]] = {}
        """With the objects whose identities are the key, so that no others get these."""

    def of(self, pod: Pod) -> str:
        """Return what a pod waits for."""
        key = pod.metadata.key
        if key in self._of_pod:
            return self._of_pod[key]
        parts = self._parts(pod)
        equal = (pod.metadata.namespace, *map(id, parts)) if parts else None
        if equal in self._of_equal:
            return self._of_equal[equal][1]
        self._of_pod |= self._decide(pod)
        if equal is not None:
            self._of_equal[equal] = parts, self._of_pod[key]
        return self._of_pod[key]

    def _parts(self, pod: Pod) -> Sequence[object]:
        """Return what a decision depends on besides names; nothing if it depends on more."""
        parts: list[object] = [pod.spec, pod.metadata.labels]
        if pod_claims.group_name(pod) or pod.status.extended_resource_claim_status is not None:
            return ()
        for used in pod_claims.claims_of_pod(pod):
            claim = self._state.claims.get(ClaimKey(pod.metadata.namespace, used.name or ""))
            is_new = claim is not None and claim.status.allocation is None
            if claim is None or not is_new or not used.is_generated:
                return ()
            if not pod_claims.is_for_pod(claim, pod, accepts_group=False):
                return ()
            parts.append(claim.spec)
        return parts


def created(metadata: ObjectMeta) -> datetime.datetime | None:
    """Return when an object was created; None if that is not known."""
    text = metadata.creation_timestamp
    return gotime.parse(text) if text else None
