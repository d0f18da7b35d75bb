"""Priority classes, resolved: a pod or pod group says a name, the server writes the number.

As plugin/pkg/admission/priority.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dray.api import kinds
from dray.api.types.core import PriorityClass
from dray.api.types.meta import JsonObject
from dray.apiserver.admission import admission_chain
from dray.apiserver.admission.admission_chain import (
    NO_REQUIREMENTS,
    AdmissionRequest,
    AdmissionRule,
    CommitRequirements,
)
from dray.apiserver.storage.lookup import Lookup
from dray.store.store import Store

PREEMPT_LOWER_PRIORITY = "PreemptLowerPriority"
_SYSTEM = {
    "system-node-critical": (
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    "system-cluster-critical": (
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another "
        "node if necessary.",
    ),
}


def objects() -> Iterator[JsonObject]:
    """The priority classes of a new cluster."""
    for name, (value, description) in _SYSTEM.items():
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name, "generation": 1},
            "value": value,
            "description": description,
            "preemptionPolicy": PREEMPT_LOWER_PRIORITY,
        }


class _Resolved(NamedTuple):
    class_name: str
    value: int
    preemption_policy: str | None


class Priorities(AdmissionRule):
    about = frozenset({"Pod", "PodGroup", "PriorityClass"})

    def __init__(self, store: Store) -> None:
        self._classes = Lookup(store, kinds.PRIORITY_CLASS, PriorityClass)

    async def mutate(self, action: AdmissionRequest) -> None:
        if action.is_about("", "Pod"):
            if action.operation == admission_chain.CREATE:
                await self._set_pod_priority(action)
            elif action.operation == admission_chain.UPDATE:
                _keep_priority(action)
        elif action.operation == admission_chain.CREATE and action.is_about(
            "scheduling.k8s.io", "PodGroup"
        ):
            await self._set_group_priority(action)

    async def validate(self, action: AdmissionRequest) -> CommitRequirements:
        is_write = action.operation in (admission_chain.CREATE, admission_chain.UPDATE)
        if is_write and action.is_about("scheduling.k8s.io", "PriorityClass"):
            await self._check_only_default(action)
        return NO_REQUIREMENTS

    async def _set_pod_priority(self, action: AdmissionRequest) -> None:
        spec = _spec(action)
        resolved = await self._resolve(action, spec)
        if spec.get("priority") not in (None, resolved.value):
            raise action.forbidden(
                f"the integer value of priority ({spec['priority']}) must not be provided in pod "
                f"spec; priority admission controller computed {resolved.value} from the given "
                "PriorityClass name"
            )
        policy = resolved.preemption_policy
        if policy and spec.get("preemptionPolicy") not in (None, policy):
            raise action.forbidden(
                f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be "
                f"provided in pod spec; priority admission controller computed {policy} from the "
                "given PriorityClass name"
            )
        _write(spec, resolved)
        if policy:
            spec["preemptionPolicy"] = policy

    async def _set_group_priority(self, action: AdmissionRequest) -> None:
        spec = _spec(action)
        resolved = await self._resolve(action, spec)
        if spec.get("priority") not in (None, resolved.value):
            raise action.forbidden(
                f"priority set in the pod group ({spec['priority']}) must match the priority "
                f"computed ({resolved.value}) based on the priority class set in the spec"
            )
        _write(spec, resolved)

    async def _resolve(self, action: AdmissionRequest, spec: JsonObject) -> _Resolved:
        name = spec.get("priorityClassName")
        if not name:
            default = await self._default()
            if default is None:
                return _Resolved("", 0, PREEMPT_LOWER_PRIORITY)
            return _Resolved(default.metadata.name, default.value, default.preemption_policy)
        found = await self._classes.get(name)
        if found is None:
            raise action.forbidden(f"no PriorityClass with name {name} was found")
        return _Resolved(name, found.value, found.preemption_policy)

    async def _default(self) -> PriorityClass | None:
        """Should there be more than one after a race, the lowest wins."""
        marked = [each.value for each in await self._classes.all() if each.value.global_default]
        return min(marked, key=lambda each: each.value, default=None)

    async def _check_only_default(self, action: AdmissionRequest) -> None:
        if not (action.new or {}).get("globalDefault"):
            return
        default = await self._default()
        if default is None:
            return
        name = default.metadata.name
        if action.operation == admission_chain.CREATE or name != action.name:
            raise action.forbidden(
                f"PriorityClass {name} is already marked as default. Only one default can exist"
            )


def _spec(action: AdmissionRequest) -> JsonObject:
    assert action.new is not None
    spec: JsonObject = action.new.setdefault("spec", {})
    return spec


def _write(spec: JsonObject, resolved: _Resolved) -> None:
    if resolved.class_name:
        spec["priorityClassName"] = resolved.class_name
    spec["priority"] = resolved.value


def _keep_priority(action: AdmissionRequest) -> None:
    """Whoever writes a pod back without its priority does not take it away."""
    spec, before = _spec(action), (action.old or {}).get("spec", {})
    for field in ("priority", "preemptionPolicy"):
        if spec.get(field) is None and before.get(field) is not None:
            spec[field] = before[field]
