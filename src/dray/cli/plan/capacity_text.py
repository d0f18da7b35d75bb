"""The tables and drawings of `dray plan capacity`."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import click

from dray.cli.output import tables
from dray.cli.output.counts import number_of
from dray.cli.plan import card_drawing
from dray.planner.capacity import limits_text, shapes
from dray.planner.capacity.cards import Card
from dray.planner.capacity.limits import COUNTERS
from dray.planner.capacity.pod_capacity import NodeCapacity, PodCapacity
from dray.planner.capacity.report import CapacityReport
from dray.planner.capacity.stranded import StrandedDevices

_DRAWN = 4
"""Cards that are drawn, unless the output is wide."""
_LISTED = 3


def show(report: CapacityReport, *, by_class: bool, is_wide: bool) -> None:
    """Print a report: of every class, or of the pods of files."""
    if by_class:
        _show_classes(report, is_wide)
        _show_stranded(report)
        _show_cards(report.cards, card_drawing.in_order(report.cards), is_wide)
    else:
        for capacity in report.capacities:
            _show_pod(capacity, is_wide)
        blocked = [card for card in report.cards if card.blocked]
        if blocked and any(COUNTERS in dict(found.limits()) for found in report.capacities):
            _show_cards(report.cards, blocked, is_wide)
    if report.waiting:
        click.echo()
        waiting = number_of(report.waiting, "pod")
        click.echo(f"Not counted: {waiting} that {_wait(report.waiting)} for a node already.")


def _wait(number: int) -> str:
    return "waits" if number == 1 else "wait"


def _show_classes(report: CapacityReport, is_wide: bool) -> None:
    rows = [["CLASS", "PODS THAT FIT", "LIMIT"]]
    rows += [[found.name, _pods(found), limits_text.of(found)] for found in report.capacities]
    tables.show(rows, has_header=True)
    for capacity in report.capacities if is_wide else ():
        click.echo()
        _show_pod(capacity, is_wide)


def _show_pod(capacity: PodCapacity, is_wide: bool) -> None:
    click.echo(f"{capacity.name}: {_pods(capacity)} more fit; limit: {limits_text.of(capacity)}")
    if capacity.nodes:
        rows = [["NODES", "PODS EACH", "LIMIT"], *_node_rows(capacity.nodes, is_wide)]
        tables.show(rows, has_header=True)


def _pods(capacity: PodCapacity) -> str:
    return f"{capacity.pods}{'' if capacity.is_complete else '+'}"


def _node_rows(nodes: Sequence[NodeCapacity], is_wide: bool) -> Iterator[list[str]]:
    """Yield a row for each group of nodes with the same number and limits, or for each node."""
    if is_wide:
        for node in nodes:
            yield [node.node, str(node.pods), ", ".join(node.limits)]
        return
    groups: dict[tuple[int, tuple[str, ...]], list[str]] = {}
    for node in nodes:
        groups.setdefault((node.pods, node.limits), []).append(node.node)
    for (pods, limits), names in sorted(groups.items(), key=lambda item: -item[0][0]):
        yield [_some(names), str(pods), ", ".join(limits)]


def _some(names: Sequence[str]) -> str:
    if len(names) <= _LISTED:
        return ", ".join(names)
    return f"{names[0]}, {names[1]} and {len(names) - 2} more"


def _show_stranded(report: CapacityReport) -> None:
    if not report.stranded:
        return
    click.echo()
    click.echo(f"Stranded: free, but {_shapes(report.shapes)} can get them.")
    groups: dict[tuple[str, tuple[str, ...]], list[StrandedDevices]] = {}
    for found in report.stranded:
        groups.setdefault((found.device_class, found.limits), []).append(found)
    rows = [["CLASS", "DEVICES", "NODES", "BECAUSE OF"]]
    rows += [
        [name, str(_devices(found)), _some([item.node for item in found]), ", ".join(limits)]
        for (name, limits), found in sorted(groups.items(), key=lambda item: -_devices(item[1]))
    ]
    tables.show(rows, has_header=True)


def _shapes(number: int) -> str:
    if not number:
        return "no pod with one device of a class"
    if number > shapes.MOST:
        return f"none of the {shapes.MOST} most frequent shapes of pods in use (of {number})"
    return f"none of the {number} shapes of pods in use" if number > 1 else "no pod like those here"


def _devices(found: Sequence[StrandedDevices]) -> int:
    return sum(len(item.devices) for item in found)


def _show_cards(cards: Sequence[Card], drawn: Sequence[Card], is_wide: bool) -> None:
    if not cards:
        return
    click.echo()
    click.echo("Cards by the largest partition that each can still give:")
    counts = Counter(_largest(card) for card in cards)
    shares = {_largest(card): card.share for card in cards}
    rows = [["LARGEST", "CARDS"]]
    ordered = sorted(counts, key=lambda name: -shares[name])
    tables.show([*rows, *([name, str(counts[name])] for name in ordered)], has_header=True)
    for card in drawn if is_wide else drawn[:_DRAWN]:
        _show_card(card)
    if len(drawn) > _DRAWN and not is_wide:
        click.echo()
        click.echo(f"{number_of(len(drawn) - _DRAWN, 'more card')} in use in part: -o wide")


def _largest(card: Card) -> str:
    if not card.largest:
        return "nothing"
    return "all of it" if card.largest == card.device.device else card.largest


def _show_card(card: Card) -> None:
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 80
    click.echo()
    place = f"{card.node}/{card.device.device}" if card.node else str(card.device)
    free = f"{card.free_slices} of {card.slices} slices are free"
    click.echo(f"{place}: {free}; largest partition left: {_largest(card)}")
    for line in card_drawing.drawing(card, width, is_ascii=not _has_boxes()):
        click.echo(line)
    for blocked in card.blocked:
        click.echo(card.message(blocked))


def _has_boxes() -> bool:
    """Return whether the output can have characters that draw boxes."""
    try:
        "┌─│".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def document(report: CapacityReport) -> dict[str, Any]:
    """Return a report for machines."""
    return {
        "capacity": [_capacity_document(found) for found in report.capacities],
        "stranded": [
            {
                "node": found.node,
                "deviceClass": found.device_class,
                "devices": list(found.devices),
                "limits": list(found.limits),
            }
            for found in report.stranded
        ],
        "cards": [_card_document(card) for card in report.cards],
        "waitingPods": report.waiting,
    }


def _capacity_document(found: PodCapacity) -> dict[str, Any]:
    return {
        "name": found.name,
        "pods": found.pods,
        "isComplete": found.is_complete,
        "limit": limits_text.of(found),
        "nodes": [
            {"node": node.node, "pods": node.pods, "limits": list(node.limits)}
            for node in found.nodes
        ],
    }


def _card_document(card: Card) -> dict[str, Any]:
    return {
        "node": card.node,
        "device": str(card.device),
        "slices": card.slices,
        "freeSlices": card.free_slices,
        "largest": card.largest,
        "share": card.share,
        "inUse": [
            {
                "device": part.device,
                "profile": part.profile,
                "start": part.start,
                "size": part.size,
                "claims": [str(claim) for claim in part.claims],
            }
            for part in card.held
        ],
        "blocked": [
            {"profile": item.profile, "size": item.size, "starts": list(item.starts)}
            | {"message": card.message(item)}
            for item in card.blocked
        ],
    }
