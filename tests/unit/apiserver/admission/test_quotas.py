"""ResourceQuota: an object is stored together with its charge, or not at all."""

from __future__ import annotations

import asyncio
from typing import Any

from dray.api.types.meta import JsonObject
from dray.apiserver.admission import admission_chain
from dray.store.store import GuardFailed, Transaction
from tests.unit.apiserver import world
from tests.unit.apiserver.world import World

QUOTAS = "/api/v1/namespaces/default/resourcequotas"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
DEVICES = "gpu.example.com.deviceclass.resource.k8s.io/devices"
COUNT = "count/resourceclaims.resource.k8s.io"


def limited(server: World, hard: dict[str, str], name: str = "dra", **spec: Any) -> None:
    """A quota as it is once its controller has counted for the first time."""
    body = {"metadata": {"name": name}, "spec": {"hard": hard, **spec}}
    made = server.create(QUOTAS, body)
    made["status"] = {"hard": hard, "used": dict.fromkeys(hard, "0")}
    answer = server.ask("PUT", f"{QUOTAS}/{name}/status", made)
    assert answer.status == 200, answer.body


def used(server: World, name: str = "dra") -> dict[str, str]:
    found: dict[str, str] = server.get(f"{QUOTAS}/{name}")["status"]["used"]
    return found


def test_claims_charge_their_devices() -> None:
    server = World()
    limited(server, {COUNT: "3", DEVICES: "4"})
    server.create(world.CLAIMS, world.claim("q1", count=3))
    assert used(server) == {COUNT: "1", DEVICES: "3"}


def test_what_is_too_much_is_refused_with_the_numbers() -> None:
    server = World()
    limited(server, {COUNT: "3", DEVICES: "4"})
    server.create(world.CLAIMS, world.claim("q1", count=3))
    answer = server.ask("POST", world.CLAIMS, world.claim("q2", count=3))
    assert answer.status == 403
    assert answer.message == (
        'resourceclaims.resource.k8s.io "q2" is forbidden: exceeded quota: dra, requested: '
        f"{DEVICES}=3, used: {DEVICES}=3, limited: {DEVICES}=4"
    )
    assert used(server) == {COUNT: "1", DEVICES: "3"}
    assert server.ask("GET", f"{world.CLAIMS}/q2").status == 404


def test_a_dry_run_is_checked_and_charges_nothing() -> None:
    server = World()
    limited(server, {DEVICES: "4"})
    allowed = server.ask("POST", world.CLAIMS, world.claim("q", count=3), query="dryRun=All")
    assert allowed.status == 201
    assert used(server) == {DEVICES: "0"}
    refused = server.ask("POST", world.CLAIMS, world.claim("q", count=5), query="dryRun=All")
    assert refused.status == 403


def test_what_cannot_be_created_charges_nothing() -> None:
    server = World()
    limited(server, {COUNT: "9"})
    server.create(world.CLAIMS, world.claim("q"))
    assert server.ask("POST", world.CLAIMS, world.claim("q")).status == 409
    assert used(server) == {COUNT: "1"}


def test_a_deletion_gives_back_what_was_charged() -> None:
    server = World()
    limited(server, {COUNT: "1", DEVICES: "4"})
    server.create(world.CLAIMS, world.claim("q1", count=4))
    assert server.ask("DELETE", f"{world.CLAIMS}/q1").status == 200
    assert used(server) == {COUNT: "0", DEVICES: "0"}
    server.create(world.CLAIMS, world.claim("q2", count=4))


def test_a_quota_that_counts_quotas_can_be_deleted() -> None:
    server = World()
    for name in ("one", "two"):
        limited(server, {"resourcequotas": "5"}, name)
    made = server.get(f"{QUOTAS}/two")
    made["status"]["used"] = {"resourcequotas": "2"}
    assert server.ask("PUT", f"{QUOTAS}/two/status", made).status == 200
    assert server.ask("DELETE", f"{QUOTAS}/one").status == 200
    assert used(server, "two") == {"resourcequotas": "1"}, "the other quota counts it no more"
    assert server.ask("DELETE", f"{QUOTAS}/two").status == 200
    assert server.ask("GET", f"{QUOTAS}/two").status == 404


def test_what_waits_for_its_finalizers_still_counts() -> None:
    server = World()
    limited(server, {COUNT: "1"})
    body = world.claim("q")
    body["metadata"]["finalizers"] = ["example.com/wait"]
    server.create(world.CLAIMS, body)
    marked = server.ask("DELETE", f"{world.CLAIMS}/q").body
    assert used(server) == {COUNT: "1"}
    marked["metadata"]["finalizers"] = []
    assert server.ask("PUT", f"{world.CLAIMS}/q", marked).status == 200
    assert server.ask("GET", f"{world.CLAIMS}/q").status == 404
    assert used(server) == {COUNT: "0"}


def test_every_quota_of_the_namespace_is_charged() -> None:
    server = World()
    limited(server, {COUNT: "9"}, "one")
    limited(server, {DEVICES: "9"}, "two")
    server.create(world.CLAIMS, world.claim("q", count=2))
    assert (used(server, "one"), used(server, "two")) == ({COUNT: "1"}, {DEVICES: "2"})


