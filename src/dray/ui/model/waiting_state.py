"""The pods and claims that wait: which they are, and what is said about them."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from dray.api.ids import ClaimKey
from dray.api.semantics import pod_claims, pod_status
from dray.api.types.dra import ResourceClaim
from dray.api.types.pods import Pod
from dray.client.cache import ObjectChange
from dray.ui.model.entries import WaitingEntry

POD, CLAIM = "pod", "claim"


class WaitingKey(NamedTuple):
    """A pod or a claim; as text it is its key on the wire."""

    type: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}/{self.namespace}/{self.name}"


class WaitingReason(NamedTuple):
    """The sentence of `dray explain` about what waits, a few words, and the best fix."""

    sentence: str
    short: str
    fix: str
    is_waiting: bool = True
    """False for a pod in whose way nothing is: it is starting."""


class WaitingState:
    """Keeps the list; callers pass on every change of pods and claims, and reasons."""

    def __init__(self) -> None:
        self.entries: dict[str, WaitingEntry] = {}
        self.due: dict[WaitingKey, None] = {}
        """What has to be explained, the oldest first."""
        self._found: dict[WaitingKey, WaitingEntry] = {}
        self._reasons: dict[WaitingKey, WaitingReason] = {}
        self._users: Counter[ClaimKey] = Counter()
        self._unallocated: dict[ClaimKey, ResourceClaim] = {}
        self._changed: dict[str, WaitingEntry | None] = {}

    def pod_changed(self, change: ObjectChange[Pod]) -> None:
        old, new = change.old, change.new
        for pod, sign in ((old, -1), (new, 1)):
            if pod is not None and not pod_status.has_ended(pod):
                for claim in pod_claims.used_claims(pod):
                    self._use(claim, sign)
        key = WaitingKey(POD, *change.key)
        if new is None or not is_waiting(new):
            self._drop(key)
        elif old is None or _says(old) != _says(new) or key not in self._found:
            since = new.metadata.creation_timestamp or ""
            self._put(key, WaitingEntry(since, "Pod", *change.key))

    def claim_changed(self, change: ObjectChange[ResourceClaim]) -> None:
        key, new = ClaimKey(*change.key), change.new
        if new is None or new.status.allocation is not None:
            self._unallocated.pop(key, None)
        else:
            self._unallocated[key] = new
        self._look_at_claim(key)

    def explained(self, key: WaitingKey, reason: WaitingReason) -> None:
        """Take over an explanation of what may have stopped waiting in the meantime."""
        if key in self._found and self._reasons.get(key) != reason:
            self._reasons[key] = reason
            self._show(key)

    def explain_all_again(self) -> None:
        """Note that every reason may be different now."""
        for key in self._found:
            self.due.setdefault(key)

    def take(self) -> dict[str, WaitingEntry | None]:
        """Return what has changed since the last call."""
        taken, self._changed = self._changed, {}
        return taken

    def _use(self, claim: ClaimKey, sign: int) -> None:
        self._users[claim] += sign
        if self._users[claim] <= 0:
            del self._users[claim]
        self._look_at_claim(claim)

    def _look_at_claim(self, claim: ClaimKey) -> None:
        """List a claim without devices that no pod uses; others are part of their pod's line."""
        key = WaitingKey(CLAIM, *claim)
        found = self._unallocated.get(claim)
        if found is None or claim in self._users:
            self._drop(key)
        elif key not in self._found:
            since = found.metadata.creation_timestamp or ""
            self._put(key, WaitingEntry(since, "ResourceClaim", *claim))

    def _put(self, key: WaitingKey, waiting: WaitingEntry) -> None:
        self._found[key] = waiting
        self.due[key] = None
        self._show(key)

    def _drop(self, key: WaitingKey) -> None:
        if self._found.pop(key, None) is not None:
            self._reasons.pop(key, None)
            self.due.pop(key, None)
            self._hide(str(key))

    def _show(self, key: WaitingKey) -> None:
        waiting, reason = self._found[key], self._reasons.get(key)
        if reason is not None and not reason.is_waiting:
            self._hide(str(key))
            return
        if reason is not None:
            waiting = WaitingEntry(
                waiting.since,
                waiting.kind,
                waiting.ns,
                waiting.name,
                reason.sentence,
                reason.short,
                reason.fix,
            )
        if self.entries.get(str(key)) != waiting:
            self.entries[str(key)] = self._changed[str(key)] = waiting

    def _hide(self, text: str) -> None:
        if self.entries.pop(text, None) is not None:
            self._changed[text] = None


def is_waiting(pod: Pod) -> bool:
    """Return whether no container of a pod has started yet."""
    return (pod.status.phase or pod_status.PENDING) == pod_status.PENDING


def _says(pod: Pod) -> object:
    """Return what explanations read of the pod itself."""
    status = pod.status
    return (
        pod.metadata.uid,
        pod.spec.node_name,
        pod.metadata.deletion_timestamp,
        [(item.type, item.status, item.reason, item.message) for item in status.conditions],
        status.container_statuses,
        status.init_container_statuses,
        status.resource_claim_statuses,
    )
