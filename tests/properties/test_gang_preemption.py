"""Random gangs that preempt, and PodGroups that are preempted as one, against every set of pods."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Sequence

import msgspec
import pytest

from dray.allocator import verifier
from dray.api import features as gates
from dray.api.types.dra import ResourceClaim, ResourceSlice
from dray.api.types.meta import LabelSelector, ObjectMeta
from dray.api.types.pods import (
    Affinity,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSchedulingGroup,
)
from dray.api.types.workloads import (
    AllDisruptionMode,
    DisruptionMode,
    GangSchedulingPolicy,
    PodGroup,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
)
from dray.scheduling import steps
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.decision import Decider, Decision, decide
from dray.scheduling.podgroups import Gang, GangPlacement
from dray.scheduling.preemption import gang_victims
from dray.scheduling.state import SchedulingObject, SchedulingState
from dray.scheduling.unschedulable import NodeRefusal, PreemptionPlan, Unschedulable
from tests import rounds
from tests.properties.test_preemption import (
    GATES,
    HOST,
    MOST_VICTIMS,
    Cluster,
    Cost,
    budgets_of,
    cost_of,
    snapshot,
    without,
)
from tests.unit.scheduling.objects import NOW

GROUPS = gates.with_gates(
    GATES, {"GenericWorkload": True, "DrayGangSearch": True, "DRAWorkloadResourceClaims": True}
)
WITHOUT = msgspec.structs.replace(GROUPS, preemption=False)
URGENT = 10


class GroupCluster:
    """A random cluster where some pods belong to groups, and a gang that finds no room."""

    def __init__(self, seed: int) -> None:
        self.cluster = Cluster(seed)
        self._dice = random.Random(f"groups {seed}")
        self._make_teams()
        self.size = self._dice.choice((1, 2, 2, 2, 3))
        self.gang: list[Pod] = []
        """The pods that wait; without a group if it is only one."""
        self._make_gang()

    @property
    def known(self) -> list[SchedulingObject]:
        return list(self.cluster.known.values())

    def _make_teams(self) -> None:
        """Put some of the running pods into groups that are disrupted as one, or not."""
        for name in ("team-a", "team-b"):
            mode = DisruptionMode(all=AllDisruptionMode())
            if self._dice.random() < 0.2:
                mode = DisruptionMode()
            metadata = ObjectMeta(name=name, namespace="default", uid=f"group {name}")
            priority = self._dice.choice((0, 1, 2, 5, 20))
            self.cluster.put(
                PodGroup(metadata, PodGroupSpec(disruption_mode=mode, priority=priority))
            )
        for pod in running(self.known):
            team = self._dice.choice(("team-a", "team-b", "", "", ""))
            if team:
                self.cluster.put(in_group(pod, team))

    def _make_gang(self) -> None:
        made = [self.cluster.rival(f"member-{number}", URGENT) for number in range(self.size)]
        if self.size == 1:
            self.gang = made
            return
        for pod in made:
            self._drop_constraints(pod)
        needed = self._dice.choice((self.size, self.size, self.size - 1))
        policy = PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(needed))
        metadata = ObjectMeta(name="gang", namespace="default", uid="group gang")
        self.cluster.put(
            PodGroup(metadata, PodGroupSpec(scheduling_policy=policy, priority=URGENT))
        )
        self.gang = [in_group(pod, "gang") for pod in made]

    def _drop_constraints(self, pod: Pod) -> None:
        """Leave out what may be an error on some node, which ends the whole attempt there."""
        claim = self.cluster.known.get(("ResourceClaim", pod.metadata.name))
        if isinstance(claim, ResourceClaim):
            devices = msgspec.structs.replace(claim.spec.devices, constraints=())
            spec = msgspec.structs.replace(claim.spec, devices=devices)
            self.cluster.put(msgspec.structs.replace(claim, spec=spec))

    def state(self, features: gates.Features = GROUPS) -> SchedulingState:
        return SchedulingState.of(self.known, features)


def in_group(pod: Pod, name: str) -> Pod:
    group = PodSchedulingGroup(pod_group_name=name)
    return msgspec.structs.replace(
        pod, spec=msgspec.structs.replace(pod.spec, scheduling_group=group)
    )


def running(known: Iterable[SchedulingObject]) -> list[Pod]:
    return [one for one in known if isinstance(one, Pod) and one.spec.node_name]


# Brute force.


def units(made: GroupCluster) -> list[list[Pod]]:
    """What is evicted together, of lower priority and not leaving already."""
    state = made.state()
    found: dict[str, list[Pod]] = {}
    for pod in running(made.known):
        if priority(pod, state) >= URGENT or pod.metadata.deletion_timestamp:
            continue
        group = state.group_of(pod)
        mode = group.spec.disruption_mode if group is not None else None
        is_one = mode is not None and mode.all is not None
        name = group.metadata.name if group is not None and is_one else pod.metadata.uid
        found.setdefault(name, []).append(pod)
    return list(found.values())


def priority(pod: Pod, state: SchedulingState) -> int:
    group = state.group_of(pod)
    return (pod.spec.priority if group is None else group.spec.priority) or 0


def fits(made: GroupCluster, removed: Sequence[Pod]) -> bool:
    return bool(placed(decided(made, removed)))


def decided(made: GroupCluster, removed: Sequence[Pod]) -> list[Decision]:
    state = SchedulingState(WITHOUT)
    every = without(made.known, removed, made.gang[0])
    for one in made.known:
        if isinstance(one, ResourceClaim):
            claim = every.claims.get(one.key)
            assert claim is not None
            state.put(claim)
        elif not (isinstance(one, Pod) and one.metadata.uid in {p.metadata.uid for p in removed}):
            state.put(one)
    return decide(state, made.gang, now=NOW)


def placed(decisions: Iterable[Decision]) -> list[NodeAssignment]:
    return [one for one in decisions if isinstance(one, NodeAssignment)]


def with_effective_priorities(pods: Iterable[Pod], state: SchedulingState) -> list[Pod]:
    return [
        msgspec.structs.replace(
            pod, spec=msgspec.structs.replace(pod.spec, priority=priority(pod, state))
        )
        for pod in pods
    ]


def cost(made: GroupCluster, victims: Sequence[Pod]) -> Cost:
    budgets = budgets_of(made.cluster)
    return cost_of(with_effective_priorities(victims, made.state()), budgets)


def leaving(made: GroupCluster) -> list[Pod]:
    state = made.state()
    return [
        pod
        for pod in running(made.known)
        if pod.metadata.deletion_timestamp and priority(pod, state) < URGENT
    ]


def cheapest(made: GroupCluster) -> Cost | None:
    every = units(made)
    sets = itertools.chain.from_iterable(
        itertools.combinations(every, size) for size in range(len(every) + 1)
    )
    flat = [list(itertools.chain.from_iterable(chosen)) for chosen in sets]
    priced = sorted((cost(made, pods), number) for number, pods in enumerate(flat))
    gone = leaving(made)
    for price, number in priced:
        if fits(made, [*gone, *flat[number]]):
            return price
    return None


def held(state: SchedulingState) -> object:
    """What the search must leave as it was. Amounts of zero make no difference."""
    devices, used, hidden = snapshot(state)
    nodes = {
        name: ({what: amount for what, amount in amounts.items() if amount}, uids)
        for name, (amounts, uids) in used.items()
    }
    return devices, nodes, hidden


@pytest.mark.random
@pytest.mark.parametrize("seed", rounds.seeds(100, long=2000))
def test_the_victims_of_gangs_are_the_best_of_all_sets(seed: int) -> None:
    check_victims(GroupCluster(seed))


@pytest.mark.random
@pytest.mark.parametrize("seed", rounds.seeds(60, long=1000))
def test_pods_that_a_gang_needs_beside_it_are_no_victims(seed: int) -> None:
    made = GroupCluster(seed)
    app = random.Random(f"affinity {seed}").choice("abc")
    made.gang = [beside(pod, app) for pod in made.gang]
    check_victims(made)


def beside(pod: Pod, app: str) -> Pod:
    """The pod, only for nodes with a pod of an app."""
    term = PodAffinityTerm(label_selector=LabelSelector({"app": app}), topology_key=HOST)
    affinity = Affinity(pod_affinity=PodAffinity((term,)))
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, affinity=affinity))


def check_victims(made: GroupCluster) -> None:
    """Fail if there are better victims, or if the plan does not hold."""
    state = made.state()
    before = held(state)
    decisions = decide(state, made.gang, now=NOW)
    if placed(decisions):
        return
    assert held(state) == before
    result = decisions[0]
    assert isinstance(result, Unschedulable)
    if result.error or result.before_nodes:
        return
    expected = cheapest(made)
    if result.preemption is None:
        assert expected is None
        return
    check_plan(made, result.preemption)
    if result.preemption.is_exhaustive:
        assert cost(made, list(result.preemption.victims)) == expected
    else:
        assert len(units(made)) > MOST_VICTIMS or made.size == 1


@pytest.mark.random
@pytest.mark.parametrize("seed", rounds.seeds(60, long=500))
def test_many_victims_are_restored_until_none_can_be_spared(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gang_victims, "COMBINED_LIMIT", 0)
    made = GroupCluster(seed)
    state = made.state()
    before = held(state)
    decisions = decide(state, made.gang, now=NOW)
    result = decisions[0]
    if len(made.gang) == 1 or placed(decisions) or not isinstance(result, Unschedulable):
        return
    assert held(state) == before
    expected = cheapest(made)
    if result.preemption is None:
        assert expected is None
        return
    assert expected is not None
    check_plan(made, result.preemption)


@pytest.mark.random
@pytest.mark.parametrize("seed", rounds.seeds(60, long=500))
def test_victims_do_not_depend_on_the_order_in_which_pods_became_known(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gang_victims, "COMBINED_LIMIT", random.Random(seed).choice((0, 12)))
    made = GroupCluster(seed)
    first = victims_of(decide(made.state(), made.gang, now=NOW))
    made.cluster.known = dict(reversed(made.cluster.known.items()))
    assert victims_of(decide(made.state(), made.gang, now=NOW)) == first


def victims_of(decisions: Sequence[Decision]) -> set[str]:
    plan = decisions[0].preemption if isinstance(decisions[0], Unschedulable) else None
    return {victim.metadata.name for victim in plan.victims} if plan is not None else set()


class Patience:
    """Stops a search after a number of questions whether to stop."""

    def __init__(self, questions: int | None = None) -> None:
        self._questions, self.asked = questions, 0

    def __call__(self) -> bool:
        self.asked += 1
        return self.was_ended

    @property
    def was_ended(self) -> bool:
        return self._questions is not None and self.asked > self._questions


def planned(made: GroupCluster, patience: Patience) -> Unschedulable | None:
    """Return the decision for a gang; None if it is placed, or cannot be decided."""
    state = made.state()
    for pod in made.gang:
        state.put_pod(pod)
    before = held(state)
    decider = Decider(state)
    gang = decider.gang_of(made.gang[0])
    if not isinstance(gang, Gang):
        return None
    result = steps.run(decider.place_gang(gang, NOW, patience), lambda: False)
    if isinstance(result, GangPlacement):
        return None
    assert held(state) == before
    return result


@pytest.mark.random
@pytest.mark.parametrize("seed", rounds.seeds(60, long=500))
def test_a_search_that_is_ended_has_a_plan_that_holds_or_none(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(f"ended {seed}")
    monkeypatch.setattr(gang_victims, "COMBINED_LIMIT", dice.choice((0, 12)))
    made, complete = GroupCluster(seed), Patience()
    if planned(made, complete) is None or not complete.asked:
        return
    for _ in range(5):
        patience = Patience(dice.randrange(complete.asked))
        result = planned(made, patience)
        if result is None:
            continue
        assert patience.was_ended
        if result.preemption is not None:
            assert fits(made, result.preemption.victims)
            assert not result.preemption.is_exhaustive
        elif (refusal := result.preemption_refusal) is not None:
            assert not (refusal.is_exhaustive and NodeRefusal.NOT_ENOUGH in refusal.nodes)


def check_plan(made: GroupCluster, plan: PreemptionPlan) -> None:
    """Groups go as one, nobody can be spared, and what the gang gets without them is legal."""
    victims = list(plan.victims)
    uids = {victim.metadata.uid for victim in victims}
    parts = [part for part in units(made) if uids & {pod.metadata.uid for pod in part}]
    gone = leaving(made)
    awaited = [pod for pod in gone if pod.metadata.uid in uids]
    evicted = [pod for part in parts for pod in part]
    assert sorted(pod.metadata.uid for pod in (*awaited, *evicted)) == sorted(uids)
    decisions = placed(decided(made, victims))
    assert decisions
    if len(made.gang) > 1:
        for part in parts:
            # What is leaving goes in any case, and with it what affinity may need.
            rest = [pod for pod in evicted if pod not in part]
            assert not fits(made, [*gone, *rest]), part[0].metadata.name
        for pod in awaited:
            rest = [other for other in awaited if other is not pod]
            assert not fits(made, [*rest, *evicted]), pod.metadata.name
    left = {one.key: one for one in without(made.known, victims, made.gang[0]).claims}
    given = dict(left)
    for assignment in decisions:
        for assigned in assignment.fit.claims:
            if assigned.allocation is not None:
                status = msgspec.structs.replace(
                    assigned.claim.status, allocation=assigned.allocation
                )
                changed = msgspec.structs.replace(assigned.claim, status=status)
                given[assigned.claim.key] = changed
    slices = [one for one in made.known if isinstance(one, ResourceSlice)]
    new = [key for key, one in given.items() if one is not left.get(key)]
    violations = verifier.find_violations(slices, list(given.values()), GATES, just_allocated=new)
    assert violations == []


def test_the_groups_are_not_trivial() -> None:
    plans = as_one = gangs = 0
    for seed in range(300):
        made = GroupCluster(seed)
        [result, *_] = decide(made.state(), made.gang, now=NOW)
        plan = result.preemption if isinstance(result, Unschedulable) else None
        if plan is not None:
            plans += 1
            gangs += made.size > 1
            names = [pod.spec.scheduling_group for pod in plan.victims]
            as_one += any(names.count(name) > 1 for name in names if name is not None)
    assert plans > 30
    assert min(as_one, gangs) > 5
