"""Objects of manifests become pods, the claims of these, and other objects of the cluster."""

from __future__ import annotations

import copy
import datetime
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from dray.api import kinds
from dray.api.admission.refusals import Refused
from dray.api.conversion import typed_objects
from dray.api.ids import GroupResource, ObjectKey
from dray.api.templates import stateful_pods
from dray.api.templates.workload_types import StatefulSet
from dray.api.types.dra import ResourceClaim
from dray.api.types.meta import JsonObject
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.api.types.workloads import PodGroup
from dray.planner import cluster_model
from dray.planner.cluster_model import ClusterModel
from dray.planner.submission import pod_makers, submitted_pods
from dray.planner.submission.made_claims import TemplateClaims
from dray.planner.submission.pod_admission import PodAdmission
from dray.planner.submission.pod_makers import PodBody
from dray.planner.submission.quota_book import QuotaBook
from dray.planner.submission.submitted_pods import Submission, SubmittedPod
from dray.scheduling.state import DEFAULT_SCHEDULER_NAME

PODS_LIMIT = 150_000
"""As many as a cluster of Kubernetes is made for."""
FOLLOWING_LIMIT = 10_000
"""The most pods that StatefulSets of the cluster make next; any user may have made these."""
NOW = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
_GROUP = ("scheduling.k8s.io", "PodGroup")
_CLAIM = ("resource.k8s.io", "ResourceClaim")
_PLAIN = cluster_model.TYPES.keys() - {_GROUP, _CLAIM} - pod_makers.MAKERS.keys()
"""Kinds that are there as soon as they are submitted."""
_REPLICA_SETS = GroupResource("apps", "replicasets")


class _Object(NamedTuple):
    """A submitted object with its group and kind."""

    type: tuple[str, str]
    document: JsonObject

    @property
    def namespace(self) -> str:
        return str(self.document["metadata"]["namespace"])


def expand(
    documents: Iterable[JsonObject],
    cluster: ClusterModel,
    namespace: str = "default",
    now: datetime.datetime = NOW,
) -> Submission:
    """Return the pods that controllers would make of `documents`, in their order.

    With them are the pods of the cluster that wait, which come before, and those that its
    StatefulSets make when these run; quotas are charged for the latter at the end, because it is
    open whether they are made.

    Objects without a namespace are in `namespace`. Those that make no pods are there before those
    that do, wherever they stand. Kinds that no plan depends on are left out. Raises ValueError or
    TypeError for an object that is not valid.
    """
    objects = [_described(document, namespace) for document in documents]
    plain = [item for item in objects if item.type in _PLAIN]
    claims = [_claim(item) for item in objects if item.type == _CLAIM]
    run = _Expansion(cluster.with_objects(map(_typed, plain)), claims, now)
    for item in objects:
        if item.type == _GROUP:
            run.add_group(item)
    pods = [pod for item in objects if item.type in pod_makers.MAKERS for pod in run.pods_of(item)]
    first = submitted_pods.waiting(cluster)
    following = [*run.following(item.pod for item in first)]
    return Submission(run.cluster, pods, [*first, *following])


def _described(document: JsonObject, namespace: str) -> _Object:
    group, _ = kinds.parse_api_version(str(document.get("apiVersion", "")))
    # Defaults are filled in below.
    document = copy.deepcopy(document)
    metadata = dict(document.get("metadata") or {})
    kind = kinds.by_kind(group, str(document.get("kind", "")))
    if kind is not None and kind.namespaced:
        metadata["namespace"] = metadata.get("namespace") or namespace
    name = metadata.get("name") or metadata.get("generateName", "")
    metadata["uid"] = f"{document.get('kind')}-{metadata.get('namespace', '')}-{name}"
    return _Object((group, str(document.get("kind", ""))), {**document, "metadata": metadata})


def _typed(item: _Object) -> object:
    return typed_objects.decode(item.document, cluster_model.TYPES[item.type])


