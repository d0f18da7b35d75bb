"""RuntimeClasses: the overhead of pods, and on which nodes they run.

As plugin/pkg/admission/runtimeclass.
"""

from __future__ import annotations

import msgspec

from dray.api.admission.refusals import Refused
from dray.api.formats import gotext
from dray.api.semantics import pod_resources
from dray.api.types.meta import JsonObject
from dray.api.types.pods import RuntimeClass, RuntimeScheduling, Toleration

_DIFFERS = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_ALONE = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


def require(name: str, found: RuntimeClass | None) -> RuntimeClass:
    """Return the class. Raises Refused if it does not exist."""
    if found is None:
        raise Refused(f"pod rejected: RuntimeClass {gotext.quote(name)} not found")
    return found


def fill(spec: JsonObject, found: RuntimeClass) -> None:
    """Give a pod the overhead, node selector and tolerations of its class, or raise Refused."""
    if found.overhead is not None:
        if spec.get("overhead") and not _is_equal(spec, found):
            raise Refused(_DIFFERS)
        spec["overhead"] = dict(found.overhead.pod_fixed)
    if found.scheduling is not None:
        _select_nodes(spec, found.scheduling)


def check(spec: JsonObject, found: RuntimeClass | None) -> None:
    """Raise Refused for a pod with another overhead than that of its class."""
    if found is not None and found.overhead is not None:
        if not _is_equal(spec, found):
            raise Refused(_DIFFERS)
    elif spec.get("overhead") is not None:
        raise Refused(_ALONE)


def _is_equal(spec: JsonObject, found: RuntimeClass) -> bool:
    assert found.overhead is not None
    of_pod = pod_resources.parse_amounts(spec.get("overhead") or {})
    return of_pod == pod_resources.parse_amounts(found.overhead.pod_fixed)


def _select_nodes(spec: JsonObject, scheduling: RuntimeScheduling) -> None:
    selector = dict(spec.get("nodeSelector") or {})
    for key, value in scheduling.node_selector.items():
        if selector.setdefault(key, value) != value:
            raise Refused(
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {selector[key]}"
            )
    if selector:
        spec["nodeSelector"] = selector
    if scheduling.tolerations:
        given = msgspec.convert(spec.get("tolerations") or [], list[Toleration])
        merged = _merge([*given, *scheduling.tolerations])
        spec["tolerations"] = msgspec.to_builtins(merged)


def _merge(tolerations: list[Toleration]) -> list[Toleration]:
    """Return the tolerations without those that others include."""
    merged: list[Toleration] = []
    for index, item in enumerate(tolerations):
        is_known = any(_includes(other, item) for other in merged)
        later = tolerations[index + 1 :]
        if not is_known and not any(other != item and _includes(other, item) for other in later):
            merged.append(item)
    return merged


def _includes(larger: Toleration, smaller: Toleration) -> bool:
    if larger == smaller:
        return True
    matches_every_key = not larger.key and larger.operator == "Exists"
    if larger.key != smaller.key and not matches_every_key:
        return False
    if larger.effect not in ("", smaller.effect):
        return False
    if larger.effect == "NoExecute" and larger.toleration_seconds is not None:
        seconds = smaller.toleration_seconds
        if seconds is None or seconds > larger.toleration_seconds:
            return False
    if larger.operator in ("", "Equal"):
        return smaller.operator == "Equal" and smaller.value == larger.value
    return larger.operator == "Exists"
