"""PodGroups are protected from the start, where there is a controller that lets them go."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.api import features
from dray.api.well_known import POD_GROUP_FINALIZER
from dray.apiserver.server import Settings
from tests.wire.serving import Api, with_api

GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"


@pytest.mark.parametrize(
    ("gate", "expected"), [(True, ["a.b/c", POD_GROUP_FINALIZER]), (False, ["a.b/c"])]
)
def test_a_new_group_is_protected_with_the_gate(
    gate: bool, expected: list[str], tmp_path: Path
) -> None:
    gates = features.with_gates(features.DEFAULT, {"GenericWorkload": gate})

    async def create(api: Api) -> list[str]:
        metadata = {"name": "g", "finalizers": ["a.b/c"]}
        body = {"metadata": metadata, "spec": {"schedulingPolicy": {"basic": {}}}}
        answer = await api("POST", GROUPS, body)
        assert answer.status == 201, answer.body
        found: list[str] = answer.json["metadata"]["finalizers"]
        return found

    assert with_api(create, tmp_path, Settings(features=gates)) == expected
