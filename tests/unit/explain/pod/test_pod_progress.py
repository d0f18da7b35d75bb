"""Stages of a pod that depend on kinds that could not be read."""

from __future__ import annotations

import pytest

from dray.explain.pod import pod_progress
from dray.explain.pod.pod_context import PodContext
from dray.explain.pod.pod_progress import PodStage, StageState
from tests import builders


@pytest.mark.parametrize("kind", ["ResourceClaim", "ResourceSlice", "DeviceClass", "Node"])
def test_the_stage_of_devices_is_unknown_without_a_kind_that_it_needs(kind: str) -> None:
    claim = builders.claim(builders.request(), name="train")
    pod = builders.pod(claims={"gpu": "train"})
    context = PodContext(claims={claim.key: claim}, unread=frozenset({kind}))
    progress = pod_progress.inspect_pod(pod, context)
    devices = next(step for step in progress.steps if step.stage is PodStage.DEVICES)
    assert (devices.state, devices.unread) == (StageState.UNKNOWN, (kind,))
