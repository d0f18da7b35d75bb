"""What a commit does, and what it refuses; on every implementation."""

from __future__ import annotations

import asyncio

import pytest

from dray.store import store
from tests.store.conftest import Opener
from tests.store.steps import commit, delete, keys, put, values


async def test_entry_remembers_who_created_and_who_changed_it(open_store: Opener) -> None:
    async with open_store() as target:
        created = await put(target, "/pods/a/x", b"one")
        changed = await put(target, "/pods/a/x", b"two")
        assert changed > created
        assert await target.get("/pods/a/x") == store.Entry("/pods/a/x", b"two", changed, created)


async def test_absent_key_has_no_entry(open_store: Opener) -> None:
    async with open_store() as target:
        assert await target.get("/pods/a/x") is None


async def test_values_are_opaque_bytes(open_store: Opener) -> None:
    value = bytes(range(256)) * 10
    async with open_store() as target:
        await put(target, "/blobs/ä/日本", value)
        assert await values(target) == {"/blobs/ä/日本": value}


async def test_each_commit_gets_a_larger_revision(open_store: Opener) -> None:
    async with open_store() as target:
        revisions = [await put(target, f"/pods/a/{i % 3}") for i in range(10)]
        assert revisions == sorted(set(revisions))
        assert await target.revision() == revisions[-1]


async def test_creating_what_exists_is_refused(open_store: Opener) -> None:
    async with open_store() as target:
        revision = await put(target, "/pods/a/x", b"first", expect=store.ABSENT)
        with pytest.raises(store.GuardFailed) as refusal:
            await put(target, "/pods/a/x", b"second", expect=store.ABSENT)
        assert (refusal.value.key, refusal.value.expected, refusal.value.actual) == (
            *("/pods/a/x", store.ABSENT),
            revision,
        )
        assert await values(target) == {"/pods/a/x": b"first"}


async def test_update_from_an_old_revision_is_refused(open_store: Opener) -> None:
    async with open_store() as target:
        old = await put(target, "/pods/a/x", b"one")
        new = await put(target, "/pods/a/x", b"two", expect=old)
        with pytest.raises(store.GuardFailed) as refusal:
            await put(target, "/pods/a/x", b"three", expect=old)
        assert (refusal.value.expected, refusal.value.actual) == (old, new)


async def test_update_of_what_is_gone_is_refused(open_store: Opener) -> None:
    async with open_store() as target:
        revision = await put(target, "/pods/a/x")
        await delete(target, "/pods/a/x")
        with pytest.raises(store.GuardFailed) as refusal:
            await put(target, "/pods/a/x", expect=revision)
        assert refusal.value.actual == store.ABSENT


async def test_delete_from_an_old_revision_is_refused(open_store: Opener) -> None:
    async with open_store() as target:
        old = await put(target, "/pods/a/x")
        new = await put(target, "/pods/a/x")
        with pytest.raises(store.GuardFailed):
            await delete(target, "/pods/a/x", expect=old)
        await delete(target, "/pods/a/x", expect=new)
        assert await target.get("/pods/a/x") is None


async def test_deleting_what_is_not_there_changes_nothing(open_store: Opener) -> None:
    async with open_store() as target:
        revision = await put(target, "/pods/a/x")
        assert await delete(target, "/pods/a/y") == revision
        assert await target.revision() == revision


async def test_created_again_after_a_delete_is_a_new_entry(open_store: Opener) -> None:
    async with open_store() as target:
        await put(target, "/pods/a/x")
        await delete(target, "/pods/a/x")
        revision = await put(target, "/pods/a/x", expect=store.ABSENT)
        entry = await target.get("/pods/a/x")
        assert entry is not None
        assert (entry.created, entry.revision) == (revision, revision)


async def test_operations_of_a_transaction_share_its_revision(open_store: Opener) -> None:
    async with open_store() as target:
        await put(target, "/pods/a/old")
        revision = await commit(
            target,
            store.Put("/pods/a/x", b"1"),
            store.Put("/quotas/a/q", b"2"),
            store.Delete("/pods/a/old"),
        )
        page = await target.list("/")
        assert [(entry.key, entry.revision) for entry in page.entries] == [
            ("/pods/a/x", revision),
            ("/quotas/a/q", revision),
        ]


async def test_one_refused_operation_undoes_the_whole_transaction(open_store: Opener) -> None:
    async with open_store() as target:
        revision = await put(target, "/pods/a/taken")
        with pytest.raises(store.GuardFailed) as refusal:
            await commit(
                target,
                store.Put("/pods/a/new", b""),
                store.Put("/pods/a/taken", b"", store.ABSENT),
                store.Delete("/pods/a/taken2"),
            )
        assert refusal.value.key == "/pods/a/taken"
        assert await keys(target) == ["/pods/a/taken"]
        assert await target.revision() == revision


