"""Two API servers on one etcd: they trust each other's keys, and give nothing out twice."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import grpc
import msgspec
import pytest
from aetcd import rpc
from cryptography.hazmat.primitives.asymmetric import ec

from dray.allocator import verifier
from dray.api import errors, features, kinds
from dray.api.ids import PoolId
from dray.api.types.dra import ResourceClaim, ResourceSlice
from dray.api.types.meta import JsonObject
from dray.apiserver.access import certificates
from dray.apiserver.storage import store_keys
from dray.client.api_client import Client, ObjectSelection
from dray.client.kubeconfig import ClusterConnection
from dray.client.rest import RestTransport
from dray.store import etcd as etcd_store
from dray.store import store
from tests import loop, rounds, waiting
from tests.security import two_servers
from tests.security.two_servers import PREFIX, Site

NAMESPACE = "default"
DRIVER = "gpu.example.com"
EXCLUSIVE, SHARES, HALVES, QUARTERS = 8, 10, 1, 1
"""Pods for each node, by what they ask for: as many as there is of the first two."""
REVIEW = kinds.served("authentication.k8s.io", "SelfSubjectReview")
AT_ONCE = 16
PLACED_SECONDS = 600.0


@contextlib.asynccontextmanager
async def connected(connection: ClusterConnection) -> AsyncIterator[Client]:
    async with RestTransport(connection) as transport:
        yield Client(transport)


@contextlib.asynccontextmanager
async def both(site: Site) -> AsyncIterator[tuple[Client, Client]]:
    async with (
        connected(site.connection("left")) as left,
        connected(site.connection("right")) as right,
    ):
        yield left, right


def device(name: str, **fields: object) -> JsonObject:
    return {"name": name, "attributes": {"kind": {"string": name.partition("-")[0]}}, **fields}


def slice_of(node: str, pool: str, **fields: object) -> JsonObject:
    pools = {"name": f"{node}-{pool}", "generation": 1, "resourceSliceCount": 1}
    return {
        **kinds.RESOURCE_SLICE.type_meta,
        "metadata": {"name": f"{node}-{pool}-{'counters' if 'sharedCounters' in fields else 0}"},
        "spec": {"driver": DRIVER, "nodeName": node, "pool": pools, **fields},
    }


def partition(name: str, amount: str) -> JsonObject:
    drawn = {"counterSet": "gpu", "counters": {"memory": {"value": amount}}}
    return device(name, consumesCounters=[drawn])


def slices(node: str) -> Iterator[JsonObject]:
    """Whole devices, a device for shares, and a device that is cut, on one node."""
    yield slice_of(node, "whole", devices=[device(f"whole-{n}") for n in range(EXCLUSIVE)])
    capacity = {"memory": {"value": f"{SHARES}Gi"}}
    shared = device("shared-0", allowMultipleAllocations=True, capacity=capacity)
    yield slice_of(node, "shared", devices=[shared])
    counters = [{"name": "gpu", "counters": {"memory": {"value": "40Gi"}}}]
    cut = [
        partition("all-0", "40Gi"),
        *(partition(f"half-{n}", "20Gi") for n in range(2)),
        *(partition(f"quarter-{n}", "10Gi") for n in range(4)),
    ]
    for part in ({"sharedCounters": counters}, {"devices": cut}):
        made = slice_of(node, "cut", **part)
        made["spec"]["pool"]["resourceSliceCount"] = 2
        yield made


def requests(nodes: int) -> Iterator[JsonObject]:
    """What each pod asks for, mixed so that all kinds are scheduled at once."""
    for _ in range(nodes):
        for kind, count in (
            ("whole", EXCLUSIVE),
            ("shared", SHARES),
            ("half", HALVES),
            ("quarter", QUARTERS),
        ):
            selector = {"cel": {"expression": f"device.attributes['{DRIVER}'].kind == '{kind}'"}}
            exactly: JsonObject = {"deviceClassName": DRIVER, "selectors": [selector]}
            if kind == "shared":
                exactly["capacity"] = {"requests": {"memory": "1Gi"}}
            for _ in range(count):
                yield exactly


async def in_parallel(jobs: Iterator[Awaitable[object]]) -> None:
    async def work() -> None:
        for job in jobs:
            await job

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())


async def populate(client: Client, nodes: int) -> None:
    await client.create(
        kinds.DEVICE_CLASS,
        {**kinds.DEVICE_CLASS.type_meta, "metadata": {"name": DRIVER}, "spec": {}},
    )
    names = [f"node-{number}" for number in range(nodes)]
    await in_parallel(client.create(kinds.NODE, node(name)) for name in names)
    await in_parallel(
        client.create(kinds.RESOURCE_SLICE, made) for name in names for made in slices(name)
    )
    await in_parallel(
        make_pod(client, number, exactly) for number, exactly in enumerate(requests(nodes))
    )


def node(name: str) -> JsonObject:
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    return {
        **kinds.NODE.type_meta,
        "metadata": {"name": name},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


async def make_pod(client: Client, number: int, exactly: JsonObject) -> None:
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    claim = {"metadata": {"name": f"claim-{number}"}, "spec": spec}
    await client.create(kinds.RESOURCE_CLAIM, claim, NAMESPACE)
    container = {"name": "c", "image": "x", "resources": {"claims": [{"name": "gpu"}]}}
    pod = {
        "containers": [container],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": f"claim-{number}"}],
        "tolerations": [{"operator": "Exists"}],
    }
    await client.create(kinds.POD, {"metadata": {"name": f"pod-{number}"}, "spec": pod}, NAMESPACE)


async def are_all_placed(client: Client) -> bool:
    pods = [msgspec.json.decode(item) for item in (await client.list(kinds.POD)).items]
    return all(pod["spec"].get("nodeName") for pod in pods)


class History:
    """Every state of the claims that etcd has had, one revision after the other."""

    def __init__(self, published: list[ResourceSlice]) -> None:
        self._slices: dict[PoolId, list[ResourceSlice]] = defaultdict(list)
        for item in published:
            self._slices[item.pool_id].append(item)
        self._claims: dict[str, ResourceClaim] = {}
        self._in_pool: dict[PoolId, set[str]] = defaultdict(set)
        self.allocations = 0

    def apply(self, event: store.Event) -> list[verifier.Violation]:
        """What is wrong, after an event, in the pools of its claim."""
        pools = set(_pools(self._claims.pop(event.key, None)))
        for pool in pools:
            self._in_pool[pool].discard(event.key)
        if event.current is not None:
            claim = msgspec.json.decode(event.current.value, type=ResourceClaim)
            self._claims[event.key] = claim
            allocated = set(_pools(claim))
            self.allocations += bool(allocated and not pools)
            for pool in allocated:
                self._in_pool[pool].add(event.key)
            pools |= allocated
        return [violation for pool in pools for violation in self._violations(pool)]

    def _violations(self, pool: PoolId) -> list[verifier.Violation]:
        claims = [self._claims[key] for key in self._in_pool[pool]]
        return verifier.find_violations(self._slices[pool], claims, features.DEFAULT)


def _pools(claim: ResourceClaim | None) -> Iterator[PoolId]:
    if claim is not None and claim.status.allocation is not None:
        for result in claim.status.allocation.devices.results:
            yield result.pool_id


class Recorder:
    """Follows the claims in etcd from now on, besides the servers, so that no revision is lost."""

    def __init__(self, opened: store.Store, watch: store.Watch) -> None:
        self._store, self._watch = opened, watch
        self._events: list[store.Event] = []

    async def run(self) -> None:
        while events := await self._watch.read():
            self._events += events

    async def check(self) -> int:
        """Look at each revision so far. Returns how often a claim was allocated."""
        page = await self._store.list(store_keys.prefix(kinds.RESOURCE_SLICE))
        published = [msgspec.json.decode(entry.value, type=ResourceSlice) for entry in page.entries]
        claims = await self._store.list(store_keys.prefix(kinds.RESOURCE_CLAIM))
        newest = max(entry.revision for entry in claims.entries)
        await waiting.until(lambda: self._events and self._events[-1].revision >= newest)
        history = History(published)
        for event in self._events:
            assert history.apply(event) == [], f"at revision {event.revision}"
        return history.allocations


@contextlib.asynccontextmanager
async def recording(site: Site) -> AsyncIterator[Recorder]:
    async with etcd_store.open(site.access, root=PREFIX) as opened, asyncio.TaskGroup() as group:
        prefix = store_keys.prefix(kinds.RESOURCE_CLAIM)
        with await opened.watch(prefix, await opened.revision()) as watch:
            recorder = Recorder(opened, watch)
            group.create_task(recorder.run())
            yield recorder


def run(test: Callable[[Site], Coroutine[Any, Any, None]], folder: Path) -> None:
    with two_servers.site(folder) as site:
        loop.run(test(site))


@pytest.mark.slow
def test_two_schedulers_that_both_lead_give_nothing_out_twice(tmp_path: Path) -> None:
    nodes = rounds.count(4, long=100)

    async def race(site: Site) -> None:
        for name in ("left", "right"):
            await asyncio.to_thread(site.server, name)
        async with both(site) as (left, right), recording(site) as recorder:
            await populate(left, nodes)
            for name in ("left", "right"):
                await asyncio.to_thread(site.scheduler, name)
            await waiting.until_answered(
                lambda: are_all_placed(right), "all pods to be placed", seconds=PLACED_SECONDS
            )
            pods = nodes * (EXCLUSIVE + SHARES + HALVES + QUARTERS)
            assert await recorder.check() >= pods

    run(race, tmp_path)


def test_tokens_and_certificates_of_one_server_are_valid_on_the_other(tmp_path: Path) -> None:
    async def exchange(site: Site) -> None:
        for name in ("left", "right"):
            await asyncio.to_thread(site.server, name)
        there = site.connection("right").server
        foreign = dataclasses.replace(site.connection("left"), server=there)
        async with both(site) as (left, _), connected(foreign) as admin:
            assert await whoami(admin) == "admin"
            account = {"metadata": {"name": "robot"}}
            await left.create(kinds.SERVICE_ACCOUNT, account, NAMESPACE)
            made = await left.create_subresource(
                kinds.SERVICE_ACCOUNT, "robot", "token", {"spec": {}}, NAMESPACE
            )
            bearer = ClusterConnection(
                there,
                certificate_authority=foreign.certificate_authority,
                token=made["status"]["token"],
            )
            async with connected(bearer) as robot:
                await waiting.until_answered(lambda: is_known(robot), "the account to be known")
                assert await whoami(robot) == f"system:serviceaccount:{NAMESPACE}:robot"

    run(exchange, tmp_path)


async def whoami(client: Client) -> str:
    review = await client.create(REVIEW, REVIEW.type_meta)
    name: str = review["status"]["userInfo"]["username"]
    return name


async def is_known(client: Client) -> bool:
    try:
        return bool(await whoami(client))
    except errors.Unauthorized:
        return False


def test_one_of_two_clusters_leads_and_the_other_takes_over_when_it_is_killed(
    tmp_path: Path,
) -> None:
    async def succession(site: Site) -> None:
        options = ("up", "--fleet", "quickstart", "--runtime", "none")
        first = await asyncio.to_thread(site.server, "left", *options)
        async with connected(site.connection("left")) as left:
            await waiting.until_answered(lambda: holders(left), "the first to lead")
            leaders = await holders(left)
            assert leaders.keys() >= LEASES
            assert len(set(leaders.values())) == 1
            await asyncio.to_thread(site.server, "right", *options)
            assert await holders(left) == leaders
        async with connected(site.connection("right")) as right:
            await asyncio.to_thread(first.kill)
            await waiting.until_answered(
                lambda: has_changed(right, leaders), "the second to lead", seconds=120.0
            )
            await make_pod(right, 0, {"deviceClassName": await any_class(right)})
            await waiting.until_answered(lambda: are_all_placed(right), "a pod to be placed")

    run(succession, tmp_path)


LEASES = {"dray-scheduler", "dray-controllers", "dray-fleet-quickstart"}


async def holders(client: Client) -> dict[str, str]:
    """Who holds the leases of components; empty until all are held."""
    selection = ObjectSelection(namespace="kube-system")
    page = await client.list(kinds.LEASE, selection)
    leases = [msgspec.json.decode(item) for item in page.items]
    found = {
        lease["metadata"]["name"]: lease["spec"].get("holderIdentity", "")
        for lease in leases
        if lease["metadata"]["name"] in LEASES
    }
    return found if len(found) == len(LEASES) else {}


async def has_changed(client: Client, before: dict[str, str]) -> bool:
    now = await holders(client)
    return all(now.get(name) not in ("", None, holder) for name, holder in before.items())


async def any_class(client: Client) -> str:
    page = await client.list(kinds.DEVICE_CLASS)
    name: str = msgspec.json.decode(page.items[0])["metadata"]["name"]
    return name


def test_no_acknowledged_write_is_lost_when_a_server_or_etcd_is_killed(tmp_path: Path) -> None:
    async def crashes(site: Site) -> None:
        server = await asyncio.to_thread(site.server, "left")
        await asyncio.to_thread(site.server, "right")
        async with both(site) as clients, asyncio.TaskGroup() as group:
            writers = [Writer(client, name) for client, name in zip(clients, "lr", strict=True)]
            tasks = [group.create_task(writer.run()) for writer in writers]
            for crash, restart in (
                (server.kill, server.start),
                (site.etcd.kill, site.etcd.start),
                (server.kill, server.start),
            ):
                await both_go_on(writers)
                await asyncio.to_thread(crash)
                await waiting.until(lambda: any(writer.is_failing for writer in writers))
                await asyncio.to_thread(restart)
            await both_go_on(writers)
            for task in tasks:
                task.cancel()
            stored = await names(clients[1])
        acknowledged = {name for writer in writers for name in writer.acknowledged}
        assert acknowledged <= stored
        assert {code for writer in writers for code in writer.codes} <= {500, 503, 504}

    run(crashes, tmp_path)


class Writer:
    """Creates one object after the other, and remembers which the server has acknowledged."""

    def __init__(self, client: Client, prefix: str) -> None:
        self._client, self._prefix = client, prefix
        self.acknowledged: list[str] = []
        self.codes: set[int] = set()
        self.is_failing = False

    async def run(self) -> None:
        for number in itertools.count():
            name = f"{self._prefix}-{number}"
            try:
                body = {"metadata": {"name": name}}
                await self._client.create(kinds.CONFIG_MAP, body, NAMESPACE)
            except errors.StatusError as error:
                self.codes.add(error.code)
                self.is_failing = True
                await asyncio.sleep(waiting.PAUSE_SECONDS)
            else:
                self.acknowledged.append(name)
                self.is_failing = False


async def both_go_on(writers: list[Writer]) -> None:
    counts = [len(writer.acknowledged) + 20 for writer in writers]
    await waiting.until(
        lambda: all(
            len(writer.acknowledged) > count for writer, count in zip(writers, counts, strict=True)
        ),
        "both servers to acknowledge writes",
    )


async def names(client: Client) -> set[str]:
    page = await client.list(kinds.CONFIG_MAP, ObjectSelection(namespace=NAMESPACE))
    return {msgspec.json.decode(item)["metadata"]["name"] for item in page.items}


def test_the_password_of_etcd_is_in_a_file_and_nowhere_else(tmp_path: Path) -> None:
    password = "correct-horse"

    async def log_in(site: Site) -> None:
        await require_login(site, "keeper", password)
        path = site.folder / "password"
        path.touch(mode=0o600)
        path.write_text(f"{password}\n")
        store = f"etcds://keeper@{site.etcd.endpoint}{PREFIX}"
        options = ("--store", store, "--etcd-password-file", str(path))
        server = await asyncio.to_thread(site.server, "left", "apiserver", *options)
        async with connected(site.connection("left")) as client:
            assert await whoami(client) == "admin"
        assert server.process is not None
        process = Path(f"/proc/{server.process.pid}")
        for name in ("cmdline", "environ"):
            assert password.encode() not in (process / name).read_bytes()
        await asyncio.to_thread(server.stop)
        path.write_text("wrong\n")
        with pytest.raises(AssertionError, match="the store does not answer"):
            await asyncio.to_thread(server.start)

    run(log_in, tmp_path)


async def require_login(site: Site, user: str, password: str) -> None:
    tls = site.access.tls
    assert tls is not None
    credentials = grpc.ssl_channel_credentials(tls.authority, tls.key, tls.certificate)
    async with grpc.aio.secure_channel(site.etcd.endpoint, credentials) as channel:
        users = rpc.AuthStub(channel)
        await users.RoleAdd(rpc.AuthRoleAddRequest(name="root"))
        for name in ("root", user):
            await users.UserAdd(rpc.AuthUserAddRequest(name=name, password=password))
            await users.UserGrantRole(rpc.AuthUserGrantRoleRequest(user=name, role="root"))
        await users.AuthEnable(rpc.AuthEnableRequest())


def test_servers_with_other_keys_are_strangers_to_each_other(tmp_path: Path) -> None:
    """The keys are what makes a token valid, not the store that the servers have in common."""

    async def refuse(site: Site) -> None:
        await asyncio.to_thread(site.server, "left")
        strange = site.folder / "strange.key"
        strange.touch(mode=0o600)
        strange.write_bytes(certificates.key_to_pem(ec.generate_private_key(ec.SECP256R1())))
        options = ("apiserver", "--service-account-signing-key-file", str(strange))
        await asyncio.to_thread(site.server, "right", *options)
        async with both(site) as (left, _):
            await left.create(kinds.SERVICE_ACCOUNT, {"metadata": {"name": "robot"}}, NAMESPACE)
            made = await left.create_subresource(
                kinds.SERVICE_ACCOUNT, "robot", "token", {"spec": {}}, NAMESPACE
            )
        here = site.connection("left")
        bearer = ClusterConnection(
            here.server,
            certificate_authority=here.certificate_authority,
            token=made["status"]["token"],
        )
        async with connected(bearer) as robot:
            await waiting.until_answered(lambda: is_known(robot), "the account to be known")
        there = dataclasses.replace(bearer, server=site.connection("right").server)
        async with connected(there) as stranger:
            assert not await is_known(stranger)

    run(refuse, tmp_path)
