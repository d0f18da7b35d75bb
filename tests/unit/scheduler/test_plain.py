"""The plain way: a pod gets a node and devices there, or a reason."""

from __future__ import annotations

from tests.unit.scheduler.world import (
    World,
    claim,
    device_class,
    devices_of,
    exactly,
    gpu,
    gpu_slice,
    in_world,
    node,
    pod,
    template,
)


async def fleet(world: World, *, nodes: int = 1, gpus: int = 8) -> None:
    await world.create(device_class())
    for number in range(nodes):
        await world.create(node(f"node-{number}"), gpu_slice(f"node-{number}", gpus))


@in_world()
async def test_a_pod_without_claims_gets_a_node(world: World) -> None:
    await world.create(node("node-0"), pod("plain"))
    assert await world.bound("plain") == "node-0"


@in_world()
async def test_a_pod_with_a_template_gets_an_allocated_and_reserved_claim(world: World) -> None:
    await fleet(world)
    memory = 'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0'
    asked = exactly(selectors=[{"cel": {"expression": memory}}])
    await world.create(template("gpu", asked), pod("trainer", template_name="gpu"))
    assert await world.bound("trainer") == "node-0"
    (made,) = await world.claims_of("trainer")
    assert made["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert devices_of(made) == ["node-0/gpu-0"]
    uid = (await world.get("pods", "trainer"))["metadata"]["uid"]
    assert made["status"]["reservedFor"] == [{"resource": "pods", "name": "trainer", "uid": uid}]
    assert made["status"]["allocation"]["nodeSelector"] == {
        "nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-0"]}]}
        ]
    }
    assert made["status"]["allocation"]["allocationTimestamp"]


@in_world()
async def test_devices_are_never_given_twice(world: World) -> None:
    await fleet(world, nodes=3, gpus=4)
    await world.create(template("gpu"))
    names = [f"pod-{number}" for number in range(12)]
    for name in names:
        await world.create(pod(name, template_name="gpu"))
    for name in names:
        await world.bound(name)
    given = [devices_of((await world.claims_of(name))[0])[0] for name in names]
    assert len(set(given)) == 12


@in_world()
async def test_no_device_fits_says_so_in_upstreams_words(world: World) -> None:
    await fleet(world, nodes=2)
    impossible = 'device.capacity["gpu.example.com"].memory.compareTo(quantity("1Ti")) >= 0'
    await world.create(
        claim("big", exactly(selectors=[{"cel": {"expression": impossible}}])), pod("stuck", "big")
    )
    message = await world.refused("stuck")
    assert message == (
        "0/2 nodes are available: 2 cannot allocate all claims. preemption: 0/2 nodes are "
        "available: 2 Preemption is not helpful for scheduling."
    )


@in_world()
async def test_a_pod_waits_for_a_claim_that_does_not_exist_yet(world: World) -> None:
    await fleet(world)
    await world.create(pod("early", "later"))
    message = await world.refused("early")
    assert message.startswith(
        '0/1 nodes are available: could not find ResourceClaim "default/later".'
    )
    await world.create(claim("later"))
    assert await world.bound("early") == "node-0"


@in_world()
async def test_a_missing_class_is_named_and_waited_for(world: World) -> None:
    await world.create(node("node-0"), gpu_slice("node-0"), claim("gpu"), pod("early", "gpu"))
    message = await world.refused("early")
    assert message.startswith(
        "0/1 nodes are available: request gpu: device class gpu.example.com does not exist."
    )
    await world.create(device_class())
    assert await world.bound("early") == "node-0"


@in_world()
async def test_a_missing_template_is_named(world: World) -> None:
    await fleet(world)
    await world.create(pod("early", template_name="nope"))
    message = await world.refused("early")
    assert 'pod "default/early": ResourceClaim not created yet' in message
    assert 'There is no ResourceClaimTemplate "nope" in namespace "default".' in message
    await world.create(template("nope"))
    assert await world.bound("early") == "node-0"


@in_world()
async def test_two_pods_share_one_claim_on_one_node(world: World) -> None:
    await fleet(world, nodes=3)
    await world.create(claim("shared"), pod("one", "shared"), pod("two", "shared"))
    assert await world.bound("one") == await world.bound("two")
    shared = await world.get("resourceclaims", "shared")
    assert {each["name"] for each in shared["status"]["reservedFor"]} == {"one", "two"}


