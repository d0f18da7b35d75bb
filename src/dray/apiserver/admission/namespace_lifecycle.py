"""Namespace lifecycle: no creates in absent or terminating namespaces; some cannot be deleted.

As apiserver, admission/plugin/namespace/lifecycle. The namespace controller
calls `finalize` when a namespace is empty.
"""

from __future__ import annotations

from collections.abc import Iterator

from dray.api import errors, kinds, well_known
from dray.api.ids import GroupResource
from dray.api.types.core import Namespace
from dray.api.types.meta import JsonObject
from dray.apiserver.admission import admission_chain
from dray.apiserver.admission.admission_chain import AdmissionRequest, AdmissionRule
from dray.apiserver.storage.lookup import Lookup
from dray.store.store import Store

SYSTEM = ("default", "kube-system", "kube-public", well_known.NODE_LEASE_NAMESPACE)
TERMINATING = "Terminating"

# Their responses must not reveal which namespaces exist.
_REVIEWS = frozenset({"LocalSubjectAccessReview"})


def objects() -> Iterator[JsonObject]:
    """Return the namespaces of a new cluster."""
    for name in SYSTEM:
        yield {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        }


class RequireNamespace(AdmissionRule):
    """Rejects new objects in a namespace that is absent or being deleted."""

    operations = frozenset({admission_chain.CREATE})

    def __init__(self, store: Store) -> None:
        self._namespaces = Lookup(store, kinds.NAMESPACE, Namespace)

    async def mutate(self, admission: AdmissionRequest) -> None:
        if not admission.namespace or admission.kind.kind in _REVIEWS:
            return
        namespace = await self._namespaces.get(admission.namespace)
        if namespace is None:
            raise errors.not_found(GroupResource("", "namespaces"), admission.namespace)
        if namespace.status.phase == TERMINATING:
            raise _terminating(admission)


class ProtectNamespaces(AdmissionRule):
    """Rejects the deletion of the namespaces of the system."""

    about = frozenset({"Namespace"})
    operations = frozenset({admission_chain.DELETE})

    async def validate(self, admission: AdmissionRequest) -> None:
        if admission.kind is kinds.NAMESPACE and admission.name in SYSTEM:
            raise admission.forbidden("this namespace may not be deleted")


def _terminating(admission: AdmissionRequest) -> errors.Forbidden:
    name = admission.namespace
    refusal = admission.forbidden(
        f"unable to create new content in namespace {name} because it is being terminated"
    )
    cause = errors.Cause(
        "metadata.namespace", "NamespaceTerminating", f"namespace {name} is being terminated"
    )
    details = errors.Details(
        admission.name, admission.kind.group, admission.kind.plural, causes=(cause,)
    )
    return errors.Forbidden(refusal.message, details)
