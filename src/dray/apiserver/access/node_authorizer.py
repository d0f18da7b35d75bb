"""The node authorizer: nodes read what their pods use, and write about themselves and their pods.

As plugin/pkg/auth/authorizer/node, NodeAuthorizer; what depends on an object's content is left to
`admission.node_restriction`. Two additions: dray's node agent may report on the devices of claims
that its pods use; `admission.claim_status_authorization` has the rest of that check. And it may get
the namespaces of its pods, whose annotations have the users of their containers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from dray.api import well_known
from dray.api.http_messages import User
from dray.api.types.rbac import PolicyRule
from dray.apiserver.access import bootstrap_policy, rbac
from dray.apiserver.access.node_graph import PodRelations, SliceRelations
from dray.apiserver.access.rbac import ALLOWED, Attributes, Decision

GROUP = "system:nodes"
USER_PREFIX = "system:node:"

NO_OPINION = Decision(False)
_UPDATES = ("update", "patch")
_READS = ("get", "list", "watch")
_OWN_OBJECT_VERBS = ("get", "create", "update", "patch", "delete")

_NODE_RULES = tuple(
    msgspec.convert(rule, PolicyRule) for rule in bootstrap_policy.CLUSTER_ROLES["system:node"]
)


def node_of(user: User) -> str | None:
    """Return the name of the node that a user is, or None for other users."""
    if GROUP in user.groups and user.name.startswith(USER_PREFIX):
        return user.name.removeprefix(USER_PREFIX)
    return None


@dataclass(frozen=True, slots=True)
class NodeAuthorizer:
    pods: PodRelations = field(default_factory=PodRelations)
    slices: SliceRelations = field(default_factory=SliceRelations)

    def authorize(self, node: str, attributes: Attributes) -> Decision:
        decide = _SUBDIVIDED.get((attributes.group, attributes.resource))
        if decide is not None and not attributes.path:
            return decide(self, node, attributes)
        return _by_role(attributes)

    def _read_used(self, node: str, attributes: Attributes) -> Decision:
        """Decide on a read of a secret or config map: allowed if a pod of the node uses it."""
        if attributes.verb not in _READS:
            return Decision(False, "can only read resources of this type")
        if attributes.subresource:
            return Decision(False, "cannot read subresource")
        if not attributes.namespace:
            return Decision(False, "can only read namespaced object of this type")
        return self._related(node, attributes)

    def _get_used(self, node: str, attributes: Attributes) -> Decision:
        if attributes.verb != "get":
            return Decision(False, "can only get individual resources of this type")
        if attributes.subresource:
            return Decision(False, "cannot get subresource")
        return self._related(node, attributes)

    def _related(self, node: str, attributes: Attributes) -> Decision:
        if not attributes.name:
            return Decision(False, "No Object name found")
        resource, namespace, name = attributes.resource, attributes.namespace, attributes.name
        if resource == "pods":
            is_related = self.pods.is_bound(node, namespace, name)
        elif resource == "namespaces":
            is_related = self.pods.is_used(node, resource, name, name)
        elif resource == "resourceslices":
            is_related = self.slices.is_of(node, name)
        else:
            is_related = self.pods.is_used(node, resource, namespace, name)
        why = f"no relationship found between node '{node}' and this object"
        return ALLOWED if is_related else Decision(False, why)

    def _claim(self, node: str, attributes: Attributes) -> Decision:
        if attributes.subresource == "status" and attributes.verb in _UPDATES:
            return self._related(node, attributes)
        if attributes.subresource == "driver":
            return _by_role(attributes)
        return self._get_used(node, attributes)

    def _service_account(self, node: str, attributes: Attributes) -> Decision:
        if attributes.verb == "get" and not attributes.subresource:
            return self._read_used(node, attributes)
        if attributes.verb != "create" or not attributes.name:
            return Decision(False, "can only create tokens for individual service accounts")
        if attributes.subresource != "token":
            return Decision(False, "can only create token subresource of serviceaccount")
        return self._related(node, attributes)

    def _lease(self, node: str, attributes: Attributes) -> Decision:
        if attributes.verb not in _OWN_OBJECT_VERBS:
            return Decision(False, "can only get, create, update, patch, or delete a node lease")
        namespace = well_known.NODE_LEASE_NAMESPACE
        if attributes.namespace != namespace:
            return Decision(False, f'can only access leases in the "{namespace}" system namespace')
        return _of_same_name("node lease", node, attributes)

    def _csi_node(self, node: str, attributes: Attributes) -> Decision:
        if attributes.subresource:
            return Decision(False, "cannot authorize CSINode subresources")
        if attributes.verb not in _OWN_OBJECT_VERBS:
            return Decision(False, "can only get, create, update, patch, or delete a CSINode")
        return _of_same_name("CSINode", node, attributes)

    def _slice(self, node: str, attributes: Attributes) -> Decision:
        if attributes.subresource:
            return Decision(False, "cannot authorize ResourceSlice subresources")
        match attributes.verb:
            case "create":
                return ALLOWED
            case "get" | "update" | "patch" | "delete":
                return self._related(node, attributes)
            case "watch" | "list" | "deletecollection":
                if ("spec.nodeName", node) in attributes.fields:
                    return ALLOWED
                verbs = "list/watch/deletecollection"
                return Decision(
                    False, f"can only {verbs} resourceslices with nodeName field selector"
                )
        return Decision(
            False,
            "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, "
            "update, patch, delete, deletecollection",
        )

    def _node(self, node: str, attributes: Attributes) -> Decision:
        match attributes.subresource, attributes.verb:
            case ("", "create" | "update" | "patch") | ("status", "update" | "patch"):
                return ALLOWED
            case "", "get" | "list" | "watch":
                return _own_node(node, attributes.name)
        return NO_OPINION

    def _pod(self, node: str, attributes: Attributes) -> Decision:
        match attributes.subresource, attributes.verb:
            case "", "get":
                return self._get_used(node, attributes)
            case "", "list" | "watch":
                return self._list_pods(node, attributes)
            case (
                ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create")
            ):
                return ALLOWED
        return NO_OPINION

    def _list_pods(self, node: str, attributes: Attributes) -> Decision:
        if ("spec.nodeName", node) in attributes.fields:
            return ALLOWED
        if attributes.name:
            return self._related(node, attributes)
        return Decision(False, "can only list/watch pods with spec.nodeName field selector")


_SUBDIVIDED: Mapping[tuple[str, str], Callable[[NodeAuthorizer, str, Attributes], Decision]] = {
    ("", "secrets"): NodeAuthorizer._read_used,
    ("", "configmaps"): NodeAuthorizer._read_used,
    ("", "persistentvolumeclaims"): NodeAuthorizer._get_used,
    ("", "persistentvolumes"): NodeAuthorizer._get_used,
    ("storage.k8s.io", "volumeattachments"): NodeAuthorizer._get_used,
    ("resource.k8s.io", "resourceclaims"): NodeAuthorizer._claim,
    ("", "serviceaccounts"): NodeAuthorizer._service_account,
    ("coordination.k8s.io", "leases"): NodeAuthorizer._lease,
    ("storage.k8s.io", "csinodes"): NodeAuthorizer._csi_node,
    ("resource.k8s.io", "resourceslices"): NodeAuthorizer._slice,
    ("", "namespaces"): NodeAuthorizer._get_used,
    ("", "nodes"): NodeAuthorizer._node,
    ("", "pods"): NodeAuthorizer._pod,
}


def _by_role(attributes: Attributes) -> Decision:
    allowed = any(rbac.permits(rule, attributes) for rule in _NODE_RULES)
    return ALLOWED if allowed else NO_OPINION


def _of_same_name(what: str, node: str, attributes: Attributes) -> Decision:
    # A create has no name yet; `admission.node_restriction` checks the object.
    if attributes.verb == "create" or attributes.name == node:
        return ALLOWED
    return Decision(False, f"can only access {what} with the same name as the requesting node")


def _own_node(node: str, name: str) -> Decision:
    if name == node:
        return ALLOWED
    what = f"read '{name}'" if name else "read all nodes"
    return Decision(False, f"node '{node}' cannot {what}, only its own Node object")
