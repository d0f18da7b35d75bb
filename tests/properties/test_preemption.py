"""Random clusters: the best victims are those that trying every set of pods finds."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import pytest

from dray.allocator import verifier
from dray.api import features as gates
from dray.api.types.core import PodDisruptionBudget
from dray.api.types.dra import ResourceClaim, ResourceClaimConsumerReference, ResourceSlice
from dray.api.types.meta import JsonObject
from dray.api.types.pods import Pod
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.decision import Decider, Decision, decide
from dray.scheduling.preemption import pod_preemption
from dray.scheduling.preemption.priorities import NO_COST
from dray.scheduling.preemption.victims import Victims
from dray.scheduling.state import SchedulingObject, SchedulingState
from dray.scheduling.unschedulable import PreemptionPlan, Unschedulable
from tests import rounds
from tests.unit.scheduler.world import DRIVER, claim, device_class, exactly, gpu, node, pod
from tests.unit.scheduling import objects
from tests.unit.scheduling.objects import NOW, convert

GATES = gates.with_gates(gates.DEFAULT, {"DrayPreemption": True, "DRAAdminAccess": True})
WITHOUT = msgspec.structs.replace(GATES, preemption=False)
HOST = "kubernetes.io/hostname"
MOST_VICTIMS = 8
OFFSET = 2**31
"""What kube-scheduler adds to priorities before it adds them up."""

Cost = tuple[int, int, int, int, str]


class Cluster:
    """Random objects: pods that were placed one after the other, and one that finds no room."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._style = self._random.choice(["any", "any", "gpus", "partitions", "shares"])
        """The style "any" has a bit of everything; else nodes differ in their pods only."""
        self.names = [f"node-{number}" for number in range(self._random.randint(1, 3))]
        self.known: dict[tuple[str, str], SchedulingObject] = {}
        self.add(device_class(), *map(self._node, self.names))
        for name in self.names:
            self.add(*self._devices(name))
        if self._chance(0.3):
            self.add(network_slice(self._random.randint(1, 3)))
        for number in range(self._random.randint(3, MOST_VICTIMS)):
            self._run(number)
        self.add(*self._budgets())
        self.preemptor = self._pod(
            "urgent", self._random.choice([3, 10, 10]), large=True, shares=0.05
        )

    def add(self, *bodies: JsonObject) -> None:
        for body in bodies:
            self.put(convert(body))

    def put(self, added: SchedulingObject) -> None:
        self.known[type(added).__name__, added.metadata.name] = added

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def _node(self, name: str) -> JsonObject:
        if self._style != "any":
            return node(name, {"zone": "a"}, cpu="12")
        amounts = {"cpu": str(self._random.randint(3, 7)), "pods": str(self._random.randint(2, 5))}
        body = node(name, {"zone": self._random.choice("ab")}, **amounts)
        if self._chance(0.1):
            body["spec"] = {"taints": [{"key": "special", "effect": "NoSchedule"}]}
        return body

    def _devices(self, name: str) -> Iterator[JsonObject]:
        if self._style == "gpus":
            yield resource_slice(name, [gpu(f"gpu-{each}") for each in range(3)], nodeName=name)
            return
        kind = self._random.choice(["whole", "whole", "partitions", "shares", "mixed", "none"])
        if self._style in ("partitions", "shares"):
            kind = self._style
        devices: list[JsonObject] = []
        counters: list[JsonObject] = []
        if kind in ("whole", "mixed"):
            devices += [self._gpu(f"gpu-{each}") for each in range(self._random.randint(1, 4))]
        if kind in ("partitions", "mixed"):
            for number in range(self._random.randint(1, 2)):
                counters.append(counter_set(number))
                devices += partitions(number)
        if kind == "shares":
            devices += [shareable(f"shared-{each}") for each in range(self._random.randint(1, 2))]
        slices = 2 if counters else 1
        if devices:
            yield resource_slice(name, devices, slices, nodeName=name)
        if counters:
            part = resource_slice(name, [], slices, nodeName=name, sharedCounters=counters)
            part["metadata"]["name"] += "-counters"
            yield part

    def _gpu(self, name: str) -> JsonObject:
        device = gpu(name, self._random.choice(["40Gi", "80Gi"]))
        device["attributes"]["root"] = {"string": self._random.choice("xy")}
        if self._chance(0.1):
            device["taints"] = [{"key": "broken", "effect": "NoSchedule"}]
        return device

    def _request(self, *, large: bool) -> JsonObject:
        if self._style == "gpus":
            return exactly(count=self._random.randint(1, 3) if large else 1)
        if self._style == "partitions":
            return partition_of(self._random.choice([20, 40, 80] if large else [20, 20, 40]))
        if self._style == "shares":
            amount = self._random.choice((20, 30, 40) if large else (10, 20))
            return exactly(capacity={"requests": {"memory": f"{amount}Gi"}})
        most = 3 if large else 2
        memory = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("80Gi")) >= 0'
        slice_ = 'device.attributes["gpu.example.com"].model == "slice"'
        choices = [
            exactly(count=self._random.randint(1, most)),
            exactly(),
            exactly(count=self._random.randint(1, 2), selectors=[{"cel": {"expression": memory}}]),
            exactly(selectors=[{"cel": {"expression": slice_}}]),
            exactly(capacity={"requests": {"memory": self._random.choice(["10Gi", "30Gi"])}}),
            exactly(tolerations=[{"key": "broken", "operator": "Exists"}]),
            {
                "name": "gpu",
                "firstAvailable": [
                    {"name": "two", "deviceClassName": DRIVER, "count": 2},
                    {"name": "one", "deviceClassName": DRIVER},
                ],
            },
        ]
        if self._chance(0.1):
            return exactly(allocationMode="All")
        if not large and self._chance(0.1):
            return exactly(adminAccess=True)
        return self._random.choice(choices)

    def _claim(self, name: str, *, large: bool) -> ResourceClaim:
        constraints: JsonObject = {}
        if self._chance(0.15):
            constraint = {"requests": ["gpu"], "matchAttribute": f"{DRIVER}/root"}
            constraints["constraints"] = [constraint]
        made = convert(claim(name, self._request(large=large), **constraints))
        assert isinstance(made, ResourceClaim)
        return made

    def _pod(self, name: str, priority: int, *, large: bool = False, shares: float = 0.2) -> Pod:
        claims = [key for kind, key in self.known if kind == "ResourceClaim"]
        claim_name = ""
        if self._chance(0.8):
            claim_name = name
            if claims and self._chance(shares):
                claim_name = self._random.choice(claims)
            else:
                self.put(self._claim(name, large=large))
        spec: JsonObject = {"priority": priority}
        if self._chance(0.1):
            term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "a"}}}
            kind = self._random.choice(["podAntiAffinity", "podAntiAffinity", "podAffinity"])
            required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            spec["affinity"] = {kind: required}
        if self._chance(0.1):
            spec["tolerations"] = [{"key": "special", "operator": "Exists"}]
        most = 5 if large else 3
        cpu = {"cpu": str(self._random.randint(1, most))} if self._chance(0.7) else None
        body = pod(name, claim_name, requests=cpu, **spec)
        if self._chance(0.1):
            body["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
        app = self._random.choice("abc")
        # A pod that its own affinity selects fits where nobody else is: no eviction is meant to
        # make it the first.
        body["metadata"]["labels"] = {"app": "urgent" if large else app, "tier": "t"}
        [converted] = objects.pods(body)
        return converted

    def rival(self, name: str, priority: int) -> Pod:
        """A pod that might take what was freed for another one."""
        made = self._pod(name, priority, shares=0)
        # It must not use the claims of victims, which would stay in use, and affinity is not kept.
        spec = msgspec.structs.replace(made.spec, affinity=None)
        metadata = msgspec.structs.replace(made.metadata, labels={})
        return msgspec.structs.replace(made, metadata=metadata, spec=spec)

    def _run(self, number: int) -> None:
        waiting = self._pod(f"pod-{number}", self._random.choice([0, 0, 1, 2, 5]))
        [decision] = decide(SchedulingState.of(self.known.values(), WITHOUT), [waiting], now=NOW)
        if not isinstance(decision, NodeAssignment):
            return
        for changed in objects.written(decision):
            if isinstance(changed, ResourceClaim) and self._chance(0.05):
                changed = with_group(changed)
            self.put(self._aged(changed) if isinstance(changed, Pod) else changed)

    def _aged(self, placed: Pod) -> Pod:
        start = f"2026-01-01T00:00:{self._random.randint(0, 3):02}Z" if self._chance(0.9) else None
        status = msgspec.structs.replace(placed.status, start_time=start)
        metadata = placed.metadata
        if self._chance(0.1):
            deleted = "2026-01-01T00:00:00Z"
            metadata = msgspec.structs.replace(metadata, deletion_timestamp=deleted)
        return msgspec.structs.replace(placed, metadata=metadata, status=status)

    def _budgets(self) -> Iterator[JsonObject]:
        for number in range(self._random.randint(0, 2)):
            chosen: JsonObject = {"app": self._random.choice("abc")}
            if self._chance(0.3):
                chosen = {"tier": "t"}
            yield {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": f"budget-{number}"},
                "spec": {"selector": {"matchLabels": chosen}},
                "status": {"disruptionsAllowed": self._random.randint(0, 2)},
            }


def resource_slice(
    name: str, devices: list[JsonObject], slices: int = 1, **spec: Any
) -> JsonObject:
    pool = {"name": name, "generation": 1, "resourceSliceCount": slices}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {"driver": DRIVER, "pool": pool, "devices": devices, **spec},
    }


