"""The pods, claims and templates of files of which `dray plan capacity` counts copies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dray.api.types.dra import ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate
from dray.cli.command_errors import CommandError, WrongUsage
from dray.cli.inputs import manifests
from dray.planner.cluster_model import ClusterModel
from dray.planner.submission import expansion
from dray.planner.submission.submitted_pods import Submission, SubmittedPod
from dray.scheduling import pod_copies
from dray.scheduling.pod_copies import PodCopies


def copies(
    files: Sequence[str], cluster: ClusterModel, namespace: str = ""
) -> tuple[Submission, dict[str, PodCopies]]:
    """Return the pods to count by TYPE/NAME, and the cluster with the other objects of the files.

    Raises WrongUsage for files without anything to count, and for pods of which there cannot be
    more. Raises CommandError for pods that the API server would refuse.
    """
    documents = [manifest.document for manifest in manifests.read(files, recursive=True)]
    submission = expansion.expand(documents, cluster, namespace or "default")
    wanted: dict[str, PodCopies] = {}
    for item in submission.pods:
        name = item.owner or f"pod/{item.pod.metadata.name}"
        if name not in wanted:
            _require_countable(name, item)
            wanted[name] = PodCopies(item.pod, item.claims)
    keys = {
        (document.get("kind"), *_key(document, namespace or "default")) for document in documents
    }
    for kind, type_ in (
        ("ResourceClaim", ResourceClaim),
        ("ResourceClaimTemplate", ResourceClaimTemplate),
    ):
        for found in submission.cluster.of(type_):
            key = (kind, found.metadata.namespace, found.metadata.name)
            if key in keys and key not in set(_used(submission.pods)):
                wanted[f"{kind.lower()}/{found.metadata.name}"] = pod_copies.of_claim(
                    _spec(found), found.metadata.namespace
                )
    if not wanted:
        raise WrongUsage(f"there is nothing in {', '.join(files)} that needs devices or nodes")
    return submission, wanted
