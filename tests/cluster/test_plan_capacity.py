"""So many pods fit as `dray plan capacity` says: they are applied one by one, and one more."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dray.api import features, kinds
from dray.api.conversion import typed_objects
from dray.api.types.meta import JsonObject
from dray.planner import cluster_model
from dray.planner.capacity import pod_capacity
from dray.planner.cluster_model import ClusterModel
from dray.planner.submission import expansion
from dray.scheduling.pod_copies import PodCopies
from dray.testing import Cluster
from tests import rounds
from tests.cluster import random_workloads


@pytest.mark.random
@pytest.mark.parametrize("seed", rounds.seeds(8, long=60))
def test_so_many_pods_fit(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    with Cluster(random_workloads.fleet(dice, tmp_path)) as cluster:
        cluster.apply([*random_workloads.templates(dice), random_workloads.shared_claim()])
        for number in range(dice.randint(0, 3)):
            cluster.apply(_pod(dice, f"before-{number}"))
            _wait_for(cluster, _is_decided, f"before-{number}")
        pod = _pod(dice, "copy")
        counted = _capacity(cluster, pod)
        for number in range(counted):
            cluster.apply(_named(pod, number))
            _wait_for(cluster, _has_node, f"copy-{number}")
        cluster.apply(_named(pod, counted))
        cluster.wait_until_unschedulable(f"copy-{counted}")


def _pod(dice: random.Random, name: str) -> JsonObject:
    """Return a pod that takes a CPU at least, so that not too many fit, and evicts no other."""
    container: JsonObject = {"name": "c", "image": "pause"}
    container["resources"] = {"requests": {"cpu": dice.choice(("1", "2")), "memory": "64Mi"}}
    spec: JsonObject = {"containers": [container]}
    chosen = dice.choice(("", "whole", "whole", "partition", "share", "together"))
    if chosen:
        field = "resourceClaimName" if chosen == "together" else "resourceClaimTemplateName"
        spec["resourceClaims"] = [{"name": "gpu", field: chosen}]
        container["resources"]["claims"] = [{"name": "gpu"}]
    metadata = {"name": name, "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _named(pod: JsonObject, number: int) -> JsonObject:
    return {**pod, "metadata": {**pod["metadata"], "name": f"copy-{number}"}}


def _capacity(cluster: Cluster, pod: JsonObject) -> int:
    submission = expansion.expand([pod], _model(cluster))
    (item,) = submission.pods
    assert not item.refusal
    state = submission.cluster.state()
    copies = PodCopies(item.pod, item.claims)
    found = pod_capacity.capacity_of("copy", copies, submission.cluster, state)
    assert found.is_complete
    return found.pods


def _model(cluster: Cluster) -> ClusterModel:
    objects: list[Any] = []
    for (group, name), type_ in cluster_model.TYPES.items():
        kind = kinds.served(group, name)
        if name != "PodGroup":
            found = cluster.list(kind.plural)
            objects += [typed_objects.decode({**kind.type_meta, **item}, type_) for item in found]
    return ClusterModel(features=features.DEFAULT).with_objects(objects)


def _wait_for(cluster: Cluster, condition: Callable[[JsonObject], bool], name: str) -> None:
    cluster.wait_for(lambda: condition(cluster.get("pods", name)), f"pod {name}")


def _has_node(pod: JsonObject) -> bool:
    return bool(pod["spec"].get("nodeName"))


def _is_decided(pod: JsonObject) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(condition["type"] == "PodScheduled" for condition in conditions)
