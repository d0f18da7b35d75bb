"""No device twice: the devices an allocated claim holds for itself, as tokens of the store.

The store refuses a transaction that takes a token another key has. Admin access and shares of a
device hold nothing, since others may use the device beside them.
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
    """The tokens a stored object owns; None for kinds that never hold anything."""
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


def conflict(kind: Kind, name: str, held: TokenAlreadyHeld) -> errors.Conflict:
    holder = "/".join(held.owner.rsplit("/", 2)[-2:])
    return errors.conflict(
        store_keys.group_resource(kind),
        name,
        f"device {held.token} is already allocated to the claim {holder}; "
        "choose another device or wait until that claim is deallocated",
    )
