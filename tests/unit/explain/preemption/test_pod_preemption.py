"""Who would be evicted for a pod, or why nobody, on small clusters: each answer and its words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from dray.api import features as gates
from dray.api.conversion import typed_objects
from dray.api.features import Features
from dray.api.types.core import Namespace, PodDisruptionBudget, PriorityClass
from dray.api.types.dra import ResourceClaimTemplate
from dray.api.types.meta import JsonObject, ObjectMeta
from dray.api.types.pods import Pod
from dray.api.types.workloads import PodGroup
from dray.explain.pod import pod_context
from dray.explain.preemption import pod_preemption, preemption_explainer, preemption_text
from dray.explain.preemption.pod_preemption import PodPreemption, PreemptionOutcome
from dray.explain.preemption.preemption_explainer import PreemptionExplainer
from dray.scheduling.preemption import victim_search
from dray.scheduling.unschedulable import NodeRefusal
from tests import builders
from tests.unit.scheduler.test_podgroups import group, member
from tests.unit.scheduler.world import DRIVER, claim, exactly, pod
from tests.unit.scheduling.objects import convert, pods
from tests.unit.scheduling.preemption.test_pod_preemption import (
    HOST,
    PREEMPTING,
    budget,
    fleet,
    leaving,
    running,
    user,
)

SEARCHING = gates.with_gates(PREEMPTING, {"GenericWorkload": True, "DrayGangSearch": True})
_OTHERS = (Namespace, PodDisruptionBudget, PodGroup, PriorityClass)


def explainer(
    *bodies: JsonObject, features: Features = PREEMPTING, others: Sequence[Any] = ()
) -> PreemptionExplainer:
    objects: dict[type[Any], list[Any]] = {}
    for body in bodies:
        converted = convert(body)
        objects.setdefault(type(converted), []).append(converted)
    context = pod_context.from_objects(objects, features)
    known = [item for type_ in _OTHERS for item in objects.get(type_, ())]
    return PreemptionExplainer(context, [*known, *others])


def urgent(count: int = 1, **spec: Any) -> list[JsonObject]:
    """A pod of priority 10 with a claim."""
    waiting = pod("urgent", "x", **{"priority": 10, **spec})
    return [claim("x", exactly(count=count)), waiting]


def found(*bodies: JsonObject, features: Features = PREEMPTING) -> PodPreemption:
    """What is said about the last of the pods."""
    [waiting] = pods(bodies[-1])
    answer = explainer(*bodies, features=features).explain(waiting)
    assert answer is not None
    return answer


def words(answer: PodPreemption) -> list[str]:
    return list(preemption_text.lines(answer))


FULL = [*fleet(one=1), *running("batch", "one", 5, "gpu-0")]


def test_the_pods_to_evict_are_named() -> None:
    answer = found(*FULL, *urgent())
    assert (answer.outcome, answer.node, answer.priority) == (PreemptionOutcome.EVICTS, "one", 10)
    assert [msgspec.to_builtins(victim) for victim in answer.victims] == [
        {"pod": "default/batch", "priority": 5, "node": "one", "isLeaving": False}
    ]
    assert words(answer) == [
        "preemption: the scheduler evicts pod default/batch (priority 5); it fits on one then"
    ]
    assert preemption_text.title(answer) == (
        "pod default/urgent (priority 10) fits on one if 1 pod is evicted:"
    )
    assert list(preemption_text.notes(answer)) == [
        f"No other pods are better, compared by: {preemption_text.ORDER}."
    ]


def test_several_pods_are_evicted_together() -> None:
    both = [*running("a", "one", 1, "gpu-0"), *running("b", "one", 2, "gpu-1")]
    answer = found(*fleet(one=2), *both, *urgent(count=2))
    assert words(answer) == [
        "preemption: the scheduler evicts pods default/a (priority 1) and default/b (priority 2); "
        "it fits on one then"
    ]
    assert preemption_text.title(answer).endswith("if 2 pods are evicted:")


def test_the_answer_is_the_same_where_the_gate_is_off_but_for_who_evicts() -> None:
    answer = found(*FULL, *urgent(), features=gates.DEFAULT)
    assert msgspec.structs.replace(answer, is_on=True) == found(*FULL, *urgent())
    assert list(preemption_text.notes(answer))[-1] == (
        "With the feature gate DrayPreemption the scheduler evicts them; without it, it does not."
    )


def test_a_budget_that_is_exceeded_is_named() -> None:
    answer = found(*FULL, budget("keep", 0, "batch"), *urgent())
    assert answer.violated_budgets == ("default/keep",)
    assert words(answer)[1:] == ["This is more than PodDisruptionBudget default/keep allows."]


def test_budgets_that_could_not_be_read_are_named() -> None:
    objects: dict[type[Any], list[Any]] = {}
    for body in (*FULL, *urgent()):
        objects.setdefault(type(convert(body)), []).append(convert(body))
    context = pod_context.from_objects(objects, PREEMPTING)
    unread = msgspec.structs.replace(context, unread=frozenset({"PodDisruptionBudget"}))
    answer = PreemptionExplainer(unread, []).explain(pods(urgent()[-1])[0])
    assert answer is not None
    assert words(answer)[1:] == ["PodDisruptionBudgets could not be read, so they do not count."]


def test_a_search_that_was_ended_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(victim_search, "TRIALS_LIMIT", 0)
    answer = found(*FULL, *urgent())
    assert words(answer)[1:] == [
        "The search was ended before all was tried: other pods may be better."
    ]
    assert not any("No other pods" in note for note in preemption_text.notes(answer))
    monkeypatch.setattr(victim_search, "GREEDY_NODES_LIMIT", 0)
    refused = found(*FULL, *urgent())
    assert refused.outcome is PreemptionOutcome.NOT_HELPFUL
    assert words(refused)[0] == (
        "preemption does not help: it fits on no node, and the search for pods to evict was ended "
        "before its end"
    )


def test_pods_that_are_leaving_the_nominated_node_are_waited_for() -> None:
    bodies = [*fleet(one=1, two=1), *leaving(running("batch", "one", 5, "gpu-0"))]
    bodies += [*running("cheap", "two", 1, "gpu-0"), *urgent()]
    bodies[-1]["status"] = {"nominatedNodeName": "one"}
    answer = found(*bodies)
    assert (answer.outcome, answer.node) == (PreemptionOutcome.UNDER_WAY, "one")
    assert words(answer) == ["preemption: it gets one when pod default/batch (priority 5) is gone"]
    assert preemption_text.title(answer) == (
        "pod default/urgent (priority 10) gets one when 1 pod is gone:"
    )


def test_pods_that_are_leaving_are_waited_for_without_a_nomination() -> None:
    answer = found(*fleet(one=1), *leaving(running("batch", "one", 5, "gpu-0")), *urgent())
    assert answer.outcome is PreemptionOutcome.UNDER_WAY
    assert [victim.is_leaving for victim in answer.victims] == [True]


def test_what_is_freed_for_another_pod_is_kept_for_it() -> None:
    other = pod("first", "y", priority=10)
    other["status"] = {"nominatedNodeName": "one"}
    bodies = [*fleet(one=1), *leaving(running("batch", "one", 5, "gpu-0"))]
    answer = found(*bodies, claim("y", exactly()), other, *urgent())
    assert answer.outcome is PreemptionOutcome.NOT_HELPFUL
    # A nomination of lower priority does not count.
    other["spec"]["priority"] = 9
    lower = found(*bodies, claim("y", exactly()), other, *urgent())
    assert lower.outcome is PreemptionOutcome.UNDER_WAY


@pytest.mark.parametrize(
    ("bodies", "refusal", "reason"),
    [
        pytest.param(
            [*fleet(one=1), *running("batch", "one", 10, "gpu-0"), *urgent()],
            {NodeRefusal.NO_VICTIMS: 1},
            "on 1 node no pod of lower priority than its 10 has what is missing",
            id="priority",
        ),
        pytest.param(
            [*FULL, *urgent(count=2)],
            {NodeRefusal.NOT_ENOUGH: 1},
            "on 1 node it does not fit without all pods of lower priority either",
            id="not-enough",
        ),
        pytest.param(
            [*FULL, *urgent(nodeSelector={HOST: "other"})],
            {NodeRefusal.NOT_RESOLVABLE: 1},
            "on 1 node other pods are not why it does not fit",
            id="not-resolvable",
        ),
    ],
)
def test_it_says_why_evicting_pods_does_not_help(
    bodies: list[JsonObject], refusal: dict[NodeRefusal, int], reason: str
) -> None:
    answer = found(*bodies)
    assert (answer.outcome, answer.nodes) == (PreemptionOutcome.NOT_HELPFUL, refusal)
    assert words(answer) == [f"preemption does not help: {reason}"]
    assert preemption_text.title(answer).endswith(": preemption does not help")
    assert list(preemption_text.notes(answer)) == [reason]


def test_nodes_with_different_reasons_are_counted_apart() -> None:
    taken = [*running("a", "one", 1, "gpu-0"), *running("b", "two", 20, "gpu-0")]
    taken += running("c", "three", 20, "gpu-0")
    answer = found(*fleet(one=1, two=1, three=1), *taken, *urgent(count=2))
    assert answer.nodes == {NodeRefusal.NO_VICTIMS: 2, NodeRefusal.NOT_ENOUGH: 1}
    assert words(answer) == [
        "preemption does not help: on 2 nodes no pod of lower priority than its 10 has what is "
        "missing",
        "on 1 node it does not fit without all pods of lower priority either",
    ]


def test_a_pod_that_may_not_evict_others_is_told_so() -> None:
    answer = found(*FULL, *urgent(preemptionPolicy="Never"))
    assert answer.outcome is PreemptionOutcome.NEVER
    assert words(answer) == ["preemption does not help: its preemptionPolicy is Never"]


def test_a_pod_that_fits_needs_nobody_to_go() -> None:
    answer = found(*fleet(one=1), *urgent())
    assert (answer.outcome, answer.node) == (PreemptionOutcome.FITS, "one")
    assert words(answer) == []
    assert preemption_text.title(answer).endswith("fits on one, and no pod has to be evicted")


def test_a_cluster_without_nodes_has_nobody_to_evict() -> None:
    answer = found(*urgent(), *fleet(), urgent()[-1])
    assert words(answer) == [
        "preemption does not help: there is no node on which pods could be evicted"
    ]


def test_what_keeps_a_pod_from_being_decided_is_said() -> None:
    answer = found(*FULL, pod("urgent", "nowhere", priority=10))
    assert answer.outcome is PreemptionOutcome.UNDECIDED
    assert words(answer) == []
    assert preemption_text.title(answer) == (
        "pod default/urgent (priority 10) cannot be decided: "
        'could not find ResourceClaim "default/nowhere"'
    )


def test_a_decision_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preemption_explainer, "_EFFORT", 0)
    answer = found(*FULL, *urgent())
    assert answer.outcome is PreemptionOutcome.UNDECIDED
    assert "the search was ended" in answer.message


@pytest.mark.parametrize(
    "waiting",
    [
        pytest.param(user("urgent", "one", 10), id="placed"),
        pytest.param(pod("urgent", schedulingGates=[{"name": "a.example/b"}]), id="gated"),
        pytest.param({**pod("urgent"), "status": {"phase": "Failed"}}, id="ended"),
    ],
)
def test_nothing_is_said_about_pods_that_do_not_wait_for_a_node(waiting: JsonObject) -> None:
    [converted] = pods(waiting)
    assert explainer(*FULL, waiting).explain(converted) is None


def test_every_pod_is_answered_as_if_it_was_the_only_one() -> None:
    bodies = [*FULL, *urgent(), claim("y", exactly()), pod("late", "y", priority=10)]
    explaining = explainer(*bodies)
    early, late = pods(bodies[-3], bodies[-1])
    for waiting in (early, late, early):
        answer = explaining.explain(waiting)
        assert answer is not None
        assert [victim.pod for victim in answer.victims] == ["default/batch"]


def test_a_pod_that_fits_takes_nothing_from_the_next() -> None:
    bodies = [*fleet(one=1), *urgent(), claim("y", exactly()), pod("late", "y", priority=10)]
    explaining = explainer(*bodies)
    for waiting in pods(bodies[-3], bodies[-1]):
        answer = explaining.explain(waiting)
        assert answer is not None
        assert answer.outcome is PreemptionOutcome.FITS


def file_pod(**spec: Any) -> Pod:
    """A pod as a manifest has it: without namespace, uid, claims and priority."""
    return typed_objects.decode(pod("filed", template_name="one", **spec), Pod)


def test_a_pod_of_a_file_gets_claims_and_the_priority_of_its_class() -> None:
    request = builders.request_manifest(cls=DRIVER)
    template = builders.template_manifest("one", request, namespace="default")
    decoded = typed_objects.decode(template, ResourceClaimTemplate)
    bodies = [convert(body) for body in FULL]
    objects: dict[type[Any], list[Any]] = {}
    for item in (*bodies, decoded):
        objects.setdefault(type(item), []).append(item)
    context = pod_context.from_objects(objects, PREEMPTING)
    high = PriorityClass(ObjectMeta(name="high"), value=100)
    explaining = PreemptionExplainer(context, [high])
    answer = explaining.explain(file_pod(priorityClassName="high"))
    assert answer is not None
    assert (answer.outcome, answer.priority) == (PreemptionOutcome.EVICTS, 100)
    plain = explaining.explain(file_pod())
    assert plain is not None
    assert (plain.outcome, plain.priority) == (PreemptionOutcome.NOT_HELPFUL, 0)
    unknown = explaining.explain(file_pod(priorityClassName="higher"))
    assert unknown is not None
    assert unknown.message == "no PriorityClass with name higher was found"


def test_a_gang_is_told_what_its_search_found() -> None:
    bodies = [*fleet(one=1), group("pg", 2), claim("x", exactly()), claim("y", exactly())]
    bodies += [member("a", claim_name="x"), member("b", claim_name="y")]
    answer = found(*bodies, features=SEARCHING)
    assert answer.outcome is PreemptionOutcome.GROUP
    assert words(answer) == [
        "its group cannot be placed: minCount (2) cannot be satisfied: 1 scheduled, 0 remaining",
        "preemption does not help: there is no pod of lower priority than its 0",
    ]
    only = msgspec.structs.replace(SEARCHING, preemption=False)
    assert words(found(*bodies, features=only)) == words(answer)[:1]


def test_whom_a_gang_evicts_and_why_that_does_not_help() -> None:
    bodies = [*fleet(one=2), *running("batch", "one", 5, "gpu-0"), *claims_of("x", "y")]
    bodies += [member("a", claim_name="x"), member("b", claim_name="y")]
    answer = found(group("pg", 2, priority=10), *bodies, features=SEARCHING)
    assert answer.group_nodes == ("one",)
    assert words(answer) == [
        "preemption: the scheduler evicts pod default/batch (priority 5); "
        "its group fits on one then"
    ]
    assert preemption_text.title(answer) == (
        "PodGroup default/pg (priority 10) fits on one if 1 pod is evicted:"
    )
    more = [*bodies, *claims_of("z"), member("c", claim_name="z")]
    answer = found(group("pg", 3, priority=10), *more, features=SEARCHING)
    assert words(answer)[1:] == [
        "preemption does not help: it does not fit without all pods of lower priority either"
    ]
    off = msgspec.structs.replace(SEARCHING, preemption=False)
    answer = found(group("pg", 2, priority=10), *bodies, features=off)
    assert words(answer) == [
        "its group cannot be placed: minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"
    ]


def test_a_group_of_a_file_gets_its_priority_from_its_class() -> None:
    high = PriorityClass(ObjectMeta(name="high"), value=100)
    bodies = [*fleet(one=1), *running("batch", "one", 5, "gpu-0"), *claims_of("x")]
    bodies.append(member("a", claim_name="x"))
    of_class = group("pg", 1, priorityClassName="high")
    # The server's answer may have the group before its class.
    explaining = explainer(of_class, *bodies, features=SEARCHING, others=[high])
    answer = explaining.explain(pods(bodies[-1])[0])
    assert answer is not None
    assert preemption_text.title(answer) == (
        "PodGroup default/pg (priority 100) fits on one if 1 pod is evicted:"
    )
    unknown = explainer(of_class, *bodies, features=SEARCHING).explain(pods(bodies[-1])[0])
    assert unknown is not None
    assert 'waiting for pods\'s pod group "pg"' in unknown.message


def test_a_pod_that_its_gang_does_not_need_evicts_on_its_own() -> None:
    bodies = [*fleet(one=2), *running("batch", "one", 5, "gpu-0"), *claims_of("x", "y")]
    bodies += [group("pg", 1, priority=10)]
    bodies += [member("a", claim_name="x"), member("b", claim_name="y")]
    explaining = explainer(*bodies, features=SEARCHING)
    first, second = map(explaining.explain, pods(*bodies[-2:]))
    assert first is not None
    assert second is not None
    assert preemption_text.title(first) == (
        "pod default/a (priority 10) fits on one, and no pod has to be evicted"
    )
    assert preemption_text.title(second) == (
        "pod default/b (priority 10) fits on one if 1 pod is evicted:"
    )


def claims_of(*names: str) -> list[JsonObject]:
    return [claim(name, exactly()) for name in names]


def test_a_gang_that_fits_leaves_nothing_reserved() -> None:
    bodies = [*fleet(one=2), group("pg", 2), claim("x", exactly()), claim("y", exactly())]
    bodies += [member("a", claim_name="x"), member("b", claim_name="y")]
    explaining = explainer(*bodies, features=SEARCHING)
    for waiting in pods(*bodies[-2:]):
        answer = explaining.explain(waiting)
        assert answer is not None
        assert answer.outcome is PreemptionOutcome.FITS


def test_data_has_what_the_text_has() -> None:
    data = preemption_text.as_json(found(*FULL, budget("keep", 0, "batch"), *urgent()))
    assert data["isOn"]
    assert data["outcome"] == "evicts"
    assert data["summary"] == "pod default/urgent (priority 10) fits on one if 1 pod is evicted"
    assert data["victims"][0]["pod"] == "default/batch"
    assert data["violatedBudgets"] == ["default/keep"]
    refused = preemption_text.as_json(found(*FULL, *urgent(count=2)))
    assert refused["nodesByReason"] == {"not enough": 1}


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        pytest.param(gates.DEFAULT, False, id="off"),
        pytest.param(PREEMPTING, True, id="preemption"),
        pytest.param(gates.with_gates(gates.DEFAULT, {"DrayGangSearch": True}), True, id="gangs"),
    ],
)
def test_it_is_explained_where_the_scheduler_does_it(features: Features, expected: bool) -> None:
    assert pod_preemption.is_explained(features) is expected


def test_pods_that_leave_the_nominated_node_are_known_without_a_decision() -> None:
    going = [leaving(running("batch", "one", 5)), leaving(running("equal", "one", 10))]
    waiting, leaver, equal, stays = pods(
        urgent()[-1], *(bodies[-1] for bodies in going), user("stays", "one")
    )
    assert pod_preemption.under_way(waiting, [leaver], is_on=False) is None
    status = msgspec.structs.replace(waiting.status, nominated_node_name="one")
    nominated = msgspec.structs.replace(waiting, status=status)
    answer = pod_preemption.under_way(nominated, [leaver, equal, stays], is_on=False)
    assert answer is not None
    assert [victim.pod for victim in answer.victims] == ["default/batch"]
    elsewhere = msgspec.structs.replace(waiting.status, nominated_node_name="two")
    other = msgspec.structs.replace(waiting, status=elsewhere)
    assert pod_preemption.under_way(other, [leaver], is_on=False) is None


def test_equal_pods_are_decided_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decided: list[str] = []
    decide = PreemptionExplainer._decide

    def counted(self: PreemptionExplainer, waiting: Pod) -> PodPreemption:
        decided.append(waiting.metadata.name)
        return decide(self, waiting)

    monkeypatch.setattr(PreemptionExplainer, "_decide", counted)
    waiting = [
        pod(name, "", priority=priority) for name, priority in (("a", 5), ("b", 5), ("c", 6))
    ]
    explaining = explainer(*fleet(one=1), *waiting)
    answers = [explaining.explain(one) for one in pods(*waiting)]
    assert decided == ["a", "c"]
    assert [answer.pod for answer in answers if answer] == ["default/a", "default/b", "default/c"]


def test_messages_with_names_are_those_of_the_pod() -> None:
    waiting = [pod(name, template_name="none", priority=5) for name in ("a", "b")]
    explaining = explainer(*fleet(one=1), *waiting)
    for one in pods(*waiting):
        answer = explaining.explain(one)
        assert answer is not None
        assert answer.message == f'pod "{one.metadata.key}": ResourceClaim not created yet'


def test_a_decision_that_was_cut_short_is_never_taken_for_a_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    partly = [*running("a", "one", 1, "gpu-0"), *running("b", "one", 2, "gpu-1")]
    bodies = [*fleet(one=3), *partly, *urgent(count=2)]
    whole = found(*bodies)
    outcomes = set()
    for effort in range(200):
        monkeypatch.setattr(preemption_explainer, "_EFFORT", effort)
        answer = found(*bodies)
        assert answer == whole or answer.outcome is PreemptionOutcome.UNDECIDED
        outcomes.add(answer.outcome)
    assert outcomes == {PreemptionOutcome.UNDECIDED, PreemptionOutcome.EVICTS}
