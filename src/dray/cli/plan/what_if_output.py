"""Show what changes do: pods before and after, the room that is left, and what stops them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import click

from dray.api.ids import ObjectKey
from dray.cli.output import counts, formats, tables
from dray.cli.output.formats import OutputFormat
from dray.cli.plan.fit_answers import FitAnswer, Obstacle
from dray.explain.text import phrases
from dray.planner.what_if.compare import PodComparison, Position, Result, WhatIf
from dray.scheduling.fit_counts import FitCount

_NOTHING = "-"
_WORDS = {
    Result.STAYS: "as before",
    Result.RESTARTS: "restarted",
    Result.MOVES: "moved",
    Result.STARTS: "started",
    Result.WAITS: "still waiting",
    Result.STOPS: "stopped",
    Result.LOST: "lost",
    Result.ENDS: "ended with their node",
    Result.REMOVED: "removed",
}


class Answer(NamedTuple):
    """What changes do, with the explanations of pods that wait."""

    found: WhatIf
    room: Mapping[str, tuple[FitCount, FitCount]]
    """How many more pods with one device of a class fit before and after, by class."""
    explained: Sequence[FitAnswer]

    def obstacles(self) -> dict[ObjectKey, Obstacle]:
        """Return why pods wait that were explained."""
        return {
            each.planned.submitted.pod.metadata.key: each.obstacle
            for each in self.explained
            if each.obstacle is not None
        }


def show(answer: Answer, format: OutputFormat) -> None:
    """Print a comparison as tables, or as a document."""
    if not format.is_table:
        formats.show_document(_document(answer), format)
        return
    found = answer.found
    if found.pods:
        tables.show(
            [_HEADER, *(_row(each, format.is_wide) for each in found.pods)], has_header=True
        )
        click.echo()
    if answer.room:
        rows = [[name, str(before), str(after)] for name, (before, after) in answer.room.items()]
        tables.show([_ROOM_HEADER, *rows], has_header=True)
        click.echo()
    by_result = Counter(_WORDS[each.result] for each in found.pods)
    summary = [f"{number} {word}" for word, number in by_result.items()]
    click.echo(f"pods: {', '.join([*summary, f'{found.running} not affected'])}")
    for line in (*_room_errors(answer), *_budget_lines(found), *_obstacle_lines(answer)):
        click.echo(line)


_ROOM_HEADER = ["CLASS", "ROOM BEFORE", "ROOM AFTER"]
_HEADER = ["POD", "OWNER", "CHANGE", "BEFORE", "AFTER"]


def _row(each: PodComparison, is_wide: bool) -> list[str]:
    positions = [_position(position, is_wide) for position in (each.before, each.after)]
    return [str(each.pod.metadata.key), each.owner, each.result.value, *positions]


def _position(position: Position, is_wide: bool) -> str:
    if not position.node:
        return _NOTHING
    names = [str(device) if is_wide else device.device for device in position.devices]
    return f"{position.node} ({', '.join(names)})" if names else position.node


def _room_errors(answer: Answer) -> Iterator[str]:
    for name, (_, after) in answer.room.items():
        if after.error:
            yield f"{click.style('✗', fg='red')} room for {name} after the changes: {after.error}"


def _budget_lines(found: WhatIf) -> Iterator[str]:
    for blocked in found.blocked:
        allowed = counts.number_of(blocked.allowed, "disruption")
        places = f"{blocked.waiting} of these find no other place"
        yield (
            f"{click.style('✗', fg='red')} the drain stops at PodDisruptionBudget "
            f"{blocked.budget}: it allows {allowed}, {blocked.pods} of its pods have to go, "
            f"and {places}"
        )


def _obstacle_lines(answer: Answer) -> Iterator[str]:
    by_obstacle: dict[Obstacle, list[str]] = {}
    for key, obstacle in answer.obstacles().items():
        by_obstacle.setdefault(obstacle, []).append(str(key))
    for obstacle, names in by_obstacle.items():
        mark = click.style("✗", fg="red")
        yield f"{mark} {phrases.limited(names, len(names), 'pod')}: {obstacle.reason}"
        for number, fix in enumerate(obstacle.fixes):
            yield click.style(f"  {'or' if number else 'fix'}: {fix}", fg="green")


def _document(answer: Answer) -> dict[str, Any]:
    found, obstacles = answer.found, answer.obstacles()
    return {
        "isGood": found.is_good,
        "pods": [_pod(each, obstacles.get(each.pod.metadata.key)) for each in found.pods],
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


def _pod(each: PodComparison, obstacle: Obstacle | None) -> dict[str, Any]:
    document = {
        "namespace": each.pod.metadata.namespace,
        "pod": each.pod.metadata.name,
        "owner": each.owner,
        "isSubmitted": each.is_submitted,
        "change": each.result.value,
        "before": _where(each.before),
        "after": _where(each.after),
    }
    if obstacle is not None:
        check, reason, fixes = obstacle
        document |= {"check": check, "reason": reason, "fixes": list(fixes)}
    return document


def _where(position: Position) -> dict[str, Any] | None:
    if not position.node:
        return None
    return {
        "node": position.node,
        "devices": [
            {"driver": device.driver, "pool": device.pool, "device": device.device}
            for device in position.devices
        ],
    }
