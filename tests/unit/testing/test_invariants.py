"""Each invariant is shown to fail on a state that breaks it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from dray.api import kinds
from dray.api.kinds import Kind
from dray.api.types.meta import JsonObject, ObjectMeta
from dray.client.api_client import ListPage, WatchEvent
from dray.node.devices.preparation import ClaimRecord
from dray.testing import invariants
from dray.testing.revisions import RevisionChecker, RevisionWatch

ALLOCATION: JsonObject = {"devices": {"results": []}}


class FakeClient:
    """An API that shows what it was given."""

    def __init__(self, **objects: list[JsonObject]) -> None:
        self._objects = objects

    async def list(self, kind: Kind) -> ListPage:
        objects = self._objects.get(kind.plural, [])
        return ListPage({"resourceVersion": "5"}, [msgspec.Raw(json.dumps(o)) for o in objects])


def pod(uid: str, phase: str = "Running") -> JsonObject:
    return {"metadata": {"name": f"pod-{uid}", "uid": uid}, "status": {"phase": phase}}


def claim(*uids: str, **status: Any) -> JsonObject:
    consumers = [{"resource": "pods", "name": f"pod-{uid}", "uid": uid} for uid in uids]
    return {
        "metadata": {"name": "c", "namespace": "ns", "uid": "c"},
        "status": {"allocation": ALLOCATION, "reservedFor": consumers, **status},
    }


def prepared(*pods: str) -> ClaimRecord:
    return ClaimRecord("ns", "c", "c", ("d",), pods)


def violations(*on_nodes: ClaimRecord, **objects: list[JsonObject]) -> list[str]:
    client: Any = FakeClient(**objects)
    return asyncio.run(invariants.violations(client, prepared=on_nodes))


def test_a_sound_cluster_breaks_nothing() -> None:
    assert violations(prepared("a"), pods=[pod("a")], resourceclaims=[claim("a")]) == []
    assert violations() == []


def test_nothing_is_reserved_without_an_allocation() -> None:
    broken = claim("a", allocation=None)
    assert violations(pods=[pod("a")], resourceclaims=[broken]) == [
        "c is reserved and not allocated"
    ]


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param([], id="gone"),
        pytest.param([pod("a", "Succeeded")], id="succeeded"),
        pytest.param([pod("a", "Failed")], id="failed"),
        pytest.param([pod("b")], id="another-pod"),
    ],
)
def test_nothing_is_reserved_or_prepared_for_a_pod_that_is_gone(pods: list[JsonObject]) -> None:
    assert violations(pods=pods, resourceclaims=[claim("a")]) == [
        "c is reserved for pod-a, which is gone"
    ]
    assert violations(prepared("a"), pods=pods) == ["ns/c is prepared for pod a, which is gone"]


def test_one_pod_of_a_shared_claim_that_is_gone_is_enough() -> None:
    assert violations(prepared("a", "b"), pods=[pod("b")]) == [
        "ns/c is prepared for pod a, which is gone"
    ]


def metadata(revision: int, uid: str = "a") -> ObjectMeta:
    return ObjectMeta(name=uid, uid=uid, resource_version=str(revision))


def checker(*objects: ObjectMeta, revision: int = 10) -> RevisionChecker:
    made = RevisionChecker("pods")
    made.listed(str(revision), objects)
    return made


def test_increasing_revisions_break_nothing() -> None:
    revisions = checker(metadata(3), metadata(7, "b"))
    revisions.event("MODIFIED", metadata(11))
    # Two objects may be written in one transaction.
    revisions.event("MODIFIED", metadata(12))
    revisions.event("DELETED", metadata(12, "b"))
    revisions.event("BOOKMARK", ObjectMeta(resource_version="12"))
    revisions.event("ADDED", metadata(13, "c"))
    revisions.listed("13", [metadata(12), metadata(13, "c")])
    assert revisions.violations == []


@pytest.mark.parametrize(
    ("revision", "violation"),
    [
        pytest.param(9, "pods: the watch is at revision 9, after 10", id="before-the-list"),
        pytest.param(3, "pods: a has revision 3, after 3", id="as-before"),
    ],
)
def test_an_event_with_an_old_revision_is_found(revision: int, violation: str) -> None:
    revisions = checker(metadata(3))
    revisions.event("MODIFIED", metadata(revision))
    assert violation in revisions.violations


def test_two_writes_of_one_object_with_one_revision_are_found() -> None:
    revisions = checker()
    revisions.event("ADDED", metadata(11))
    revisions.event("MODIFIED", metadata(11))
    assert revisions.violations == ["pods: a has revision 11, after 11"]


def test_a_bookmark_that_goes_back_is_found() -> None:
    revisions = checker()
    revisions.event("BOOKMARK", ObjectMeta(resource_version="9"))
    assert revisions.violations == ["pods: the watch is at revision 9, after 10"]


def test_an_object_that_is_newer_than_its_list_is_found() -> None:
    assert checker(metadata(11)).violations == ["pods: a has revision 11, and its list is of 10"]


def test_a_list_that_goes_back_is_found() -> None:
    revisions = checker(metadata(8))
    revisions.listed("9", [metadata(7)])
    assert revisions.violations == [
        "pods: the list is of revision 9, after 10",
        "pods: a has revision 7, after 8",
    ]


class FakeWatch(FakeClient):
    """A watch with two events, the second of which goes back."""

    async def watch(self, _kind: Kind, *, resource_version: str) -> AsyncIterator[WatchEvent]:
        for revision in (int(resource_version) + 2, int(resource_version) + 1):
            body = {"metadata": {"name": "a", "uid": "a", "resourceVersion": str(revision)}}
            yield WatchEvent("MODIFIED", msgspec.Raw(json.dumps(body)))
        await asyncio.Event().wait()


def test_a_watch_of_an_api_whose_revisions_go_back_finds_it() -> None:
    async def run() -> list[str]:
        client: Any = FakeWatch()
        async with RevisionWatch(client, [kinds.POD]).running() as watch:
            async with asyncio.timeout(30):
                while not watch.violations:
                    await asyncio.sleep(0)
            return watch.violations

    assert asyncio.run(run()) == [
        "pods: the watch is at revision 6, after 7",
        "pods: a has revision 6, after 7",
    ]
