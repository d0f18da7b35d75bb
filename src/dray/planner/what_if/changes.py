"""Changes of a cluster: what each has in common, and the errors of those that cannot be made."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.planner.cluster_model import ClusterModel
from dray.planner.what_if import evictions, freed_quotas

__all__ = ["Change", "Changed", "ImpossibleChange", "apply_all", "evict", "node_of", "unknown"]


class ImpossibleChange(ValueError):
    """A change that cannot be made, or that would change nothing. The message says why."""


class Changed(NamedTuple):
    """A cluster after a change, and the pods that it does not have any more."""

    cluster: ClusterModel
    evicted: Sequence[Pod] = ()
    """Pods that had to go; those that controllers make again wait in the cluster."""
    removed: Sequence[Pod] = ()
    """Pods that are left out on purpose: nobody makes them again."""
    drained: Sequence[Pod] = ()
    """Those of `evicted` that PodDisruptionBudgets protect, because their node is drained."""

    def then(self, change: Change) -> Changed:
        """Return the cluster after one more change. Raises ImpossibleChange."""
        one = change.apply(self.cluster)
        return Changed(
            one.cluster,
            (*self.evicted, *one.evicted),
            (*self.removed, *one.removed),
            (*self.drained, *one.drained),
        )


class Change(Protocol):
    """One thing that is different in a cluster."""

    def apply(self, cluster: ClusterModel) -> Changed:
        """Return the cluster with the change. Raises ImpossibleChange."""
        ...


def apply_all(cluster: ClusterModel, changes: Iterable[Change]) -> Changed:
    """Return the cluster after several changes, in their order. Raises ImpossibleChange.

    A pod that has to go is not placed before the last change is made.
    """
    return functools.reduce(Changed.then, changes, Changed(cluster))


def evict(cluster: ClusterModel, pods: Sequence[Pod]) -> Changed:
    """Return the cluster without some pods; what controllers make in their place waits in it."""
    left = evictions.without_pods(cluster, pods)
    again = evictions.made_again(pods, left)
    quotas = freed_quotas.freed(cluster, [pod for pod in pods if not evictions.is_made_again(pod)])
    return Changed(left.with_objects([*again, *quotas]), pods)


def node_of(cluster: ClusterModel, name: str) -> Node:
    """Return a node by its name. Raises ImpossibleChange with the nearest name."""
    names = {node.metadata.name: node for node in cluster.of(Node)}
    if name not in names:
        raise unknown("node", name, names)
    return names[name]


def unknown(what: str, name: str, known: Iterable[str], where: str = "") -> ImpossibleChange:
    """Return the error about a name that does not exist, with the nearest that does."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        advice = f"; did you mean {close[0]}?"
    elif names:
        more = ", …" if len(names) > 5 else ""
        advice = f"; there are: {', '.join(names[:5])}{more}"
    else:
        advice = f"; there is no {what} at all"
    return ImpossibleChange(f"there is no {what} {name}{where}{advice}")