def network_slice(count: int) -> JsonObject:
    return resource_slice("network", [gpu(f"net-{each}") for each in range(count)], allNodes=True)


def counter_set(number: int) -> JsonObject:
    return {"name": f"counters-{number}", "counters": {"slices": {"value": "4"}}}


def partitions(number: int) -> list[JsonObject]:
    """A GPU as a whole and its parts."""
    sizes = {"whole": 4, "half-0": 2, "half-1": 2, "quarter-0": 1, "quarter-1": 1, "quarter-2": 1}
    return [
        {
            **gpu(f"mig-{number}-{name}", f"{20 * size}Gi"),
            "attributes": {"model": {"string": "slice" if size < 4 else "h100"}},
            "consumesCounters": [
                {
                    "counterSet": f"counters-{number}",
                    "counters": {"slices": {"value": str(size)}},
                }
            ],
        }
        for name, size in sizes.items()
    ]


def partition_of(memory: int) -> JsonObject:
    expression = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("{memory}Gi")) == 0'
    return exactly(selectors=[{"cel": {"expression": expression}}])


def shareable(name: str) -> JsonObject:
    device = gpu(name, "40Gi")
    policy = {"default": "10Gi", "validRange": {"min": "10Gi", "step": "10Gi"}}
    device["capacity"]["memory"]["requestPolicy"] = policy
    return {**device, "allowMultipleAllocations": True}


