"""Admin access to devices, only in namespaces that are marked for it.

As pkg/registry/resource, AuthorizedForAdmin and AuthorizedForAdminStatus. The path of the error is
that of Kubernetes, which omits `exactly`, and for a template the outer `spec`.
"""

from __future__ import annotations

from collections.abc import Sequence

from dray.api import errors, kinds, well_known
from dray.api.types.core import Namespace
from dray.api.types.meta import JsonObject
from dray.apiserver.admission.admission_chain import AdmissionRequest, AdmissionRule
from dray.apiserver.storage.lookup import Lookup
from dray.store.store import Store

GROUP = "resource.k8s.io"
MESSAGE = (
    "Forbidden: admin access to devices requires the "
    f"`{well_known.ADMIN_ACCESS_LABEL}: true` label on the containing namespace"
)


class AdminAccess(AdmissionRule):
    about = frozenset({"ResourceClaim", "ResourceClaimTemplate"})

    def __init__(self, store: Store) -> None:
        self._namespaces = Lookup(store, kinds.NAMESPACE, Namespace)

    async def field_errors(self, admission: AdmissionRequest) -> Sequence[errors.Cause]:
        field = _field_that_asks(admission)
        if field is None:
            return ()
        namespace = await self._namespaces.get(admission.namespace)
        if namespace and namespace.metadata.labels.get(well_known.ADMIN_ACCESS_LABEL) == "true":
            return ()
        return (errors.Cause(field, "FieldValueForbidden", MESSAGE),)


def _field_that_asks(admission: AdmissionRequest) -> str | None:
    if admission.kind.group != GROUP or admission.new is None:
        return None
    if admission.is_about(GROUP, "ResourceClaim", "status"):
        was_granted = _granted(admission.old or {}) is not None
        return None if was_granted else _granted(admission.new)
    if not admission.is_create:
        return None
    if admission.kind.kind == "ResourceClaim":
        return _requested(admission.new["spec"])
    if admission.kind.kind == "ResourceClaimTemplate":
        return _requested(admission.new["spec"].get("spec") or {})
    return None


def _requested(spec: JsonObject) -> str | None:
    requests = (spec.get("devices") or {}).get("requests") or ()
    for index, request in enumerate(requests):
        if (request.get("exactly") or {}).get("adminAccess"):
            return f"spec.devices.requests[{index}].adminAccess"
    return None


def _granted(claim: JsonObject) -> str | None:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or ()
    for index, result in enumerate(results):
        if result.get("adminAccess"):
            return f"status.allocation.devices.results[{index}].adminAccess"
    return None
