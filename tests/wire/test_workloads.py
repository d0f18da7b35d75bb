"""Workloads of scheduling.k8s.io: stored and checked as Kubernetes does with its default gates."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from dray.apiserver.server import Settings
from tests.wire import serving
from tests.wire.serving import Api

WORKLOADS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/workloads"


def workload(*templates: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {"name": "w"},
        "spec": {"podGroupTemplates": list(templates), **spec},
    }


def template(name: str = "a", **fields: Any) -> dict[str, Any]:
    return {"name": name, "schedulingPolicy": {"gang": {"minCount": 2}}, **fields}


def with_workloads(conversation: Callable[[Api], Awaitable[None]], directory: Path) -> None:
    serving.with_api(conversation, directory, Settings(features=serving.all_alpha()))


def test_only_the_size_of_a_gang_changes(tmp_path: Path) -> None:
    async def conversation(api: Api) -> None:
        claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
        owner = {"apiGroup": "batch", "kind": "Job", "name": "j"}
        body = workload(template(resourceClaims=claims), template("b"), controllerRef=owner)
        made = await api("POST", WORKLOADS, body)
        assert made.status == 201, made.json
        assert made.json["spec"]["controllerRef"] == owner
        changed = made.json
        changed["spec"]["podGroupTemplates"][0]["schedulingPolicy"]["gang"]["minCount"] = 3
        updated = await api("PUT", f"{WORKLOADS}/w", changed)
        assert updated.status == 200, updated.json
        changes: list[tuple[Callable[[Any], Any], str]] = [
            (lambda spec: spec["podGroupTemplates"].pop(), "item may not be removed"),
            (lambda spec: spec["podGroupTemplates"].append(template("c")), "item may not be added"),
            (lambda spec: spec["controllerRef"].update(name="k"), "field is immutable"),
            (
                lambda spec: spec["podGroupTemplates"][0]["resourceClaims"].clear(),
                "field is immutable",
            ),
        ]
        for break_rule, message in changes:
            broken = (await api("GET", f"{WORKLOADS}/w")).json
            break_rule(broken["spec"])
            refused = await api("PUT", f"{WORKLOADS}/w", broken)
            assert refused.status == 422
            assert message in refused.json["message"]
        unnamed = (await api("GET", f"{WORKLOADS}/w")).json
        del unnamed["metadata"]["resourceVersion"]
        assert (await api("PUT", f"{WORKLOADS}/w", unnamed)).status == 422
        deleted = await api("DELETE", f"{WORKLOADS}/w")
        assert deleted.json["kind"] == "Status"

    with_workloads(conversation, tmp_path)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (workload(), "spec"),
        (workload(compositePodGroupTemplates=[template()]), "spec"),
        (workload(template("A")), "spec.podGroupTemplates[0].name"),
        (workload(template(), template()), "spec.podGroupTemplates[1]"),
        (workload(*(template(f"t{n}") for n in range(9))), "spec.podGroupTemplates"),
        (workload(template(priority=1), template("b", priority=2)), "spec"),
        (
            workload(template(schedulingPolicy={})),
            "spec.podGroupTemplates[0].schedulingPolicy",
        ),
        (
            workload(template(schedulingPolicy={"gang": {"minCount": -1}})),
            "spec.podGroupTemplates[0].schedulingPolicy.gang.minCount",
        ),
        (
            workload(template(), controllerRef={"kind": "a/b", "name": "n"}),
            "spec.controllerRef.kind",
        ),
    ],
)
def test_what_is_refused(body: dict[str, Any], field: str, tmp_path: Path) -> None:
    async def conversation(api: Api) -> None:
        refused = await api("POST", WORKLOADS, body)
        assert refused.status == 422, refused.body
        assert [cause["field"] for cause in refused.json["details"]["causes"]] == [field]

    with_workloads(conversation, tmp_path)
