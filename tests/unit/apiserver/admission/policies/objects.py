"""Policies and bindings for tests, and a server that has them."""

from __future__ import annotations

from typing import Any

from dray.api.types.meta import JsonObject
from tests.unit.apiserver.world import Answer, World

GROUP = "/apis/admissionregistration.k8s.io/v1"
POLICIES = f"{GROUP}/validatingadmissionpolicies"
BINDINGS = f"{GROUP}/validatingadmissionpolicybindings"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def rules(*resources: str, group: str = "", **more: Any) -> JsonObject:
    """Return match constraints for resources of one group in its version v1."""
    rule = {
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "operations": ["*"],
        "resources": list(resources),
        **more,
    }
    return {"resourceRules": [rule]}


def policy(name: str = "p", *expressions: str, **spec: Any) -> JsonObject:
    """Return a policy about config maps, unless `spec` says something else."""
    return {
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": rules("configmaps"),
            "validations": [{"expression": expression} for expression in expressions],
            **spec,
        },
    }


def binding(name: str = "p", *actions: str, **spec: Any) -> JsonObject:
    """Return the binding of the policy of the same name."""
    return {
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": list(actions) or ["Deny"], **spec},
    }


def config_map(name: str = "c", **data: str) -> JsonObject:
    return {"metadata": {"name": name}, "data": data}


def enforce(server: World, made: JsonObject, *actions: str, **spec: Any) -> None:
    """Create a policy and its binding."""
    server.create(POLICIES, made)
    server.create(BINDINGS, binding(made["metadata"]["name"], *actions, **spec))


def enforcing(*expressions: str, **spec: Any) -> World:
    """Return a server with one policy that is bound."""
    server = World()
    enforce(server, policy("p", *expressions, **spec))
    return server


def denied(answer: Answer, why: str, name: str = "p") -> bool:
    """Return whether the policy of this name refused a request, with exactly this message."""
    refusal = f"ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: {why}"
    return answer.status == 422 and str(answer.message).endswith(f" is forbidden: {refusal}")
