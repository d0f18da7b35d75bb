"""Pods that are submitted, with the claims that are made for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dray.api.types.dra import ResourceClaim
from dray.api.types.pods import Pod


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
