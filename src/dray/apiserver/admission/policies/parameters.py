"""The parameter objects of a binding (admission/plugin/policy/generic, CollectParams)."""

from __future__ import annotations

from dray.api import kinds
from dray.api.conversion import versions
from dray.api.kinds import Kind
from dray.api.selectors import label_selectors
from dray.api.types.admission import ParamKind, ParamRef
from dray.api.types.meta import JsonObject
from dray.apiserver.storage import codec, store_keys
from dray.store.store import Store

DENY = "Deny"


class ConfigurationError(Exception):
    """A policy or binding that cannot be applied; the message is for the denied request."""


def served(param_kind: ParamKind) -> tuple[Kind, str]:
    """Return the kind of parameters and its version. Raises ConfigurationError."""
    group, version = kinds.parse_api_version(param_kind.api_version)
    found = kinds.by_kind(group, param_kind.kind)
    if found is None or version not in found.versions or not found.is_stored:
        raise ConfigurationError(
            "failed to find resource referenced by paramKind: "
            f"'{group}/{version}, Kind={param_kind.kind}'"
        )
    return found, version


async def find(
    store: Store, param_kind: ParamKind, reference: ParamRef | None, namespace: str
) -> list[JsonObject | None]:
    """Return the parameters to apply a policy with: a None alone where it has none.

    `namespace` is that of the request. Raises ConfigurationError, StatusError.
    """
    if reference is None:
        return [None]
    kind, version = served(param_kind)
    if not kind.namespaced and reference.namespace:
        raise ConfigurationError(
            "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
        )
    where = (reference.namespace or namespace) if kind.namespaced else ""
    if kind.namespaced and not where:
        raise ConfigurationError(
            "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
        )
    found = await _stored(store, kind, reference, where)
    if not found and reference.parameter_not_found_action == DENY:
        raise ConfigurationError(
            "no params found for policy binding with `Deny` parameterNotFoundAction"
        )
    api_version = kind.in_version(version).api_version
    return [versions.from_storage(document, api_version) for document in found]


async def _stored(
    store: Store, kind: Kind, reference: ParamRef, namespace: str
) -> list[JsonObject]:
    gvk = store_keys.storage_gvk(kind)
    with store_keys.translated():
        if reference.name:
            entry = await store.get(store_keys.key(kind, reference.name, namespace))
            return [] if entry is None else [codec.from_stored(entry, gvk)]
        page = await store.list(store_keys.prefix(kind, namespace))
    selector = label_selectors.label_selector(reference.selector)
    documents = (codec.from_stored(entry, gvk) for entry in page.entries)
    return [
        document
        for document in documents
        if selector.matches(document["metadata"].get("labels") or {})
    ]
