"""The certificate authority of the API server in every namespace."""

from __future__ import annotations

import dataclasses

from dray.api.types.meta import JsonObject
from dray.controllers.loops import Context
from dray.controllers.namespaces.root_authority import RootAuthorityLoop
from tests.unit.controllers.world import World, with_loops

NAME = "kube-root-ca.crt"


def _loop(context: Context) -> RootAuthorityLoop:
    return RootAuthorityLoop(dataclasses.replace(context, root_authority="PEM"))


async def _published(here: World, namespace: str = "default") -> JsonObject:
    async def look() -> JsonObject | None:
        found = await here.find("configmaps", NAME, namespace)
        return found if found and found.get("data") == {"ca.crt": "PEM"} else None

    found: JsonObject = await here.until(look, f"the ConfigMap in {namespace}")
    return found


@with_loops(_loop)
async def test_every_namespace_has_it(here: World) -> None:
    for namespace in ("default", "kube-system"):
        await _published(here, namespace)
    await here.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "later"}})
    found = await _published(here, "later")
    assert "kubernetes.io/description" in found["metadata"]["annotations"]


@with_loops(_loop)
async def test_it_comes_back_after_it_was_deleted_or_changed(here: World) -> None:
    before = await _published(here)
    await here.delete("configmaps", NAME)
    after = await _published(here)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    await here.patch("configmaps", NAME, {"data": {"ca.crt": "other", "more": "x"}})
    assert (await _published(here))["metadata"]["uid"] == after["metadata"]["uid"]
    writes = await here.store.revision()
    await here.settle()
    assert await here.store.revision() == writes