def with_group(held: ResourceClaim) -> ResourceClaim:
    """A claim that a PodGroup has reserved as well."""
    group = ResourceClaimConsumerReference(
        api_group="scheduling.k8s.io", resource="podgroups", name="g", uid="group g"
    )
    reserved = (*held.status.reserved_for, group)
    status = msgspec.structs.replace(held.status, reserved_for=reserved)
    return msgspec.structs.replace(held, status=status)


# Brute force.


def without(
    known: Iterable[SchedulingObject], removed: Iterable[Pod], waiting: Pod
) -> SchedulingState:
    """The state after pods are gone: claims that only they used are free.

    A claim of the pod that waits stays as it is, whoever else leaves.
    """
    own = {source.resource_claim_name for source in waiting.spec.resource_claims}
    uids = {gone.metadata.uid for gone in removed}
    state = SchedulingState(WITHOUT)
    for added in known:
        if isinstance(added, Pod) and added.metadata.uid in uids:
            continue
        if isinstance(added, ResourceClaim) and added.status.reserved_for:
            left = tuple(user for user in added.status.reserved_for if user.uid not in uids)
            status = msgspec.structs.replace(added.status, reserved_for=left)
            if not left and added.metadata.name not in own:
                status = msgspec.structs.replace(status, allocation=None)
            added = msgspec.structs.replace(added, status=status)
        state.put(added)
    return state


def decided(known: Iterable[SchedulingObject], removed: Sequence[Pod], waiting: Pod) -> Decision:
    [decision] = decide(without(known, removed, waiting), [waiting], now=NOW)
    return decision


