"""The pods, claims and templates of files of which `dray plan capacity` counts copies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dray.api.types.dra import ResourceClaim, ResourceClaimTemplate
from dray.api.types.meta import JsonObject
from dray.api.types.pods import Pod
from dray.cli.command_errors import WrongUsage
from dray.cli.plan import plan_inputs
from dray.planner.capacity.report import CountedPod
from dray.planner.cluster_model import ClusterModel
from dray.planner.submission.submitted_pods import SubmittedPod
from dray.scheduling import pod_copies
from dray.scheduling.pod_copies import PodCopies

_ObjectName = tuple[str, str, str]
"""Kind, namespace and name."""


def counted_pods(
    files: Sequence[str], cluster: ClusterModel, namespace: str = ""
) -> tuple[ClusterModel, list[CountedPod]]:
    """Return the cluster with the other objects of the files, and the pods to count.

    Raises WrongUsage for files without anything to count, and for pods that do not come one by one.
    """
    namespace = namespace or "default"
    documents = plan_inputs.checked_documents(files, cluster.features)
    names = {_name(document, namespace) for document in documents}
    # Pods and workloads that exist already can be counted too: copies have other names.
    others = cluster.without(Pod, lambda _: True)
    submission = plan_inputs.expanded(files, documents, others, namespace)
    existing: dict[type[Any], Sequence[Any]] = {Pod: cluster.of(Pod)}
    cluster = ClusterModel({**submission.cluster.objects, **existing}, cluster.features)
    wanted: dict[str, CountedPod] = {}
    for item in submission.pods:
        name = item.owner or f"pod/{item.pod.metadata.name}"
        if name not in wanted:
            _require_one_by_one(name, item)
            wanted[name] = CountedPod(name, PodCopies(item.pod, item.claims), item.refusal)
    unused = names - {used for item in submission.pods for used in _used(item)}
    claims = list(_of_claims(cluster, unused))
    if not wanted and not claims:
        raise WrongUsage(
            f"there is nothing in {', '.join(files)} to count: no pods, claims or templates"
        )
    return cluster, [*wanted.values(), *claims]


def _name(document: JsonObject, namespace: str) -> _ObjectName:
    metadata = document.get("metadata") or {}
    kind, name = str(document.get("kind", "")), str(metadata.get("name", ""))
    return kind, str(metadata.get("namespace") or namespace), name


def _require_one_by_one(name: str, item: SubmittedPod) -> None:
    if name.startswith("daemonset/"):
        raise WrongUsage(
            f"{name} has one pod on each node, so more of them do not fit",
            "dray plan -f FILE says on which nodes they run.",
        )
    group = item.pod.spec.scheduling_group
    if group is not None:
        raise WrongUsage(
            f"the pods of {name} are placed together with their PodGroup, not one by one",
            "dray plan -f FILE says whether the group fits.",
        )


def _used(item: SubmittedPod) -> Iterator[_ObjectName]:
    """Yield the claims and templates that a pod uses."""
    namespace = item.pod.metadata.namespace
    for source in item.pod.spec.resource_claims:
        yield "ResourceClaim", namespace, source.resource_claim_name or ""
        yield "ResourceClaimTemplate", namespace, source.resource_claim_template_name or ""


def _of_claims(cluster: ClusterModel, names: set[_ObjectName]) -> Iterator[CountedPod]:
    """Yield pods that need a claim like one of these, or one from a template, and nothing else."""
    for claim in cluster.of(ResourceClaim):
        namespace, name = claim.metadata.namespace, claim.metadata.name
        if ("ResourceClaim", namespace, name) in names:
            yield CountedPod(f"resourceclaim/{name}", pod_copies.of_claim(claim.spec, namespace))
    for template in cluster.of(ResourceClaimTemplate):
        namespace, name = template.metadata.namespace, template.metadata.name
        if ("ResourceClaimTemplate", namespace, name) in names:
            copies = pod_copies.of_claim(template.spec.spec, namespace)
            yield CountedPod(f"resourceclaimtemplate/{name}", copies)
