"""Where objects lie in the store, and the store's errors as the API's.

Events of both groups are one kind here: `events.k8s.io` reads and writes what `core` stores.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dray.api import errors, kinds
from dray.api.kinds import GroupVersionKind, Kind
from dray.api.names import GroupResource
from dray.store import store

_EVENTS = kinds.by_kind("", "Event")


def stored_kind(kind: Kind) -> Kind:
    """The kind whose objects these are."""
    return _EVENTS if kind.kind == "Event" and _EVENTS is not None else kind


def storage_gvk(kind: Kind) -> GroupVersionKind:
    """Objects are stored in the preferred version of their kind."""
    stored = stored_kind(kind)
    return stored.in_version(stored.versions[0])


def prefix(kind: Kind, namespace: str = "") -> str:
    stored = stored_kind(kind)
    root = f"/{stored.group or 'core'}/{stored.plural}/"
    return f"{root}{namespace}/" if namespace else root


def key(kind: Kind, name: str, namespace: str = "") -> str:
    return prefix(kind, namespace) + name


def group_resource(kind: Kind) -> GroupResource:
    return GroupResource(kind.group, kind.plural)


@contextmanager
def translated() -> Iterator[None]:
    """Raise what went wrong in the store, and not with the request, as the API's errors."""
    try:
        yield
    except store.Expired as error:
        raise errors.too_old(error.revision, error.oldest) from error
    except store.FutureRevision as error:
        raise errors.too_large_resource_version(error.revision, error.current) from error
    except store.TooLarge as error:
        raise errors.request_entity_too_large(str(error)) from error
    except store.ReadOnly as error:
        raise errors.internal_error(f"writes are refused for now: {error}") from error
    except (store.Unavailable, store.Closed) as error:
        raise errors.service_unavailable(str(error)) from error
