"""The requirements of a pod for its node, computed once for all pods with the same ones.

The pods of one Deployment have equal requirements. `requirements_of` returns the same object for
them, so results about nodes can be cached per `PodRequirements`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from dray.api import well_known
from dray.api.formats import quantity
from dray.api.formats.quantity import Quantity
from dray.api.selectors import label_selectors, node_selectors
from dray.api.semantics import pod_resources, tolerations
from dray.api.types.containers import Container
from dray.api.types.meta import NodeSelector
from dray.api.types.nodes import Taint
from dray.api.types.pods import NodeAffinity, Pod, PreferredSchedulingTerm

UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect=well_known.NO_SCHEDULE)
ANY_ADDRESS = "0.0.0.0"

_CACHE_LIMIT = 4096
_ASSUMED = pod_resources.ResourceCountOptions(
    assumed={"cpu": quantity.parse("100m"), "memory": quantity.parse("200Mi")}
)
"""The requests that scoring assumes for a container without any.

https://github.com/kubernetes/kubernetes/blob/release-1.37/pkg/scheduler/util/pod_resources.go
"""

Amounts = Mapping[str, int]
"""Amounts in whole units by resource name; cpu in thousandths."""


class Port(NamedTuple):
    """A host port."""

    address: str
    protocol: str
    number: int

    def clashes_with(self, other: Port) -> bool:
        """Return whether two pods cannot have these ports on one node."""
        is_same = (self.protocol, self.number) == (other.protocol, other.number)
        return is_same and (
            self.address == other.address or ANY_ADDRESS in (self.address, other.address)
        )


class PodUsage(NamedTuple):
    """The resources and host ports that a pod uses of its node."""

    amounts: Amounts
    scored_cpu: int
    scored_memory: int
    ports: tuple[Port, ...] = ()


class PodRequirements:
    """The requirements of a pod. Compared by identity: `requirements_of` shares equal ones."""

    __slots__ = ("names", "preference", "selects", "tolerations", "usage")

    def __init__(self, pod: Pod) -> None:
        self.usage = usage_of(pod)
        self.tolerations = pod.spec.tolerations
        affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
        affinity = affinity or NodeAffinity()
        required = affinity.required_during_scheduling_ignored_during_execution
        self.selects = _node_test(pod.spec.node_selector, required)
        """Test whether a node is selected; None if all are. May raise SelectorError."""
        self.names = named_nodes(required)
        """The names of all nodes that can be selected; None if not selected by name."""
        self.preference = _preference(affinity.preferred_during_scheduling_ignored_during_execution)
        """The weight of the preferred terms that a node matches; None without such terms."""

    def untolerated(self, taints: Iterable[Taint], *effects: str) -> int:
        """Count the taints with these effects that the pod does not tolerate."""
        return sum(
            taint.effect in effects and not tolerations.is_tolerated(taint, self.tolerations)
            for taint in taints
        )


def requirements_of(pod: Pod) -> PodRequirements:
    """Return the requirements of a pod, the same object for pods with equal ones."""
    key = _signature(pod)
    requirements = _cache.get(key)
    if requirements is None:
        if len(_cache) >= _CACHE_LIMIT:
            _cache.clear()
        requirements = _cache[key] = PodRequirements(pod)
    return requirements


_cache: dict[bytes, PodRequirements] = {}
_encode = msgspec.msgpack.Encoder().encode


def _signature(pod: Pod) -> bytes:
    spec = pod.spec
    return _encode(
        (
            spec.node_selector,
            spec.affinity,
            spec.tolerations,
            spec.overhead,
            spec.resources,
            spec.host_network,
            [(container.resources.requests, container.ports) for container in spec.containers],
            [
                (container.resources.requests, container.restart_policy, container.ports)
                for container in spec.init_containers
            ],
        )
    )


def usage_of(
    pod: Pod, counting: pod_resources.ResourceCountOptions = pod_resources.AS_WRITTEN
) -> PodUsage:
    """Return what the pod uses of its node, counted as `counting` says."""
    scored = pod_resources.pod_requests(pod, counting._replace(assumed=_ASSUMED.assumed))
    return PodUsage(
        whole_amounts(pod_resources.pod_requests(pod, counting)),
        scored.get("cpu", quantity.ZERO).milli_value(),
        scored.get("memory", quantity.ZERO).value(),
        tuple(_host_ports(pod)),
    )


def whole_amounts(amounts: Mapping[str, Quantity]) -> dict[str, int]:
    return {name: whole_amount(name, amount) for name, amount in amounts.items() if amount.nano}


def whole_amount(name: str, amount: Quantity) -> int:
    return amount.milli_value() if name == "cpu" else amount.value()


@functools.lru_cache(maxsize=1 << 12)
def whole_text(name: str, text: str) -> int:
    """Return the amount of a resource that is written as a quantity."""
    return whole_amount(name, quantity.parse(text))


def _host_ports(pod: Pod) -> Iterable[Port]:
    sidecars = filter(pod_resources.is_sidecar, pod.spec.init_containers)
    containers: Iterable[Container] = (*sidecars, *pod.spec.containers)
    for container in containers:
        for port in container.ports:
            if port.host_port:
                address, protocol = port.host_ip or ANY_ADDRESS, port.protocol or "TCP"
                yield Port(address, protocol, port.host_port)


def _node_test(
    labels: Mapping[str, str], required: NodeSelector | None
) -> node_selectors.NodeTest | None:
    if not labels and required is None:
        return None
    return node_selectors.compile_required_affinity(labels, required)


def _preference(
    terms: tuple[PreferredSchedulingTerm, ...],
) -> Callable[[label_selectors.Labels, str], int] | None:
    try:
        return node_selectors.compile_preferred_affinity(terms) if terms else None
    except label_selectors.SelectorError:
        return None


def named_nodes(required: NodeSelector | None) -> frozenset[str] | None:
    """Return the nodes that a selector names; None unless each of its terms names some."""
    if required is None or not required.node_selector_terms:
        return None
    names: set[str] = set()
    for term in required.node_selector_terms:
        fields = [
            set(field.values)
            for field in term.match_fields
            if (field.key, field.operator) == ("metadata.name", "In")
        ]
        if not fields:
            return None
        names |= set.intersection(*fields)
    return frozenset(names)
