"""Computes how large each ReplicaSet of a Deployment should be.

The arithmetic of pkg/controller/deployment, rolling.go and util/deployment_util.go.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from dray.api.templates.workload_types import Deployment, ReplicaSet, Template, replicas

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"

ROLLING_UPDATE, RECREATE = "RollingUpdate", "Recreate"
UNLIMITED = 2**31 - 1

Sizes = dict[str, int]
"""The desired number of replicas of each ReplicaSet, by its name."""


class RolloutBudget(NamedTuple):
    """The number of pods that may exist above the desired number, and that may be missing."""

    surge: int
    unavailable: int


def is_rolling(deployment: Deployment) -> bool:
    return deployment.spec.strategy.type != RECREATE


def budget(deployment: Deployment) -> RolloutBudget:
    """Return the budget. Of a Recreate deployment, or with no desired pods, none may be missing."""
    if not is_rolling(deployment):
        return RolloutBudget(0, 0)
    desired, update = replicas(deployment), deployment.spec.strategy.rolling_update
    surge = scaled(update.max_surge if update else None, desired, up=True)
    unavailable = scaled(update.max_unavailable if update else None, desired, up=False)
    if not surge and not unavailable:
        unavailable = 1
    return RolloutBudget(surge, min(unavailable, desired))


def scaled(value: int | str | None, total: int, *, up: bool) -> int:
    """Return a number as it is, or a percentage of `total`."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    share = int(value.removesuffix("%")) * total
    return -(-share // 100) if up else share // 100


def max_total(deployment: Deployment) -> int:
    return replicas(deployment) + budget(deployment).surge


def total(replica_sets: Iterable[ReplicaSet]) -> int:
    return sum(map(replicas, replica_sets))


def available(replica_sets: Iterable[ReplicaSet]) -> int:
    return sum(set_.status.available_replicas for set_ in replica_sets)


def are_equal(first: Template, second: Template) -> bool:
    """Return whether two pod templates are equal apart from the hash label."""
    return _without_hash(first) == _without_hash(second)


def _without_hash(template: Template) -> Template:
    metadata: dict[str, Any] = dict(template.get("metadata") or {})
    labels = {k: v for k, v in (metadata.pop("labels", None) or {}).items() if k != HASH_LABEL}
    metadata.pop("creationTimestamp", None)
    return {**template, "metadata": {**metadata, "labels": labels}}


def by_age(replica_sets: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """Sort ReplicaSets, the oldest first."""
    return sorted(
        replica_sets, key=lambda item: (item.metadata.creation_timestamp or "", item.metadata.name)
    )


def find_new(deployment: Deployment, replica_sets: Iterable[ReplicaSet]) -> ReplicaSet | None:
    """Return the ReplicaSet with the present template of the deployment, or None."""
    for replica_set in by_age(replica_sets):
        if are_equal(replica_set.spec.template, deployment.spec.template):
            return replica_set
    return None


def revision(replica_set: ReplicaSet) -> int:
    text = replica_set.metadata.annotations.get(REVISION, "")
    return int(text) if text.isdigit() else 0


def first_size(deployment: Deployment, old: Sequence[ReplicaSet]) -> int:
    """Return the initial size of a new ReplicaSet."""
    return _grown(deployment, total(old), 0)


def new_size(deployment: Deployment, old: Sequence[ReplicaSet], new: ReplicaSet) -> int:
    """Return how large the new ReplicaSet may be now."""
    if replicas(new) >= replicas(deployment):
        return replicas(deployment)
    return _grown(deployment, total(old) + replicas(new), replicas(new))


def _grown(deployment: Deployment, current_total: int, current: int) -> int:
    if not is_rolling(deployment):
        return replicas(deployment)
    room = max_total(deployment) - current_total
    return current + max(min(room, replicas(deployment) - current), 0)


def old_sizes(deployment: Deployment, old: Sequence[ReplicaSet], new: ReplicaSet) -> Sizes:
    """Return how far the old ones may shrink: first unhealthy pods, then surplus ones."""
    min_available = replicas(deployment) - budget(deployment).unavailable
    sizes = {replica_set.metadata.name: replicas(replica_set) for replica_set in old}
    new_unavailable = replicas(new) - new.status.available_replicas
    room = total(old) + replicas(new) - min_available - new_unavailable
    if room <= 0:
        return sizes
    for replica_set in by_age(old):
        unhealthy = sizes[replica_set.metadata.name] - replica_set.status.available_replicas
        fewer = max(min(unhealthy, room), 0)
        sizes[replica_set.metadata.name] -= fewer
        room -= fewer
    # Counts of what is available lag behind; what is already on its way out must not count twice.
    spare = min(available([*old, new]) - min_available, room)
    for replica_set in by_age(old):
        fewer = max(min(sizes[replica_set.metadata.name], spare), 0)
        sizes[replica_set.metadata.name] -= fewer
        spare -= fewer
    return sizes


def proportional_sizes(deployment: Deployment, active: Sequence[ReplicaSet]) -> Sizes:
    """Return sizes that keep the proportions of a deployment that is scaled amid a rollout."""
    allowed = max_total(deployment) if replicas(deployment) else 0
    to_add = allowed - total(active)
    ordered = _largest_first(active, newest_first=to_add > 0)
    sizes: Sizes = {}
    left = to_add
    for replica_set in ordered:
        change = _fraction(deployment, replica_set)
        change = max(min(change, left), 0) if to_add > 0 else min(max(change, left), 0)
        sizes[replica_set.metadata.name] = replicas(replica_set) + change
        left -= change
    if ordered:
        largest = ordered[0].metadata.name
        sizes[largest] = max(sizes[largest] + left, 0)
    return sizes


def _largest_first(active: Sequence[ReplicaSet], *, newest_first: bool) -> list[ReplicaSet]:
    ordered = by_age(active)
    if newest_first:
        ordered.reverse()
    return sorted(ordered, key=lambda item: -replicas(item))


def _fraction(deployment: Deployment, replica_set: ReplicaSet) -> int:
    if not replicas(deployment):
        return -replicas(replica_set)
    text = replica_set.metadata.annotations.get(MAX_REPLICAS, "")
    before = (int(text) if text.isdigit() else 0) or deployment.status.replicas
    if not before:
        return 0
    size = replicas(replica_set) * max_total(deployment) / before
    return math.floor(size + 0.5) - replicas(replica_set)


def is_saturated(deployment: Deployment, replica_set: ReplicaSet | None) -> bool:
    if replica_set is None:
        return False
    desired = replicas(deployment)
    return (
        replicas(replica_set) == desired
        and replica_set.metadata.annotations.get(DESIRED_REPLICAS) == str(desired)
        and replica_set.status.available_replicas == desired
    )
