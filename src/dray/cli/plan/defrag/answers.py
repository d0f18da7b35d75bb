"""Plans of moves as text, with the commands for them, and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import click

from dray.api.ids import ObjectKey
from dray.api.types.pods import Pod
from dray.cli import printed_commands
from dray.explain.text import phrases
from dray.planner.cluster_model import ClusterModel
from dray.planner.defragmentation.movable_pods import StayReason
from dray.planner.defragmentation.plan import Defragmentation, Move, MovedPod
from dray.planner.what_if.compare import PodPosition

_TIMEOUT = "10m"


class DefragAnswer(NamedTuple):
    """A plan, and what it was asked for: an empty node, or room for the pods of files."""

    plan: Defragmentation
    cluster: ClusterModel
    options: str
    """Of commands, for the cluster."""
    node: str = ""
    files: Sequence[str] = ()
    namespace: str = ""
    """The namespace that was given for objects without one; empty for that of the context."""

    @property
    def goal(self) -> str:
        return f"empty node {self.node}" if self.node else "make room for all pods"


def document(answer: DefragAnswer) -> dict[str, Any]:
    """Return the plan as an object for -o json."""
    plan = answer.plan
    return {
        "goal": {"emptyNode": answer.node} if answer.node else {"roomFor": list(answer.files)},
        "isPossible": plan.moves is not None,
        "isProved": plan.is_proved,
        "movedPods": plan.moved_pods,
        "moves": [_move_document(move) for move in plan.moves or ()],
        "places": [{**_key(key), **_position(place)} for key, place in plan.places.items()],
        "commands": list(commands(answer)),
        "obstacles": [
            {**_key(key), "reason": f"it {obstacle.value}"}
            for key, obstacle in plan.obstacles.items()
        ],
        "withoutPlace": [_key(key) for key in plan.without_place],
        "leftOut": [
            {"pods": count, "reason": f"each {obstacle.value}"}
            for obstacle, count in plan.left_out.items()
        ],
    }


def _move_document(move: Move) -> dict[str, Any]:
    pods = [
        {**_key(pod.key), "from": _position(pod.before), "to": pod.after and _position(pod.after)}
        for pod in move.pods
    ]
    return {"pods": pods, "cordoned": sorted(move.cordoned)}


def _key(key: ObjectKey) -> dict[str, str]:
    return {"namespace": key.namespace, "pod": key.name}


def _position(position: PodPosition) -> dict[str, Any]:
    return {"node": position.node, "devices": [str(device) for device in position.devices]}


def show(answer: DefragAnswer, *, is_wide: bool) -> None:
    """Print a plan."""
    for line in _lines(answer, is_wide=is_wide):
        click.echo(line)


def _lines(answer: DefragAnswer, *, is_wide: bool) -> Iterator[str]:
    plan = answer.plan
    if plan.moves is None:
        yield from _no_plan(answer)
        return
    if not plan.moves:
        what = f"Node {answer.node} is empty already" if answer.node else "All pods fit already"
        yield f"{what}: no pod has to be moved."
    else:
        title = f"Move {phrases.counted(plan.moved_pods, 'pod')} to {answer.goal}"
        proof = "no plan has fewer" if plan.is_proved else "there may be a plan with fewer"
        yield click.style(f"{title} ({proof}):", bold=True)
        for number, move in enumerate(plan.moves, 1):
            yield from _move_lines(number, move, is_wide=is_wide)
    for key, place in plan.places.items():
        yield f"Then {key} runs on {_where(place, is_wide=is_wide)}."
    if plan.moves:
        yield ""
        yield click.style("Commands, one after the other:", bold=True)
        text = "\n".join(f"  {command}" for command in commands(answer))
        yield printed_commands.for_cluster(text, answer.options)


def _move_lines(number: int, move: Move, *, is_wide: bool) -> Iterator[str]:
    for pod in move.pods:
        before = _where(pod.before, is_wide=is_wide)
        together = " together with the next" if pod is not move.pods[-1] else ""
        if pod.after is None:
            yield f"  {number}. delete {pod.key} on {before}: nothing makes it again"
        else:
            after = _where(pod.after, is_wide=is_wide)
            yield f"  {number}. move {pod.key} from {before} to {after}{together}"


def _where(position: PodPosition, *, is_wide: bool) -> str:
    devices = [str(device) if is_wide else device.device for device in position.devices]
    return f"{position.node} ({', '.join(devices)})" if devices else position.node


def _no_plan(answer: DefragAnswer) -> Iterator[str]:
    plan = answer.plan
    if plan.obstacles:
        yield click.style(f"Node {answer.node} cannot be emptied:", bold=True)
        for key, obstacle in plan.obstacles.items():
            more = "; --include-bare deletes it" if obstacle is StayReason.BARE else ""
            yield f"  {key} {obstacle.value}{more}"
        return
    if plan.is_proved:
        yield click.style(f"No moves {answer.goal}.", bold=True)
    else:
        yield click.style(
            f"No moves were found that {answer.goal}. There may be some: not all were tried.",
            bold=True,
        )
    if plan.without_place:
        names = [str(key) for key in plan.without_place]
        yield f"  No other node has room for {phrases.limited(names, len(names), 'pod')}"
    yield from _left_out(plan.left_out)


def _left_out(left_out: Mapping[StayReason, int]) -> Iterator[str]:
    for obstacle, count in left_out.items():
        one = count == 1
        more = f"; --include-bare deletes {'it' if one else 'them'}"
        stay = "is left where it is: it" if one else "are left where they are: each"
        pods = phrases.counted(count, "pod")
        yield f"  {pods} {stay} {obstacle.value}{more if obstacle is StayReason.BARE else ''}"


def commands(answer: DefragAnswer) -> Iterator[str]:
    """Yield the commands that do what the plan says."""
    cordoned: frozenset[str] = frozenset()
    labels = {pod.metadata.key: pod.metadata.labels for pod in answer.cluster.of(Pod)}
    for move in answer.plan.moves or ():
        yield from _cordons(cordoned, move.cordoned)
        cordoned = move.cordoned
        for pod in move.pods:
            yield f"dray delete pod {pod.key.name}{_option(pod.key)}{_no_wait(move)}"
        for pod in move.pods:
            yield from _wait(pod, labels.get(pod.key, {}))
    # An emptied node stays cordoned.
    yield from _cordons(cordoned, cordoned & {answer.node})
    if answer.plan.moves:
        option = f" -n {answer.namespace}" if answer.namespace else ""
        yield from (f"dray apply -f {shlex.quote(name)}{option}" for name in answer.files)


def _no_wait(move: Move) -> str:
    return " --no-wait" if len(move.pods) > 1 else ""


def _cordons(before: frozenset[str], after: frozenset[str]) -> Iterator[str]:
    for name in sorted(after - before):
        yield f"""dray patch node {name} -p '{{"spec": {{"unschedulable": true}}}}'"""
    for name in sorted(before - after):
        yield f"""dray patch node {name} -p '{{"spec": {{"unschedulable": null}}}}'"""


def _wait(moved: MovedPod, labels: Mapping[str, str]) -> Iterator[str]:
    """Yield the command that waits until the replacement runs; its name is not known before."""
    if moved.after is not None and labels:
        selector = ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
        yield (
            f"dray wait pod -l {shlex.quote(selector)}{_option(moved.key)} "
            f"--for=condition=Ready --timeout={_TIMEOUT}"
        )


def _option(key: ObjectKey) -> str:
    return f" -n {key.namespace}"
