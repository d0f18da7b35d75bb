"""Random clusters: what is explained of preemption is what the scheduler decides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from dray.api.types.core import PodDisruptionBudget
from dray.api.types.pods import Pod
from dray.explain.pod import pod_context
from dray.explain.preemption import preemption_text
from dray.explain.preemption.pod_preemption import PreemptionOutcome
from dray.explain.preemption.preemption_explainer import PreemptionExplainer
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.decision import Decision, decide
from dray.scheduling.state import SchedulingObject, SchedulingState
from tests import rounds
from tests.properties.test_preemption import GATES, Cluster, decided
from tests.unit.scheduling.objects import NOW


def explainer(known: Iterable[SchedulingObject]) -> PreemptionExplainer:
    objects: dict[type[Any], list[Any]] = {}
    for item in known:
        objects.setdefault(type(item), []).append(item)
    context = pod_context.from_objects(objects, GATES)
    return PreemptionExplainer(context, objects.get(PodDisruptionBudget, ()))


def expected(decision: Decision) -> PreemptionOutcome:
    if isinstance(decision, NodeAssignment):
        return PreemptionOutcome.FITS
    if decision.preemption is not None:
        going = [one.metadata.deletion_timestamp is None for one in decision.preemption.victims]
        return PreemptionOutcome.EVICTS if any(going) else PreemptionOutcome.UNDER_WAY
    if decision.preemption_refusal is not None:
        return PreemptionOutcome.NOT_HELPFUL
    return PreemptionOutcome.UNDECIDED


def victims(known: Iterable[SchedulingObject], names: Sequence[str]) -> list[Pod]:
    return [one for one in known if isinstance(one, Pod) and str(one.metadata.key) in names]


@pytest.mark.random
@pytest.mark.parametrize("seed", rounds.seeds(100, long=1000))
def test_what_is_explained_is_what_the_scheduler_decides(seed: int) -> None:
    cluster = Cluster(seed)
    known, waiting = list(cluster.known.values()), cluster.preemptor
    [decision] = decide(SchedulingState.of(known, GATES), [waiting], now=NOW)
    explaining = explainer(known)
    found = explaining.explain(waiting)
    assert found is not None
    assert found.outcome is expected(decision)
    # Nothing of the decision stays.
    explaining._found.clear()
    assert explaining.explain(waiting) == found
    assert preemption_text.as_json(found)["summary"]
    if isinstance(decision, NodeAssignment):
        assert found.node == decision.node
    elif decision.preemption is not None:
        plan = decision.preemption
        names = [victim.pod for victim in found.victims]
        assert names == [str(victim.metadata.key) for victim in plan.victims]
        assert found.violated_budgets == tuple(map(str, plan.violated_budgets))
        assert found.node == plan.node
        assert isinstance(decided(known, victims(known, names), waiting), NodeAssignment)
    elif decision.preemption_refusal is not None:
        assert found.nodes == decision.preemption_refusal.nodes
        assert list(preemption_text.lines(found))
