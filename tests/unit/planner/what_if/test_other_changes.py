"""Pods that are left out, other feature gates, another policy, and all of it together."""

from __future__ import annotations

import pytest

from dray.api import features
from dray.api.ids import ObjectKey
from dray.api.types.core import ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus
from dray.api.types.dra import DeviceTaint
from dray.api.types.meta import ObjectMeta
from dray.planner.what_if import compare
from dray.planner.what_if.changes import Change, ImpossibleChange
from dray.planner.what_if.node_changes import CopyNode, RemoveNode
from dray.planner.what_if.other_changes import RemovePod, SetFeatures
from tests import builders
from tests.unit.planner.what_if.small_clusters import cluster, results, running, what_if


def test_a_pod_that_is_left_out_frees_its_devices_and_is_not_made_again() -> None:
    model = cluster(running("web", "n1", "gpu-0", "gpu-1"))
    found = what_if(model, RemovePod(ObjectKey("default", "web")))
    assert results(found) == {"web": "removed"}
    assert [count.pods for count in compare.room(found)["gpu"]] == [2, 4]
    assert found.is_good


def test_a_quota_has_room_again_only_for_pods_that_are_gone_for_good() -> None:
    claims = "gpu.deviceclass.resource.k8s.io/devices"
    quota = ResourceQuota(
        ObjectMeta(name="gpus", namespace="default"),
        ResourceQuotaSpec(hard={claims: "2", "pods": "2"}),
        ResourceQuotaStatus(hard={claims: "2", "pods": "2"}, used={claims: "2", "pods": "2"}),
    )
    model = cluster(running("web", "n1", "gpu-0"), running("b", "n2", "gpu-0"), quota)

    def used(change: Change) -> dict[str, str]:
        (changed,) = change.apply(model).cluster.of(ResourceQuota)
        return changed.status.used

    assert used(RemovePod(ObjectKey("default", "web"))) == {claims: "1", "pods": "1"}
    # Its controller makes it again, and that one is charged.
    assert used(RemoveNode("n1")) == {claims: "2", "pods": "2"}


def test_an_unknown_pod_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ImpossibleChange, match="no pod wob in namespace default; did you mean web"):
        RemovePod(ObjectKey("default", "wob")).apply(cluster(running("web", "n1")))
    ended = builders.pod("done", uid="done", status={"phase": "Succeeded"})
    with pytest.raises(ImpossibleChange, match="default/done has ended"):
        RemovePod(ObjectKey("default", "done")).apply(cluster(ended))


def test_feature_gates_decide_what_can_be_used() -> None:
    taint = DeviceTaint("worn", "", "NoSchedule")
    worn = builders.resource_slice(builders.gpu("gpu-0", taints=[taint]), node="n1")
    model = cluster(worn, nodes=["n1"], gpus=1)
    off = features.parse("DRADeviceTaintRules=false,DRADeviceTaints=false")
    found = what_if(model, SetFeatures(off))
    assert [count.pods for count in compare.room(found)["gpu"]] == [0, 1]
    with pytest.raises(ImpossibleChange, match="has these feature gates already"):
        SetFeatures(features.DEFAULT).apply(model)


def test_a_policy_places_the_pods_that_need_a_place() -> None:
    running_pods = [running("a", "n1", "gpu-0"), running("b", "n2", "gpu-0")]
    model = cluster(*running_pods, nodes=["n1", "n2", "n3"], gpus=3)
    found = {
        policy: results(what_if(model, RemoveNode("n1"), policy=policy))
        for policy in ("pack", "spread")
    }
    assert found == {"pack": {"a": "moves n2"}, "spread": {"a": "moves n3"}}


def test_a_copy_takes_the_place_of_a_removed_node() -> None:
    model = cluster(running("web", "n1", "gpu-0", "gpu-1"), running("b", "n2", "gpu-0"))
    found = what_if(model, CopyNode("n1"), RemoveNode("n1"))
    assert results(found) == {"web": "moves n1-copy-1"}


def test_pods_that_are_preempted_stop() -> None:
    model = cluster(
        running("high", "n1", "gpu-0", "gpu-1", priority=10),
        running("low", "n2", "gpu-0", "gpu-1", priority=1),
    )
    model = SetFeatures(features.parse("DrayPreemption=true")).apply(model).cluster
    found = what_if(model, RemoveNode("n1"))
    assert results(found) == {"high": "moves n2", "low": "stops"}
    assert found.running == 0
    assert not found.is_good
