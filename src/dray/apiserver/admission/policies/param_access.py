"""Parameters of policies: only who may read them writes a policy or a binding with them.

As pkg/registry/admissionregistration, authz.go: the messages of a policy show its parameters.
"""

from __future__ import annotations

from typing import NamedTuple

from dray.api import errors, kinds
from dray.api.http_messages import User
from dray.api.types.admission import (
    ParamKind,
    ParamRef,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from dray.apiserver.access.authorization import Authorizer
from dray.apiserver.access.rbac import ALL, MASTERS, Attributes
from dray.apiserver.admission import admission_chain
from dray.apiserver.admission.admission_chain import AdmissionRequest, AdmissionRule
from dray.apiserver.admission.policies.stored_policies import BINDINGS, POLICIES
from dray.apiserver.storage import store_keys
from dray.apiserver.storage.lookup import Lookup, Reader
from dray.store.store import Store


class _Resource(NamedTuple):
    """A group and a resource to read; `is_known` is false where any may be meant."""

    group: str = ALL
    resource: str = ALL
    is_known: bool = False


class ParamAccess(AdmissionRule):
    about = frozenset({POLICIES.kind, BINDINGS.kind})

    def __init__(self, store: Store, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._policies = Lookup(store, POLICIES, ValidatingAdmissionPolicy)
        self._policy_reader = Reader(ValidatingAdmissionPolicy)
        self._binding_reader = Reader(ValidatingAdmissionPolicyBinding)

    async def validate(self, admission: AdmissionRequest) -> None:
        is_written = admission.operation in (admission_chain.CREATE, admission_chain.UPDATE)
        if not is_written or admission.subresource or MASTERS in admission.user.groups:
            return
        if admission.kind is POLICIES:
            self._check_policy(admission)
        else:
            await self._check_binding(admission)

    def _check_policy(self, admission: AdmissionRequest) -> None:
        param_kind = self._policy_reader.convert(admission.document).spec.param_kind
        old = self._policy_reader.convert(admission.old).spec if admission.old else None
        if param_kind is None or (old is not None and param_kind == old.param_kind):
            return
        found = _resource(param_kind)
        attributes = Attributes("get", found.group, found.resource, "", ALL, ALL)
        if not self._authorizer.authorize(admission.user, attributes).allowed:
            raise _forbidden(
                admission,
                "paramKind",
                f'user {_shown(admission.user)} must have "get" permission on all objects of the '
                f"referenced paramKind (kind={param_kind.kind}, "
                f"apiVersion={param_kind.api_version})",
            )

    async def _check_binding(self, admission: AdmissionRequest) -> None:
        spec = self._binding_reader.convert(admission.document).spec
        reference = spec.param_ref
        old = self._binding_reader.convert(admission.old).spec if admission.old else None
        is_same = old is not None and (old.param_ref, old.policy_name) == (
            reference,
            spec.policy_name,
        )
        if reference is None or is_same:
            return
        policy = await self._policies.get(spec.policy_name)
        param_kind = policy.spec.param_kind if policy else None
        found = _resource(param_kind) if param_kind else _Resource()
        verb = "get" if reference.name else "list"
        if self._may(admission.user, verb, found, reference):
            return
        user = _shown(admission.user)
        everything = f'user {user} does not have "{verb}" permission for all groups, versions and '
        why = f'user {user} does not have "{verb}" permission on the object referenced by paramRef'
        if policy is None:
            why = (
                f"unable to get policy {spec.policy_name} to determine minimum required "
                f"permissions and {everything}resources"
            )
        elif param_kind is not None and not found.is_known:
            why = (
                f"unable to resolve paramKind &ParamKind{{APIVersion:{param_kind.api_version},"
                f"Kind:{param_kind.kind},}} to determine minimum required permissions and "
                f"{everything}resources"
            )
        raise _forbidden(admission, "paramRef", why)

    def _may(self, user: User, verb: str, found: _Resource, reference: ParamRef) -> bool:
        attributes = Attributes(
            verb, found.group, found.resource, "", reference.namespace, reference.name
        )
        return self._authorizer.authorize(user, attributes).allowed


def _resource(param_kind: ParamKind) -> _Resource:
    group, version = kinds.parse_api_version(param_kind.api_version)
    kind = kinds.by_kind(group, param_kind.kind)
    if kind is None or version not in kind.versions:
        return _Resource(group)
    return _Resource(group, kind.plural, is_known=True)


def _shown(user: User) -> str:
    """Return a user as Go prints it."""
    extra = " ".join(f"{key}:[{' '.join(values)}]" for key, values in sorted(user.extra))
    return f"&{{{user.name} {user.uid} [{' '.join(sorted(user.groups))}] map[{extra}]}}"


def _forbidden(admission: AdmissionRequest, field: str, why: str) -> errors.StatusError:
    cause = errors.Cause(f"spec.{field}", "FieldValueForbidden", f"Forbidden: {why}")
    return errors.invalid(store_keys.group_kind(admission.kind), admission.name, [cause])
