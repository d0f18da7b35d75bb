"""Changes that would let a pod be scheduled, as values that can be applied.

Changes of a pod are made in its spec as a document, so that they serve pods, the pod templates of
workloads and manifests with fields that dray does not know.
"""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from dray.api.types.meta import JsonObject
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod, PodSpec
from dray.scheduling.nodes.pod_requirements import UNSCHEDULABLE_TAINT

CLAIM, TEMPLATE = "ResourceClaim", "ResourceClaimTemplate"
FIELD_OF = {CLAIM: "resourceClaimName", TEMPLATE: "resourceClaimTemplateName"}
"""The field of a pod's claim that names an object of each kind."""


class PodChange(msgspec.Struct, frozen=True, kw_only=True, tag_field="change", tag=True):
    """A change of the spec of a pod."""

    def applied_to_spec(self, spec: JsonObject) -> JsonObject:
        """Return the changed spec; the given one stays as it is."""
        changed = copy.deepcopy(spec)
        self._change(changed)
        return changed

    def applied_to(self, pod: Pod) -> Pod:
        changed = self.applied_to_spec(msgspec.to_builtins(pod.spec))
        return msgspec.structs.replace(pod, spec=msgspec.convert(changed, PodSpec))

    def _change(self, spec: JsonObject) -> None:
        raise NotImplementedError


class SelectNodes(PodChange, frozen=True, kw_only=True):
    """Another label in the node selector, or none."""

    label: str
    asked: str
    replacement: str = ""
    """The label to select by instead; empty for none."""
    value: str = ""

    def _change(self, spec: JsonObject) -> None:
        selector = spec["nodeSelector"]
        del selector[self.label]
        if self.replacement:
            selector[self.replacement] = self.value
        if not selector:
            del spec["nodeSelector"]


class DropNodeAffinity(PodChange, frozen=True, kw_only=True):
    def _change(self, spec: JsonObject) -> None:
        affinity = spec["affinity"]["nodeAffinity"]
        affinity.pop("requiredDuringSchedulingIgnoredDuringExecution")
        if not affinity:
            del spec["affinity"]["nodeAffinity"]
        if not spec["affinity"]:
            del spec["affinity"]


class TolerateNodeTaint(PodChange, frozen=True, kw_only=True):
    key: str
    value: str
    effect: str

    def toleration(self) -> dict[str, str]:
        matching = (
            {"operator": "Equal", "value": self.value} if self.value else {"operator": "Exists"}
        )
        return {"key": self.key, **matching, "effect": self.effect}

    def _change(self, spec: JsonObject) -> None:
        spec["tolerations"] = [*(spec.get("tolerations") or ()), self.toleration()]


class ReferTo(PodChange, frozen=True, kw_only=True):
    """Another claim or template for one entry of the pod's claims."""

    pod_claim: str
    kind: str
    name: str

    def _change(self, spec: JsonObject) -> None:
        for entry in spec.get("resourceClaims") or ():
            if entry.get("name") == self.pod_claim:
                for field in FIELD_OF.values():
                    entry.pop(field, None)
                entry[FIELD_OF[self.kind]] = self.name


class UseClaim(PodChange, frozen=True, kw_only=True):
    """Give a claim of the pod to one of its containers."""

    pod_claim: str
    container: str

    def _change(self, spec: JsonObject) -> None:
        for container in _containers(spec):
            if container.get("name") == self.container:
                resources = container.setdefault("resources", {})
                resources["claims"] = [*(resources.get("claims") or ()), {"name": self.pod_claim}]


class RenameRequest(PodChange, frozen=True, kw_only=True):
    """Another request of a claim for a container."""

    container: str
    pod_claim: str
    request: str
    replacement: str

    def _change(self, spec: JsonObject) -> None:
        for container in _containers(spec):
            if container.get("name") != self.container:
                continue
            for used in (container.get("resources") or {}).get("claims") or ():
                if (used.get("name"), used.get("request")) == (self.pod_claim, self.request):
                    used["request"] = self.replacement


class RenameResource(PodChange, frozen=True, kw_only=True):
    """Another name for an extended resource, in every container."""

    resource: str
    replacement: str

    def _change(self, spec: JsonObject) -> None:
        for container in _containers(spec):
            for amounts in (container.get("resources") or {}).values():
                if isinstance(amounts, dict) and self.resource in amounts:
                    amounts[self.replacement] = amounts.pop(self.resource)


class NodeChange(msgspec.Struct, frozen=True, kw_only=True, tag_field="change", tag=True):
    """A change of a node, which only an administrator can make."""

    node: str

    def changed(self, node: Node) -> Node:
        raise NotImplementedError

    def patch(self) -> JsonObject:
        """Return a strategic merge patch of the node."""
        raise NotImplementedError


class Uncordon(NodeChange, frozen=True, kw_only=True):
    def changed(self, node: Node) -> Node:
        # The taint of a cordoned node is removed by a controller.
        taints = tuple(item for item in node.spec.taints if item.key != UNSCHEDULABLE_TAINT.key)
        spec = msgspec.structs.replace(node.spec, unschedulable=False, taints=taints)
        return msgspec.structs.replace(node, spec=spec)

    def patch(self) -> JsonObject:
        return {"spec": {"unschedulable": None}}


class RemoveTaint(NodeChange, frozen=True, kw_only=True):
    key: str
    effect: str

    def changed(self, node: Node) -> Node:
        kept = tuple(
            taint
            for taint in node.spec.taints
            if (taint.key, taint.effect) != (self.key, self.effect)
        )
        return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, taints=kept))

    def patch(self) -> JsonObject:
        return {"spec": {"taints": [{"$patch": "delete", "key": self.key}]}}


class CopyObject(msgspec.Struct, frozen=True, kw_only=True, tag_field="change", tag=True):
    """A copy of a claim or a template of another namespace in the namespace of the pod."""

    kind: str
    name: str
    source: str
    """The namespace that has the object."""
    namespace: str


Change = PodChange | NodeChange | CopyObject


def _containers(spec: JsonObject) -> list[dict[str, Any]]:
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
