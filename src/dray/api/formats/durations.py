"""Ages and durations as kubectl shows them, and durations as Go reads them."""

from __future__ import annotations

import datetime
import re
from typing import Final

__all__ = ["GO_DURATION_PART", "UNKNOWN", "human_duration", "is_go_duration", "since"]

UNKNOWN = "<unknown>"
GO_DURATION_PART: Final = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(h|ms|m|s|us|µs|μs|ns)")
"""A number and its unit, as Go's time.ParseDuration reads them."""
_GO_DURATION = re.compile(f"[-+]?(?:0|(?:{GO_DURATION_PART.pattern})+)")


def is_go_duration(text: str) -> bool:
    """Return whether Go's time.ParseDuration reads a text; numbers may be of any size."""
    return _GO_DURATION.fullmatch(text) is not None


def human_duration(duration: datetime.timedelta) -> str:
    """Return a duration as in `kubectl get` (apimachinery, util/duration, HumanDuration)."""
    seconds = int(duration.total_seconds())
    if seconds < 0:
        return "<invalid>" if seconds < -1 else "0s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _two_units(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two_units(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _two_units(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    if days < 2920:
        return _two_units(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def since(timestamp: str | None, now: datetime.datetime) -> str:
    """Return the age of a timestamp, or `<unknown>` without one."""
    if not timestamp:
        return UNKNOWN
    return human_duration(now - datetime.datetime.fromisoformat(timestamp))


def _two_units(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"
