"""Opaque parameters of claims and classes: how programs share a device. Pure.

The shapes are those of the vendor's driver (GpuConfig and MigDeviceConfig of
resource.nvidia.com/v1beta1). Errors name their field; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dray.api.formats import quantity
from dray.validation import fields
from dray.validation.fields import Errors, Path

API_VERSION: Final = "resource.nvidia.com/v1beta1"
GPU_CONFIG, MIG_CONFIG = "GpuConfig", "MigDeviceConfig"
TIME_SLICING, MPS = "TimeSlicing", "MPS"
INTERVALS: Final = ("Default", "Short", "Medium", "Long")
"""In the order of NVIDIA's own numbers for them."""
MIB: Final = 2**20
PARAMETERS: Final = Path("parameters")
_OBJECT = "must be an object"


class ConfigError(ValueError):
    """Parameters that cannot be used; the message has every error and its field."""


@dataclass(frozen=True)
class TimeSlicing:
    """Programs take turns; the length of a turn can be chosen for whole GPUs."""

    interval: str = INTERVALS[0]


@dataclass(frozen=True)
class Mps:
    """Programs run side by side through NVIDIA's Multi-Process Service, within limits."""

    thread_percentage: int | None = None
    memory_mebibytes: int | None = None
    memory_mebibytes_of: Mapping[str, int] = field(default_factory=dict)
    """By a device's UUID, or its number among those of the claim."""

    def limit(self, uuid: str, number: int) -> int | None:
        own = self.memory_mebibytes_of
        return own.get(uuid, own.get(str(number), self.memory_mebibytes))


Sharing = TimeSlicing | Mps


def sharing(given: Sequence[Any], kind: str) -> Sharing:
    """Return the sharing of a device. Parameters of the claim win over those of its class.

    Parameters for the other kind of device are validated as well, and then ignored.
    """
    errors = [error for document in given for error in _validate(document)]
    if errors:
        raise ConfigError("; ".join(map(str, errors)))
    chosen = [document.get("sharing") for document in given if document["kind"] == kind]
    return _read(next((sharing for sharing in reversed(chosen) if sharing), None))


def _read(given: Mapping[str, Any] | None) -> Sharing:
    if given is None or given["strategy"] == TIME_SLICING:
        config = (given or {}).get("timeSlicingConfig") or {}
        return TimeSlicing(config.get("interval") or INTERVALS[0])
    config = given.get("mpsConfig") or {}
    limit = config.get("defaultPinnedDeviceMemoryLimit")
    limits = config.get("defaultPerDevicePinnedMemoryLimit") or {}
    return Mps(
        config.get("defaultActiveThreadPercentage"),
        None if limit is None else _mebibytes(limit),
        {name: _mebibytes(value) for name, value in limits.items()},
    )


def _validate(given: Any) -> Errors:
    if not isinstance(given, dict):
        yield fields.invalid(PARAMETERS, given, _OBJECT)
        return
    if given.get("apiVersion") != API_VERSION:
        path = PARAMETERS.child("apiVersion")
        yield fields.not_supported(path, str(given.get("apiVersion", "")), [API_VERSION])
    kind = given.get("kind")
    if kind not in (GPU_CONFIG, MIG_CONFIG):
        path = PARAMETERS.child("kind")
        yield fields.not_supported(path, str(kind or ""), [GPU_CONFIG, MIG_CONFIG])
        return
    yield from _unknown(given, ("apiVersion", "kind", "sharing"), PARAMETERS)
    shared = given.get("sharing")
    if shared is not None:
        yield from _validate_sharing(shared, kind, PARAMETERS.child("sharing"))


def _validate_sharing(given: Any, kind: str, path: Path) -> Errors:
    if not isinstance(given, dict):
        yield fields.invalid(path, given, _OBJECT)
        return
    allowed = ["strategy", "mpsConfig"]
    if kind == GPU_CONFIG:
        allowed.insert(1, "timeSlicingConfig")
    yield from _unknown(given, allowed, path)
    strategy = given.get("strategy")
    if strategy not in (TIME_SLICING, MPS):
        yield fields.not_supported(path.child("strategy"), str(strategy or ""), [TIME_SLICING, MPS])
    for name, owner, check in (
        ("timeSlicingConfig", TIME_SLICING, _validate_time_slicing),
        ("mpsConfig", MPS, _validate_mps),
    ):
        config = given.get(name)
        if config is None or name not in allowed:
            continue
        if strategy != owner:
            yield fields.forbidden(path.child(name), f"may be set with strategy {owner} only")
        elif not isinstance(config, dict):
            yield fields.invalid(path.child(name), config, _OBJECT)
        else:
            yield from check(config, path.child(name))


def _validate_time_slicing(given: dict[str, Any], path: Path) -> Errors:
    yield from _unknown(given, ("interval",), path)
    interval = given.get("interval")
    if interval is not None and interval not in INTERVALS:
        yield fields.not_supported(path.child("interval"), str(interval), INTERVALS)


def _validate_mps(given: dict[str, Any], path: Path) -> Errors:
    names = (
        "defaultActiveThreadPercentage",
        "defaultPinnedDeviceMemoryLimit",
        "defaultPerDevicePinnedMemoryLimit",
    )
    yield from _unknown(given, names, path)
    percentage, limit, limits = (given.get(name) for name in names)
    is_number = isinstance(percentage, int) and not isinstance(percentage, bool)
    if percentage is not None and not (is_number and 0 < percentage <= 100):
        yield fields.invalid(path.child(names[0]), percentage, "must be between 1 and 100")
    if limit is not None:
        yield from _validate_limit(limit, path.child(names[1]))
    if limits is None:
        return
    if not isinstance(limits, dict):
        yield fields.invalid(path.child(names[2]), limits, _OBJECT)
        return
    for name, value in limits.items():
        yield from _validate_limit(value, path.child(names[2]).key(name))


def _validate_limit(given: Any, path: Path) -> Errors:
    try:
        mebibytes = _mebibytes(given)
    except ValueError:
        yield fields.invalid(path, given, "must be a quantity, as 10Gi")
    else:
        if mebibytes < 1:
            yield fields.invalid(path, given, "must be 1Mi or more")


def _unknown(given: Mapping[str, Any], allowed: Sequence[str], path: Path) -> Iterator[Any]:
    for name in given:
        if name not in allowed:
            yield fields.forbidden(path.child(name), f"is not one of {', '.join(allowed)}")


def _mebibytes(given: Any) -> int:
    return quantity.parse(str(given)).value() // MIB
