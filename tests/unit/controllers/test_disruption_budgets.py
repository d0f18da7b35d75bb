"""Disruption budgets count who may be disrupted."""

from __future__ import annotations

from typing import Any

from dray.api.types.meta import JsonObject
from dray.controllers.disruption_budgets import Budgets
from dray.controllers.workloads.deployments import Deployments
from dray.controllers.workloads.replicasets import ReplicaSets
from tests.unit.controllers.kubelet import Kubelet
from tests.unit.controllers.workloads.test_deployments import deployment, rolled_out
from tests.unit.controllers.world import World, with_loops

LOOPS = (Budgets, Deployments, ReplicaSets, Kubelet)


def budget(**spec: Any) -> JsonObject:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }


async def until_status(here: World, **expected: int) -> JsonObject:
    async def check() -> Any:
        status = (await here.get("poddisruptionbudgets", "web")).get("status", {})
        return status if expected.items() <= status.items() else None

    status: JsonObject = await here.until(check, f"a budget with {expected}")
    return status


@with_loops(*LOOPS)
async def test_what_may_be_missing_is_a_share_of_what_the_deployment_wants(here: World) -> None:
    await here.create(deployment(replicas=4))
    await rolled_out(here)
    await here.create(budget(maxUnavailable="25%"))
    status = await until_status(
        here, currentHealthy=4, desiredHealthy=3, expectedPods=4, disruptionsAllowed=1
    )
    (condition,) = status["conditions"]
    assert (condition["status"], condition["reason"]) == ("True", "SufficientPods")


@with_loops(*LOOPS)
async def test_a_minimum_is_compared_with_the_pods_there_are(here: World) -> None:
    await here.create(budget(minAvailable=3))
    await until_status(here, expectedPods=0, disruptionsAllowed=0)
    await here.create(deployment(replicas=4))
    await rolled_out(here)
    await until_status(here, currentHealthy=4, desiredHealthy=3, disruptionsAllowed=1)
