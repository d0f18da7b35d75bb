"""Admission of new pods and groups by the API server, as far as plans depend on it.

They get the priority of their class, the overhead and nodes of their RuntimeClass and the defaults
of LimitRanges; or they are refused. Admission policies are not evaluated.
"""

from __future__ import annotations

import copy

from dray.api import kinds
from dray.api.admission import limit_ranges, priorities, runtime_classes
from dray.api.admission.refusals import Refused
from dray.api.conversion import typed_objects
from dray.api.types.core import LimitRange, Namespace, PriorityClass
from dray.api.types.meta import JsonObject
from dray.api.types.pods import Pod, RuntimeClass
from dray.api.types.workloads import PodGroup
from dray.planner.cluster_model import ClusterModel

_ALWAYS_THERE = "default"


class PodAdmission:
    """The rules of one cluster. Every method raises Refused for what the server refuses."""

    def __init__(self, cluster: ClusterModel) -> None:
        classes = cluster.of(PriorityClass)
        self._priorities = {item.metadata.name: item for item in classes}
        self._default = priorities.default_of(classes)
        self._runtimes = {item.metadata.name: item for item in cluster.of(RuntimeClass)}
        self._namespaces = {item.metadata.name for item in cluster.of(Namespace)}
        self._ranges: dict[str, list[LimitRange]] = {}
        for limit_range in cluster.of(LimitRange):
            self._ranges.setdefault(limit_range.metadata.namespace, []).append(limit_range)

    def check_namespace(self, name: str) -> None:
        """Refuse objects in a namespace that does not exist; unless no namespaces are known."""
        if self._namespaces and name not in self._namespaces and name != _ALWAYS_THERE:
            raise Refused(f'namespaces "{name}" not found')

    def pod(self, document: JsonObject, namespace: str) -> Pod:
        """Return a new pod as it is stored."""
        document = copy.deepcopy(document)
        spec = document.setdefault("spec", {})
        self._fill_runtime_class(spec)
        priorities.fill_pod(spec, self._priority_class(spec))
        ranges = self._ranges.get(namespace, ())
        for limit_range in ranges:
            limit_ranges.fill(document, limit_range)
        pod = typed_objects.decode({**kinds.POD.type_meta, **document}, Pod)
        if ranges:
            limit_ranges.check_pod(pod, ranges)
        return pod

    def group(self, document: JsonObject) -> PodGroup:
        """Return a new PodGroup as it is stored."""
        document = copy.deepcopy(document)
        spec = document.setdefault("spec", {})
        priorities.fill_group(spec, self._priority_class(spec))
        document.pop("status", None)
        return typed_objects.decode(document, PodGroup)

    def _priority_class(self, spec: JsonObject) -> PriorityClass:
        found = self._priorities.get(spec.get("priorityClassName") or "")
        return priorities.class_of(spec, found, self._default)

    def _fill_runtime_class(self, spec: JsonObject) -> None:
        name = spec.get("runtimeClassName")
        found = None
        if name is not None:
            found = runtime_classes.require(name, self._runtimes.get(name))
            runtime_classes.fill(spec, found)
        runtime_classes.check(spec, found)
