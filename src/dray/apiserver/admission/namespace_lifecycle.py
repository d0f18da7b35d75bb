"""The life of namespaces: nothing is created where none is or one is ending; some never end.

As apiserver, admission/plugin/namespace/lifecycle. `finalize` is how the namespace controller says
that a namespace is empty.
"""

from __future__ import annotations

from collections.abc import Iterator

from dray.api import errors, kinds, well_known
from dray.api.ids import GroupResource
from dray.api.types.core import Namespace
from dray.api.types.meta import JsonObject
from dray.apiserver.admission import admission_chain
from dray.apiserver.admission.admission_chain import (
    NO_REQUIREMENTS,
    AdmissionRequest,
    AdmissionRule,
    CommitRequirements,
)
from dray.apiserver.storage.lookup import Lookup
from dray.store.store import Store

SYSTEM = ("default", "kube-system", "kube-public", well_known.NODE_LEASE_NAMESPACE)
TERMINATING = "Terminating"

# Their answers must not tell which namespaces exist.
_REVIEWS = frozenset({"LocalSubjectAccessReview"})


def objects() -> Iterator[JsonObject]:
    """The namespaces of a new cluster."""
    for name in SYSTEM:
        yield {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        }


class NamespaceLifecycle(AdmissionRule):
    def __init__(self, store: Store) -> None:
        self._namespaces = Lookup(store, kinds.NAMESPACE, Namespace)

    async def mutate(self, action: AdmissionRequest) -> None:
        if action.operation != admission_chain.CREATE or not action.namespace:
            return
        if action.kind.kind in _REVIEWS:
            return
        namespace = await self._namespaces.get(action.namespace)
        if namespace is None:
            raise errors.not_found(GroupResource("", "namespaces"), action.namespace)
        if namespace.status.phase == TERMINATING:
            raise _terminating(action)

    async def validate(self, action: AdmissionRequest) -> CommitRequirements:
        is_deletion = action.operation == admission_chain.DELETE
        if is_deletion and action.kind is kinds.NAMESPACE and action.name in SYSTEM:
            raise action.forbidden("this namespace may not be deleted")
        return NO_REQUIREMENTS


def _terminating(action: AdmissionRequest) -> errors.Forbidden:
    name = action.namespace
    refusal = action.forbidden(
        f"unable to create new content in namespace {name} because it is being terminated"
    )
    cause = errors.Cause(
        "metadata.namespace", "NamespaceTerminating", f"namespace {name} is being terminated"
    )
    details = errors.Details(action.name, action.kind.group, action.kind.plural, causes=(cause,))
    return errors.Forbidden(refusal.message, details)