async def test_guard_on_another_key_decides(open_store: Opener) -> None:
    async with open_store() as target:
        namespace = await put(target, "/namespaces/a")
        pod = store.Put("/pods/a/x", b"")
        await target.commit(store.Transaction((pod,), (store.Guard("/namespaces/a", namespace),)))
        changed = await put(target, "/namespaces/a", b"terminating")
        with pytest.raises(store.GuardFailed) as refusal:
            await target.commit(
                store.Transaction(
                    (store.Put("/pods/a/y", b""),), (store.Guard("/namespaces/a", namespace),)
                )
            )
        assert (refusal.value.key, refusal.value.actual) == ("/namespaces/a", changed)
        assert await keys(target, "/pods/") == ["/pods/a/x"]


async def test_first_failing_guard_is_the_one_reported(open_store: Opener) -> None:
    async with open_store() as target:
        await put(target, "/pods/a/x")
        with pytest.raises(store.GuardFailed) as refusal:
            await target.commit(
                store.Transaction(
                    (store.Put("/pods/a/y", b"", 7), store.Put("/pods/a/x", b"", store.ABSENT)),
                    (store.Guard("/pods/a/z", 9),),
                )
            )
        assert refusal.value.key == "/pods/a/y"


async def test_concurrent_creates_of_one_key_succeed_once(open_store: Opener) -> None:
    async with open_store() as target:
        outcomes = await asyncio.gather(
            *(put(target, "/pods/a/x", b"%d" % i, expect=store.ABSENT) for i in range(20)),
            return_exceptions=True,
        )
        won = [i for i, outcome in enumerate(outcomes) if isinstance(outcome, int)]
        assert len(won) == 1
        assert await values(target) == {"/pods/a/x": b"%d" % won[0]}
        assert sum(isinstance(outcome, store.GuardFailed) for outcome in outcomes) == 19


async def test_concurrent_charges_cannot_exceed_a_quota(open_store: Opener) -> None:
    limit = 5

    async def create(target: store.Store, number: int) -> bool:
        while True:
            quota = await target.get("/quotas/a/q")
            assert quota is not None
            used = int(quota.value)
            if used >= limit:
                return False
            pod = store.Put(f"/pods/a/{number}", b"", store.ABSENT)
            charge = store.Put(quota.key, b"%d" % (used + 1), quota.revision)
            try:
                await commit(target, pod, charge)
            except store.GuardFailed:
                continue
            return True

    async with open_store() as target:
        await put(target, "/quotas/a/q", b"0")
        created = await asyncio.gather(*(create(target, number) for number in range(15)))
        assert sum(created) == limit
        assert len(await keys(target, "/pods/")) == limit
        assert await values(target, "/quotas/") == {"/quotas/a/q": b"%d" % limit}


async def test_closed_store_takes_no_commits(open_store: Opener) -> None:
    async with open_store() as target:
        assert target.health().writable
    assert not target.health().writable
    with pytest.raises(store.Closed):
        await put(target, "/pods/a/x")


@pytest.mark.parametrize(
    "operations",
    [
        pytest.param((), id="no operation"),
        pytest.param((store.Put("/a/x", b""), store.Delete("/a/x")), id="key twice"),
        pytest.param((store.Put("a/x", b""),), id="no leading slash"),
        pytest.param((store.Put("/a/", b""),), id="trailing slash"),
        pytest.param((store.Put("/a/x\0", b""),), id="zero byte"),
    ],
)
def test_senseless_transaction_is_a_mistake(operations: tuple[store.Operation, ...]) -> None:
    with pytest.raises(ValueError, match=r"transaction|key"):
        store.Transaction(operations)


@pytest.mark.parametrize(
    ("operations", "what"),
    [
        pytest.param(
            tuple(store.Delete(f"/a/{i}") for i in range(store.MAX_TRANSACTION_PARTS + 1)),
            "parts",
            id="operations",
        ),
        pytest.param(
            (store.Put("/a/x", b"", None, tuple(map(str, range(store.MAX_TRANSACTION_PARTS)))),),
            "parts",
            id="tokens",
        ),
        pytest.param((store.Put("/a/x", bytes(1_500_001)),), "bytes", id="bytes"),
    ],
)
def test_transaction_has_limits(operations: tuple[store.Operation, ...], what: str) -> None:
    with pytest.raises(store.TooLarge, match=what):
        store.Transaction(operations)


def test_what_a_transaction_compares_has_a_limit() -> None:
    put = store.Put("/a/x", b"")
    guards = tuple(store.Guard(f"/b/{i}", 0) for i in range(store.MAX_TRANSACTION_GUARDS - 1))
    store.Transaction((put,), guards)
    with pytest.raises(store.TooLarge, match="guards"):
        store.Transaction((put,), guards, ("token",))


async def test_largest_transactions_are_taken(open_store: Opener) -> None:
    async with open_store() as target:
        await put(target, "/blobs/a", bytes(store.MAX_TRANSACTION_BYTES))
        many = [store.Put(f"/pods/a/{i:02}", b"") for i in range(store.MAX_TRANSACTION_PARTS)]
        await commit(target, *many)
        assert len(await keys(target, "/pods/")) == store.MAX_TRANSACTION_PARTS
        guards = tuple(store.Guard(f"/b/{i}", 0) for i in range(store.MAX_TRANSACTION_GUARDS - 1))
        await target.commit(store.Transaction((store.Put("/a/x", b""),), guards))
