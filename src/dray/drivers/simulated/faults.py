"""Faults on demand: what the annotations of a Node say is wrong with its simulated devices.

`dray.dev/failed-devices: gpu-3,gpu-5:NoSchedule`
    These devices are unhealthy and tainted, with NoExecute where no effect is named.
`dray.dev/slow-prepare: 5s`
    Each device takes so long to be prepared; also `5`, `500ms` or `1m30s`.
`dray.dev/crash-on-prepare: "true"`
    The driver dies while it prepares a device, with its work half done.

Anybody who may write to the Node can set and remove them; `dray fleet` does. Devices fail in every
cluster; slow preparation and crashes can only be seen where containers really run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from dray.api.well_known import NO_EXECUTE

FAILED_ANNOTATION: Final = "dray.dev/failed-devices"
SLOW_ANNOTATION: Final = "dray.dev/slow-prepare"
CRASH_ANNOTATION: Final = "dray.dev/crash-on-prepare"
_UNITS: Final = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|)")


class Faults(NamedTuple):
    """`failed` has the effect of the taint of each broken device."""

    failed: Mapping[str, str]
    prepare_seconds: float = 0.0
    crashes: bool = False


def read(annotations: Mapping[str, str]) -> Faults:
    """What is not understood is no fault."""
    return Faults(
        _failed(annotations.get(FAILED_ANNOTATION, "")),
        _seconds(annotations.get(SLOW_ANNOTATION, "")),
        annotations.get(CRASH_ANNOTATION, "") == "true",
    )


def _failed(text: str) -> dict[str, str]:
    entries = (entry.strip().partition(":") for entry in text.split(",") if entry.strip())
    return {name: effect or NO_EXECUTE for name, _, effect in entries}


def _seconds(text: str) -> float:
    return sum(float(number) * _UNITS[unit] for number, unit in _DURATION.findall(text))
