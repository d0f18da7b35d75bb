"""Authorization: roles and bindings for all users, and the node authorizer for nodes.

Decisions are made from caches and never wait; `run` keeps the caches in sync with the store.
"""

from __future__ import annotations

import asyncio

from dray.api import kinds
from dray.api.formats import gotext
from dray.api.http_messages import Request, User
from dray.api.kinds import Kind
from dray.api.selectors import field_selectors, label_selectors
from dray.api.types.rbac import ClusterRole, Role, RoleBinding
from dray.apiserver.access import bootstrap_policy, node_authorizer
from dray.apiserver.access.node_authorizer import NodeAuthorizer
from dray.apiserver.access.rbac import ALLOWED, Attributes, Decision, Policy
from dray.apiserver.request.request_info import RequestInfo
from dray.apiserver.storage import store_keys
from dray.apiserver.storage.follower import StoreFollower
from dray.apiserver.storage.lookup import Reader
from dray.store.store import Entry, Store

RoleOrBinding = Role | ClusterRole | RoleBinding

_COLLECTION_VERBS = frozenset({"list", "watch", "deletecollection"})
# As in Kubernetes: no error can be read as markup.
_SANITIZED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Authorizer:
    """Decides about every request to the API server. Only `open` makes one."""

    def __init__(
        self, policy: Policy, nodes: NodeAuthorizer, followers: list[StoreFollower]
    ) -> None:
        self.policy = policy
        self._nodes = nodes
        self._followers = followers

    @classmethod
    async def open(cls, store: Store) -> Authorizer:
        """Open an authorizer with the current content of the store."""
        policy, nodes = Policy(), NodeAuthorizer()
        followers = [
            *_policy_followers(store, policy),
            StoreFollower(store, nodes.pods.prefix, nodes.pods),
            StoreFollower(store, nodes.slices.prefix, nodes.slices),
        ]
        authorizer = cls(policy, nodes, followers)
        await authorizer.load()
        return authorizer

    async def load(self) -> None:
        for follower in self._followers:
            await follower.load()

    async def run(self) -> None:
        """Watch the store until it is closed."""
        async with asyncio.TaskGroup() as tasks:
            for follower in self._followers:
                tasks.create_task(follower.run())

    def authorize(self, user: User, attributes: Attributes) -> Decision:
        reason = ""
        node = node_authorizer.node_of(user)
        if node is not None:
            decision = self._nodes.authorize(node, attributes)
            if decision.allowed:
                return decision
            reason = decision.reason
        return ALLOWED if self.policy.allows(user, attributes) else Decision(False, reason)

    def refusal(self, user: User, attributes: Attributes) -> str | None:
        """Return Kubernetes' denial message, or None if the request is allowed."""
        decision = self.authorize(user, attributes)
        return None if decision.allowed else refusal(user, attributes, decision.reason)


def attributes_of(request: Request, info: RequestInfo) -> Attributes:
    """Return the attributes of a request; a list of one name is about that object."""
    if not info.is_resource:
        return Attributes(info.verb, path=info.path)
    name = info.name
    fields: frozenset[tuple[str, str]] = frozenset()
    if info.verb in _COLLECTION_VERBS:
        fields = _required_fields(request)
        name = name or dict(fields).get("metadata.name", "")
    return Attributes(
        info.verb,
        info.group,
        info.resource,
        info.subresource,
        info.namespace,
        name,
        fields=fields,
    )


def _required_fields(request: Request) -> frozenset[tuple[str, str]]:
    text = request.parameter("fieldSelector")
    if not text:
        return frozenset()
    try:
        terms = field_selectors.parse_fields(text).terms
    except label_selectors.SelectorError:
        # The read itself rejects it; until then it allows nothing.
        return frozenset()
    return frozenset((term.field, term.value) for term in terms if not term.is_negated)


def refusal(user: User, attributes: Attributes, reason: str = "") -> str:
    """As apiserver, endpoints/handlers/responsewriters, ForbiddenStatusError."""
    subject = f"User {gotext.quote(user.name)} cannot {attributes.verb}"
    if attributes.path:
        message = f"{subject} path {gotext.quote(attributes.path)}"
    else:
        resource = gotext.quote(attributes.full_resource)
        group = gotext.quote(attributes.group)
        message = f"{subject} resource {resource} in API group {group} {_scope(attributes)}"
    message = message.translate(_SANITIZED)
    return f"{message}: {reason}" if reason else message


def _scope(attributes: Attributes) -> str:
    if attributes.namespace:
        return f"in the namespace {gotext.quote(attributes.namespace)}"
    return "at the cluster scope"


def _policy_followers(store: Store, to: Policy) -> list[StoreFollower]:
    types: dict[str, type[RoleOrBinding]] = {
        "Role": Role,
        "ClusterRole": ClusterRole,
        "RoleBinding": RoleBinding,
        "ClusterRoleBinding": RoleBinding,
    }
    served = [(kinds.served(bootstrap_policy.GROUP, name), type_) for name, type_ in types.items()]
    return [
        StoreFollower(store, store_keys.prefix(kind), _PolicyCopy(kind, type_, to))
        for kind, type_ in served
    ]


class _PolicyCopy:
    """Passes the objects of one kind to the policy."""

    def __init__(self, kind: Kind, type_: type[RoleOrBinding], to: Policy) -> None:
        self._kind = kind
        self._reader = Reader(type_)
        self._policy = to

    def put(self, entry: Entry) -> None:
        self._policy.put(self._reader.read(entry))

    def remove(self, key: str) -> None:
        namespace, _, name = key.removeprefix(store_keys.prefix(self._kind)).rpartition("/")
        self._policy.remove(self._kind.kind, name, namespace)
