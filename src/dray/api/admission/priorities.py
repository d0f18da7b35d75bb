"""Priority classes: the class of a pod or pod group gives its priority.

As plugin/pkg/admission/priority.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable

from dray.api.admission.refusals import Refused
from dray.api.types.core import PriorityClass
from dray.api.types.meta import JsonObject

PREEMPT_LOWER_PRIORITY = "PreemptLowerPriority"
_NO_CLASS = PriorityClass(preemption_policy=PREEMPT_LOWER_PRIORITY)
"""The class of pods without one, where none is the default."""


def default_of(classes: Iterable[PriorityClass]) -> PriorityClass | None:
    """Return the default class, or None; of several after a race, the lowest."""
    marked = [priority_class for priority_class in classes if priority_class.global_default]
    return min(marked, key=operator.attrgetter("value"), default=None)


def class_of(
    spec: JsonObject, found: PriorityClass | None, default: PriorityClass | None
) -> PriorityClass:
    """Return the class of a pod or group. Raises Refused if it names one that is not `found`."""
    name = spec.get("priorityClassName")
    if not name:
        return default or _NO_CLASS
    if found is None:
        raise Refused(f"no PriorityClass with name {name} was found")
    return found


def fill_pod(spec: JsonObject, resolved: PriorityClass) -> None:
    """Write the priority of its class into a pod. Raises Refused if it states another one."""
    if spec.get("priority") not in (None, resolved.value):
        raise Refused(
            f"the integer value of priority ({spec['priority']}) must not be provided in pod "
            f"spec; priority admission controller computed {resolved.value} from the given "
            "PriorityClass name"
        )
    policy = resolved.preemption_policy
    if policy and spec.get("preemptionPolicy") not in (None, policy):
        raise Refused(
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be "
            f"provided in pod spec; priority admission controller computed {policy} from the "
            "given PriorityClass name"
        )
    _write(spec, resolved)
    if policy:
        spec["preemptionPolicy"] = policy


def fill_group(spec: JsonObject, resolved: PriorityClass) -> None:
    """Write the priority of its class into a group. Raises Refused if it states another one."""
    if spec.get("priority") not in (None, resolved.value):
        raise Refused(
            f"priority set in the pod group ({spec['priority']}) must match the priority "
            f"computed ({resolved.value}) based on the priority class set in the spec"
        )
    _write(spec, resolved)


def _write(spec: JsonObject, resolved: PriorityClass) -> None:
    if resolved.metadata.name:
        spec["priorityClassName"] = resolved.metadata.name
    spec["priority"] = resolved.value
