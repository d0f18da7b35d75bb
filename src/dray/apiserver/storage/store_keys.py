"""Keys of objects in the store, and the store's errors as those of the API.

Events of both groups are one kind here: `events.k8s.io` reads and writes what `core` stores.
"""

from __future__ import annotations

from dray.api import errors, kinds
from dray.api.ids import GroupKind, GroupResource
from dray.api.kinds import GroupVersionKind, Kind
from dray.store import store

_EVENTS = kinds.by_kind("", "Event")


def stored_kind(kind: Kind) -> Kind:
    """Return the kind as which objects of a kind are stored."""
    return _EVENTS if kind.kind == "Event" and _EVENTS is not None else kind


def storage_gvk(kind: Kind) -> GroupVersionKind:
    """Return the storage version of a kind: the preferred one."""
    return stored_kind(kind).preferred


def prefix(kind: Kind, namespace: str = "") -> str:
    stored = stored_kind(kind)
    root = f"/{stored.group or 'core'}/{stored.plural}/"
    return f"{root}{namespace}/" if namespace else root


def key(kind: Kind, name: str, namespace: str = "") -> str:
    return prefix(kind, namespace) + name


def group_kind(kind: Kind) -> GroupKind:
    """Return the name of a kind in errors: that of the stored kind."""
    stored = stored_kind(kind)
    return GroupKind(stored.group, stored.kind)


def group_resource(kind: Kind) -> GroupResource:
    return GroupResource(kind.group, kind.plural)


class _Translation:
    """Raises errors of the store as those of the API; without state, so one for all."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, store.StoreError):
            described = _describe(error)
            if described is not None:
                raise described from error


_TRANSLATION = _Translation()


def translated() -> _Translation:
    """Return a context that raises the store's errors as those of the API.

    Errors that depend on the request, such as CommitRejected, pass unchanged.
    """
    return _TRANSLATION


def _describe(error: store.StoreError) -> errors.StatusError | None:
    match error:
        case store.RevisionExpired():
            return errors.too_old(error.revision, error.oldest)
        case store.FutureRevision():
            return errors.too_large_resource_version(error.revision, error.current)
        case store.TooLarge():
            return errors.request_entity_too_large(str(error))
        case store.ReadOnly():
            return errors.internal_error(f"writes are rejected for now: {error}")
        case store.Unavailable() | store.Closed():
            return errors.service_unavailable(str(error))
    return None
