"""The nodes that a pod may run on, whatever devices they have."""

from __future__ import annotations

from collections.abc import Iterable

from dray.api.types.nodes import Node
from dray.api.types.pods import Pod


def names_of(pod: Pod, nodes: Iterable[Node]) -> list[str]:
    """Return the nodes that the pod's node name and node selector allow."""
    required, name = pod.spec.node_selector, pod.spec.node_name
    return [
        node.metadata.name
        for node in nodes
        if name in ("", None, node.metadata.name)
        and required.items() <= node.metadata.labels.items()
    ]
