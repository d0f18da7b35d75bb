"""Priority classes: the server resolves the class of a pod or pod group to a number.

As plugin/pkg/admission/priority.
"""

from __future__ import annotations

from collections.abc import Iterator

from dray.api import kinds
from dray.api.admission import priorities
from dray.api.types.core import PriorityClass
from dray.api.types.meta import JsonObject
from dray.apiserver.admission import admission_chain
from dray.apiserver.admission.admission_chain import AdmissionRequest, AdmissionRule
from dray.apiserver.storage.lookup import Lookup
from dray.store.store import Store

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
            "preemptionPolicy": priorities.PREEMPT_LOWER_PRIORITY,
        }


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
        with admission.forbids():
            priorities.fill_pod(spec, await self._class_of(spec))

    async def _set_group_priority(self, admission: AdmissionRequest) -> None:
        spec = _spec(admission)
        with admission.forbids():
            priorities.fill_group(spec, await self._class_of(spec))

    async def _class_of(self, spec: JsonObject) -> PriorityClass:
        name = spec.get("priorityClassName")
        if name:
            return priorities.class_of(spec, await self._classes.get(name), None)
        return priorities.class_of(spec, None, await self._default())

    async def _default(self) -> PriorityClass | None:
        return priorities.default_of(stored.value for stored in await self._classes.all())

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


def _keep_priority(admission: AdmissionRequest) -> None:
    """Keep the priority in an update without one."""
    spec, before = _spec(admission), (admission.old or {}).get("spec", {})
    for field in ("priority", "preemptionPolicy"):
        if spec.get(field) is None and before.get(field) is not None:
            spec[field] = before[field]
