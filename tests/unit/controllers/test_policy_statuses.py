"""The status of a policy tells what is wrong with its expressions."""

from __future__ import annotations

from typing import Any

from dray.api.types.meta import JsonObject
from dray.controllers.policy_statuses import PolicyStatuses
from tests.unit.controllers.world import World, with_loops


def policy(expression: str) -> JsonObject:
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": expression}],
        },
    }


async def observed(here: World, generation: int) -> JsonObject:
    async def check() -> Any:
        status = (await here.get("validatingadmissionpolicies", "p")).get("status", {})
        return status if status.get("observedGeneration") == generation else None

    status: JsonObject = await here.until(check, f"the status of generation {generation}")
    return status


@with_loops(PolicyStatuses)
async def test_a_wrong_field_is_told_until_it_is_corrected(here: World) -> None:
    await here.create(policy("object.spec.image == 'x'"))
    status = await observed(here, 1)
    (warning,) = status["typeChecking"]["expressionWarnings"]
    assert warning["fieldRef"] == "spec.validations[0].expression"
    assert warning["warning"].startswith("/v1, Kind=Pod: compilation failed: ")
    fixed = {"spec": {"validations": [{"expression": "!object.spec.hostNetwork"}]}}
    await here.patch("validatingadmissionpolicies", "p", fixed)
    assert (await observed(here, 2))["typeChecking"] == {}
