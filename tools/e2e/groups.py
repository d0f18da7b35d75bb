"""The groups of specs, and the cluster that each is run against."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final


class Nodes(Enum):
    """What runs the pods of a cluster."""

    SIMULATED = "simulated"
    """Pods run in name only."""
    AGENTS = "agents"
    """`dray node` runs them in sandboxes."""


ALL_GATES: Final = "AllAlpha=true,AllBeta=true"


@dataclass(frozen=True)
class Group:
    """Specs whose names match one expression and not the other, and what they need."""

    name: str
    title: str
    pattern: str
    without: str = ""
    nodes: Nodes = Nodes.SIMULATED
    feature_gates: str = ""

    def select(self, names: Iterable[str]) -> list[str]:
        """Return the names that belong to the group, in their order."""
        return [name for name in names if self._has(name)]

    def _has(self, name: str) -> bool:
        if self.without and re.search(self.without, name):
            return False
        return bool(re.search(self.pattern, name))


_POOL_STATUS: Final = r"\[FeatureGate:DRAResourcePoolStatus\]"
_EXTENDED: Final = r"\[FeatureGate:DRAExtendedResource\]"


def _with_agents(name: str, title: str, pattern: str, without: str = "") -> Group:
    return Group(name, title, pattern, without, Nodes.AGENTS, ALL_GATES)


def _conformance(
    sig: str,
    nodes: Nodes = Nodes.AGENTS,
    *,
    suffix: str = "",
    only: str = "",
    without: str = "",
    gates: str = "",
) -> Group:
    pattern = rf"^\[sig-{sig}\] {only}.*\[Conformance\]"
    refused = rf"\[DRA\]|{without}" if without else r"\[DRA\]"
    title = f"[Conformance] of sig-{sig}{suffix.replace('-', ', ')}"
    return Group(f"conformance-{sig}{suffix}", title, pattern, refused, nodes, gates)


GROUPS: Final = (
    Group("crud", "DRA CRUD [Conformance]", r"\[DRA\] CRUD Tests", _POOL_STATUS),
    Group(
        *("control-plane", "DRA control plane", r"\[DRA\] control plane", _POOL_STATUS),
        nodes=Nodes.AGENTS,
    ),
    _with_agents("pool-status", "DRAResourcePoolStatus", _POOL_STATUS),
    Group("slices", "ResourceSlice controller", r"\[DRA\] ResourceSlice Controller"),
    Group("claim-quota", "quota of claims", r"ResourceQuota .*life of a ResourceClaim"),
    _with_agents("kubelet", "drivers through a kubelet", r"\[DRA\] kubelet", _EXTENDED),
    _with_agents("extended-resources", "extended resources", rf"\[DRA\].*{_EXTENDED}"),
    _with_agents("metadata", "device metadata", r"\[DRA\] metadata"),
    _with_agents("compatibility", "compatibility groups", r"\[DRA\].*device compatibility groups"),
    _conformance("api-machinery", Nodes.SIMULATED),
    _conformance("apps"),
    _conformance("auth"),
    _conformance("scheduling", without="SchedulerPredicates", gates="DrayPreemption=true"),
    # The sandbox refuses ports of the node, and one of them is about those.
    _conformance("scheduling", Nodes.SIMULATED, suffix="-predicates", only="SchedulerPredicates"),
    _conformance("node"),
)


def named(name: str) -> Group:
    """Return the group of a name. Raises KeyError."""
    return {group.name: group for group in GROUPS}[name]
