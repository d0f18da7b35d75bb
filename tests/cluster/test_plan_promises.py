"""What a plan promises is what happens when the same objects are applied."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml
from click.testing import CliRunner

from dray.api import features, kinds
from dray.api.conversion import typed_objects
from dray.api.semantics import pod_claims, pod_status
from dray.api.semantics.conditions import find_condition
from dray.api.types.dra import ResourceClaim
from dray.api.types.meta import JsonObject
from dray.api.types.pods import Pod
from dray.cli.main import main
from dray.planner import cluster_model
from dray.planner.cluster_model import ClusterModel
from dray.planner.placement import place as placing
from dray.planner.submission import expansion
from dray.scheduler import queue
from dray.testing import Cluster
from tests import builders, rounds
from tests.cluster import random_workloads

GANGS = "GenericWorkload=true"

Outcome = tuple[str, tuple[tuple[Any, ...], ...]]
"""A node and devices; nothing of both for a pod that waits."""
Outcomes = dict[str, Counter[Outcome]]
"""By owner, whose pods are equal; a pod that is told from others by its name is its own owner."""
T = TypeVar("T")


@pytest.mark.random
@pytest.mark.parametrize("seed", rounds.seeds(6, long=500))
def test_what_a_plan_promises_happens(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A plan has no time: a pod that waits is tried again before later pods exist.
    monkeypatch.setattr(queue, "MAX_BACKOFF_SECONDS", 0)
    monkeypatch.setattr(queue, "MAX_COST_SECONDS", 0)
    dice = random.Random(seed)
    gates = GANGS if dice.random() < 0.3 else ""
    fleet = random_workloads.fleet(dice, tmp_path)
    with Cluster(fleet, feature_gates=gates) as cluster:
        cluster.apply([*random_workloads.templates(dice), *random_workloads.priority_classes()])
        cluster.apply(random_workloads.shared_claim())
        before, after = _drawn(dice, "before", gates), _drawn(dice, "w", gates)
        random_workloads.avoid_races([*before, *after])
        _submit_all(cluster, before, gates)
        _submit_all(cluster, after, gates)


def test_a_stateful_set_goes_on_when_its_pod_no_longer_waits() -> None:
    """Its next pods take CPUs before a pod that is submitted later."""
    term = {
        "labelSelector": {"matchLabels": {"app": "wanted"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    near = {"podAffinity": {random_workloads.REQUIRED: [term]}}
    labels = {"app": "near", random_workloads.ORDERED_LABEL: ""}
    waiting = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "near"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": _cpus(20, affinity=near)},
        },
    }
    with Cluster("quickstart") as cluster:
        _submit_all(cluster, [waiting], "")
        _submit_all(cluster, [_pod("wanted", 1), _pod("late", 40)], "")
        assert not cluster.get("pods", "late")["spec"].get("nodeName")


def _pod(name: str, cpus: int) -> JsonObject:
    spec = _cpus(cpus, nodeSelector={"kubernetes.io/hostname": "gpu-0"})
    metadata = {"name": name, "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _cpus(count: int, **spec: Any) -> JsonObject:
    resources = {"requests": {"cpu": str(count)}}
    return {"containers": [{"name": "c", "image": "pause", "resources": resources}], **spec}


def _drawn(dice: random.Random, prefix: str, gates: str) -> list[JsonObject]:
    drawn: list[JsonObject] = []
    for number in range(dice.randint(1, 4)):
        if gates and dice.random() < 0.4:
            drawn += random_workloads.gang(dice, f"{prefix}{number}", dice.randint(1, 3))
        else:
            drawn.append(random_workloads.workload(dice, f"{prefix}{number}"))
    return sorted(drawn, key=lambda document: document["kind"] != "PodGroup")


def _submit_all(cluster: Cluster, documents: Sequence[JsonObject], gates: str) -> None:
    """Apply objects one after the other; after each, all pods are where the plan has them."""
    enabled = features.parse(gates)
    model = _model(cluster, enabled)
    for count, document in enumerate(documents, start=1):
        submission = expansion.expand(documents[:count], model)
        plan = placing.place(submission.cluster, [*submission.waiting, *submission.pods])
        after = plan.cluster_after(submission.cluster)
        promised = _outcomes(after.of(Pod), after.of(ResourceClaim))
        cluster.apply(document)

        def has_happened(wanted: Outcomes = promised) -> bool:
            return _settled(cluster) == wanted

        try:
            cluster.wait_for(has_happened, timeout_seconds=60)
        except AssertionError:
            assert _settled(cluster) == promised, f"after {document}"


def _model(cluster: Cluster, enabled: features.Features) -> ClusterModel:
    objects: list[Any] = []
    for (group, name), type_ in cluster_model.TYPES.items():
        kind = kinds.served(group, name)
        if name != "PodGroup" or enabled.generic_workload:
            objects += _typed(cluster, kind.plural, type_)
    return ClusterModel(features=enabled).with_objects(objects)


def _typed(cluster: Cluster, plural: str, type_: type[T]) -> list[T]:
    kind = kinds.by_name(plural)
    assert kind is not None
    return [
        typed_objects.decode({**kind.type_meta, **found}, type_) for found in cluster.list(plural)
    ]


def _settled(cluster: Cluster) -> Outcomes | None:
    """Return where the pods are; None as long as the scheduler has not decided for one of them."""
    pods = [pod for pod in _typed(cluster, "pods", Pod) if pod_status.is_active(pod)]
    for pod in pods:
        decided = find_condition(pod.status.conditions, "PodScheduled")
        if decided is None or (decided.status == "True") != bool(pod.spec.node_name):
            return None
    return _outcomes(pods, _typed(cluster, "resourceclaims", ResourceClaim))


def _outcomes(pods: Iterable[Pod], claims: Iterable[ResourceClaim]) -> Outcomes:
    by_key = {claim.key: claim for claim in claims}
    outcomes: Outcomes = {}
    for pod in pods:
        devices = [
            (result.driver, result.pool, result.device, *sorted(result.consumed_capacity.items()))
            for key in pod_claims.used_claims(pod)
            for allocation in [by_key[key].status.allocation]
            if allocation is not None and pod.spec.node_name
            for result in allocation.devices.results
        ]
        labels = pod.metadata.labels
        is_ordered = random_workloads.ORDERED_LABEL in labels
        owner = pod.metadata.name if is_ordered else labels["app"]
        outcomes.setdefault(owner, Counter())[pod.spec.node_name, tuple(sorted(devices))] += 1
    return outcomes


def test_the_command_asks_the_cluster_of_the_kubeconfig(tmp_path: Path) -> None:
    """Objects without a namespace are in that of the context, and nothing is written."""
    with Cluster("quickstart") as cluster:
        config = yaml.safe_load(cluster.kubeconfig.read_text())
        config["contexts"][0]["context"]["namespace"] = "team"
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(config))
        file = tmp_path / "pod.yaml"
        file.write_text(yaml.safe_dump(builders.pod_manifest()))
        options = ("plan", "-f", str(file), "--kubeconfig", str(path))
        missing = CliRunner().invoke(main, options)
        assert missing.exit_code == 1
        assert 'the API server refuses it: namespaces "team" not found' in missing.stdout
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        found = CliRunner().invoke(main, [*options, "-o", "json"])
        assert found.exit_code == 0, found.output
        (pod,) = json.loads(found.stdout)["pods"]
        assert (pod["namespace"], pod["node"]) == ("team", "gpu-0")
        assert not cluster.list("pods")
