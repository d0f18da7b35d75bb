"""What waits: pods that have not started, and claims without devices that no pod uses."""

from __future__ import annotations

from typing import Any

from dray.api.ids import ObjectKey
from dray.client.cache import ObjectChange
from dray.ui.model.waiting_state import WaitingKey, WaitingReason, WaitingState
from tests import builders

NAMESPACE = builders.NAMESPACE
POD, CLAIM = WaitingKey("pod", NAMESPACE, "train"), WaitingKey("claim", NAMESPACE, "data")


def change(old: Any, new: Any) -> ObjectChange[Any]:
    metadata = (new if new is not None else old).metadata
    return ObjectChange(ObjectKey(metadata.namespace, metadata.name), old, new)


def test_a_claim_is_listed_until_a_pod_uses_it() -> None:
    state, claim = WaitingState(), builders.claim(builders.request(), name="data")
    state.claim_changed(change(None, claim))
    assert state.entries.keys() == {str(CLAIM)}
    pod = builders.pod(claims={"gpu": "data"})
    state.pod_changed(change(None, pod))
    assert state.entries.keys() == {str(POD)}
    assert state.take() == {str(CLAIM): None, str(POD): state.entries[str(POD)]}
    state.pod_changed(change(pod, None))
    assert state.entries.keys() == {str(CLAIM)}
    state.claim_changed(change(claim, builders.allocated(claim, "gpu-0")))
    assert state.entries == {}
    assert list(state.due) == []


def test_a_reason_is_shown_and_asked_for_again_when_the_pod_says_something_else() -> None:
    state = WaitingState()
    pod = builders.pod(status={"phase": "Pending"})
    state.pod_changed(change(None, pod))
    assert list(state.due) == [POD]
    state.due.clear()
    reason = WaitingReason("pod waits: no", "no", "add one")
    state.explained(POD, reason)
    entry = state.entries[str(POD)]
    assert (entry.reason, entry.short, entry.fix) == reason[:3]
    again = builders.pod(status={"phase": "Pending"})
    state.pod_changed(change(pod, again))
    assert list(state.due) == []
    condition = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes"}
    said = builders.pod(status={"phase": "Pending", "conditions": [condition]})
    state.pod_changed(change(again, said))
    assert list(state.due) == [POD]
    # What was found out is shown until there is something else.
    assert state.entries[str(POD)].reason == reason.sentence
    state.pod_changed(change(said, builders.pod(status={"phase": "Running"})))
    assert state.entries == {}
    state.explained(POD, reason)
    assert state.entries == {}


def test_a_pod_that_is_starting_does_not_wait() -> None:
    state = WaitingState()
    state.pod_changed(change(None, builders.pod()))
    state.explained(POD, WaitingReason("pod is starting", "", "", is_waiting=False))
    assert state.entries == {}
    state.explain_all_again()
    assert list(state.due) == [POD]
    state.explained(POD, WaitingReason("pod waits: broken", "broken", ""))
    assert state.entries[str(POD)].short == "broken"
