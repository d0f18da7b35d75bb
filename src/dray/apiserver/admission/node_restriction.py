"""A node writes only about itself: its own Node, lease, slices, and the pods bound to it.

As plugin/pkg/admission/noderestriction. The node authorizer decides by names; what needs a look at
the object is decided here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from dray.api import errors, kinds, well_known
from dray.api.formats import gotext
from dray.api.ids import GroupResource
from dray.api.types.meta import JsonObject, ObjectMeta, Wire
from dray.apiserver.access import node_authorizer, node_graph
from dray.apiserver.admission import admission_chain
from dray.apiserver.admission.admission_chain import (
    NO_REQUIREMENTS,
    AdmissionRequest,
    AdmissionRule,
    CommitRequirements,
)
from dray.apiserver.storage.lookup import Lookup
from dray.store.store import Store

_RESTRICTED = "node-restriction.kubernetes.io"
_OWN_LABELS = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "node.kubernetes.io/instance-type",
        "beta.kubernetes.io/instance-type",
    }
)
_OWN_LABEL_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_REFERENCES = ("serviceaccounts", "secrets", "configmaps", "resourceclaims")
_MIRROR = well_known.MIRROR_POD_ANNOTATION


class _PodSpec(Wire, frozen=True):
    node_name: str = ""


class _Pod(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _PodSpec = _PodSpec()


class _Node(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


class NodeRestriction(AdmissionRule):
    def __init__(self, store: Store) -> None:
        self._pods = Lookup(store, kinds.POD, _Pod)
        self._nodes = Lookup(store, kinds.NODE, _Node)

    async def mutate(self, action: AdmissionRequest) -> None:
        await self._restrict(action)

    async def validate(self, action: AdmissionRequest) -> CommitRequirements:
        if action.operation == admission_chain.DELETE:
            await self._restrict(action)
        return NO_REQUIREMENTS

    async def _restrict(self, action: AdmissionRequest) -> None:
        node = node_authorizer.node_of(action.user)
        if node is None:
            return
        if not node:
            user = gotext.quote(action.user.name)
            raise action.forbidden(f"could not determine node from user {user}")
        check = _CHECKS.get((action.kind.group, action.kind.kind))
        if check is not None:
            await check(self, action, node)

    async def _check_pod(self, action: AdmissionRequest, node: str) -> None:
        match action.subresource, action.operation:
            case "", admission_chain.CREATE:
                await self._check_new_pod(action, node)
            case "", admission_chain.DELETE:
                _check_deleted_pod(action, node)
            case "", _:
                raise action.forbidden(
                    f"unexpected operation {gotext.quote(action.operation)}, node "
                    f"{gotext.quote(node)} can only create and delete mirror pods"
                )
            case "status", _:
                _check_pod_status(action, node)
            case "eviction", _:
                await self._check_evicted_pod(action, node)
            case _:
                raise action.forbidden(
                    f"unexpected pod subresource {gotext.quote(action.subresource)}, only 'status' "
                    "and 'eviction' are allowed"
                )

    async def _check_new_pod(self, action: AdmissionRequest, node: str) -> None:
        assert action.new is not None
        pod, quoted = action.new, gotext.quote(node)
        if _MIRROR not in (pod["metadata"].get("annotations") or {}):
            raise action.forbidden(
                f'pod does not have "{_MIRROR}" annotation, node {quoted} can only create mirror '
                "pods"
            )
        if _node_name(pod) != node:
            raise action.forbidden(
                f"node {quoted} can only create pods with spec.nodeName set to itself"
            )
        await self._check_owner(action, node, pod["metadata"].get("ownerReferences") or [])
        _check_references(action, node, pod)

    async def _check_owner(
        self, action: AdmissionRequest, node: str, owners: list[JsonObject]
    ) -> None:
        quoted = gotext.quote(node)
        if len(owners) > 1:
            raise action.forbidden(
                f"node {quoted} can only create pods with a single owner reference set to itself"
            )
        owner = owners[0] if owners else {}
        if (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) != ("v1", "Node", node):
            raise action.forbidden(
                f"node {quoted} can only create pods with an owner reference set to itself"
            )
        if not owner.get("controller"):
            raise action.forbidden(
                f"node {quoted} can only create pods with a controller owner reference set to "
                "itself"
            )
        if owner.get("blockOwnerDeletion"):
            raise action.forbidden(
                f"node {quoted} must not set blockOwnerDeletion on an owner reference"
            )
        await self._check_uid(action, node, owner.get("uid", ""))

    async def _check_uid(self, action: AdmissionRequest, node: str, uid: str) -> None:
        found = await self._nodes.get(node)
        if found is None:
            raise errors.not_found(GroupResource("", "nodes"), node)
        if found.metadata.uid != uid:
            raise action.forbidden(
                f"node {node} UID mismatch: expected {uid} got {found.metadata.uid}"
            )

    async def _check_evicted_pod(self, action: AdmissionRequest, node: str) -> None:
        pod = await self._pods.get(action.name, action.namespace)
        if pod is None:
            raise errors.not_found(GroupResource("", "pods"), action.name)
        if pod.spec.node_name != node:
            raise action.forbidden(
                f"node {node} can only evict pods with spec.nodeName set to itself"
            )

    async def _check_token(self, action: AdmissionRequest, node: str) -> None:
        """A node gets tokens for the pods that run on it, and bound to them."""
        if action.subresource != "token":
            return
        reference = ((action.new or {}).get("spec") or {}).get("boundObjectRef") or {}
        name = reference.get("name")
        if (reference.get("apiVersion"), reference.get("kind")) != ("v1", "Pod") or not name:
            raise action.forbidden("node requested token not bound to a pod")
        if not reference.get("uid"):
            raise action.forbidden("node requested token with a pod binding without a uid")
        pod = await self._pods.get(name, action.namespace)
        if pod is None:
            raise errors.not_found(GroupResource("", "pods"), name)
        if pod.metadata.uid != reference["uid"]:
            raise action.forbidden(
                f"the UID in the bound object reference ({reference['uid']}) does not match the "
                "UID in record. The object might have been deleted and then recreated"
            )
        if pod.spec.node_name != node:
            raise action.forbidden(
                "node requested token bound to a pod scheduled on a different node"
            )

    async def _check_node(self, action: AdmissionRequest, node: str) -> None:
        if action.name != node:
            raise action.forbidden(
                f"node {gotext.quote(node)} is not allowed to modify node "
                f"{gotext.quote(action.name)}"
            )
        if action.operation == admission_chain.CREATE:
            _check_new_node(action, node)
        elif action.operation == admission_chain.UPDATE:
            _check_changed_node(action, node)

    async def _check_lease(self, action: AdmissionRequest, node: str) -> None:
        if action.namespace != well_known.NODE_LEASE_NAMESPACE:
            raise action.forbidden(
                f'can only access leases in the "{well_known.NODE_LEASE_NAMESPACE}" system '
                "namespace"
            )
        if action.name != node:
            raise action.forbidden(
                "can only access node lease with the same name as the requesting node"
            )

    async def _check_csi_node(self, action: AdmissionRequest, node: str) -> None:
        if action.name != node:
            raise action.forbidden(
                "can only access CSINode with the same name as the requesting node"
            )

    async def _check_slice(self, action: AdmissionRequest, node: str) -> None:
        verbs = {admission_chain.CREATE: "create", admission_chain.DELETE: "delete"}
        verb = verbs.get(action.operation)
        document = action.old if verb == "delete" else action.new
        if verb and _node_name(document or {}) != node:
            raise action.forbidden(
                f"can only {verb} ResourceSlice with the same NodeName as the requesting node"
            )


_CHECKS: Mapping[
    tuple[str, str], Callable[[NodeRestriction, AdmissionRequest, str], Awaitable[None]]
] = {
    ("", "Pod"): NodeRestriction._check_pod,
    ("", "Node"): NodeRestriction._check_node,
    ("", "ServiceAccount"): NodeRestriction._check_token,
    ("coordination.k8s.io", "Lease"): NodeRestriction._check_lease,
    ("storage.k8s.io", "CSINode"): NodeRestriction._check_csi_node,
    ("resource.k8s.io", "ResourceSlice"): NodeRestriction._check_slice,
}


def _node_name(document: JsonObject) -> str | None:
    name: str | None = (document.get("spec") or {}).get("nodeName")
    return name


def _check_deleted_pod(action: AdmissionRequest, node: str) -> None:
    if _node_name(action.old or {}) != node:
        raise action.forbidden(
            f"node {gotext.quote(node)} can only delete pods with spec.nodeName set to itself"
        )


def _check_references(action: AdmissionRequest, node: str, pod: JsonObject) -> None:
    """A pod that the node makes itself must not give it rights on other objects."""
    used = {each.partition("/")[0] for each in node_graph.used_by(pod)}
    found = [each for each in (*_REFERENCES, *sorted(used)) if each in used]
    if (pod.get("spec") or {}).get("resourceClaims"):
        found.append("resourceclaims")
    if found:
        raise action.forbidden(
            f"node {gotext.quote(node)} can not create pods that reference {found[0]}"
        )


def _check_pod_status(action: AdmissionRequest, node: str) -> None:
    new, old, quoted = action.new or {}, action.old or {}, gotext.quote(node)
    if _node_name(old) != node:
        raise action.forbidden(
            f"node {quoted} can only update pod status for pods with spec.nodeName set to itself"
        )
    if (new["metadata"].get("labels") or {}) != (old["metadata"].get("labels") or {}):
        raise action.forbidden(f"node {quoted} cannot update labels through pod status")
    status, before = new.get("status") or {}, old.get("status") or {}
    for field, words in _NOT_FOR_NODES.items():
        if (status.get(field) or None) != (before.get(field) or None):
            raise action.forbidden(f"node {quoted} cannot update {words}")


_NOT_FOR_NODES = {
    "resourceClaimStatuses": "resource claim statues",
    "extendedResourceClaimStatus": "extended resource claim status",
    "nodeAllocatableResourceClaimStatuses": "node allocatable resource claim statuses",
}


def _check_new_node(action: AdmissionRequest, node: str) -> None:
    assert action.new is not None
    forbidden = _forbidden_labels(_labels(action.new), {})
    if forbidden:
        raise action.forbidden(
            f"node {gotext.quote(node)} is not allowed to set the following labels: "
            f"{', '.join(forbidden)}"
        )


def _check_changed_node(action: AdmissionRequest, node: str) -> None:
    """A node must not draw work to itself that was not meant for it."""
    assert action.new is not None
    assert action.old is not None
    new, old = action.new, action.old
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    if (spec.get("taints") or []) != (before.get("taints") or []):
        raise action.forbidden(f"node {gotext.quote(node)} is not allowed to modify taints")
    if (new["metadata"].get("ownerReferences") or []) != (
        old["metadata"].get("ownerReferences") or []
    ):
        raise action.forbidden(
            f"node {gotext.quote(node)} is not allowed to modify ownerReferences"
        )
    forbidden = _forbidden_labels(_labels(new), _labels(old))
    if forbidden:
        raise action.forbidden(f"is not allowed to modify labels: {', '.join(forbidden)}")


def _labels(document: JsonObject) -> dict[str, str]:
    return document["metadata"].get("labels") or {}


def _forbidden_labels(new: dict[str, str], old: dict[str, str]) -> list[str]:
    changed = {key for key in new.keys() | old.keys() if new.get(key) != old.get(key)}
    return sorted(key for key in changed if not _may_set_label(key))


def _may_set_label(key: str) -> bool:
    domain = key.rpartition("/")[0]
    if _is_under(domain, _RESTRICTED):
        return False
    if not _is_under(domain, "kubernetes.io") and not _is_under(domain, "k8s.io"):
        return True
    return key in _OWN_LABELS or any(_is_under(domain, each) for each in _OWN_LABEL_DOMAINS)


def _is_under(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith(f".{parent}")
