"""Nobody gets more of a device than there is, however many ask at once, on every store."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from dray.api import errors, kinds
from dray.api.http_messages import User
from dray.api.ids import PoolId
from dray.api.types.meta import JsonObject
from dray.apiserver import server
from dray.apiserver.access.service_account_tokens import TokenSigner
from dray.apiserver.storage import device_usage
from dray.client.api_client import Client, InProcessTransport
from dray.store import etcd as etcd_store
from dray.store import etcd_connection, memory, sqlite
from dray.store.store import Store
from tests import etcd, loop
from tests.security.test_two_servers import DRIVER, NAMESPACE, device, partition, slice_of

ADMIN = User("admin", frozenset({"system:masters", "system:authenticated"}))
CLAIM, SLICE = kinds.RESOURCE_CLAIM, kinds.RESOURCE_SLICE
SHARED, CUT, WHOLE = "node-shared", "node-cut", "node-whole"
CLAIMS = 24
STORES = ["memory", "sqlite", "etcd"]


class World(NamedTuple):
    """Two API servers on one etcd; of the other stores, one server that both clients ask."""

    first: Client
    second: Client
    stores: tuple[Store, ...]

    def of(self, number: int) -> Client:
        return self.second if number % 2 else self.first


@contextlib.asynccontextmanager
async def stores(kind: str, folder: Path) -> AsyncIterator[tuple[Store, ...]]:
    if kind == "memory":
        async with memory.open() as opened:
            yield (opened,)
    elif kind == "sqlite":
        async with sqlite.open(folder / "store.db") as opened:
            yield (opened,)
    else:
        with etcd.running(folder) as member:
            access = etcd_connection.Access((member.endpoint,))
            async with etcd_store.open(access) as left, etcd_store.open(access) as right:
                yield left, right


async def _run(test: Callable[[World], Awaitable[None]], kind: str, folder: Path) -> None:
    signer = server.signer_in(folder)
    async with stores(kind, folder) as opened, contextlib.AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(server.open_server(each, signer=signer))
            for each in opened
        ]
        clients = [Client(InProcessTransport(each.app.handle, ADMIN)) for each in servers]
        world = World(clients[0], clients[-1], opened)
        await publish(world.first)
        await test(world)


def on_every_store(test: Callable[[World], Awaitable[None]]) -> Callable[[str, Path], None]:
    @pytest.mark.parametrize("kind", STORES)
    def run(kind: str, tmp_path: Path) -> None:
        loop.run(_run(test, kind, tmp_path))

    functools.update_wrapper(run, test, assigned=("__name__", "__doc__"), updated=())
    del run.__wrapped__  # type: ignore[attr-defined]
    return run


async def publish(client: Client, *, memory: str = "10Gi") -> None:
    capacity = {"memory": {"value": memory}}
    shared = device("shared-0", allowMultipleAllocations=True, capacity=capacity)
    counters = [{"name": "gpu", "counters": {"memory": {"value": "40Gi"}}}]
    cut = [partition("all-0", "40Gi"), *(partition(f"quarter-{n}", "10Gi") for n in range(CLAIMS))]
    for made in (
        slice_of("node", "shared", devices=[shared]),
        slice_of("node", "whole", devices=[device("whole-0")]),
        slice_of("node", "cut", sharedCounters=counters),
        slice_of("node", "cut", devices=cut),
    ):
        if made["spec"]["pool"]["name"] == CUT:
            made["spec"]["pool"]["resourceSliceCount"] = 2
        await client.create(SLICE, made)


async def make_claims(client: Client, count: int = CLAIMS) -> None:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]
    for number in range(count):
        claim = {
            "metadata": {"name": f"claim-{number}"},
            "spec": {"devices": {"requests": requests}},
        }
        await client.create(CLAIM, claim, NAMESPACE)


def share(amount: str = "1Gi", **fields: object) -> JsonObject:
    return {
        **result(SHARED, "shared-0"),
        "shareID": str(uuid.uuid4()),
        "consumedCapacity": {"memory": amount},
        **fields,
    }


def result(pool: str, name: str) -> JsonObject:
    return {"request": "gpu", "driver": DRIVER, "pool": pool, "device": name}


async def allocate(client: Client, number: int, *results: JsonObject) -> str:
    """The message of a refusal; empty for an allocation."""
    patch = {"status": {"allocation": {"devices": {"results": list(results)}}}}
    try:
        await client.patch(CLAIM, f"claim-{number}", patch, NAMESPACE, subresource="status")
    except errors.Conflict as refusal:
        return refusal.message
    return ""


async def release(client: Client, number: int) -> None:
    patch = {"status": {"allocation": None}}
    await client.patch(CLAIM, f"claim-{number}", patch, NAMESPACE, subresource="status")


async def outcomes(world: World, make: Callable[[int], JsonObject]) -> list[str]:
    """What becomes of claims that are all allocated at once, half of them by each server."""
    await make_claims(world.first)
    return await asyncio.gather(
        *(allocate(world.of(number), number, make(number)) for number in range(CLAIMS))
    )


@on_every_store
async def test_shares_of_a_device_are_never_more_than_its_capacity(world: World) -> None:
    messages = await outcomes(world, lambda _: share())
    assert messages.count("") == 10
    refused = next(filter(None, messages))
    assert f"device {DRIVER}/{SHARED}/shared-0 has 10Gi of the capacity memory" in refused
    assert "would use 11Gi; allocated to the claims default/claim-" in refused


@on_every_store
async def test_devices_never_draw_more_than_their_counters(world: World) -> None:
    messages = await outcomes(world, lambda number: result(CUT, f"quarter-{number}"))
    assert messages.count("") == 4
    refused = next(filter(None, messages))
    assert f"counter memory of the counter set gpu in pool {DRIVER}/{CUT} has 40Gi" in refused
    assert "would use 50Gi; allocated to the claims default/claim-" in refused


@on_every_store
async def test_the_whole_and_its_parts_exclude_each_other(world: World) -> None:
    messages = await outcomes(
        world, lambda number: result(CUT, "all-0" if number % 3 == 0 else f"quarter-{number}")
    )
    taken = [number for number, message in enumerate(messages) if not message]
    is_whole = [number % 3 == 0 for number in taken]
    assert is_whole == [True] or (not any(is_whole) and len(taken) == 4)


@on_every_store
async def test_a_share_and_an_exclusive_use_exclude_each_other(world: World) -> None:
    own = result(SHARED, "shared-0")
    messages = await outcomes(world, lambda number: own if number % 2 else share())
    taken = [number % 2 for number, message in enumerate(messages) if not message]
    assert taken == [1] or taken == [0] * 10


@on_every_store
async def test_what_is_released_can_be_taken_again(world: World) -> None:
    await make_claims(world.first)
    assert await allocate(world.first, 0, share("6Gi")) == ""
    assert "would use 12Gi" in await allocate(world.second, 1, share("6Gi"))
    await release(world.first, 0)
    assert await allocate(world.second, 1, share("6Gi")) == ""
    assert "default/claim-1" in await allocate(world.first, 0, share("6Gi"))
    await world.first.delete(CLAIM, "claim-1", NAMESPACE)
    assert await allocate(world.first, 0, share("10Gi")) == ""


@on_every_store
async def test_several_shares_of_one_claim_count_together(world: World) -> None:
    await make_claims(world.first, 1)
    assert "would use 12Gi" in await allocate(world.first, 0, share("6Gi"), share("6Gi"))
    assert await allocate(world.first, 0, share("5Gi"), share("5Gi")) == ""


@on_every_store
async def test_an_exclusive_device_is_in_an_allocation_once(world: World) -> None:
    await make_claims(world.first, 1)
    whole, shared = result(WHOLE, "whole-0"), result(SHARED, "shared-0")
    for twice in ((whole, whole), (shared, share("1Gi"))):
        assert "is in the allocation more than once" in await allocate(world.first, 0, *twice)
    assert await allocate(world.first, 0, whole, result(WHOLE, "whole-1")) == ""


@on_every_store
async def test_admin_access_takes_nothing(world: World) -> None:
    await make_claims(world.first, 4)
    labels = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    await world.first.patch(kinds.NAMESPACE, NAMESPACE, labels)
    watching = {**result(CUT, "all-0"), "adminAccess": True}
    assert await allocate(world.first, 0, watching) == ""
    assert await allocate(world.second, 1, result(CUT, "all-0")) == ""
    assert await allocate(world.first, 2, watching) == ""
    assert "would use 50Gi" in await allocate(world.second, 3, result(CUT, "quarter-0"))


@on_every_store
async def test_the_newest_slice_counts(world: World) -> None:
    await make_claims(world.first, 3)
    assert await allocate(world.first, 0, share("4Gi")) == ""
    smaller = {"memory": {"value": "5Gi"}}
    shared = device("shared-0", allowMultipleAllocations=True, capacity=smaller)
    current = await world.second.get(SLICE, "node-shared-0")
    current["spec"]["devices"] = [shared]
    await world.second.replace(SLICE, current)
    assert "has 5Gi of the capacity memory" in await allocate(world.first, 1, share("4Gi"))
    assert await allocate(world.first, 2, share("1Gi")) == ""


@on_every_store
async def test_a_device_that_is_not_shareable_has_no_shares(world: World) -> None:
    await make_claims(world.first, 1)
    wrong = {**share(), **result(WHOLE, "whole-0")}
    assert "does not allow multiple allocations" in await allocate(world.first, 0, wrong)


@on_every_store
async def test_other_changes_of_an_allocated_claim_are_not_checked_again(world: World) -> None:
    await make_claims(world.first, 1)
    assert await allocate(world.first, 0, share("4Gi")) == ""
    await world.second.delete(SLICE, "node-shared-0")
    consumer = {"resource": "pods", "name": "p", "uid": "u"}
    patch = {"status": {"reservedFor": [consumer]}}
    changed = await world.second.patch(CLAIM, "claim-0", patch, NAMESPACE, subresource="status")
    assert changed["status"]["reservedFor"] == [consumer]


@on_every_store
async def test_a_claim_of_as_many_devices_as_there_may_be_is_taken(world: World) -> None:
    names = [f"gpu-{number}" for number in range(32)]
    counters = [{"name": name, "counters": {"memory": {"value": "10Gi"}}} for name in names]
    parts: list[JsonObject] = [{"sharedCounters": counters[i : i + 8]} for i in range(0, 32, 8)]
    parts.append({"devices": [_drawing(name) for name in names]})
    for number, part in enumerate(parts):
        made = slice_of("node", "many", **part)
        made["metadata"]["name"] += f"-{number}"
        made["spec"]["pool"]["resourceSliceCount"] = len(parts)
        await world.first.create(SLICE, made)
    await make_claims(world.first, 2)
    results = [result("node-many", name) for name in names]
    assert await allocate(world.second, 0, *results) == ""
    assert "is already allocated" in await allocate(world.first, 1, results[-1])
    await release(world.first, 0)
    assert await allocate(world.second, 1, *results) == ""


def _drawing(name: str) -> JsonObject:
    drawn = {"counterSet": name, "counters": {"memory": {"value": "10Gi"}}}
    return device(name, consumesCounters=[drawn])


@on_every_store
async def test_keys_of_what_nobody_uses_are_removed_when_a_server_starts(world: World) -> None:
    store = world.stores[-1]
    await make_claims(world.first, 3)
    assert await allocate(world.first, 0, share("10Gi")) == ""
    assert await allocate(world.first, 1, result(CUT, "all-0")) == ""
    await release(world.second, 0)
    signer = TokenSigner(ec.generate_private_key(ec.SECP256R1()))
    async with server.open_server(store, signer=signer):
        pass
    left = [entry.key for entry in (await store.list(device_usage.USAGE)).entries]
    assert left == [device_usage.counters_key(PoolId(DRIVER, CUT), "gpu")]
    assert await allocate(world.second, 0, share("6Gi")) == ""
    assert "would use 12Gi" in await allocate(world.first, 2, share("6Gi"))
    assert "would use 50Gi" in await allocate(world.first, 2, result(CUT, "quarter-0"))
    assert "is shared by other claims" in await allocate(world.first, 2, result(SHARED, "shared-0"))
