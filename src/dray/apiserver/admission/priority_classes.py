"""Priority classes: the server resolves the class of a pod or pod group to a number.

As plugin/pkg/admission/priority.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator

from dray.api import kinds
from dray.api.types.core import PriorityClass
from dray.api.types.meta import JsonObject
from dray.apiserver.admission import admission_chain
from dray.apiserver.admission.admission_chain import AdmissionRequest, AdmissionRule
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
    """Return the priority classes of a new cluster."""
    for name, (value, description) in _SYSTEM.items():
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name, "generation": 1},
            "value": value,
            "description": description,
            "preemptionPolicy": PREEMPT_LOWER_PRIORITY,
        }


_NO_CLASS = PriorityClass(preemption_policy=PREEMPT_LOWER_PRIORITY)
"""The class of pods without one, where none is the default."""


class Priorities(AdmissionRule):
    about = frozenset({"Pod", "PodGroup", "PriorityClass"})

    def __init__(self, store: Store) -> None:
        self._classes = Lookup(store, kinds.PRIORITY_CLASS, PriorityClass)

    async def mutate(self, admission: AdmissionRequest) -> None:
        if admission.is_about("", "Pod"):
            if admission.is_create:
                await self._set_pod_priority(admission)
            elif admission.operation == admission_chain.UPDATE:
                _keep_priority(admission)
        elif admission.is_create and admission.is_about("scheduling.k8s.io", "PodGroup"):
            await self._set_group_priority(admission)

    async def validate(self, admission: AdmissionRequest) -> None:
        is_write = admission.operation in (admission_chain.CREATE, admission_chain.UPDATE)
        if is_write and admission.is_about("scheduling.k8s.io", "PriorityClass"):
            await self._check_only_default(admission)

    async def _set_pod_priority(self, admission: AdmissionRequest) -> None:
        spec = _spec(admission)
        resolved = await self._resolve(admission, spec)
        if spec.get("priority") not in (None, resolved.value):
            raise admission.forbidden(
                f"the integer value of priority ({spec['priority']}) must not be provided in pod "
                f"spec; priority admission controller computed {resolved.value} from the given "
                "PriorityClass name"
            )
        policy = resolved.preemption_policy
        if policy and spec.get("preemptionPolicy") not in (None, policy):
            raise admission.forbidden(
                f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be "
                f"provided in pod spec; priority admission controller computed {policy} from the "
                "given PriorityClass name"
            )
        _write(spec, resolved)
        if policy:
            spec["preemptionPolicy"] = policy

    async def _set_group_priority(self, admission: AdmissionRequest) -> None:
        spec = _spec(admission)
        resolved = await self._resolve(admission, spec)
        if spec.get("priority") not in (None, resolved.value):
            raise admission.forbidden(
                f"priority set in the pod group ({spec['priority']}) must match the priority "
                f"computed ({resolved.value}) based on the priority class set in the spec"
            )
        _write(spec, resolved)

    async def _resolve(self, admission: AdmissionRequest, spec: JsonObject) -> PriorityClass:
        name = spec.get("priorityClassName")
        if not name:
            return await self._default() or _NO_CLASS
        priority_class = await self._classes.get(name)
        if priority_class is None:
            raise admission.forbidden(f"no PriorityClass with name {name} was found")
        return priority_class

    async def _default(self) -> PriorityClass | None:
        """Return the default class, or None; of several after a race, the lowest."""
        classes = [stored.value for stored in await self._classes.all()]
        marked = [priority_class for priority_class in classes if priority_class.global_default]
        return min(marked, key=operator.attrgetter("value"), default=None)

    async def _check_only_default(self, admission: AdmissionRequest) -> None:
        if not (admission.new or {}).get("globalDefault"):
            return
        default = await self._default()
        if default and (admission.is_create or default.metadata.name != admission.name):
            raise admission.forbidden(
                f"PriorityClass {default.metadata.name} is already marked as default. "
                "Only one default can exist"
            )


def _spec(admission: AdmissionRequest) -> JsonObject:
    spec: JsonObject = admission.document.setdefault("spec", {})
    return spec


def _write(spec: JsonObject, resolved: PriorityClass) -> None:
    if resolved.metadata.name:
        spec["priorityClassName"] = resolved.metadata.name
    spec["priority"] = resolved.value


def _keep_priority(admission: AdmissionRequest) -> None:
    """Keep the priority in an update without one."""
    spec, before = _spec(admission), (admission.old or {}).get("spec", {})
    for field in ("priority", "preemptionPolicy"):
        if spec.get(field) is None and before.get(field) is not None:
            spec[field] = before[field]
