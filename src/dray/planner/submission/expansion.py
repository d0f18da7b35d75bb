"""Objects of manifests become pods, the claims of these, and other objects of the cluster."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dray.api.conversion import typed_objects
from dray.api.types.meta import JsonObject
from dray.api.types.pods import Pod
from dray.planner.cluster_model import ClusterModel
from dray.planner.submission.submitted_pods import Submission, SubmittedPod


def expand(
    documents: Iterable[JsonObject], cluster: ClusterModel, namespace: str = "default"
) -> Submission:
    """Return the pods that controllers would make of `documents`, in their order.

    Objects without a namespace are in `namespace`.
    """
    pods = []
    for number, document in enumerate(documents):
        if document.get("kind") == "Pod":
            pod = typed_objects.decode(document, Pod)
            metadata = msgspec.structs.replace(
                pod.metadata,
                namespace=pod.metadata.namespace or namespace,
                uid=f"submitted-{number}",
            )
            pods.append(SubmittedPod(msgspec.structs.replace(pod, metadata=metadata)))
    return Submission(cluster, pods)
