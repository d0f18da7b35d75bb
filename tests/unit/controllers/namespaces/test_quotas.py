"""Usage of quotas follows what there is."""

from __future__ import annotations

from typing import Any

from dray.api.types.meta import JsonObject
from dray.controllers.namespaces.quotas import QuotaLoop
from tests.unit.controllers import objects
from tests.unit.controllers.world import World, with_loops

DEVICES = "gpu.example.com.deviceclass.resource.k8s.io/devices"


def quota(**hard: str) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "limits"},
        "spec": {"hard": hard},
    }


async def until_used(here: World, **expected: str) -> None:
    async def check() -> Any:
        status = (await here.get("resourcequotas", "limits")).get("status", {})
        return status.get("used") == expected

    await here.until(check, f"usage of {expected}")


@with_loops(QuotaLoop)
async def test_a_new_quota_counts_what_is_there(here: World) -> None:
    await here.create(objects.claim("c"))
    await here.create(objects.pod("p"))
    await here.create(quota(**{"pods": "5", DEVICES: "4", "count/configmaps": "3"}))
    await until_used(here, **{"pods": "1", DEVICES: "1", "count/configmaps": "0"})
    assert (await here.get("resourcequotas", "limits"))["status"]["hard"]["pods"] == "5"


@with_loops(QuotaLoop)
async def test_a_pod_that_ends_gives_back_what_it_used(here: World) -> None:
    await here.create(quota(pods="1"))
    await until_used(here, pods="0")
    await here.create(objects.pod("p"))
    await until_used(here, pods="1")
    await here.set_status("pods", "p", {"phase": "Succeeded"})
    await until_used(here, pods="0")


@with_loops(QuotaLoop)
async def test_services_and_claims_of_storage_are_counted_in_detail(here: World) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s"},
        "spec": {"type": "NodePort", "ports": [{"port": 80}]},
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "2Gi"}},
        },
    }
    await here.create(service)
    await here.create(claim)
    hard = {"services": "3", "services.nodeports": "2", "requests.storage": "5Gi"}
    await here.create(quota(**hard))
    used = {"services": "2", "services.nodeports": "1", "requests.storage": "2Gi"}
    await until_used(here, **used)
    await here.patch("services", "s", {"spec": {"type": "ClusterIP"}})
    await until_used(here, **{**used, "services.nodeports": "0"})