def fits(known: Iterable[SchedulingObject], removed: Sequence[Pod], waiting: Pod) -> bool:
    return isinstance(decided(known, removed, waiting), NodeAssignment)


def only_on(waiting: Pod, name: str) -> Pod:
    spec = msgspec.structs.replace(waiting.spec, node_selector={HOST: name})
    return msgspec.structs.replace(waiting, spec=spec)


def cost_of(victims: Iterable[Pod], budgets: Sequence[PodDisruptionBudget]) -> Cost:
    """The order of sets of victims, the cheapest first."""
    evicted = [victim for victim in victims if not victim.metadata.deletion_timestamp]
    if not evicted:
        return 0, 0, 0, 0, ""
    covering = {
        victim.metadata.name: [
            number
            for number, budget in enumerate(budgets)
            if budget.spec.selector is not None
            and budget.spec.selector.match_labels.items() <= victim.metadata.labels.items()
        ]
        for victim in evicted
    }
    left = [budget.status.disruptions_allowed for budget in budgets]
    violations = 0
    for victim in sorted(evicted, key=lambda one: (-priority(one), covering[one.metadata.name])):
        numbers = covering[victim.metadata.name]
        for number in numbers:
            left[number] -= 1
        violations += any(left[number] < 0 for number in numbers)
    highest = max(map(priority, evicted))
    starts = [one.status.start_time or "~" for one in evicted if priority(one) == highest]
    return (
        violations,
        highest + OFFSET,
        sum(priority(victim) + OFFSET for victim in evicted),
        len(evicted),
        "".join(chr(0x7F - ord(letter)) for letter in min(starts)),
    )


def priority(one: Pod) -> int:
    return one.spec.priority or 0


def cheapest(cluster: Cluster) -> Cost | None:
    known = list(cluster.known.values())
    lower = [
        one for one in known
        if isinstance(one, Pod) and one.spec.node_name
        and priority(one) < priority(cluster.preemptor)
    ]  # fmt: skip
    leaving = [one for one in lower if one.metadata.deletion_timestamp]
    others = [one for one in lower if not one.metadata.deletion_timestamp]
    budgets = budgets_of(cluster)
    sets = itertools.chain.from_iterable(
        itertools.combinations(others, size) for size in range(len(others) + 1)
    )
    priced = sorted((cost_of(victims, budgets), number, victims) for number, victims in
                    enumerate(sets))  # fmt: skip
    for cost, _, victims in priced:
        if fits(known, [*leaving, *victims], cluster.preemptor):
            return cost
    return None


def budgets_of(cluster: Cluster) -> list[PodDisruptionBudget]:
    budgets = [one for one in cluster.known.values() if isinstance(one, PodDisruptionBudget)]
    return sorted(budgets, key=lambda budget: budget.metadata.name)


def snapshot(state: SchedulingState) -> Any:
    """What a search must leave as it was."""
    held = {
        (id, device): (sorted(holders.owners), sorted(holders.shares), dict(holders.capacity))
        for id, pool in state.inventory.pools().items()
        for device, holders in pool.holders.by_device.items()
    }
    used = {here.name: (dict(here.requested), sorted(here.usages)) for here in state.nodes}
    return held, used, set(state.affinity.hidden)


@pytest.mark.random
@pytest.mark.parametrize("seed", rounds.seeds(150, long=2000))
def test_the_victims_are_the_best_of_all_sets(seed: int) -> None:
    cluster = Cluster(seed)
    state = SchedulingState.of(cluster.known.values(), GATES)
    before = snapshot(state)
    [decision] = decide(state, [cluster.preemptor], now=NOW)
    if isinstance(decision, NodeAssignment) or decision.before_nodes or decision.error:
        return
    assert snapshot(state) == before
    expected = cheapest(cluster)
    if decision.preemption is None:
        assert expected is None
        return
    assert decision.preemption.is_exhaustive
    assert cost_of(decision.preemption.victims, budgets_of(cluster)) == expected
    check_plan(cluster, decision.preemption)


