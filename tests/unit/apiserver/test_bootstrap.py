"""What a new cluster starts with."""

from __future__ import annotations

from dray.api import kinds
from dray.apiserver import bootstrap, server
from dray.apiserver.storage import store_keys
from dray.store import memory
from tests.unit.apiserver import world
from tests.unit.apiserver.world import NOW, World

ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/view"


def test_everything_is_there() -> None:
    async def start() -> list[str]:
        async with memory.open() as store:
            await bootstrap.bootstrap(store, NOW, server.new_uid)
            return [entry.key for entry in (await store.list("/")).entries]

    keys = world.run(start())
    assert len(keys) == len(list(bootstrap.objects()))
    assert store_keys.key(kinds.NAMESPACE, "default") in keys


def test_what_an_admin_changed_stays_changed() -> None:
    world_ = World()
    role = world_.get(ROLE)
    role["metadata"]["labels"]["mine"] = "yes"
    assert world_.ask("PUT", ROLE, role).status == 200
    world.run(bootstrap.bootstrap(world_.store, NOW, server.new_uid))
    assert world_.get(ROLE)["metadata"]["labels"]["mine"] == "yes"


def test_what_is_missing_comes_back() -> None:
    world_ = World()
    assert world_.ask("DELETE", ROLE).status == 200
    world.run(bootstrap.bootstrap(world_.store, NOW, server.new_uid))
    assert world_.get(ROLE)["metadata"]["uid"]


def test_objects_are_well_formed() -> None:
    found = World().get("/api/v1/namespaces/kube-system")
    assert found["metadata"]["creationTimestamp"] == "2026-01-02T03:04:05Z"
    assert found["spec"] == {"finalizers": ["kubernetes"]}