def _claim(item: _Object) -> ResourceClaim:
    # A new object has no status yet, whatever the manifest says.
    document = {key: value for key, value in item.document.items() if key != "status"}
    return typed_objects.decode(document, ResourceClaim)


class _Expansion:
    """The cluster while objects are submitted one after the other."""

    def __init__(
        self, cluster: ClusterModel, claims: Iterable[ResourceClaim], now: datetime.datetime
    ) -> None:
        self._admission = PodAdmission(cluster)
        self._quotas = QuotaBook(cluster, now)
        existing = {claim.key for claim in cluster.of(ResourceClaim)}
        new = [claim for claim in claims if claim.key not in existing and self._admits(claim)]
        self.cluster = cluster.with_objects(new)
        self._claims = TemplateClaims(self.cluster, self._quotas)
        self._pods = {pod.metadata.key for pod in cluster.of(Pod)}
        self._taken = set(self._pods)
        self._owners = set(map(submitted_pods.workload_of, cluster.of(Pod)))
        self._last: tuple[JsonObject, Pod] | None = None
        self._made = self._following = 0

    def _admits(self, claim: ResourceClaim) -> bool:
        try:
            self._admission.check_namespace(claim.metadata.namespace)
            self._quotas.charge_claim(claim)
        except Refused:
            return False
        return True

    def add_group(self, item: _Object) -> None:
        """Add a PodGroup with the claims that its pods share; a refused one does not exist."""
        key = ObjectKey(item.namespace, item.document["metadata"].get("name", ""))
        if any(group.metadata.key == key for group in self.cluster.of(PodGroup)):
            return
        try:
            self._admission.check_namespace(item.namespace)
            group, claims = self._claims.for_group(self._admission.group(item.document))
        except Refused:
            return
        self.cluster = self.cluster.with_objects([group, *claims])

    def pods_of(self, item: _Object) -> Iterator[SubmittedPod]:
        """Yield the pods of one object; those that the API server refuses say so."""
        owner = f"{item.type[1].lower()}/{item.document['metadata'].get('name', '')}"
        refusal = self._refusal_of(item)
        before = ""
        # Counted here: the pods of a mistyped number of replicas would not fit into memory.
        for body in pod_makers.MAKERS[item.type](item.document, self.cluster.of(Node)):
            self._made += 1
            if self._made > PODS_LIMIT:
                raise ValueError(f"{owner}: a plan has at most {PODS_LIMIT} pods")
            pod = self._submitted(body, item.namespace, owner, refusal)
            if body.is_ordered:
                pod = pod._replace(after=before)
                before = pod.pod.metadata.uid
            yield pod

    def following(self, waiting: Iterable[Pod]) -> Iterator[SubmittedPod]:
        """Yield the pods that StatefulSets of the cluster make when those that wait run."""
        by_set: dict[tuple[str, str, str], list[Pod]] = {}
        for pod in waiting:
            by_set.setdefault(submitted_pods.workload_of(pod), []).append(pod)
        for stateful_set in self.cluster.of(StatefulSet):
            metadata = stateful_set.metadata
            pods = by_set.get((metadata.namespace, kinds.STATEFUL_SET.kind, metadata.name))
            is_ordered = stateful_pods.is_ordered(stateful_set)
            if pods and is_ordered and not metadata.deletion_timestamp:
                yield from self._following_in(stateful_set, pods)

    def _following_in(
        self, stateful_set: StatefulSet, waiting: Sequence[Pod]
    ) -> Iterator[SubmittedPod]:
        """Yield the pods of one StatefulSet; none after one that the API server refuses."""
        metadata, template = stateful_set.metadata, stateful_set.spec.template
        by_name = {pod.metadata.name: pod.metadata.uid for pod in waiting}
        before = ""
        for ordinal in stateful_pods.ordinals(stateful_set):
            name = f"{metadata.name}-{ordinal}"
            before = by_name.get(name, before)
            if ObjectKey(metadata.namespace, name) in self._pods:
                continue
            if not before:
                # It comes before all that wait: it is being made, whatever the plan does.
                return
            body = stateful_pods.pod_body(stateful_set, ordinal, metadata.name, template)
            owner = f"statefulset/{metadata.name}"
            made = self._submitted(PodBody(body, ordinal), metadata.namespace, owner, "")
            self._following += 1
            if made.refusal or self._following > FOLLOWING_LIMIT:
                return
            yield made._replace(after=before)
            before = made.pod.metadata.uid

    def _refusal_of(self, item: _Object) -> str:
        """Return why the server refuses a workload; empty for a pod, which is charged as such."""
        kind = kinds.by_kind(*item.type)
        assert kind is not None
        name = item.document["metadata"].get("name", "")
        if (item.namespace, kind.kind, name) in self._owners:
            # What an update of it does to its pods depends on its strategy and its past.
            return f'{kind.plural} "{name}" already exists and has pods'
        try:
            self._admission.check_namespace(item.namespace)
            if item.type != ("", "Pod"):
                self._quotas.charge_object(GroupResource(kind.group, kind.plural), item.namespace)
            if item.type == ("apps", "Deployment"):
                self._quotas.charge_object(_REPLICA_SETS, item.namespace)
        except Refused as error:
            return str(error)
        return ""

    def _submitted(self, body: PodBody, namespace: str, owner: str, refusal: str) -> SubmittedPod:
        claims: Sequence[ResourceClaim] = ()
        try:
            pod = self._admitted(body, namespace)
        except Refused as error:
            # Named all the same, so that a plan can speak about it.
            refusal = refusal or str(error)
            pod = typed_objects.decode({**kinds.POD.type_meta, **body.document}, Pod)
        is_new = True
        if body.document["metadata"].get("name"):
            is_new = pod.metadata.key not in self._taken
        pod = self._named(pod, namespace, body, owner)
        if not is_new:
            refusal = refusal or f'pods "{pod.metadata.name}" already exists'
        if not refusal:
            self._taken.add(pod.metadata.key)
        refusal = refusal or _not_scheduled(pod)
        if not refusal:
            try:
                self._quotas.charge_pod(pod)
                pod, claims = self._claims.for_pod(pod)
            except Refused as error:
                refusal = str(error)
        return SubmittedPod(pod, claims, owner, body.ordinal, refusal=refusal)

    def _admitted(self, body: PodBody, namespace: str) -> Pod:
        """Return a pod after admission; equal pods are decoded once."""
        if self._last is None or self._last[0] is not body.document:
            pod = self._admission.pod(body.document, namespace)
            self._last = body.document, pod
        return self._last[1]

    def _named(self, pod: Pod, namespace: str, body: PodBody, owner: str) -> Pod:
        metadata = pod.metadata
        name = metadata.name or self._free_name(namespace, metadata.generate_name, body.ordinal)
        metadata = msgspec.structs.replace(
            metadata, name=name, namespace=namespace, uid=f"{owner}-{namespace}-{body.ordinal}"
        )
        return msgspec.structs.replace(pod, metadata=metadata)

    def _free_name(self, namespace: str, prefix: str, number: int) -> str:
        while ObjectKey(namespace, f"{prefix}{number}") in self._taken:
            number += 1
        self._taken.add(ObjectKey(namespace, f"{prefix}{number}"))
        return f"{prefix}{number}"


def _not_scheduled(pod: Pod) -> str:
    """Return why the scheduler does not decide for a pod; empty if it does."""
    if pod.spec.node_name:
        return "spec.nodeName is set: the scheduler does not decide for this pod"
    name = pod.spec.scheduler_name or DEFAULT_SCHEDULER_NAME
    if name != DEFAULT_SCHEDULER_NAME:
        return f"spec.schedulerName is {name}: another scheduler decides for this pod"
    return ""
