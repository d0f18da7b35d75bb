"""The clock of the machine, for components; the core is given the time."""

from __future__ import annotations

import datetime

__all__ = ["utc_now"]


def utc_now() -> datetime.datetime:
    """Return the current time, aware of its zone."""
    return datetime.datetime.now(datetime.UTC)
