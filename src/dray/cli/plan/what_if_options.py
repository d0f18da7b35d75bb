"""The options of `dray plan` that change the cluster on paper, and the changes that they name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import click

from dray.allocator.search import device_order
from dray.api import features
from dray.api.features import FeatureError
from dray.api.ids import ObjectKey
from dray.api.types.nodes import Node, Taint
from dray.api.well_known import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE
from dray.cli.command_errors import WrongUsage
from dray.cli.lazy_group import completer
from dray.planner.cluster_model import ClusterModel
from dray.planner.what_if.changes import Change, Changed, ImpossibleChange
from dray.planner.what_if.device_changes import FailDevice
from dray.planner.what_if.node_changes import AddNodes, CopyNode, DrainNode, RemoveNode, TaintNode
from dray.planner.what_if.other_changes import RemovePod, SetFeatures

_EFFECTS = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)
_POD = ("pod", "pods", "po")


class WhatIfOptions(NamedTuple):
    """What is different, as the options say it."""

    add: tuple[str, ...] = ()
    add_like: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    drain: tuple[str, ...] = ()
    taint: tuple[str, ...] = ()
    fail: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    policy: str | None = None
    feature_gates: str = ""

    @property
    def are_given(self) -> bool:
        return self != WhatIfOptions()


_OPTIONS = (
    click.option(
        "--add",
        multiple=True,
        metavar="FLEET[:N]|FILE",
        help="With machines of a simulated fleet, N of each kind, or those of a file.",
    ),
    click.option(
        "--add-like",
        multiple=True,
        metavar="NODE[:N]",
        help="With N copies of a node and its devices, empty and healthy.",
    ),
    click.option(
        "--remove",
        multiple=True,
        metavar="NODE",
        help="Without a node, its devices and its pods.",
        shell_complete=completer("nodes"),
    ),
    click.option(
        "--drain",
        multiple=True,
        metavar="NODE",
        help="With a node cordoned and its pods evicted.",
        shell_complete=completer("nodes"),
    ),
    click.option(
        "--taint",
        multiple=True,
        metavar="NODE=KEY[=VALUE]:EFFECT",
        help="With one more taint on a node.",
    ),
    click.option(
        "--fail", multiple=True, metavar="NODE/DEVICE", help="With a device that has failed."
    ),
    click.option("--without", multiple=True, metavar="pod/NAME", help="Without a pod."),
    click.option(
        "--policy",
        type=click.Choice(sorted(device_order.BY_NAME)),
        help="With another policy of the scheduler.",
    ),
    click.option(
        "--feature-gates",
        default="",
        metavar="A=true,B=false",
        help="With other feature gates.",
    ),
)


def options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options; the command receives them as `what_if`."""

    @functools.wraps(function)
    def wrapped(**given: Any) -> Any:
        what_if = WhatIfOptions(**{name: given.pop(name) for name in WhatIfOptions._fields})
        return function(what_if=what_if, **given)

    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def change(cluster: ClusterModel, given: WhatIfOptions, namespace: str) -> Changed:
    """Return the cluster as the options want it. Pods are in `namespace`, or in "default".

    Raises WrongUsage for a change that cannot be made or has no effect.
    """
    changed = Changed(cluster)
    for name, make in _CHANGES.items():
        value = getattr(given, name)
        for text in (value,) if isinstance(value, str) else value:
            try:
                change = make(text, changed.cluster, namespace or "default") if text else None
                changed = changed.then(change) if change else changed
            except (ImpossibleChange, FeatureError, WrongUsage) as error:
                advice = error.advice if isinstance(error, WrongUsage) else ""
                option = f"--{name.replace('_', '-')}"
                raise WrongUsage(f"{option} {text}: {error}", advice) from error
    return changed


def _add(text: str, cluster: ClusterModel, namespace: str) -> Change:
    # Imported here, because most plans do not need simulated fleets.
    from dray.cli.plan import added_machines

    taken = {node.metadata.name for node in cluster.of(Node)}
    return AddNodes(*added_machines.read(text, taken))


def _copy(text: str, cluster: ClusterModel, namespace: str) -> Change:
    from dray.cli.plan import added_machines

    name, count = added_machines.split_count(text)
    return CopyNode(name, 1 if count is None else count)


def _leave_out(text: str, cluster: ClusterModel, namespace: str) -> Change:
    type_, _, name = text.partition("/")
    if type_.lower() not in _POD or not name or "/" in name:
        raise WrongUsage("write it as pod/NAME; the namespace is that of -n")
    return RemovePod(ObjectKey(namespace, name))


def _remove(text: str, cluster: ClusterModel, namespace: str) -> Change:
    return RemoveNode(text)


def _drain(text: str, cluster: ClusterModel, namespace: str) -> Change:
    return DrainNode(text)


def _taint(text: str, cluster: ClusterModel, namespace: str) -> Change:
    node, _, taint = text.partition("=")
    described, _, effect = taint.rpartition(":")
    key, _, value = described.partition("=")
    if not node or not key:
        raise WrongUsage("write it as NODE=KEY=VALUE:EFFECT, or NODE=KEY:EFFECT without a value")
    if effect not in _EFFECTS:
        raise WrongUsage(f"there is no effect {effect!r}; use one of: {', '.join(_EFFECTS)}")
    return TaintNode(node, Taint(key=key, value=value, effect=effect))


def _fail(text: str, cluster: ClusterModel, namespace: str) -> Change:
    match text.split("/"):
        case [place, device] if place and device:
            return FailDevice(place, device)
        case [place, driver, device] if place and driver and device:
            return FailDevice(place, device, driver)
    raise WrongUsage("write it as NODE/DEVICE, or NODE/DRIVER/DEVICE where several drivers have it")


def _set_gates(text: str, cluster: ClusterModel, namespace: str) -> Change:
    return SetFeatures(features.parse(text, cluster.features))


_CHANGES: Mapping[str, Callable[[str, ClusterModel, str], Change]] = {
    "add": _add,
    "add_like": _copy,
    "without": _leave_out,
    "remove": _remove,
    "drain": _drain,
    "taint": _taint,
    "fail": _fail,
    "feature_gates": _set_gates,
}
"""Changes by the field of their option. The order counts.

Copies are made before their node goes, and a pod is left out before its node evicts it.
"""
