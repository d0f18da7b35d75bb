"""An explanation of one pod or claim as it is printed, and as data.

This is what a server answers, so nothing is imported here that explaining needs.
"""

from __future__ import annotations

import enum
from typing import Any, Final

import msgspec

PATH: Final = "/dray/explain"
"""Where a cluster of dray answers, to commands of its own version only."""


class ReportForm(enum.StrEnum):
    """The form of an answer. Data may name every pod that holds a device, and text does not."""

    TEXT = "text"
    WIDE = "wide"
    """Text with charts."""
    DATA = "data"


class ReportText(msgspec.Struct, frozen=True):
    """The lines of an explanation: those with fixes and commands first, then what they rest on."""

    verdict: tuple[str, ...]
    details: tuple[str, ...] = ()


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """An explanation in the form that was asked for."""

    is_good: bool
    """Whether the pod goes its way, or the claim is or can be allocated."""
    text: ReportText = ReportText(())
    document: dict[str, Any] = {}
