"""Show what changes do: pods before and after, the room that is left, and what stops them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import click

from dray.cli.output import counts, formats, tables
from dray.cli.output.formats import OutputFormat
from dray.planner.what_if.compare import PodComparison, Position, Result, WhatIf
from dray.scheduling import unschedulable
from dray.scheduling.fit_counts import FitCount
from dray.scheduling.unschedulable import Unschedulable

Room = Mapping[str, tuple[FitCount, FitCount]]
"""How many more pods fit before and after, by class."""
_NOTHING = "-"
_WORDS = {
    Result.STAYS: "as before",
    Result.RESTARTS: "restarted",
    Result.MOVES: "moved",
    Result.STARTS: "started",
    Result.WAITS: "waiting as before",
    Result.STOPS: "stopped",
    Result.LOST: "lost",
    Result.ENDS: "ended with their node",
    Result.REMOVED: "removed",
}


def show(found: WhatIf, room: Room, format: OutputFormat) -> None:
    """Print a comparison as a table, or as a document."""
    if not format.is_table:
        formats.show_document(document(found, room), format)
        return
    if found.pods:
        tables.show(list(_rows(found, format.is_wide)), has_header=True)
        click.echo()
    if room:
        tables.show(list(_room_rows(room)), has_header=True)
        click.echo()
    for line in _sentences(found):
        click.echo(line)


def _rows(found: WhatIf, is_wide: bool) -> Iterator[list[str]]:
    yield ["POD", "OWNER", "CHANGE", "BEFORE", "AFTER"]
    for each in found.pods:
        yield [
            str(each.pod.metadata.key),
            each.owner,
            each.result.value,
            _position(each.before, is_wide),
            _position(each.after, is_wide),
        ]


def _position(position: Position, is_wide: bool) -> str:
    if not position.node:
        return _NOTHING
    names = [str(device) if is_wide else device.device for device in position.devices]
    return f"{position.node} ({', '.join(names)})" if names else position.node


def _room_rows(room: Room) -> Iterator[list[str]]:
    yield ["CLASS", "ROOM BEFORE", "ROOM AFTER"]
    for name, (before, after) in room.items():
        yield [name, str(before), str(after)]


def _sentences(found: WhatIf) -> Iterator[str]:
    by_result = Counter(_WORDS[each.result] for each in found.pods)
    parts = [f"{counts.number_of(found.running, 'pod')} not affected"]
    parts += [f"{number} {word}" for word, number in by_result.items()]
    yield f"{', '.join(parts)}."
    for blocked in found.blocked:
        yield (
            f"The drain stops at PodDisruptionBudget {blocked.budget}: it allows "
            f"{counts.number_of(blocked.allowed, 'disruption')}, {blocked.pods} of its pods have "
            f"to go, and {blocked.waiting} of these find no other place."
        )
    for each in found.pods:
        if reason := _reason(found, each):
            yield f"{each.pod.metadata.key} waits: {reason}"


def _reason(found: WhatIf, each: PodComparison) -> str:
    if not isinstance(each.decision, Unschedulable):
        return ""
    return unschedulable.message(each.decision, len(found.after.state.nodes))


def document(found: WhatIf, room: Room) -> dict[str, Any]:
    """Return a comparison as JSON."""
    return {
        "isGood": found.is_good,
        "pods": [_pod(found, each) for each in found.pods],
        "unaffectedPods": found.running,
        "room": {
            name: {"before": _count(before), "after": _count(after)}
            for name, (before, after) in room.items()
        },
        "blockedDrains": [
            {
                "podDisruptionBudget": str(blocked.budget),
                "disruptionsAllowed": blocked.allowed,
                "pods": blocked.pods,
                "waiting": blocked.waiting,
            }
            for blocked in found.blocked
        ],
    }


def _count(count: FitCount) -> dict[str, Any]:
    return {"pods": count.pods, "isComplete": count.is_complete}


def _pod(found: WhatIf, each: PodComparison) -> dict[str, Any]:
    reason = _reason(found, each)
    return {
        "namespace": each.pod.metadata.namespace,
        "name": each.pod.metadata.name,
        "owner": each.owner,
        "isSubmitted": each.is_submitted,
        "change": each.result.value,
        "before": _where(each.before),
        "after": _where(each.after),
        **({"reason": reason} if reason else {}),
    }


def _where(position: Position) -> dict[str, Any] | None:
    if not position.node:
        return None
    return {"node": position.node, "devices": [str(device) for device in position.devices]}
