"""Node restriction: a node writes only its own Node, lease, slices, and the pods bound to it.

As plugin/pkg/admission/noderestriction. The node authorizer decides by names; this rule
decides by the content of the object.
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

    async def mutate(self, admission: AdmissionRequest) -> None:
        await self._restrict(admission)

    async def validate(self, admission: AdmissionRequest) -> CommitRequirements:
        if admission.operation == admission_chain.DELETE:
            await self._restrict(admission)
        return NO_REQUIREMENTS

    async def _restrict(self, admission: AdmissionRequest) -> None:
        node = node_authorizer.node_of(admission.user)
        if node is None:
            return
        if not node:
            user = gotext.quote(admission.user.name)
            raise admission.forbidden(f"could not determine node from user {user}")
        check = _CHECKS.get((admission.kind.group, admission.kind.kind))
        if check is not None:
            await check(self, admission, node)

    async def _check_pod(self, admission: AdmissionRequest, node: str) -> None:
        match admission.subresource, admission.operation:
            case "", admission_chain.CREATE:
                await self._check_new_pod(admission, node)
            case "", admission_chain.DELETE:
                _check_deleted_pod(admission, node)
            case "", _:
                raise admission.forbidden(
                    f"unexpected operation {gotext.quote(admission.operation)}, node "
                    f"{gotext.quote(node)} can only create and delete mirror pods"
                )
            case "status", _:
                _check_pod_status(admission, node)
            case "eviction", _:
                await self._check_evicted_pod(admission, node)
            case _:
                raise admission.forbidden(
                    f"unexpected pod subresource {gotext.quote(admission.subresource)}, "
                    "only 'status' and 'eviction' are allowed"
                )

    async def _check_new_pod(self, admission: AdmissionRequest, node: str) -> None:
        assert admission.new is not None
        pod, quoted = admission.new, gotext.quote(node)
        if _MIRROR not in (pod["metadata"].get("annotations") or {}):
            raise admission.forbidden(
                f'pod does not have "{_MIRROR}" annotation, node {quoted} can only create mirror '
                "pods"
            )
        if _node_name(pod) != node:
            raise admission.forbidden(
                f"node {quoted} can only create pods with spec.nodeName set to itself"
            )
        await self._check_owner(admission, node, pod["metadata"].get("ownerReferences") or [])
        _check_references(admission, node, pod)

    async def _check_owner(
        self, admission: AdmissionRequest, node: str, owners: list[JsonObject]
    ) -> None:
        quoted = gotext.quote(node)
        if len(owners) > 1:
            raise admission.forbidden(
                f"node {quoted} can only create pods with a single owner reference set to itself"
            )
        owner = owners[0] if owners else {}
        if (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) != ("v1", "Node", node):
            raise admission.forbidden(
                f"node {quoted} can only create pods with an owner reference set to itself"
            )
        if not owner.get("controller"):
            raise admission.forbidden(
                f"node {quoted} can only create pods with a controller owner reference set to "
                "itself"
            )
        if owner.get("blockOwnerDeletion"):
            raise admission.forbidden(
                f"node {quoted} must not set blockOwnerDeletion on an owner reference"
            )
        await self._check_uid(admission, node, owner.get("uid", ""))

    async def _check_uid(self, admission: AdmissionRequest, node: str, uid: str) -> None:
        stored_node = await self._nodes.get(node)
        if stored_node is None:
            raise errors.not_found(GroupResource("", "nodes"), node)
        if stored_node.metadata.uid != uid:
            raise admission.forbidden(
                f"node {node} UID mismatch: expected {uid} got {stored_node.metadata.uid}"
            )

    async def _check_evicted_pod(self, admission: AdmissionRequest, node: str) -> None:
        pod = await self._pods.get(admission.name, admission.namespace)
        if pod is None:
            raise errors.not_found(GroupResource("", "pods"), admission.name)
        if pod.spec.node_name != node:
            raise admission.forbidden(
                f"node {node} can only evict pods with spec.nodeName set to itself"
            )

    async def _check_token(self, admission: AdmissionRequest, node: str) -> None:
        """Raise Forbidden unless the token is bound to a pod of the node."""
        if admission.subresource != "token":
            return
        reference = ((admission.new or {}).get("spec") or {}).get("boundObjectRef") or {}
        name = reference.get("name")
        if (reference.get("apiVersion"), reference.get("kind")) != ("v1", "Pod") or not name:
            raise admission.forbidden("node requested token not bound to a pod")
        if not reference.get("uid"):
            raise admission.forbidden("node requested token with a pod binding without a uid")
        pod = await self._pods.get(name, admission.namespace)
        if pod is None:
            raise errors.not_found(GroupResource("", "pods"), name)
        if pod.metadata.uid != reference["uid"]:
            raise admission.forbidden(
                f"the UID in the bound object reference ({reference['uid']}) does not match the "
                "UID in record. The object might have been deleted and then recreated"
            )
        if pod.spec.node_name != node:
            raise admission.forbidden(
                "node requested token bound to a pod scheduled on a different node"
            )

    async def _check_node(self, admission: AdmissionRequest, node: str) -> None:
        if admission.name != node:
            raise admission.forbidden(
                f"node {gotext.quote(node)} is not allowed to modify node "
                f"{gotext.quote(admission.name)}"
            )
        if admission.operation == admission_chain.CREATE:
            _check_new_node(admission, node)
        elif admission.operation == admission_chain.UPDATE:
            _check_changed_node(admission, node)

    async def _check_lease(self, admission: AdmissionRequest, node: str) -> None:
        if admission.namespace != well_known.NODE_LEASE_NAMESPACE:
            raise admission.forbidden(
                f'can only access leases in the "{well_known.NODE_LEASE_NAMESPACE}" system '
                "namespace"
            )
        if admission.name != node:
            raise admission.forbidden(
                "can only access node lease with the same name as the requesting node"
            )

    async def _check_csi_node(self, admission: AdmissionRequest, node: str) -> None:
        if admission.name != node:
            raise admission.forbidden(
                "can only access CSINode with the same name as the requesting node"
            )

    async def _check_slice(self, admission: AdmissionRequest, node: str) -> None:
        verbs = {admission_chain.CREATE: "create", admission_chain.DELETE: "delete"}
        verb = verbs.get(admission.operation)
        document = admission.old if verb == "delete" else admission.new
        if verb and _node_name(document or {}) != node:
            raise admission.forbidden(
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


def _check_deleted_pod(admission: AdmissionRequest, node: str) -> None:
    if _node_name(admission.old or {}) != node:
        raise admission.forbidden(
            f"node {gotext.quote(node)} can only delete pods with spec.nodeName set to itself"
        )


def _check_references(admission: AdmissionRequest, node: str, pod: JsonObject) -> None:
    """Raise Forbidden if a pod that the node creates refers to objects of the API."""
    used = {reference.partition("/")[0] for reference in node_graph.used_by(pod)}
    referenced = [resource for resource in (*_REFERENCES, *sorted(used)) if resource in used]
    if (pod.get("spec") or {}).get("resourceClaims"):
        referenced.append("resourceclaims")
    if referenced:
        raise admission.forbidden(
            f"node {gotext.quote(node)} can not create pods that reference {referenced[0]}"
        )


def _check_pod_status(admission: AdmissionRequest, node: str) -> None:
    new, old, quoted = admission.new or {}, admission.old or {}, gotext.quote(node)
    if _node_name(old) != node:
        raise admission.forbidden(
            f"node {quoted} can only update pod status for pods with spec.nodeName set to itself"
        )
    if (new["metadata"].get("labels") or {}) != (old["metadata"].get("labels") or {}):
        raise admission.forbidden(f"node {quoted} cannot update labels through pod status")
    status, before = new.get("status") or {}, old.get("status") or {}
    for field, words in _NOT_FOR_NODES.items():
        if (status.get(field) or None) != (before.get(field) or None):
            raise admission.forbidden(f"node {quoted} cannot update {words}")


_NOT_FOR_NODES = {
    "resourceClaimStatuses": "resource claim statues",
    "extendedResourceClaimStatus": "extended resource claim status",
    "nodeAllocatableResourceClaimStatuses": "node allocatable resource claim statuses",
}


def _check_new_node(admission: AdmissionRequest, node: str) -> None:
    assert admission.new is not None
    forbidden = _forbidden_labels(_labels(admission.new), {})
    if forbidden:
        raise admission.forbidden(
            f"node {gotext.quote(node)} is not allowed to set the following labels: "
            f"{', '.join(forbidden)}"
        )


def _check_changed_node(admission: AdmissionRequest, node: str) -> None:
    """Raise Forbidden if a node changes its taints or labels that attract pods."""
    assert admission.new is not None
    assert admission.old is not None
    new, old = admission.new, admission.old
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    if (spec.get("taints") or []) != (before.get("taints") or []):
        raise admission.forbidden(f"node {gotext.quote(node)} is not allowed to modify taints")
    if (new["metadata"].get("ownerReferences") or []) != (
        old["metadata"].get("ownerReferences") or []
    ):
        raise admission.forbidden(
            f"node {gotext.quote(node)} is not allowed to modify ownerReferences"
        )
    forbidden = _forbidden_labels(_labels(new), _labels(old))
    if forbidden:
        raise admission.forbidden(f"is not allowed to modify labels: {', '.join(forbidden)}")


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
    return key in _OWN_LABELS or any(_is_under(domain, parent) for parent in _OWN_LABEL_DOMAINS)


def _is_under(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith(f".{parent}")
