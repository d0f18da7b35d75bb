"""Bars for the devices that are left after each filter of a funnel."""

from __future__ import annotations

WIDTH = 20
_EIGHTHS = " ▏▎▍▌▋▊▉"
_FULL = "█"


def bar(count: int, whole: int) -> str:
    """Return a bar of eighths of a character, at least one eighth while something is left."""
    eighths = round(WIDTH * 8 * count / whole) if whole else 0
    eighths = max(eighths, 1) if count else 0
    return (_FULL * (eighths // 8) + _EIGHTHS[eighths % 8].strip()).ljust(WIDTH)
