"""Settings in objects that only administrators may write, whoever else may write the objects.

The annotation `dray.dev/host-user-id` of a namespace needs the verb `escalate` on the namespace,
and the ConfigMap of revoked credentials the verb `revoke` on users.
"""

from __future__ import annotations

from collections.abc import Sequence

from dray.api import errors
from dray.api.semantics import revocation
from dray.api.types.meta import JsonObject
from dray.api.well_known import HOST_USER_ID_ANNOTATION
from dray.apiserver.access.authorization import Authorizer
from dray.apiserver.access.rbac import Attributes
from dray.apiserver.admission.admission_chain import AdmissionRequest, AdmissionRule
from dray.apiserver.request import validation
from dray.validation import fields

MIN_USER_ID, MAX_USER_ID = 1000, 2**31 - 2
RESERVED_USER_IDS = (65534, 65535)
"""The kernel shows users without a name here by the first; the second means none."""
_ANNOTATION = fields.METADATA.child("annotations").key(HOST_USER_ID_ANNOTATION)


class AdministratorSettings(AdmissionRule):
    about = frozenset({"ConfigMap", "Namespace"})

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    async def field_errors(self, admission: AdmissionRequest) -> Sequence[errors.Cause]:
        if admission.new is None:
            return ()
        if admission.kind.kind == "Namespace":
            if _user_id(admission.new) == _user_id(admission.old):
                return ()
            return validation.causes(_user_id_errors(_user_id(admission.new)))
        if not _is_about_revoked(admission):
            return ()
        return validation.causes(_revocation_errors(admission.new))

    async def validate(self, admission: AdmissionRequest) -> None:
        if admission.kind.kind == "Namespace":
            is_deletion = admission.new is None
            if is_deletion or _user_id(admission.new) == _user_id(admission.old):
                return
            what = f"{_ANNOTATION} decides whose files on a node the namespace's pods can access"
            attributes = Attributes("escalate", "", "namespaces", name=admission.name)
            self._require(admission, attributes, what)
        elif _is_about_revoked(admission) and _data(admission.new) != _data(admission.old):
            what = "it decides which credentials are revoked"
            self._require(admission, Attributes("revoke", "", "users"), what)

    def _require(self, admission: AdmissionRequest, attributes: Attributes, what: str) -> None:
        refusal = self._authorizer.refusal(admission.user, attributes)
        if refusal is not None:
            raise admission.forbidden(f"{what}: {refusal}")


def _user_id(document: JsonObject | None) -> str | None:
    annotations = (document or {}).get("metadata", {}).get("annotations") or {}
    value: str | None = annotations.get(HOST_USER_ID_ANNOTATION)
    return value


def _user_id_errors(text: str | None) -> fields.Errors:
    if text is None:
        return
    is_decimal = text.isascii() and text.isdecimal() and text[0] != "0" and len(text) <= 10
    if not is_decimal or not MIN_USER_ID <= int(text) <= MAX_USER_ID:
        limits = f"must be a decimal number from {MIN_USER_ID} to {MAX_USER_ID}"
        yield fields.invalid(_ANNOTATION, text, limits)
    elif int(text) in RESERVED_USER_IDS:
        yield fields.invalid(_ANNOTATION, text, "is a number with a meaning of its own")


def _is_about_revoked(admission: AdmissionRequest) -> bool:
    return (admission.namespace, admission.name) == (revocation.NAMESPACE, revocation.NAME)


def _data(document: JsonObject | None) -> tuple[object, object]:
    """Return the content of a ConfigMap; the deletion of one takes it away."""
    known = document or {}
    return known.get("data") or {}, known.get("binaryData") or {}


def _revocation_errors(document: JsonObject) -> fields.Errors:
    data = fields.ROOT.child("data")
    for key, text in (document.get("data") or {}).items():
        try:
            revocation.parse(text)
        except ValueError as error:
            yield fields.invalid(data.key(key), text, str(error))
    if document.get("binaryData"):
        yield fields.forbidden(fields.ROOT.child("binaryData"), "revocations are texts, in data")
