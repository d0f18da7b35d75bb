"""What rows of tables say, as kubectl prints them."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from dray.api import kinds
from dray.apiserver.printing import cells, tables

NOW = datetime.datetime(2026, 1, 10, tzinfo=datetime.UTC)


def pod(status: dict[str, Any], *, deleted: bool = False, **spec: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "p", "creationTimestamp": "2026-01-09T23:59:00Z"}
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-10T00:00:00Z"
    return {"metadata": metadata, "spec": {"containers": [{"name": "c"}], **spec}, "status": status}


def container(**state: Any) -> dict[str, Any]:
    return {"name": "c", "state": state, "ready": "running" in state}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(pod({"phase": "Pending"}), ["0/1", "Pending", "0"], id="pending"),
        pytest.param(
            pod({"phase": "Running", "containerStatuses": [container(running={})]}),
            ["1/1", "Running", "0"],
            id="running",
        ),
        pytest.param(
            pod(
                {
                    "phase": "Failed",
                    "containerStatuses": [container(terminated={"exitCode": 3, "reason": "Error"})],
                }
            ),
            ["0/1", "Error", "0"],
            id="failed",
        ),
        pytest.param(
            pod(
                {
                    "phase": "Running",
                    "containerStatuses": [
                        {
                            **container(waiting={"reason": "CrashLoopBackOff"}),
                            "restartCount": 2,
                            "lastState": {"terminated": {"finishedAt": "2026-01-09T23:59:30Z"}},
                        }
                    ],
                }
            ),
            ["0/1", "CrashLoopBackOff", "2 (30s ago)"],
            id="crash-loop",
        ),
        pytest.param(
            pod({"phase": "Running", "containerStatuses": [container(running={})]}, deleted=True),
            ["1/1", "Terminating", "0"],
            id="terminating",
        ),
        pytest.param(
            pod(
                {
                    "phase": "Pending",
                    "initContainerStatuses": [{"name": "i", "state": {"running": {}}}],
                },
                initContainers=[{"name": "i"}, {"name": "j"}],
            ),
            ["0/1", "Init:0/2", "0"],
            id="initializing",
        ),
        pytest.param(
            pod(
                {
                    "phase": "Pending",
                    "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}],
                }
            ),
            ["0/1", "SchedulingGated", "0"],
            id="gated",
        ),
    ],
)
def test_pod(document: dict[str, Any], expected: list[str]) -> None:
    assert cells.cells("", "Pod", document, NOW)[1:4] == expected


@pytest.mark.parametrize(
    ("status", "deleted", "expected"),
    [
        ({}, False, "pending"),
        ({"allocation": {}}, False, "allocated"),
        ({"allocation": {}, "reservedFor": [{}]}, False, "allocated,reserved"),
        ({"allocation": {}, "reservedFor": [{}]}, True, "deleted,allocated,reserved"),
        ({}, True, "deleted"),
    ],
)
def test_claim_state(status: dict[str, Any], deleted: bool, expected: str) -> None:
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {}
    assert cells.claim_state({"metadata": metadata, "status": status}) == expected


@pytest.mark.parametrize("kind", [k for k in kinds.KINDS if k.is_stored], ids=lambda k: k.kind)
def test_a_bare_object_has_a_cell_for_every_column(kind: kinds.Kind) -> None:
    document = {"metadata": {"name": "x", "creationTimestamp": "2026-01-09T23:59:00Z"}}
    made = tables.table(kind, [document], {}, now=NOW)
    assert len(made["rows"][0]["cells"]) == len(kind.columns)
