"""The values that the expressions of a policy read about one request.

Follows apiserver, admission/plugin/cel, CreateAdmissionRequest and newActivation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dray.api import errors, kinds
from dray.api.conversion import versions
from dray.api.http_messages import User
from dray.api.kinds import GroupVersionKind
from dray.api.selectors import field_selectors, label_selectors
from dray.api.types.meta import JsonObject
from dray.apiserver.access.authorization import Authorizer
from dray.apiserver.access.rbac import Attributes
from dray.apiserver.admission.admission_chain import AdmissionRequest
from dray.apiserver.admission.policies.compiled_policies import AUTHORIZER, REQUEST
from dray.apiserver.admission.policies.matching import MatchedResource
from dray.apiserver.storage import codec, store_keys
from dray.cel.functions.kubernetes.authorizers import (
    AuthorizationResult,
    Authorize,
    AuthorizerValue,
    CheckedAction,
    ServiceAccountName,
)
from dray.cel.policy import PolicyInput
from dray.store.store import Store

_NAMESPACE_METADATA = frozenset(
    (
        *("name", "generateName", "namespace", "uid", "resourceVersion", "generation"),
        *("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
        *("labels", "annotations", "finalizers"),
    )
)


class RequestValues:
    """The parts of one request that policies read; each is made once, for all of them."""

    def __init__(self, store: Store, authorizer: Authorizer, admission: AdmissionRequest) -> None:
        self.admission = admission
        self._store = store
        self._authorizer = authorizer
        self._namespaces: dict[str, JsonObject] = {}
        self._inputs: dict[tuple[GroupVersionKind, bool], PolicyInput] = {}

    @property
    def namespace(self) -> str:
        """The namespace of the request; for a namespace itself, its name."""
        admission = self.admission
        return admission.name if admission.kind is kinds.NAMESPACE else admission.namespace

    async def labels(self, namespace: str) -> JsonObject:
        """Return the labels of a namespace. Raises NotFound."""
        return (await self._namespace(namespace))["metadata"].get("labels") or {}

    async def namespace_object(self) -> JsonObject | None:
        """Return what expressions may read of the namespace; None for cluster-scoped objects."""
        if not self.admission.namespace:
            return None
        document = await self._namespace(self.admission.namespace)
        metadata = document["metadata"]
        return {
            "metadata": {key: metadata[key] for key in metadata if key in _NAMESPACE_METADATA},
            **{part: document[part] for part in ("spec", "status") if part in document},
        }

    async def _namespace(self, name: str) -> JsonObject:
        if name not in self._namespaces:
            with store_keys.translated():
                entry = await self._store.get(store_keys.key(kinds.NAMESPACE, name))
            if entry is None:
                raise errors.not_found(store_keys.group_resource(kinds.NAMESPACE), name)
            gvk = store_keys.storage_gvk(kinds.NAMESPACE)
            self._namespaces[name] = codec.from_stored(entry, gvk)
        return self._namespaces[name]

    def given(self, matched: MatchedResource, reads: frozenset[str]) -> PolicyInput:
        """Return the values for a policy that matched the request as this resource.

        `reads` are the variables that it uses, of those that cost something. Parameters and the
        namespace are not among the values yet.
        """
        is_plain = REQUEST not in reads and AUTHORIZER not in reads
        key = (matched.gvk, is_plain)
        known = self._inputs.get(key)
        if known is None:
            known = self._inputs[key] = self._input(matched, is_plain=is_plain)
        return known

    def conditions_request(self, matched: MatchedResource) -> Mapping[str, Any]:
        """Return the request as match conditions read it: its resource as the client named it."""
        admission = self.admission
        original = MatchedResource.of(admission.kind, admission.version)
        request = self._request(matched)
        return request if matched == original else {**request, "resource": _resource(original)}

    def _input(self, matched: MatchedResource, *, is_plain: bool) -> PolicyInput:
        admission = self.admission
        new = _in_version(admission.shown(admission.current), admission, matched)
        old = _in_version(admission.shown(admission.old), admission, matched)
        if is_plain:
            return PolicyInput({}, new, old)
        return PolicyInput(
            object=new,
            old_object=old,
            request=self._request(matched),
            authorizer=AuthorizerValue(_checks(self._authorizer, admission.user)),
            request_action=CheckedAction(
                group=admission.kind.group,
                resource=admission.kind.plural,
                subresource=admission.subresource,
                namespace=self.namespace,
                name=self.admission.name,
            ),
        )

    def _request(self, matched: MatchedResource) -> JsonObject:
        admission = self.admission
        original = MatchedResource.of(admission.kind, admission.version)
        request = {
            "kind": _kind(admission.body_kind or matched.gvk),
            "resource": _resource(matched),
            "subResource": admission.subresource,
            "requestKind": _kind(admission.body_kind or original.gvk),
            "requestResource": _resource(original),
            "requestSubResource": admission.subresource,
            "name": self.admission.name,
            "namespace": self.namespace,
            "operation": admission.operation,
            "userInfo": _user_info(admission.user),
            "dryRun": admission.dry_run,
            "options": admission.options,
        }
        optional = ("subResource", "requestSubResource", "name", "namespace")
        return {key: value for key, value in request.items() if value or key not in optional}


def _in_version(
    document: JsonObject | None, admission: AdmissionRequest, matched: MatchedResource
) -> JsonObject | None:
    """Return an object in the version that a policy matched; the body of a subresource has one."""
    if document is None or admission.body_kind is not None:
        return document
    return versions.from_storage(document, matched.gvk.api_version)


def _kind(gvk: GroupVersionKind) -> JsonObject:
    return {"group": gvk.group, "version": gvk.version, "kind": gvk.kind}


def _resource(matched: MatchedResource) -> JsonObject:
    kind, gvk = matched
    return {"group": kind.group, "version": gvk.version, "resource": kind.plural}


def _user_info(user: User) -> JsonObject:
    info = {
        "username": user.name,
        "uid": user.uid,
        "groups": sorted(user.groups),
        "extra": {key: list(texts) for key, texts in user.extra},
    }
    return {key: value for key, value in info.items() if value}


def _checks(authorizer: Authorizer, user: User) -> Authorize:
    """Return the function that decides about the checks of an expression."""

    def authorize(account: ServiceAccountName | None, action: CheckedAction) -> AuthorizationResult:
        subject = user if account is None else _service_account(account)
        decision = authorizer.authorize(subject, _attributes(action))
        return AuthorizationResult(decision.allowed, decision.reason)

    return authorize


def _attributes(action: CheckedAction) -> Attributes:
    if action.path:
        return Attributes(action.verb, path=action.path)
    return Attributes(
        action.verb,
        action.group,
        action.resource,
        action.subresource,
        action.namespace,
        action.name,
        fields=_required_fields(action.field_selector),
    )


def _required_fields(selector: str) -> frozenset[tuple[str, str]]:
    """Return the values that a field selector requires; none if it cannot be parsed."""
    try:
        terms = field_selectors.parse_fields(selector).terms if selector else ()
    except label_selectors.SelectorError:
        return frozenset()
    return frozenset((term.field, term.value) for term in terms if not term.is_negated)


def _service_account(account: ServiceAccountName) -> User:
    namespace, name = account
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return User(f"system:serviceaccount:{namespace}:{name}", frozenset(groups))