@in_world()
async def test_all_takes_every_matching_device_of_the_node(world: World) -> None:
    await fleet(world, gpus=3)
    await world.create(claim("all", exactly(allocationMode="All")), pod("greedy", "all"))
    await world.bound("greedy")
    taken = await world.get("resourceclaims", "all")
    assert devices_of(taken) == ["node-0/gpu-0", "node-0/gpu-1", "node-0/gpu-2"]


@in_world()
async def test_four_devices_of_one_domain_even_if_the_first_candidates_mislead(
    world: World,
) -> None:
    await world.create(device_class(), node("node-0"))
    domains = ["a", "a", "b", "b", "b", "b"]
    devices = [
        gpu(f"gpu-{number}", attributes={"domain": {"string": domain}})
        for number, domain in enumerate(domains)
    ]
    await world.create(gpu_slice("node-0", 0, *devices))
    constraint = {"matchAttribute": "gpu.example.com/domain"}
    await world.create(claim("four", exactly(count=4), constraints=[constraint]), pod("p", "four"))
    await world.bound("p")
    taken = await world.get("resourceclaims", "four")
    assert devices_of(taken) == [f"node-0/gpu-{number}" for number in (2, 3, 4, 5)]


@in_world()
async def test_the_first_alternative_that_fits_is_taken(world: World) -> None:
    await fleet(world, nodes=2)
    too_big = 'device.capacity["gpu.example.com"].memory.compareTo(quantity("1Ti")) >= 0'
    alternatives = [
        {
            "name": "huge",
            "deviceClassName": "gpu.example.com",
            "selectors": [{"cel": {"expression": too_big}}],
        },
        {"name": "large", "deviceClassName": "gpu.example.com", "count": 2},
        {"name": "small", "deviceClassName": "gpu.example.com"},
    ]
    asked = {"name": "req", "firstAvailable": alternatives}
    await world.create(claim("prioritized", asked), pod("fa", "prioritized"))
    await world.bound("fa")
    results = (await world.get("resourceclaims", "prioritized"))["status"]["allocation"]
    assert [result["request"] for result in results["devices"]["results"]] == ["req/large"] * 2


@in_world()
async def test_pods_of_another_scheduler_are_left_alone(world: World) -> None:
    await world.create(node("node-0"), pod("theirs", schedulerName="other"), pod("ours"))
    await world.bound("ours")
    await world.settle()
    theirs = await world.get("pods", "theirs")
    assert "nodeName" not in theirs["spec"]
    assert "conditions" not in theirs["status"]


@in_world()
async def test_a_gated_pod_waits_until_its_gates_are_gone(world: World) -> None:
    await world.create(node("node-0"), pod("gated", schedulingGates=[{"name": "example.com/wait"}]))
    await world.create(pod("other"))
    await world.bound("other")
    assert "nodeName" not in (await world.get("pods", "gated"))["spec"]
    await world.patch("pods", "gated", {"spec": {"schedulingGates": []}})
    assert await world.bound("gated") == "node-0"


@in_world()
async def test_a_freed_device_goes_to_the_pod_that_waits(world: World) -> None:
    await fleet(world, gpus=1)
    await world.create(template("gpu"), pod("first", template_name="gpu"))
    await world.bound("first")
    await world.create(pod("second", template_name="gpu"))
    await world.refused("second", "cannot allocate all claims")
    await world.remove_pod("first")
    assert await world.bound("second") == "node-0"


@in_world()
async def test_being_bound_is_told_in_an_event(world: World) -> None:
    await world.create(node("node-0"), pod("plain"))
    await world.bound("plain")

    async def told() -> bool:
        events = await world.all("events", "default")
        return any(
            event["reason"] == "Scheduled"
            and event["message"] == "Successfully assigned default/plain to node-0"
            for event in events
        )

    await world.until(told)


@in_world()
async def test_a_pod_follows_when_another_gets_the_claim_that_both_wait_for(world: World) -> None:
    await fleet(world, gpus=1)
    await world.create(claim("held"), pod("holder", "held"))
    await world.bound("holder")
    await world.create(claim("shared"))
    for name in ("one", "two", "three"):
        await world.create(pod(name, "shared"))
        await world.refused(name, "cannot allocate all claims")
    await world.remove_pod("holder")
    for name in ("one", "two", "three"):
        assert await world.bound(name) == "node-0"