@pytest.mark.random
@pytest.mark.parametrize("seed", rounds.seeds(150, long=2000))
def test_nodes_are_left_unread_only_if_they_cannot_be_better(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(seed)

    def answer() -> object:
        state = SchedulingState.of(cluster.known.values(), GATES)
        [decision] = decide(state, [cluster.preemptor], now=NOW)
        if isinstance(decision, NodeAssignment) or decision.preemption is None:
            return decision
        victims = [victim.metadata.name for victim in decision.preemption.victims]
        return decision.preemption.node, victims

    expected = answer()
    # No node can be left out if its victims may cost nothing.
    monkeypatch.setattr(Victims, "least_cost", lambda *_: NO_COST)
    monkeypatch.setattr(pod_preemption, "FIRST_NODES", len(cluster.names))
    assert answer() == expected


def check_plan(cluster: Cluster, plan: PreemptionPlan) -> None:
    """No victim can be spared, and what the pod gets without them is legal."""
    known, victims = list(cluster.known.values()), list(plan.victims)
    there = only_on(cluster.preemptor, plan.node)
    placed = decided(known, victims, there)
    assert isinstance(placed, NodeAssignment)
    for victim in victims:
        fewer = [other for other in victims if other is not victim]
        assert not fits(known, fewer, there), victim.metadata.name
    left = {one.key: one for one in without(known, victims, there).claims}
    given = dict(left)
    for assigned in placed.fit.claims:
        if assigned.allocation is not None:
            status = msgspec.structs.replace(assigned.claim.status, allocation=assigned.allocation)
            given[assigned.claim.key] = msgspec.structs.replace(assigned.claim, status=status)
    slices = [one for one in known if isinstance(one, ResourceSlice)]
    new = [key for key, one in given.items() if one is not left.get(key)]
    violations = verifier.find_violations(slices, list(given.values()), GATES, just_allocated=new)
    assert violations == []


def test_the_clusters_are_not_trivial() -> None:
    outcomes = {True: 0, False: 0}
    several = violated = elsewhere = 0
    for seed in range(150):
        cluster = Cluster(seed)
        state = SchedulingState.of(cluster.known.values(), GATES)
        [decision] = decide(state, [cluster.preemptor], now=NOW)
        if isinstance(decision, Unschedulable):
            plan = decision.preemption
            outcomes[plan is not None] += 1
            if plan is not None:
                several += len(plan.victims) > 1
                violated += bool(plan.violated_budgets)
                elsewhere += any(one.spec.node_name != plan.node for one in plan.victims)
    assert min(*outcomes.values(), several, violated, elsewhere) > 0
    assert outcomes[True] > 30


@pytest.mark.random
@pytest.mark.parametrize("seed", rounds.seeds(60, long=1000))
def test_what_is_freed_is_kept_until_the_pod_is_placed(seed: int) -> None:
    cluster = Cluster(seed)
    dice = random.Random(f"kept {seed}")
    state = SchedulingState.of(cluster.known.values(), GATES)
    decider = Decider(state)
    [decision] = decider.decide([cluster.preemptor], NOW)
    if isinstance(decision, NodeAssignment) or decision.preemption is None:
        return
    plan, rivals = decision.preemption, 0
    gone: list[Pod] = []
    for victim in dice.sample(plan.victims, len(plan.victims)):
        gone.append(victim)
        remove(state, cluster, gone)
        for _ in range(3):
            rivals += 1
            lower = cluster.rival(f"rival-{rivals}", dice.choice([0, priority(cluster.preemptor)]))
            for added in cluster.known.values():
                if isinstance(added, ResourceClaim) and added.metadata.name == lower.metadata.name:
                    state.put(added)
            [taken] = decider.decide([lower], NOW)
            if isinstance(taken, NodeAssignment):
                for changed in objects.written(taken):
                    state.put(changed)
    [placed] = decider.decide([cluster.preemptor], NOW)
    assert isinstance(placed, NodeAssignment)


def remove(state: SchedulingState, cluster: Cluster, gone: Sequence[Pod]) -> None:
    """The last of the pods is gone, and so are the allocations that only they used."""
    state.drop_pod(gone[-1].metadata.key)
    left = without(cluster.known.values(), gone, cluster.preemptor)
    for after in left.claims:
        before = state.claims.get(after.key)
        if before is not None and before.status.allocation and not after.status.allocation:
            state.put(after)
