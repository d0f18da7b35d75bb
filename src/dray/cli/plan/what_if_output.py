"""Show what changes do: pods before and after, the room that is left, and what stops them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import click

from dray.api.ids import ObjectKey
from dray.cli.output import counts, formats, tables
from dray.cli.output.formats import OutputFormat
from dray.cli.plan.fit_answers import BlockedPod, FitAnswer
from dray.explain.text import phrases
from dray.planner.what_if.compare import PodComparison, PodOutcome, PodPosition, WhatIf
from dray.scheduling.fit_counts import FitCount

_NOTHING = "-"
_WORDS = {
    PodOutcome.STAYS: "as before",
    PodOutcome.RESTARTS: "restarted",
    PodOutcome.MOVES: "moved",
    PodOutcome.STARTS: "started",
    PodOutcome.WAITS: "still waiting",
    PodOutcome.STOPS: "stopped",
    PodOutcome.LOST: "lost",
    PodOutcome.ENDS: "ended with their node",
    PodOutcome.REMOVED: "removed",
}


class WhatIfAnswer(NamedTuple):
    """A comparison with the explanations of pods that wait."""

    found: WhatIf
    room: Mapping[str, tuple[FitCount, FitCount]]
    """How many more pods with one device of a class fit before and after, by class."""
    explained: Sequence[FitAnswer]

    def obstacles(self) -> dict[ObjectKey, BlockedPod]:
        """Return why pods wait that were explained."""
        return {
            compared.planned.submitted.pod.metadata.key: compared.obstacle
            for compared in self.explained
            if compared.obstacle is not None
        }


def show(answer: WhatIfAnswer, format: OutputFormat) -> None:
    """Print a comparison as tables, or as a document."""
    if not format.is_table:
        formats.show_document(_document(answer), format)
        return
    found = answer.found
    if found.pods:
        tables.show(
            [_HEADER, *(_row(compared, format.is_wide) for compared in found.pods)], has_header=True
        )
        click.echo()
    if answer.room:
        rows = [[name, str(before), str(after)] for name, (before, after) in answer.room.items()]
        tables.show([_ROOM_HEADER, *rows], has_header=True)
        click.echo()
    by_result = Counter(_WORDS[compared.result] for compared in found.pods)
    summary = [f"{number} {word}" for word, number in by_result.items()]
    click.echo(f"pods: {', '.join([*summary, f'{found.running} not affected'])}")
    for line in (*_room_lines(answer), *_budget_lines(found), *_obstacle_lines(answer)):
        click.echo(line)


_ROOM_HEADER = ["CLASS", "ROOM BEFORE", "ROOM AFTER"]
_HEADER = ["POD", "OWNER", "CHANGE", "BEFORE", "AFTER"]


def _row(compared: PodComparison, is_wide: bool) -> list[str]:
    positions = [_position(position, is_wide) for position in (compared.before, compared.after)]
    return [str(compared.pod.metadata.key), compared.owner, compared.result.value, *positions]


def _position(position: PodPosition, is_wide: bool) -> str:
    if not position.node:
        return _NOTHING
    names = [str(device) if is_wide else device.device for device in position.devices]
    return f"{position.node} ({', '.join(names)})" if names else position.node


def _room_lines(answer: WhatIfAnswer) -> Iterator[str]:
    for name, (_, after) in answer.room.items():
        if after.error:
            yield f"{click.style('✗', fg='red')} room for {name} after the changes: {after.error}"
    if not all(count.is_complete for both in answer.room.values() for count in both):
        yield "+ there may be more room: the time was too short to count all nodes"


def _budget_lines(found: WhatIf) -> Iterator[str]:
    for blocked in found.blocked:
        allowed = counts.number_of(blocked.allowed, "disruption")
        places = f"{blocked.waiting} of these find no other place"
        yield (
            f"{click.style('✗', fg='red')} the drain stops at PodDisruptionBudget "
            f"{blocked.budget}: it allows {allowed}, {blocked.pods} of its pods have to go, "
            f"and {places}"
        )


def _obstacle_lines(answer: WhatIfAnswer) -> Iterator[str]:
    by_obstacle: dict[BlockedPod, list[str]] = {}
    for key, obstacle in answer.obstacles().items():
        by_obstacle.setdefault(obstacle, []).append(str(key))
    for obstacle, names in by_obstacle.items():
        mark = click.style("✗", fg="red")
        yield f"{mark} {phrases.limited(names, len(names), 'pod')}: {obstacle.reason}"
        for number, fix in enumerate(obstacle.fixes):
            yield click.style(f"  {'or' if number else 'fix'}: {fix}", fg="green")


def _document(answer: WhatIfAnswer) -> dict[str, Any]:
    found, obstacles = answer.found, answer.obstacles()
    return {
        "isGood": found.is_good,
        "pods": [
            _pod(compared, obstacles.get(compared.pod.metadata.key)) for compared in found.pods
        ],
        "unaffectedPods": found.running,
        "room": {
            name: {"before": _count(before), "after": _count(after)}
            for name, (before, after) in answer.room.items()
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
    document: dict[str, Any] = {"pods": count.pods, "isComplete": count.is_complete}
    return {**document, "error": count.error} if count.error else document


def _pod(compared: PodComparison, obstacle: BlockedPod | None) -> dict[str, Any]:
    document = {
        "namespace": compared.pod.metadata.namespace,
        "pod": compared.pod.metadata.name,
        "owner": compared.owner,
        "isSubmitted": compared.is_submitted,
        "change": compared.result.value,
        "before": _where(compared.before),
        "after": _where(compared.after),
    }
    if obstacle is not None:
        check, reason, fixes = obstacle
        document |= {"check": check, "reason": reason, "fixes": list(fixes)}
    return document


def _where(position: PodPosition) -> dict[str, Any] | None:
    if not position.node:
        return None
    return {
        "node": position.node,
        "devices": [
            {"driver": device.driver, "pool": device.pool, "device": device.device}
            for device in position.devices
        ],
    }