def test_other_namespaces_are_not_charged() -> None:
    server = World()
    limited(server, {COUNT: "0"})
    server.create("/api/v1/namespaces", world.namespace("free"))
    server.create(world.CLAIMS.replace("default", "free"), world.claim("q"))
    assert used(server) == {COUNT: "0"}


def test_a_quota_that_was_never_counted_refuses() -> None:
    server = World()
    made = server.create(QUOTAS, {"metadata": {"name": "new"}, "spec": {"hard": {COUNT: "1"}}})
    made["status"] = {"hard": {COUNT: "1"}}
    server.ask("PUT", f"{QUOTAS}/new/status", made)
    answer = server.ask("POST", world.CLAIMS, world.claim("q"))
    assert answer.message == (
        'resourceclaims.resource.k8s.io "q" is forbidden: status unknown for quota: new, '
        f"resources: {COUNT}"
    )


def test_a_quota_without_status_is_not_in_force_yet() -> None:
    server = World()
    server.create(QUOTAS, {"metadata": {"name": "new"}, "spec": {"hard": {COUNT: "0"}}})
    server.create(world.CLAIMS, world.claim("q"))


def test_any_kind_can_be_counted() -> None:
    server = World()
    limited(server, {"configmaps": "1", "count/configmaps": "5"})
    server.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
    assert used(server) == {"configmaps": "1", "count/configmaps": "1"}
    answer = server.ask("POST", CONFIG_MAPS, {"metadata": {"name": "b"}})
    assert answer.message.endswith(
        "exceeded quota: dra, requested: configmaps=1, used: configmaps=1, limited: configmaps=1"
    )


SERVICES = "/api/v1/namespaces/default/services"
PORTS, BALANCERS = "services.nodeports", "services.loadbalancers"


def service(name: str, type_: str, *ports: int, **spec: Any) -> JsonObject:
    listed = [{"name": f"p{port}", "port": port} for port in ports]
    return {"metadata": {"name": name}, "spec": {"type": type_, "ports": listed, **spec}}


def test_services_charge_node_ports_and_load_balancers() -> None:
    server = World()
    limited(server, {"services": "5", PORTS: "2", BALANCERS: "1"})
    server.create(SERVICES, service("plain", "ClusterIP", 80, 81, 82))
    server.create(SERVICES, service("ports", "NodePort", 80))
    assert used(server) == {"services": "2", PORTS: "1", BALANCERS: "0"}
    answer = server.ask("POST", SERVICES, service("more", "LoadBalancer", 80, 81))
    assert answer.status == 403
    assert f"requested: {PORTS}=2, used: {PORTS}=1, limited: {PORTS}=2" in answer.message
    without_ports = {"allocateLoadBalancerNodePorts": False}
    server.create(SERVICES, service("balanced", "LoadBalancer", 80, 81, **without_ports))
    assert used(server) == {"services": "3", PORTS: "1", BALANCERS: "1"}


def test_a_service_that_changes_its_type_is_charged_then() -> None:
    server = World()
    limited(server, {"services": "5", PORTS: "2", BALANCERS: "1"})
    made = server.create(SERVICES, service("a", "ClusterIP", 80, 81))
    made["spec"]["type"] = "NodePort"
    assert server.ask("PUT", f"{SERVICES}/a", made).status == 200
    assert used(server) == {"services": "1", PORTS: "2", BALANCERS: "0"}
    made = server.get(f"{SERVICES}/a")
    made["spec"]["ports"].append({"name": "p82", "port": 82})
    assert server.ask("PUT", f"{SERVICES}/a", made).status == 403
    assert server.ask("DELETE", f"{SERVICES}/a").status == 200
    assert used(server) == {"services": "0", PORTS: "0", BALANCERS: "0"}


def test_claims_of_storage_charge_what_they_request_in_their_class() -> None:
    server = World()
    gold = "gold.storageclass.storage.k8s.io/requests.storage"
    limited(server, {"persistentvolumeclaims": "3", "requests.storage": "10Gi", gold: "4Gi"})
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"

    def claim(name: str, size: str, class_name: str) -> JsonObject:
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            "storageClassName": class_name,
        }
        return {"metadata": {"name": name}, "spec": spec}

    server.create(claims, claim("a", "3Gi", "gold"))
    server.create(claims, claim("b", "5Gi", "other"))
    assert used(server) == {"persistentvolumeclaims": "2", "requests.storage": "8Gi", gold: "3Gi"}
    answer = server.ask("POST", claims, claim("c", "2Gi", "gold"))
    assert f"requested: {gold}=2Gi, used: {gold}=3Gi, limited: {gold}=4Gi" in answer.message
    larger = server.get(f"{claims}/a")
    larger["spec"]["resources"]["requests"]["storage"] = "4Gi"
    assert server.ask("PUT", f"{claims}/a", larger).status == 200
    assert used(server)["requests.storage"] == "9Gi"


