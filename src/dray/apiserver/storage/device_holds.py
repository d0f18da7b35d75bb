"""Tokens of the store for the devices that a claim has exclusively: no device twice.

The store rejects a transaction that takes a token of another key. Admin access and shares of a
device take no token, since other claims may use the device, too.
"""

from __future__ import annotations

from dray.api import errors
from dray.api.features import Features
from dray.api.ids import DeviceId
from dray.api.kinds import Kind
from dray.api.types.meta import JsonObject
from dray.apiserver.storage import store_keys
from dray.store.store import TokenAlreadyHeld


def of(kind: Kind, document: JsonObject, features: Features) -> tuple[str, ...] | None:
    """Return the tokens of an object, or None for kinds without tokens."""
    if (kind.group, kind.kind) != ("resource.k8s.io", "ResourceClaim"):
        return None
    if not features.exclusive_devices:
        return ()
    allocation = (document.get("status") or {}).get("allocation") or {}
    results = allocation.get("devices", {}).get("results") or ()
    return tuple(dict.fromkeys(map(_token, filter(_is_exclusive, results))))


def _is_exclusive(result: JsonObject) -> bool:
    return not result.get("adminAccess") and not result.get("shareID")


def _token(result: JsonObject) -> str:
    return str(DeviceId(result["driver"], result["pool"], result["device"]))


def conflict(kind: Kind, name: str, error: TokenAlreadyHeld) -> errors.Conflict:
    holder = "/".join(error.owner.rsplit("/", 2)[-2:])
    return errors.conflict(
        store_keys.group_resource(kind),
        name,
        f"device {error.token} is already allocated to the claim {holder}; "
        "choose another device or wait until that claim is deallocated",
    )
