"""The pods that controllers make of workloads, as bodies in the order of their creation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from dray.api import kinds
from dray.api.conversion import typed_objects
from dray.api.templates import (
    daemon_pods,
    job_bodies,
    pod_bodies,
    stateful_pods,
    workload_types,
)
from dray.api.types.meta import JsonObject, ObjectMeta
from dray.api.types.nodes import Node
from dray.api.well_known import POD_TEMPLATE_HASH_LABEL


class PodBody(NamedTuple):
    """A pod that a controller makes."""

    document: JsonObject
    """Has a name, or a prefix of one as `generateName`."""
    ordinal: int
    is_ordered: bool = False
    """Whether it is made only when the pod before it runs."""


Maker = Callable[[JsonObject, Iterable[Node]], Iterator[PodBody]]


def _equal_pods(document: JsonObject, count: int) -> Iterator[PodBody]:
    return (PodBody(document, ordinal) for ordinal in range(count))


def _of_pod(document: JsonObject, nodes: Iterable[Node]) -> Iterator[PodBody]:
    yield PodBody({**document, "status": {}}, 0)


def _of_deployment(document: JsonObject, nodes: Iterable[Node]) -> Iterator[PodBody]:
    deployment = typed_objects.decode(document, workload_types.Deployment)
    metadata, template = deployment.metadata, deployment.spec.template
    body = pod_bodies.pod_from(template, kinds.REPLICA_SET, metadata)
    labels: Mapping[str, str] = body["metadata"].get("labels") or {}
    body["metadata"]["labels"] = {**labels, POD_TEMPLATE_HASH_LABEL: metadata.name}
    # A paused deployment that is new makes no ReplicaSet.
    count = 0 if deployment.spec.paused else workload_types.replicas(deployment)
    return _equal_pods(body, count)


def _of_replica_set(document: JsonObject, nodes: Iterable[Node]) -> Iterator[PodBody]:
    replica_set = typed_objects.decode(document, workload_types.ReplicaSet)
    template = replica_set.spec.template
    body = pod_bodies.pod_from(template, kinds.REPLICA_SET, replica_set.metadata)
    return _equal_pods(body, workload_types.replicas(replica_set))


def _of_replication_controller(document: JsonObject, nodes: Iterable[Node]) -> Iterator[PodBody]:
    controller = typed_objects.decode(document, workload_types.ReplicationController)
    template = controller.spec.template
    body = pod_bodies.pod_from(template, kinds.REPLICATION_CONTROLLER, controller.metadata)
    return _equal_pods(body, workload_types.replicas(controller))


def _of_stateful_set(document: JsonObject, nodes: Iterable[Node]) -> Iterator[PodBody]:
    stateful_set = typed_objects.decode(document, workload_types.StatefulSet)
    name, template = stateful_set.metadata.name, stateful_set.spec.template
    is_ordered = stateful_pods.is_ordered(stateful_set)
    for ordinal in stateful_pods.ordinals(stateful_set):
        body = stateful_pods.pod_body(stateful_set, ordinal, name, template)
        yield PodBody(body, ordinal, is_ordered)


def _of_daemon_set(document: JsonObject, nodes: Iterable[Node]) -> Iterator[PodBody]:
    daemon_set = typed_objects.decode(document, workload_types.DaemonSet)
    name, spec = daemon_set.metadata.name, daemon_pods.spec_of(daemon_set)
    suitable = (
        node.metadata.name
        for node in nodes
        if daemon_pods.matches(spec, node) and daemon_pods.tolerates(spec, node, daemon_pods.COME)
    )
    for ordinal, node in enumerate(suitable):
        yield PodBody(daemon_pods.pod_body(daemon_set, node, name), ordinal)


def _of_job(document: JsonObject, nodes: Iterable[Node]) -> Iterator[PodBody]:
    """Yield the pods that run at first; others follow when these have ended."""
    job = typed_objects.decode(document, workload_types.Job)
    spec = job.spec
    count = 1 if spec.parallelism is None else spec.parallelism
    if spec.completions is not None:
        count = min(count, spec.completions)
    if spec.suspend:
        count = 0
    if not job_bodies.is_indexed(job):
        yield from _equal_pods(job_bodies.body(job), count)
        return
    for index in range(count):
        yield PodBody(job_bodies.indexed_body(job, index), index)


def _of_cron_job(document: JsonObject, nodes: Iterable[Node]) -> Iterator[PodBody]:
    """Yield the pods of its next job."""
    cron_job = typed_objects.decode(document, workload_types.CronJob)
    if cron_job.spec.suspend:
        return iter(())
    metadata = _without_nulls(cron_job.metadata)
    spec: dict[str, Any] = cron_job.spec.job_template.get("spec") or {}
    return _of_job({**kinds.JOB.type_meta, "metadata": metadata, "spec": spec}, nodes)


def _without_nulls(metadata: ObjectMeta) -> dict[str, Any]:
    kept: dict[str, Any] = msgspec.to_builtins(
        ObjectMeta(name=metadata.name, namespace=metadata.namespace, uid=metadata.uid)
    )
    return kept


MAKERS: Final[Mapping[tuple[str, str], Maker]] = {
    ("", "Pod"): _of_pod,
    ("", "ReplicationController"): _of_replication_controller,
    ("apps", "DaemonSet"): _of_daemon_set,
    ("apps", "Deployment"): _of_deployment,
    ("apps", "ReplicaSet"): _of_replica_set,
    ("apps", "StatefulSet"): _of_stateful_set,
    ("batch", "CronJob"): _of_cron_job,
    ("batch", "Job"): _of_job,
}
"""Functions by group and kind; each gets the object and the nodes of the cluster."""
