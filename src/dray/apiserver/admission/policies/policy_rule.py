"""The admission rule that enforces validating admission policies.

Follows apiserver, admission/plugin/policy/validating/dispatcher.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from dray.api import errors, kinds
from dray.api.conversion import versions
from dray.api.http_messages import User
from dray.api.kinds import Kind
from dray.api.selectors import label_selectors
from dray.api.types.admission import (
    ParamRef,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from dray.api.types.meta import JsonObject
from dray.apiserver.access.authorization import Authorizer
from dray.apiserver.access.rbac import Attributes
from dray.apiserver.admission.admission_chain import (
    AdmissionRequest,
    AdmissionRule,
    CommitRequirements,
)
from dray.apiserver.admission.policies import matching
from dray.apiserver.admission.policies.compiled_policies import CompiledPolicy, Denial, Verdict
from dray.apiserver.storage import codec, store_keys
from dray.apiserver.storage.follower import StoreFollower
from dray.apiserver.storage.lookup import Reader
from dray.cel.functions.kubernetes.authorizers import (
    AuthorizationResult,
    AuthorizerValue,
    CheckedAction,
    ServiceAccountName,
)
from dray.cel.policy import PolicyInput
from dray.store.store import Entry, Store

POLICIES: Final = kinds.VALIDATING_ADMISSION_POLICY
BINDINGS: Final = kinds.VALIDATING_ADMISSION_POLICY_BINDING
IGNORE, DENY, WARN, AUDIT = "Ignore", "Deny", "Warn", "Audit"
MAX_ANNOTATION_BYTES: Final = 10 * 1024
FAILURE_ANNOTATION: Final = "validation.policy.admission.k8s.io/validation_failure"
MAX_FAILURES: Final = 50
_CODES: Final = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}
_INVALID_CODE: Final = 422


class ConfigurationError(Exception):
    """A policy or binding that cannot be applied; the message is for the denied request."""


class StoredPolicies:
    """The policies and bindings in the store, each policy compiled once."""

    def __init__(self) -> None:
        self.policies: dict[str, ValidatingAdmissionPolicy] = {}
        self._bindings: dict[str, ValidatingAdmissionPolicyBinding] = {}
        self._compiled: dict[str, tuple[tuple[str, int], CompiledPolicy]] = {}
        self._by_policy: dict[str, list[ValidatingAdmissionPolicyBinding]] | None = None

    def followers(self, store: Store) -> list[StoreFollower]:
        return [
            StoreFollower(
                store,
                store_keys.prefix(kind),
                _Copy(store_keys.prefix(kind), Reader(type_), objects, self._changed),
            )
            for kind, type_, objects in (
                (POLICIES, ValidatingAdmissionPolicy, self.policies),
                (BINDINGS, ValidatingAdmissionPolicyBinding, self._bindings),
            )
        ]

    def _changed(self) -> None:
        self._by_policy = None

    def bound(self) -> Mapping[str, Sequence[ValidatingAdmissionPolicyBinding]]:
        """Return the bindings of the policies that exist, by policy and in order of their names."""
        if self._by_policy is None:
            found: dict[str, list[ValidatingAdmissionPolicyBinding]] = {}
            for name in sorted(self._bindings):
                binding = self._bindings[name]
                if binding.spec.policy_name in self.policies:
                    found.setdefault(binding.spec.policy_name, []).append(binding)
            self._by_policy = dict(sorted(found.items()))
            self._compiled = {
                name: self._compiled[name] for name in self._by_policy if name in self._compiled
            }
        return self._by_policy

    def compiled(self, policy: ValidatingAdmissionPolicy) -> CompiledPolicy:
        name, version = policy.metadata.name, (policy.metadata.uid, policy.metadata.generation)
        known = self._compiled.get(name)
        if known is None or known[0] != version:
            known = self._compiled[name] = (version, CompiledPolicy.of(policy.spec))
        return known[1]


class _Copy:
    """Keeps the objects of one kind by name."""

    def __init__(self, prefix: str, reader: Reader[Any], objects: dict[str, Any], changed: Any):
        self._prefix = prefix
        self._reader = reader
        self._objects = objects
        self._changed = changed

    def put(self, entry: Entry) -> None:
        self._objects[entry.key.removeprefix(self._prefix)] = self._reader.read(entry)
        self._changed()

    def remove(self, key: str) -> None:
        self._objects.pop(key.removeprefix(self._prefix), None)
        self._changed()


class _Denied(NamedTuple):
    policy: str
    binding: str
    denial: Denial


@dataclass
class _Outcome:
    """What all policies say about one request."""

    denied: list[_Denied] = field(default_factory=list)
    failures: list[JsonObject] = field(default_factory=list)
    annotations: dict[str, list[str]] = field(default_factory=dict)

    def annotate(self, policy: str, values: Iterable[tuple[str, str]]) -> None:
        for key, value in values:
            texts = self.annotations.setdefault(f"{policy}/{key}", [])
            text = value.encode()[:MAX_ANNOTATION_BYTES].decode("utf-8", "ignore")
            if text not in texts:
                texts.append(text)


class ValidatingPolicies(AdmissionRule):
    """Enforces the policies that are bound and match. Costs nothing while none is bound."""

    def __init__(self, store: Store, stored: StoredPolicies, authorizer: Authorizer) -> None:
        self._store = store
        self._stored = stored
        self._authorizer = authorizer

    async def validate(self, admission: AdmissionRequest) -> CommitRequirements | None:
        bound = self._stored.bound()
        # Policies never decide about policies: a wrong one could not be corrected.
        if not bound or admission.kind.group == POLICIES.group:
            return None
        outcome = _Outcome()
        for name, bindings in bound.items():
            await self._apply(self._stored.policies[name], bindings, admission, outcome)
        _report(admission, outcome)
        if outcome.denied:
            raise _refusal(admission, outcome.denied[0])
        return None

    async def _apply(
        self,
        policy: ValidatingAdmissionPolicy,
        bindings: Sequence[ValidatingAdmissionPolicyBinding],
        admission: AdmissionRequest,
        outcome: _Outcome,
    ) -> None:
        name, constraints = policy.metadata.name, policy.spec.match_constraints
        try:
            if constraints is None:
                raise ConfigurationError("policy contained no match constraints, a required field")
            version = await matching.matched_version(constraints, admission, self._labels)
            if version is None:
                return
            _check_param_kind(policy)
        except (ConfigurationError, errors.StatusError) as error:
            _fail(policy, "", f"failed to configure policy: {error}", outcome)
            return
        for binding in bindings:
            bound = binding.metadata.name
            try:
                match = binding.spec.match_resources
                if match is not None:
                    matched = await matching.matched_version(match, admission, self._labels)
                    if matched is None:
                        continue
                params = await self._params(policy, binding.spec.param_ref, admission.namespace)
            except (ConfigurationError, errors.StatusError) as error:
                _fail(policy, bound, f"failed to configure binding: {error}", outcome)
                continue
            for given in params:
                verdict = await self._decide(policy, admission, version, given)
                _collect(name, binding, verdict, admission, outcome)

    async def _decide(
        self,
        policy: ValidatingAdmissionPolicy,
        admission: AdmissionRequest,
        version: str,
        params: JsonObject | None,
    ) -> Verdict:
        namespace = None
        if admission.namespace and admission.kind is not kinds.NAMESPACE:
            namespace = _shown_namespace(await self._namespace(admission.namespace))
        given = PolicyInput(
            object=_in_version(admission.current, admission.body_kind or admission.kind, version),
            old_object=_in_version(admission.old, admission.kind, version),
            request=_request(admission, version),
            namespace_object=namespace,
            params=params,
            authorizer=AuthorizerValue(_checks(self._authorizer, admission.user)),
            request_action=CheckedAction(
                group=admission.kind.group,
                resource=admission.kind.plural,
                subresource=admission.subresource,
                namespace=admission.namespace,
                name=admission.name,
            ),
        )
        return self._stored.compiled(policy).decide(given)

    async def _params(
        self, policy: ValidatingAdmissionPolicy, reference: ParamRef | None, namespace: str
    ) -> list[JsonObject | None]:
        """Return the parameters to apply a policy with. Raises ConfigurationError."""
        param_kind = policy.spec.param_kind
        if param_kind is None or reference is None:
            return [None]
        kind, version = _served(param_kind.api_version, param_kind.kind)
        if reference.namespace and not kind.namespaced:
            raise ConfigurationError(
                "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
            )
        where = ""
        if kind.namespaced:
            where = reference.namespace or namespace
            if not where:
                raise ConfigurationError(
                    "cannot use namespaced paramRef in policy binding that matches "
                    "cluster-scoped resources"
                )
        found = await self._found_params(kind, reference, where)
        if not found and reference.parameter_not_found_action == DENY:
            raise ConfigurationError(
                "no params found for policy binding with `Deny` parameterNotFoundAction"
            )
        return [_in_version(document, kind, version) for document in found]

    async def _found_params(
        self, kind: Kind, reference: ParamRef, namespace: str
    ) -> list[JsonObject]:
        gvk = store_keys.storage_gvk(kind)
        with store_keys.translated():
            if reference.name:
                entry = await self._store.get(store_keys.key(kind, reference.name, namespace))
                return [] if entry is None else [codec.from_stored(entry, gvk)]
            page = await self._store.list(store_keys.prefix(kind, namespace))
        selector = label_selectors.label_selector(reference.selector)
        documents = (codec.from_stored(entry, gvk) for entry in page.entries)
        return [
            document
            for document in documents
            if selector.matches(document["metadata"].get("labels") or {})
        ]

    async def _namespace(self, name: str) -> JsonObject:
        with store_keys.translated():
            entry = await self._store.get(store_keys.key(kinds.NAMESPACE, name))
        if entry is None:
            raise errors.not_found(store_keys.group_resource(kinds.NAMESPACE), name)
        return codec.from_stored(entry, store_keys.storage_gvk(kinds.NAMESPACE))

    async def _labels(self, namespace: str) -> Mapping[str, str]:
        return (await self._namespace(namespace))["metadata"].get("labels") or {}


def _served(api_version: str, kind: str) -> tuple[Kind, str]:
    group, version = kinds.parse_api_version(api_version)
    found = kinds.by_kind(group, kind)
    if found is None or version not in found.versions or not found.is_stored:
        shown = f"{group}/{version}, Kind={kind}" if group else f"/{version}, Kind={kind}"
        raise ConfigurationError(f"failed to find resource referenced by paramKind: '{shown}'")
    return found, version


def _check_param_kind(policy: ValidatingAdmissionPolicy) -> None:
    if (param_kind := policy.spec.param_kind) is not None:
        _served(param_kind.api_version, param_kind.kind)


def _fail(policy: ValidatingAdmissionPolicy, binding: str, message: str, outcome: _Outcome) -> None:
    if policy.spec.failure_policy != IGNORE:
        outcome.denied.append(_Denied(policy.metadata.name, binding, Denial(message)))


def _collect(
    policy: str,
    binding: ValidatingAdmissionPolicyBinding,
    verdict: Verdict,
    admission: AdmissionRequest,
    outcome: _Outcome,
) -> None:
    name, actions = binding.metadata.name, binding.spec.validation_actions
    for denial in verdict.denials:
        if DENY in actions:
            outcome.denied.append(_Denied(policy, name, denial))
        if AUDIT in actions:
            outcome.failures.append(
                {
                    "message": denial.message,
                    "policy": policy,
                    "binding": name,
                    "expressionIndex": denial.index,
                    "validationActions": list(actions),
                }
            )
        if WARN in actions:
            admission.warnings.append(
                f"Validation failed for ValidatingAdmissionPolicy '{policy}' with binding "
                f"'{name}': {denial.message}"
            )
    outcome.annotate(policy, verdict.annotations)


def _report(admission: AdmissionRequest, outcome: _Outcome) -> None:
    """Hand the annotations to the audit log."""
    for key, texts in outcome.annotations.items():
        admission.annotations[key] = ", ".join(texts)
    if outcome.failures:
        shown = outcome.failures[:MAX_FAILURES]
        admission.annotations[FAILURE_ANNOTATION] = codec.encode(shown).decode()


def _refusal(admission: AdmissionRequest, denied: _Denied) -> errors.StatusError:
    policy, binding, denial = denied
    with_binding = f" with binding '{binding}'" if binding else ""
    message = f"ValidatingAdmissionPolicy '{policy}'{with_binding} denied request: {denial.message}"
    error = admission.forbidden(message)
    details = error.details or errors.Details()
    return errors.StatusError(
        error.message,
        msgspec.structs.replace(details, causes=(errors.Cause(message=message),)),
        code=_CODES.get(denial.reason, _INVALID_CODE),
        reason=denial.reason,
    )


def _in_version(document: JsonObject | None, kind: Any, version: str) -> JsonObject | None:
    if document is None or not isinstance(kind, Kind):
        return document
    return versions.from_storage(document, kind.in_version(version).api_version)


def _shown_namespace(document: JsonObject) -> JsonObject:
    """Return the parts of a namespace that expressions may read."""
    hidden = ("managedFields", "ownerReferences", "selfLink")
    metadata = {key: value for key, value in document["metadata"].items() if key not in hidden}
    return {
        "metadata": metadata,
        **{part: document[part] for part in ("spec", "status") if part in document},
    }


def _request(admission: AdmissionRequest, version: str) -> JsonObject:
    kind, user = admission.kind, admission.user
    shown = admission.body_kind or kind.in_version(version)
    asked = admission.body_kind or kind.in_version(admission.version)

    def resource(of_version: str) -> JsonObject:
        return {"group": kind.group, "version": of_version, "resource": kind.plural}

    request = {
        "kind": {"group": shown.group, "version": shown.version, "kind": shown.kind},
        "resource": resource(version),
        "subResource": admission.subresource,
        "requestKind": {"group": asked.group, "version": asked.version, "kind": asked.kind},
        "requestResource": resource(admission.version),
        "requestSubResource": admission.subresource,
        "name": admission.name,
        "namespace": admission.namespace,
        "operation": admission.operation,
        "userInfo": _user_info(user),
        "dryRun": admission.dry_run,
        "options": admission.options,
    }
    optional = ("subResource", "requestSubResource", "name", "namespace", "options")
    return {key: value for key, value in request.items() if value or key not in optional}


def _user_info(user: User) -> JsonObject:
    info = {
        "username": user.name,
        "uid": user.uid,
        "groups": sorted(user.groups),
        "extra": {key: list(texts) for key, texts in user.extra},
    }
    return {key: value for key, value in info.items() if value}


def _checks(authorizer: Authorizer, user: User) -> Any:
    """Return the function that decides about the checks of an expression."""

    def authorize(account: ServiceAccountName | None, action: CheckedAction) -> AuthorizationResult:
        subject = user if account is None else _service_account(account)
        attributes = (
            Attributes(action.verb, path=action.path)
            if action.path
            else Attributes(
                action.verb,
                action.group,
                action.resource,
                action.subresource,
                action.namespace,
                action.name,
            )
        )
        decision = authorizer.authorize(subject, attributes)
        return AuthorizationResult(decision.allowed, decision.reason)

    return authorize


def _service_account(account: ServiceAccountName) -> User:
    namespace, name = account
    return User(
        f"system:serviceaccount:{namespace}:{name}",
        frozenset(
            {
                "system:serviceaccounts",
                f"system:serviceaccounts:{namespace}",
            }
        ),
    )
