"""Show how many machines are needed, and what fails with one less."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from dray.cli.output import counts, formats, tables
from dray.cli.output.formats import OutputFormat
from dray.explain.text import phrases
from dray.planner.placement.place import PlannedPod
from dray.planner.sizing.fewest_machines import PROVED_MACHINES, Sizing, WaitingPods
from dray.scheduling import unschedulable
from dray.scheduling.unschedulable import Unschedulable


def show(found: Sizing, format: OutputFormat) -> None:
    """Print an answer as a table, or as a document."""
    if not format.is_table:
        formats.show_document(document(found), format)
        return
    if found.counts is not None:
        tables.show(list(_rows(found)), has_header=True)
        click.echo()
        if format.is_wide:
            tables.show(list(_pod_rows(found)), has_header=True)
            click.echo()
    for line in _sentences(found):
        click.echo(line)


def _rows(found: Sizing) -> Iterator[list[str]]:
    yield ["TYPE", "MACHINES", "PODS ON THEM"]
    for type_, count in zip(found.types, found.counts or (), strict=True):
        yield [type_.name, str(count), str(len(found.pods_on(type_)))]


def _pod_rows(found: Sizing) -> Iterator[list[str]]:
    yield ["POD", "NODE", "DEVICES"]
    for planned in found.pods:
        yield [_key(planned), planned.node, ", ".join(map(str, planned.devices())) or "-"]


def _sentences(found: Sizing) -> Iterator[str]:
    if found.counts is None:
        yield _why_none(found)
        yield from _reasons(found.waiting)
        return
    pods = counts.number_of(len(found.pods), "pod")
    if not found.machines:
        yield f"No machine has to be added for {pods}."
        return
    verb = "makes" if found.machines == 1 else "make"
    yield f"{counts.number_of(found.machines, 'more machine')} {verb} {pods} fit. {_proof(found)}"
    for less in found.one_less:
        waiting = _misfits(less.waiting)
        yield f"With one {less.type.name} less, {waiting}:"
        yield from _reasons(less.waiting)


def _proof(found: Sizing) -> str:
    if found.is_proved:
        return "Fewer are not enough."
    return (
        "None of them can be left out, but that fewer are not enough is proved up to "
        f"{PROVED_MACHINES} machines only."
    )


def _why_none(found: Sizing) -> str:
    names = phrases.listed([type_.name for type_ in found.types], "or")
    if found.is_proved:
        return f"No number of {names} is enough. {_misfits(found.waiting)}:"
    return (
        f"No number of {names} is known to be enough: neither {PROVED_MACHINES} machines or fewer, "
        f"nor {found.most} of each type. With these, {_misfits(found.waiting)}:"
    )


def _misfits(waiting: WaitingPods) -> str:
    number = len(waiting.pods)
    return f"{counts.number_of(number, 'pod')} {'does' if number == 1 else 'do'} not fit"


def _reasons(waiting: WaitingPods) -> Iterator[str]:
    """Yield the reasons of pods, once for all that have the same."""
    names: dict[str, list[str]] = {}
    for planned in waiting.pods:
        names.setdefault(_reason(planned, waiting.nodes), []).append(_key(planned))
    for reason, pods in names.items():
        yield f"  {phrases.limited(pods, len(pods), 'pod')}: {reason}"


def _reason(planned: PlannedPod, nodes: int) -> str:
    if not isinstance(planned.decision, Unschedulable):
        evicted = [str(pod.metadata.key) for pod in planned.evicted]
        return f"it runs, but evicts {phrases.limited(evicted, len(evicted), 'pod')}"
    # That nothing can be evicted for the pod is no news here.
    return unschedulable.message(planned.decision, nodes).partition(" preemption: ")[0]


def _key(planned: PlannedPod) -> str:
    return str(planned.submitted.pod.metadata.key)


def document(found: Sizing) -> dict[str, Any]:
    """Return an answer as JSON."""
    if found.counts is None:
        return {
            "fits": False,
            "isProved": found.is_proved,
            "types": [{"name": type_.name} for type_ in found.types],
            "waiting": _waiting(found.waiting),
        }
    return {
        "fits": True,
        "machines": found.machines,
        "isMinimum": found.is_proved,
        "types": [
            {"name": type_.name, "machines": count, "pods": len(found.pods_on(type_))}
            for type_, count in zip(found.types, found.counts, strict=True)
        ],
        "oneLess": [
            {"type": less.type.name, "waiting": _waiting(less.waiting)} for less in found.one_less
        ],
        "pods": [
            {
                **_described(planned),
                "node": planned.node,
                "devices": [str(device) for device in planned.devices()],
            }
            for planned in found.pods
        ],
    }


def _waiting(waiting: WaitingPods) -> list[dict[str, str]]:
    return [
        {**_described(planned), "reason": _reason(planned, waiting.nodes)}
        for planned in waiting.pods
    ]


def _described(planned: PlannedPod) -> dict[str, str]:
    metadata = planned.submitted.pod.metadata
    return {
        "namespace": metadata.namespace,
        "name": metadata.name,
        "owner": planned.submitted.owner,
    }
