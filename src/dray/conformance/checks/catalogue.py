"""Every check, in the order in which they are made."""

from __future__ import annotations

from dray.conformance.check import ConformanceCheck
from dray.conformance.checks import (
    binding,
    cdi_files,
    cleanup,
    health,
    limits,
    metadata_files,
    prepare,
    refusals,
    registration,
    republishing,
    restart,
    slices,
    unprepare,
    upgrade,
)

GROUPS = (
    registration.GROUP,
    slices.GROUP,
    restart.GROUP,
    health.GROUP,
    prepare.GROUP,
    refusals.GROUP,
    unprepare.GROUP,
    republishing.GROUP,
    cdi_files.GROUP,
    metadata_files.GROUP,
    binding.GROUP,
    limits.GROUP,
    upgrade.GROUP,
    cleanup.GROUP,
)
CHECKS: tuple[ConformanceCheck, ...] = tuple(check for group in GROUPS for check in group.checks)


def named(patterns: tuple[str, ...]) -> tuple[ConformanceCheck, ...]:
    """Return the checks with these ids, or of these groups. Raises LookupError for others."""
    known = {check.id for check in CHECKS} | {check.group for check in CHECKS}
    for pattern in patterns:
        if pattern not in known:
            raise LookupError(f"there is no check or group {pattern!r}")
    return tuple(check for check in CHECKS if {check.id, check.group} & set(patterns))
