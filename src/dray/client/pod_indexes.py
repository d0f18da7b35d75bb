"""Index functions of caches that several components use."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from dray.api.ids import ObjectKey
from dray.api.semantics import pod_claims
from dray.api.types.pods import Pod


def group_of_pod(pod: Pod) -> Iterable[Hashable]:
    """Index pods by the key of their PodGroup."""
    name = pod_claims.group_name(pod)
    return (ObjectKey(pod.metadata.namespace, name),) if name else ()


def node_of_pod(pod: Pod) -> Iterable[Hashable]:
    """Index pods by the name of the node that they are bound to."""
    return (pod.spec.node_name,) if pod.spec.node_name else ()
