"""Reviews of access and tokens, which are not stored.

As pkg/registry/authorization and pkg/registry/authentication.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dray.api import errors
from dray.api.formats import gotime
from dray.api.http_messages import Response, User
from dray.api.ids import GroupKind
from dray.api.selectors import field_selectors, label_selectors
from dray.api.types.meta import JsonObject
from dray.api.types.rbac import PolicyRule
from dray.apiserver.access import authentication, node_authorizer
from dray.apiserver.access.authentication import Authenticator
from dray.apiserver.access.authorization import Authorizer
from dray.apiserver.access.rbac import Attributes
from dray.apiserver.access.service_account_tokens import DEFAULT_AUDIENCE
from dray.apiserver.patching import managed_fields
from dray.apiserver.request import validation, write_options
from dray.apiserver.request.call import Call
from dray.apiserver.verbs import reads, writes
from dray.validation import fields

_ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
_RESOURCE_ATTRIBUTES = fields.SPEC.child("resourceAttributes")


@dataclass(frozen=True, slots=True)
class Reviews:
    authorizer: Authorizer
    authenticator: Authenticator

    async def self_subject_access(self, call: Call) -> Response:
        review = _read(call)
        _refuse(call, _attribute_errors(review), _metadata_errors(review))
        return self._answer_access(call, review, call.user)

    async def subject_access(self, call: Call) -> Response:
        review = _read(call)
        _refuse(call, _attribute_errors(review), _subject_errors(review), _metadata_errors(review))
        return self._answer_access(call, review, _subject(review["spec"]))

    async def local_subject_access(self, call: Call) -> Response:
        review = _read(call)
        if review["metadata"].setdefault("namespace", call.namespace) != call.namespace:
            raise errors.bad_request(
                "the namespace of the provided object does not match the namespace sent on the "
                "request"
            )
        _refuse(call, _attribute_errors(review), _subject_errors(review), _local_errors(review))
        return self._answer_access(call, review, _subject(review["spec"]))

    async def self_subject_rules(self, call: Call) -> Response:
        namespace = (_read(call).get("spec") or {}).get("namespace")
        if not namespace:
            raise errors.bad_request("no namespace on request")
        rules = self.authorizer.policy.rules(call.user, namespace)
        status = {
            "resourceRules": list(_resource_rules(rules)),
            "nonResourceRules": list(_path_rules(rules)),
            "incomplete": False,
        }
        if node_authorizer.node_of(call.user) is not None:
            status["incomplete"] = True
            status["evaluationError"] = "node authorizer does not support user rule resolution"
        return _respond(call, {"metadata": {}, "spec": {}, "status": status})

    async def self_subject(self, call: Call) -> Response:
        _read(call)
        metadata = {"creationTimestamp": gotime.write(call.now)}
        status = {"userInfo": _user_info(call.user)}
        return _respond(call, {"metadata": metadata, "status": status})

    async def token(self, call: Call) -> Response:
        review = _read(call)
        spec = review.get("spec") or {}
        token, audiences = spec.get("token"), spec.get("audiences") or [DEFAULT_AUDIENCE]
        if not token:
            raise errors.bad_request("token is required for TokenReview in authentication")
        review["status"] = await self._status_of(token, audiences)
        return _respond(call, review)

    def _answer_access(self, call: Call, review: JsonObject, user: User) -> Response:
        decision = self.authorizer.authorize(user, _attributes(review["spec"]))
        status: JsonObject = {"allowed": decision.allowed}
        if decision.reason:
            status["reason"] = decision.reason
        managed_fields.track(call, None, review, write_options.parse(call.request, "CreateOptions"))
        return _respond(call, {**review, "status": status})

    async def _status_of(self, token: str, audiences: list[str]) -> JsonObject:
        if DEFAULT_AUDIENCE not in audiences:
            return {"authenticated": False, "error": "the token is not for any of these audiences"}
        try:
            user = await self.authenticator.user_of_token(token)
        except errors.Unauthorized:
            return {"authenticated": False, "error": "invalid bearer token"}
        info = _user_info(user)
        return {"authenticated": True, "user": info, "audiences": [DEFAULT_AUDIENCE]}


def _read(call: Call) -> JsonObject:
    options = write_options.parse(call.request, "CreateOptions")
    document = writes.read_form(call, call.gvk, options)
    for part in ("metadata", "spec"):
        document[part] = document.get(part) or {}
    document.pop("status", None)
    return document


def _respond(call: Call, document: JsonObject) -> Response:
    response_body = {"kind": call.gvk.kind, "apiVersion": call.gvk.api_version, **document}
    return reads.encoded(call.form, response_body, 201, {})


def _refuse(call: Call, *field_errors: fields.Errors) -> None:
    group_kind = GroupKind(call.kind.group, call.kind.kind)
    validation.refuse(group_kind, "", itertools.chain(*field_errors))


def _attribute_errors(review: JsonObject) -> fields.Errors:
    spec = review.setdefault("spec", {})
    about_resource, about_path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if bool(about_resource is None) == bool(about_path is None):
        yield fields.invalid(fields.SPEC, about_path, _ONE_OF)
    if about_resource:
        yield from _selector_errors(about_resource)


def _selector_errors(attributes: JsonObject) -> fields.Errors:
    for name in ("fieldSelector", "labelSelector"):
        selector = attributes.get(name)
        if selector is None:
            continue
        path, raw = _RESOURCE_ATTRIBUTES.child(name), selector.get("rawSelector")
        if raw and selector.get("requirements"):
            yield fields.invalid(
                path.child("rawSelector"), raw, "may not specified at the same time as requirements"
            )
        if not raw and not selector.get("requirements"):
            yield fields.required(
                path.child("requirements"),
                f"when {path} is specified, requirements or rawSelector is required",
            )


def _subject_errors(review: JsonObject) -> fields.Errors:
    if not review["spec"].get("user") and not review["spec"].get("groups"):
        yield fields.invalid(
            fields.SPEC.child("user"), "", "at least one of user or group must be specified"
        )


def _metadata_errors(review: JsonObject) -> fields.Errors:
    if any(key != "managedFields" for key, value in review["metadata"].items() if value):
        yield fields.invalid(fields.METADATA, review["metadata"], "must be empty")


def _local_errors(review: JsonObject) -> fields.Errors:
    metadata, spec = review["metadata"], review["spec"]
    kept = ("managedFields", "namespace")
    if any(key not in kept for key, value in metadata.items() if value):
        yield fields.invalid(fields.METADATA, metadata, "must be empty except for namespace")
    attributes = spec.get("resourceAttributes")
    if attributes is not None and attributes.get("namespace", "") != metadata["namespace"]:
        yield fields.invalid(
            _RESOURCE_ATTRIBUTES.child("namespace"),
            attributes.get("namespace", ""),
            "must match metadata.namespace",
        )
    if spec.get("nonResourceAttributes") is not None:
        yield fields.invalid(
            fields.SPEC.child("nonResourceAttributes"),
            spec["nonResourceAttributes"],
            "disallowed on this kind of request",
        )


def _subject(spec: JsonObject) -> User:
    extra = tuple((key, tuple(values or ())) for key, values in (spec.get("extra") or {}).items())
    groups = frozenset(spec.get("groups") or ())
    return User(spec.get("user") or "", groups, spec.get("uid") or "", extra)


def _attributes(spec: JsonObject) -> Attributes:
    attributes = spec.get("resourceAttributes")
    if attributes is None:
        path = spec["nonResourceAttributes"]
        return Attributes(path.get("verb") or "", path=path.get("path") or "/")
    keys = ("verb", "group", "resource", "subresource", "namespace", "name")
    values = {key: attributes.get(key) or "" for key in keys}
    return Attributes(
        **values, fields=frozenset(_required_fields(attributes.get("fieldSelector") or {}))
    )


def _required_fields(selector: JsonObject) -> Iterator[tuple[str, str]]:
    """Return the values that field selectors require; invalid terms are left out.

    Without a term less is allowed, never more.
    """
    for requirement in selector.get("requirements") or ():
        values: list[str] = requirement.get("values") or []
        if requirement.get("operator") == "In" and len(values) == 1:
            yield requirement.get("key", ""), values[0]
    try:
        terms = field_selectors.parse_fields(selector.get("rawSelector") or "").terms
    except label_selectors.SelectorError:
        return
    yield from ((term.field, term.value) for term in terms if not term.is_negated)


def _resource_rules(rules: Iterable[PolicyRule]) -> Iterator[JsonObject]:
    for rule in rules:
        if rule.resources:
            document = {
                "verbs": list(rule.verbs),
                "apiGroups": list(rule.api_groups),
                "resources": list(rule.resources),
                "resourceNames": list(rule.resource_names),
            }
            yield {key: value for key, value in document.items() if value or key == "verbs"}


def _path_rules(rules: Iterable[PolicyRule]) -> Iterator[JsonObject]:
    for rule in rules:
        if rule.non_resource_urls:
            yield {"verbs": list(rule.verbs), "nonResourceURLs": list(rule.non_resource_urls)}


def _user_info(user: User) -> JsonObject:
    """Return the user; its groups are sorted, the one that all users have last."""
    groups = sorted(user.groups, key=lambda group: (group == authentication.AUTHENTICATED, group))
    info: JsonObject = {"username": user.name, "uid": user.uid, "groups": groups}
    info["extra"] = {key: list(values) for key, values in user.extra}
    return {key: value for key, value in info.items() if value}
