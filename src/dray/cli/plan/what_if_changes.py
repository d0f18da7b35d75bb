"""The changes that the options of `dray plan` name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dray.api import features
from dray.api.features import FeatureError
from dray.api.ids import ObjectKey
from dray.api.types.nodes import Node, Taint
from dray.api.well_known import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE
from dray.cli.command_errors import WrongUsage
from dray.cli.plan.what_if_options import WhatIfOptions
from dray.planner.cluster_model import ClusterModel
from dray.planner.what_if.changes import Change, Changed, ImpossibleChange
from dray.planner.what_if.device_changes import FailDevice
from dray.planner.what_if.node_changes import AddNodes, CopyNode, DrainNode, RemoveNode, TaintNode
from dray.planner.what_if.other_changes import RemovePod, SetFeatures

_EFFECTS = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)
_POD = ("pod", "pods", "po")


def apply(cluster: ClusterModel, given: WhatIfOptions, namespace: str) -> Changed:
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
    "feature_gates": _set_gates,
    "add": _add,
    "add_like": _copy,
    "without": _leave_out,
    "remove": _remove,
    "drain": _drain,
    "taint": _taint,
    "fail": _fail,
}
"""Changes by the field of their option. The order counts.

Feature gates decide which claims are made for pods that are made again. Copies are made before
their node goes, and a pod is left out before its node evicts it.
"""
