"""The pods that `dray plan defrag --for` makes room for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dray.api.ids import ObjectKey
from dray.api.types.meta import JsonObject
from dray.api.types.pods import Pod
from dray.cli.command_errors import CommandError, WrongUsage
from dray.cli.plan import plan_inputs
from dray.planner.cluster_model import ClusterModel
from dray.planner.submission.submitted_pods import Submission, SubmittedPod
from dray.planner.what_if import evictions

_REFERENCES = {
    "ResourceClaim": "resourceClaimName",
    "ResourceClaimTemplate": "resourceClaimTemplateName",
}


def submitted(files: Sequence[str], cluster: ClusterModel, namespace: str = "") -> Submission:
    """Return the pods of the objects in files; a claim or template that none uses gets a pod.

    Of a workload that the cluster has already, these are its pods that wait. Raises CommandError
    for a pod that the API server would refuse, and WrongUsage for files without pods and claims.
    """
    documents = plan_inputs.checked_documents(files, cluster.features)
    documents += list(_pods_for_claims(documents))
    found = plan_inputs.expanded(files, documents, cluster, namespace)
    if not found.pods:
        raise WrongUsage(f"there is nothing in {', '.join(files)} that makes pods")
    existing = {_owner(pod) for pod in cluster.of(Pod)}
    owners = {(item.pod.metadata.namespace, item.owner) for item in found.pods}
    new = [item for item in found.pods if _submitted_owner(item) not in existing]
    for item in new:
        if item.refusal:
            key = item.pod.metadata.key
            raise CommandError(f"pod {key}: the API server refuses it: {item.refusal}")
    waiting = [item for item in found.waiting if _owner(item.pod) in owners & existing]
    return Submission(found.cluster, [*waiting, *new])


def _submitted_owner(item: SubmittedPod) -> tuple[str, str]:
    return item.pod.metadata.namespace, item.owner


def _owner(pod: Pod) -> tuple[str, str]:
    return pod.metadata.namespace, evictions.owner_of(pod)


def _pods_for_claims(documents: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """Yield a pod for each claim and template, if there is nothing else that makes pods."""
    others = {str(document.get("kind", "")) for document in documents} - _REFERENCES.keys()
    if others:
        return
    for document in documents:
        metadata = document.get("metadata") or {}
        key = ObjectKey(str(metadata.get("namespace") or ""), str(metadata.get("name", "")))
        reference = _REFERENCES[str(document["kind"])]
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"pod-for-{key.name}", **_namespace(key)},
            "spec": {
                "containers": [{"name": "main", "image": "pause"}],
                "resourceClaims": [{"name": "claim", reference: key.name}],
            },
        }


def _namespace(key: ObjectKey) -> JsonObject:
    return {"namespace": key.namespace} if key.namespace else {}
