"""Pods that are submitted, with the claims that are made for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dray.api.types.dra import ResourceClaim
from dray.api.types.pods import Pod
from dray.planner.cluster_model import ClusterModel


class SubmittedPod(NamedTuple):
    """A pod that somebody submits, or that a workload would make, with the claims made for it."""

    pod: Pod
    """Has a name, a namespace and a uid of its own."""
    claims: Sequence[ResourceClaim] = ()
    """Claims that templates give; the pod's status names them."""
    owner: str = ""
    """TYPE/NAME of the submitted object, such as deployment/web; the pod itself without one."""
    ordinal: int = 0
    """The number of the pod among those of its owner."""
    after: str = ""
    """The uid of a pod that has to run before this one is made; empty without one."""
    refusal: str = ""
    """Why the API server would refuse the pod or its claims, such as a quota; empty if not."""


class Submission(NamedTuple):
    """The pods of submitted objects, and the cluster with the other objects."""

    cluster: ClusterModel
    """Has the classes, slices, nodes, claims, templates and quotas that are submitted too."""
    pods: Sequence[SubmittedPod]
    """In the order in which they are made."""
