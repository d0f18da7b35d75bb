"""A cluster as plain objects: what-ifs change it, and decisions are made for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dray.api import features as gates
from dray.api.features import Features
from dray.api.templates.workload_types import StatefulSet
from dray.api.types import dra
from dray.api.types.core import (
    LimitRange,
    Namespace,
    PodDisruptionBudget,
    PriorityClass,
    ResourceQuota,
)
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod, RuntimeClass
from dray.api.types.workloads import PodGroup
from dray.scheduling.state import SchedulingState

T = TypeVar("T")

TYPES: Mapping[tuple[str, str], type[Any]] = {
    ("", "LimitRange"): LimitRange,
    ("", "Namespace"): Namespace,
    ("", "Node"): Node,
    ("", "Pod"): Pod,
    ("", "ResourceQuota"): ResourceQuota,
    ("apps", "StatefulSet"): StatefulSet,
    ("node.k8s.io", "RuntimeClass"): RuntimeClass,
    ("policy", "PodDisruptionBudget"): PodDisruptionBudget,
    ("resource.k8s.io", "DeviceClass"): dra.DeviceClass,
    ("resource.k8s.io", "DeviceTaintRule"): dra.DeviceTaintRule,
    ("resource.k8s.io", "ResourceClaim"): dra.ResourceClaim,
    ("resource.k8s.io", "ResourceClaimTemplate"): dra.ResourceClaimTemplate,
    ("resource.k8s.io", "ResourceSlice"): dra.ResourceSlice,
    ("scheduling.k8s.io", "PodGroup"): PodGroup,
    ("scheduling.k8s.io", "PriorityClass"): PriorityClass,
}
"""The types of a model by group and kind."""


@dataclass(frozen=True, slots=True)
class ClusterModel:
    """The objects of a cluster by type. Changes return another model; objects are shared."""

    objects: Mapping[type[Any], Sequence[Any]] = field(default_factory=dict)
    features: Features = gates.DEFAULT

    def of(self, type_: type[T]) -> Sequence[T]:
        return self.objects.get(type_, ())

    def with_objects(self, added: Iterable[Any]) -> ClusterModel:
        """Return the model with more objects; one of the same name replaces the one it has.

        It takes the place of that one: between equal nodes the scheduler takes the first.
        """
        by_type: dict[type[Any], dict[Any, Any]] = {}
        for value in added:
            by_type.setdefault(type(value), {})[value.metadata.key] = value
        objects = dict(self.objects)
        for type_, values in by_type.items():
            kept = [values.pop(item.metadata.key, item) for item in self.of(type_)]
            objects[type_] = [*kept, *values.values()]
        return ClusterModel(objects, self.features)

    def without(self, type_: type[T], is_removed: Callable[[T], bool]) -> ClusterModel:
        """Return the model without the objects of a type that `is_removed` names."""
        kept = [value for value in self.of(type_) if not is_removed(value)]
        return ClusterModel({**self.objects, type_: kept}, self.features)

    def state(self) -> SchedulingState:
        """Return what the scheduler would know of this cluster."""
        everything = (value for values in self.objects.values() for value in values)
        return SchedulingState.of(everything, self.features)