def container(**resources: Any) -> JsonObject:
    return {"name": "c", "image": "pause", "resources": resources}


def test_pods_charge_what_they_request() -> None:
    server = World()
    limited(server, {"pods": "5", "requests.cpu": "2", "limits.memory": "1Gi"})
    limits = {"cpu": "1500m", "memory": "512Mi"}
    server.create(world.PODS, world.pod("p", containers=[container(limits=limits)]))
    assert used(server) == {"pods": "1", "requests.cpu": "1500m", "limits.memory": "512Mi"}


def test_a_quota_for_compute_obliges_containers_to_state_it() -> None:
    server = World()
    limited(server, {"requests.cpu": "2"})
    answer = server.ask("POST", world.PODS, world.pod("p"))
    assert answer.message == (
        'pods "p" is forbidden: failed quota: dra: must specify requests.cpu for: c'
    )


def test_a_quota_with_a_scope_counts_only_pods_in_it() -> None:
    server = World()
    limited(server, {"pods": "1"}, scopes=["Terminating"])
    server.create(world.PODS, world.pod("forever"))
    assert used(server) == {"pods": "0"}
    server.create(world.PODS, world.pod("limited", activeDeadlineSeconds=5))
    assert used(server) == {"pods": "1"}
    assert server.ask("POST", world.PODS, world.pod("more", activeDeadlineSeconds=5)).status == 403


def test_a_pod_that_comes_into_a_scope_is_charged_then() -> None:
    server = World()
    limited(server, {"pods": "1"}, scopes=["Terminating"])
    made = server.create(world.PODS, world.pod("p"))
    made["spec"]["activeDeadlineSeconds"] = 60
    answer = server.ask("PUT", f"{world.PODS}/p", made)
    assert answer.status == 200, answer.body
    assert used(server) == {"pods": "1"}


def test_devices_count_as_extended_resources_too() -> None:
    server = World()
    body = {"metadata": {"name": "gpu.example.com"}, "spec": {"extendedResourceName": "x.com/gpu"}}
    server.create(CLASSES, body)
    limited(server, {"requests.x.com/gpu": "2"})
    server.create(world.CLAIMS, world.claim("q", count=2))
    assert used(server) == {"requests.x.com/gpu": "2"}
    assert server.ask("POST", world.CLAIMS, world.claim("r")).status == 403


def test_a_claim_for_a_pods_extended_resources_is_not_charged_twice() -> None:
    server = World()
    body = {"metadata": {"name": "gpu.example.com"}, "spec": {"extendedResourceName": "x.com/gpu"}}
    server.create(CLASSES, body)
    limited(server, {"requests.x.com/gpu": "1"})
    resources = {"limits": {"x.com/gpu": "1"}}
    made = server.create(world.PODS, world.pod("p", containers=[container(**resources)]))
    assert used(server) == {"requests.x.com/gpu": "1"}
    extended = world.claim("c")
    uid = made["metadata"]["uid"]
    extended["metadata"] |= {
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}
        ],
    }
    server.create(world.CLAIMS, extended)
    assert used(server) == {"requests.x.com/gpu": "1"}


def commit_slowly(server: World) -> list[int]:
    """Let others come between the check and the commit; counts the commits that were refused."""
    commit, refusals = server.store.commit, [0]

    async def commit_later(transaction: Transaction) -> int:
        await asyncio.sleep(0)
        try:
            return await commit(transaction)
        except GuardFailed:
            refusals[0] += 1
            raise

    server.store.commit = commit_later  # type: ignore[method-assign]
    return refusals


async def create_at_once(server: World, number: int) -> list[int]:
    attempts = [server.answer("POST", world.CLAIMS, world.claim(f"q{n}")) for n in range(number)]
    return [answer.status for answer in await asyncio.gather(*attempts)]


def test_many_at_once_wait_for_each_other() -> None:
    server = World()
    limited(server, {DEVICES: "10"})
    server.create(world.CLAIMS, world.claim("first"))
    refusals = commit_slowly(server)
    statuses = world.run(create_at_once(server, 30))
    assert (statuses.count(201), statuses.count(403)) == (9, 21)
    assert (used(server), refusals) == ({DEVICES: "10"}, [0])


def test_a_quota_that_nobody_knew_of_is_not_exceeded_either() -> None:
    server = World()
    limited(server, {DEVICES: "10"})
    refusals = commit_slowly(server)
    statuses = world.run(create_at_once(server, 30))
    assert (statuses.count(201), statuses.count(403)) == (10, 20)
    assert (used(server), refusals) == ({DEVICES: "10"}, [1])


def test_those_who_cannot_wait_for_each_other_do_not_exceed_it_either() -> None:
    """As with several servers on one store: the guard of the transaction decides."""
    server = World()
    limited(server, {DEVICES: "5"})
    server.chain.commit_lock = admission_chain.no_lock
    refusals = commit_slowly(server)
    statuses = world.run(create_at_once(server, 9))
    assert (statuses.count(201), statuses.count(403)) == (5, 4)
    assert used(server) == {DEVICES: "5"}
    assert refusals != [0]
