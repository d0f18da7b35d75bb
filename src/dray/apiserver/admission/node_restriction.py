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
from dray.apiserver.admission.admission_chain import AdmissionRequest, AdmissionRule
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

    async def validate(self, admission: AdmissionRequest) -> None:
        if admission.operation == admission_chain.DELETE:
            await self._restrict(admission)

    async def _restrict(self, admission: AdmissionRequest) -> None:
        node = node_authorizer.node_of(admission.user)
        if node is None:
            return
        if not node:
            user = gotext.quote(admission.user.name)
            raise admission.forbidden(f"could not determine node from user {user}")
        check = _CHECKS.get((admission.kind.group, admission.kind.kind))
        why = await check(self, admission, node) if check else None
        if why:
            raise admission.forbidden(why)

    # Each check returns why the change is forbidden, or None if it is allowed.

    async def _check_pod(self, admission: AdmissionRequest, node: str) -> str | None:
        quoted = gotext.quote(node)
        match admission.subresource, admission.operation:
            case "", admission_chain.CREATE:
                return await self._check_new_pod(admission, node)
            case "", admission_chain.DELETE:
                if _node_name(admission.old or {}) == node:
                    return None
                return f"node {quoted} can only delete pods with spec.nodeName set to itself"
            case "", operation:
                return (
                    f"unexpected operation {gotext.quote(operation)}, node {quoted} can only "
                    "create and delete mirror pods"
                )
            case "status", _:
                return _check_pod_status(admission, node)
            case "eviction", _:
                return await self._check_evicted_pod(admission, node)
        return (
            f"unexpected pod subresource {gotext.quote(admission.subresource)}, "
            "only 'status' and 'eviction' are allowed"
        )

    async def _check_new_pod(self, admission: AdmissionRequest, node: str) -> str | None:
        pod, can_only = admission.document, f"node {gotext.quote(node)} can only create"
        if _MIRROR not in (pod["metadata"].get("annotations") or {}):
            return f'pod does not have "{_MIRROR}" annotation, {can_only} mirror pods'
        if _node_name(pod) != node:
            return f"{can_only} pods with spec.nodeName set to itself"
        owners = pod["metadata"].get("ownerReferences") or []
        return await self._check_owner(node, owners) or _check_references(node, pod)

    async def _check_owner(self, node: str, owners: list[JsonObject]) -> str | None:
        quoted = gotext.quote(node)
        if len(owners) > 1:
            return f"node {quoted} can only create pods with a single owner reference set to itself"
        owner = owners[0] if owners else {}
        if (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) != ("v1", "Node", node):
            return f"node {quoted} can only create pods with an owner reference set to itself"
        if not owner.get("controller"):
            kind = "controller owner reference"
            return f"node {quoted} can only create pods with a {kind} set to itself"
        if owner.get("blockOwnerDeletion"):
            return f"node {quoted} must not set blockOwnerDeletion on an owner reference"
        stored_node = await self._nodes.get(node)
        if stored_node is None:
            raise errors.not_found(GroupResource("", "nodes"), node)
        expected, actual = owner.get("uid", ""), stored_node.metadata.uid
        if actual != expected:
            return f"node {node} UID mismatch: expected {expected} got {actual}"
        return None

    async def _find_pod(self, name: str, namespace: str) -> _Pod:
        pod = await self._pods.get(name, namespace)
        if pod is None:
            raise errors.not_found(GroupResource("", "pods"), name)
        return pod

    async def _check_evicted_pod(self, admission: AdmissionRequest, node: str) -> str | None:
        pod = await self._find_pod(admission.name, admission.namespace)
        if pod.spec.node_name != node:
            return f"node {node} can only evict pods with spec.nodeName set to itself"
        return None

    async def _check_token(self, admission: AdmissionRequest, node: str) -> str | None:
        """Allow only tokens that are bound to a pod of the node."""
        if admission.subresource != "token":
            return None
        reference = ((admission.new or {}).get("spec") or {}).get("boundObjectRef") or {}
        name, uid = reference.get("name"), reference.get("uid")
        if (reference.get("apiVersion"), reference.get("kind")) != ("v1", "Pod") or not name:
            return "node requested token not bound to a pod"
        if not uid:
            return "node requested token with a pod binding without a uid"
        pod = await self._find_pod(name, admission.namespace)
        if pod.metadata.uid != uid:
            return (
                f"the UID in the bound object reference ({uid}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
        if pod.spec.node_name != node:
            return "node requested token bound to a pod scheduled on a different node"
        return None

    async def _check_node(self, admission: AdmissionRequest, node: str) -> str | None:
        if admission.name != node:
            quoted, other = gotext.quote(node), gotext.quote(admission.name)
            return f"node {quoted} is not allowed to modify node {other}"
        if admission.is_create:
            return _check_new_node(admission.document, node)
        if admission.operation == admission_chain.UPDATE:
            return _check_changed_node(admission.document, admission.old or {}, node)
        return None

    async def _check_lease(self, admission: AdmissionRequest, node: str) -> str | None:
        namespace = well_known.NODE_LEASE_NAMESPACE
        if admission.namespace != namespace:
            return f'can only access leases in the "{namespace}" system namespace'
        if admission.name != node:
            return "can only access node lease with the same name as the requesting node"
        return None

    async def _check_csi_node(self, admission: AdmissionRequest, node: str) -> str | None:
        if admission.name != node:
            return "can only access CSINode with the same name as the requesting node"
        return None

    async def _check_slice(self, admission: AdmissionRequest, node: str) -> str | None:
        verbs = {admission_chain.CREATE: "create", admission_chain.DELETE: "delete"}
        verb = verbs.get(admission.operation)
        document = admission.old if verb == "delete" else admission.new
        if verb and _node_name(document or {}) != node:
            return f"can only {verb} ResourceSlice with the same NodeName as the requesting node"
        return None


Check = Callable[[NodeRestriction, AdmissionRequest, str], Awaitable[str | None]]

_CHECKS: Mapping[tuple[str, str], Check] = {
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


def _check_references(node: str, pod: JsonObject) -> str | None:
    """Forbid that a pod which the node creates refers to objects of the API."""
    used = {reference.partition("/")[0] for reference in node_graph.used_by(pod)}
    referenced = [resource for resource in (*_REFERENCES, *sorted(used)) if resource in used]
    if (pod.get("spec") or {}).get("resourceClaims"):
        referenced.append("resourceclaims")
    if not referenced:
        return None
    return f"node {gotext.quote(node)} can not create pods that reference {referenced[0]}"


def _check_pod_status(admission: AdmissionRequest, node: str) -> str | None:
    new, old, quoted = admission.new or {}, admission.old or {}, gotext.quote(node)
    if _node_name(old) != node:
        return f"node {quoted} can only update pod status for pods with spec.nodeName set to itself"
    if _labels(new) != _labels(old):
        return f"node {quoted} cannot update labels through pod status"
    status, before = new.get("status") or {}, old.get("status") or {}
    for field, words in _NOT_FOR_NODES.items():
        if (status.get(field) or None) != (before.get(field) or None):
            return f"node {quoted} cannot update {words}"
    return None


_NOT_FOR_NODES = {
    "resourceClaimStatuses": "resource claim statues",
    "extendedResourceClaimStatus": "extended resource claim status",
    "nodeAllocatableResourceClaimStatuses": "node allocatable resource claim statuses",
}


def _check_new_node(new: JsonObject, node: str) -> str | None:
    labels = ", ".join(_forbidden_labels(_labels(new), {}))
    quoted = gotext.quote(node)
    return f"node {quoted} is not allowed to set the following labels: {labels}" if labels else None


def _check_changed_node(new: JsonObject, old: JsonObject, node: str) -> str | None:
    """Forbid that a node changes its taints or labels that attract pods."""
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    if (spec.get("taints") or []) != (before.get("taints") or []):
        return f"node {gotext.quote(node)} is not allowed to modify taints"
    owners, owners_before = (part["metadata"].get("ownerReferences") or [] for part in (new, old))
    if owners != owners_before:
        return f"node {gotext.quote(node)} is not allowed to modify ownerReferences"
    labels = ", ".join(_forbidden_labels(_labels(new), _labels(old)))
    return f"is not allowed to modify labels: {labels}" if labels else None


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
