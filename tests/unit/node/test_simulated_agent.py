"""Nodes and pods in name only."""

from __future__ import annotations

from dray.api.ids import DeviceId
from dray.api.types.meta import JsonObject
from tests.unit.node import machines
from tests.unit.node.machines import Machines, with_fleet

GPU = DeviceId("gpu.nvidia.com", "l4-0", "gpu-0")
USES_CLAIM = {
    "resourceClaims": [{"name": "gpu", "resourceClaimName": "one"}],
    "containers": [
        {"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}},
    ],
}


def conditions(document: JsonObject) -> dict[str, str]:
    return {
        condition["type"]: condition["status"] for condition in document["status"]["conditions"]
    }


@with_fleet("l4")
async def test_nodes_are_registered_ready_with_what_they_have(here: Machines) -> None:
    nodes = await here.world.list("nodes")
    assert len(nodes) == 8
    first = next(node for node in nodes if node["metadata"]["name"] == "l4-0")
    assert conditions(first)["Ready"] == "True"
    assert first["status"]["allocatable"]["cpu"] == "8"
    assert first["metadata"]["labels"]["kubernetes.io/hostname"] == "l4-0"
    assert len({node["status"]["addresses"][0]["address"] for node in nodes}) == 8


@with_fleet("l4")
async def test_all_nodes_share_one_lease(here: Machines) -> None:
    (lease,) = await here.world.list("leases", "kube-node-lease")
    assert lease["metadata"]["name"] == "machines"
    nodes = await here.world.list("nodes")
    assert {node["metadata"]["annotations"]["dray.dev/lease"] for node in nodes} == {"machines"}


@with_fleet("l4")
async def test_a_node_that_was_given_up_is_reported_ready_again(here: Machines) -> None:
    lost = [{"type": "Ready", "status": "Unknown"}]
    await here.world.set_status("nodes", "l4-3", {"conditions": lost})

    async def is_ready() -> bool:
        return conditions(await here.world.get("nodes", "l4-3"))["Ready"] == "True"

    await here.world.until(is_ready)


@with_fleet("l4")
async def test_a_bound_pod_runs_and_is_ready(here: Machines) -> None:
    await here.pod("web", "l4-2", readinessGates=[])
    pod = await here.phase("web", "Running")
    status = pod["status"]
    assert conditions(pod)["Ready"] == "True"
    assert conditions(pod)["PodScheduled"] == "True"
    assert status["containerStatuses"][0]["ready"] is True
    assert "running" in status["containerStatuses"][0]["state"]
    assert status["hostIP"] == here.registration.addresses["l4-2"]
    assert status["podIP"].startswith("10.")


@with_fleet("l4")
async def test_a_closed_readiness_gate_keeps_a_pod_unready(here: Machines) -> None:
    await here.pod("web", "l4-0", readinessGates=[{"conditionType": "example.com/open"}])
    assert conditions(await here.phase("web", "Running"))["Ready"] == "False"


@with_fleet("l4")
async def test_init_containers_have_completed_and_sidecars_run(here: Machines) -> None:
    first = {"name": "first", "image": "none"}
    sidecar = {"name": "sidecar", "image": "none", "restartPolicy": "Always"}
    await here.pod("web", "l4-0", initContainers=[first, sidecar])
    pod = await here.phase("web", "Running")
    states = {status["name"]: status["state"] for status in pod["status"]["initContainerStatuses"]}
    assert states["first"]["terminated"]["exitCode"] == 0
    assert "running" in states["sidecar"]


@with_fleet("l4")
async def test_a_pod_that_is_not_restarted_succeeds_at_once(here: Machines) -> None:
    await here.pod("job", "l4-0", restartPolicy="Never")
    pod = await here.phase("job", "Succeeded")
    assert conditions(pod)["Ready"] == "False"
    terminated = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (terminated["exitCode"], terminated["reason"]) == (0, "Completed")


@with_fleet("l4")
async def test_run_seconds_and_exit_code_are_as_annotated(here: Machines) -> None:
    wanted = {"dray.dev/run-seconds": "0.2", "dray.dev/exit-code": "3"}
    await here.pod("job", "l4-0", restartPolicy="Never", annotations=wanted)
    await here.phase("job", "Running")
    pod = await here.phase("job", "Failed")
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3


@with_fleet("l4")
async def test_a_failing_container_is_restarted_where_the_policy_says_so(here: Machines) -> None:
    wanted = {"dray.dev/run-seconds": "0.05", "dray.dev/exit-code": "1"}
    await here.pod("job", "l4-0", restartPolicy="OnFailure", annotations=wanted)

    async def restarted() -> JsonObject | None:
        status = (await here.world.get("pods", "job"))["status"]
        entries = status.get("containerStatuses", [])
        return entries[0] if entries and entries[0]["restartCount"] else None

    entry = await here.world.until(restarted)
    assert entry["lastState"]["terminated"]["exitCode"] == 1
    assert (await here.world.get("pods", "job"))["status"]["phase"] == "Running"


@with_fleet("l4")
async def test_a_deleted_pod_is_confirmed_gone(here: Machines) -> None:
    await here.pod("web", "l4-0")
    await here.phase("web", "Running")
    await here.world.delete("pods", "web", gracePeriodSeconds=30)
    await here.gone("web")


@with_fleet("l4")
async def test_stopping_takes_as_long_as_annotated_within_the_grace_period(here: Machines) -> None:
    await here.pod("web", "l4-0", annotations={"dray.dev/stop-seconds": "0.2"})
    await here.phase("web", "Running")
    await here.world.delete("pods", "web", gracePeriodSeconds=30)
    assert (await here.world.get("pods", "web"))["metadata"]["deletionTimestamp"]
    await here.gone("web")


@with_fleet("l4")
async def test_a_deleted_pod_that_is_held_back_ends_first(here: Machines) -> None:
    await here.pod("job", "l4-0", metadata={"finalizers": ["example.com/held"]})
    await here.phase("job", "Running")
    await here.world.delete("pods", "job")
    pod = await here.phase("job", "Failed")
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 143
    await here.world.settle()
    await here.world.patch("pods", "job", {"metadata": {"finalizers": None}})
    await here.gone("job")


@with_fleet("l4")
async def test_a_pod_starts_when_its_claim_is_allocated_and_reserved(here: Machines) -> None:
    pod = await here.pod("web", "l4-0", **USES_CLAIM)
    await here.world.settle()
    assert (await here.world.get("pods", "web"))["status"]["phase"] == "Pending"
    await here.claim("one", GPU, pod)
    await here.phase("web", "Running")


@with_fleet("l4")
async def test_a_claim_that_is_reserved_for_another_pod_is_not_used(here: Machines) -> None:
    other = await here.pod("other", "l4-0")
    pod = await here.pod("web", "l4-0", **USES_CLAIM)
    claim = await here.claim("one", GPU, other)

    async def told() -> str | None:
        notes = [each["message"] for each in await here.world.list("events")]
        return next((note for note in notes if "not allowed" in note), None)

    note = await here.world.until(told)
    assert note == (
        f"Failed to prepare dynamic resources: pod web ({machines.uid(pod)}) is not allowed to use "
        f"ResourceClaim one ({machines.uid(claim)})"
    )
    assert (await here.world.get("pods", "web"))["status"]["phase"] == "Pending"


@with_fleet("l4")
async def test_pods_of_other_nodes_are_left_alone(here: Machines) -> None:
    await here.world.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "foreign"}})
    await here.pod("web", "foreign")
    await here.world.settle()
    assert (await here.world.get("pods", "web"))["status"]["phase"] == "Pending"


@with_fleet("l4")
async def test_a_settled_cluster_is_quiet(here: Machines) -> None:
    for number in range(8):
        await here.pod(f"web-{number}", f"l4-{number}")
    for number in range(8):
        await here.phase(f"web-{number}", "Running")
    await here.world.settle()
    assert here.agent.is_settled
    assert await here.world.writes(here.world.settle()) == 0
